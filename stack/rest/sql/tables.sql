-- Every relation of the exposed schemas with the types of its columns, one row each.
-- Run with an empty search_path, so that type names come out qualified.
select
  n.nspname,
  c.relname,
  (
    select coalesce(json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)), '{}')
    from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  ) as columns
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind = any('{r,p,f,v,m}') and not c.relispartition
