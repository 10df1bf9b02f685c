-- Every relation of the exposed schemas with its columns and primary key, one row each.
-- Run with an empty search_path, so that type names come out qualified.
select
  n.nspname,
  c.relname,
  c.relkind = any('{r,p,f}') as is_table,
  coalesce(
    (
      select json_agg(json_build_object(
        'name', a.attname,
        'type', format_type(a.atttypid, a.atttypmod),
        'default', coalesce(
          case when a.attidentity <> ''
            then format('nextval(%%L)', pg_get_serial_sequence(quote_ident(n.nspname) || '.' || quote_ident(c.relname), a.attname))
          end,
          case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end
        )
      ) order by a.attnum)
      from pg_attribute a
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ),
    '[]'
  ) as columns,
  coalesce(
    (
      select json_agg(a.attname order by k.position)
      from pg_constraint p
      cross join unnest(p.conkey) with ordinality as k (attnum, position)
      join pg_attribute a on a.attrelid = p.conrelid and a.attnum = k.attnum
      where p.conrelid = c.oid and p.contype = 'p'
    ),
    '[]'
  ) as primary_key
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind = any('{r,p,f,v,m}') and not c.relispartition
