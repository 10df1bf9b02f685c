-- Foreign keys between relations of the exposed schemas; is_one marks a key that is unique on the
-- referencing side, which makes the relation one-to-one.
select
  k.conname,
  sn.nspname,
  s.relname,
  tn.nspname,
  t.relname,
  (
    select json_agg(a.attname order by u.position)
    from unnest(k.conkey) with ordinality as u (attnum, position)
    join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.attnum
  ) as columns,
  (
    select json_agg(a.attname order by u.position)
    from unnest(k.confkey) with ordinality as u (attnum, position)
    join pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.attnum
  ) as foreign_columns,
  exists (
    select
    from pg_constraint p
    where p.conrelid = k.conrelid and p.contype in ('p', 'u')
      and p.conkey <@ k.conkey and k.conkey <@ p.conkey
  ) as is_one
from pg_constraint k
join pg_class s on s.oid = k.conrelid
join pg_namespace sn on sn.oid = s.relnamespace
join pg_class t on t.oid = k.confrelid
join pg_namespace tn on tn.oid = t.relnamespace
where k.contype = 'f' and k.conparentid = 0
  and sn.nspname = any(%(schemas)s) and tn.nspname = any(%(schemas)s)
order by k.conname
