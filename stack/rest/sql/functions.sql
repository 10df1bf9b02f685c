-- Functions of the exposed schemas: arguments in order, and what they return.
select
  n.nspname,
  p.proname,
  coalesce(
    (
      select json_agg(json_build_object(
        'name', coalesce(p.proargnames[a.position], ''),
        'type', format_type(a.type, null),
        'mode', coalesce(p.proargmodes[a.position]::text, 'i')
      ) order by a.position)
      from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as a (type, position)
    ),
    '[]'
  ) as arguments,
  p.pronargdefaults,
  p.proretset,
  p.prorettype = 'void'::regtype as is_void,
  t.typtype = 'c' or p.prorettype = 'record'::regtype
    or coalesce(p.proargmodes::text[] && '{t,b,o}', false) as is_composite,
  p.prorettype = any('{json,jsonb}'::regtype[]) as is_json,
  p.provolatile,
  rn.nspname,
  rc.relname
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type t on t.oid = p.prorettype
left join pg_class rc on rc.oid = t.typrelid and rc.relkind = any('{r,p,v,m,f}')
left join pg_namespace rn on rn.oid = rc.relnamespace
where n.nspname = any(%(schemas)s) and p.prokind = 'f'
  and p.prorettype <> all('{trigger,event_trigger}'::regtype[])
order by p.oid
