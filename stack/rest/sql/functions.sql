-- Functions of the exposed schemas: arguments in order, and what they return.
select
  n.nspname,
  p.proname,
  coalesce(
    (
      select json_agg(json_build_object(
        'name', coalesce(p.proargnames[a.position], ''),
        'type', format_type(a.type, null),
        'is_required', a.position <= p.pronargs - p.pronargdefaults
      ) order by a.position)
      from unnest(p.proargtypes::oid[]) with ordinality as a (type, position)
    ),
    '[]'
  ) as arguments,
  p.proretset
    or t.typtype = 'c' or p.prorettype = 'record'::regtype
    or coalesce(p.proargmodes::text[] && '{t,b,o}', false) as returns_rows,
  p.prorettype = 'void'::regtype as is_void,
  p.prorettype = any('{json,jsonb}'::regtype[]) as is_json,
  p.provolatile = 'v' as is_volatile
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type t on t.oid = p.prorettype
where n.nspname = any(%(schemas)s) and p.prokind = 'f'
  and p.prorettype <> all('{trigger,event_trigger}'::regtype[])
order by p.oid
