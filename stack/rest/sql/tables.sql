-- Every relation of the exposed schemas, one row each.
select n.nspname, c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(%(schemas)s) and c.relkind = any('{r,p,f,v,m}') and not c.relispartition
