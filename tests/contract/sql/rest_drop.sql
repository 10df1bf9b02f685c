-- Leaves the project as it was.
drop view if exists public.contract_many;
drop table if exists public.contract_notes, public.contract_locked, public.contract_places cascade;
drop schema if exists contract_hidden cascade;
do $$
declare
  item regprocedure;
begin
  for item in
    select oid from pg_catalog.pg_proc where pronamespace = 'public'::regnamespace and proname like 'contract\_%'
  loop
    execute format('drop function %s', item);
  end loop;
end
$$;
