-- Publication: the tables whose changes pages follow. Logs and beats are not among them.
-- Guarded, so that it can run where some of the tables were added by hand.
set lock_timeout = '5s';
set statement_timeout = '60s';

do $$
declare
  v_table pg_catalog.text;
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
  foreach v_table in array array['workers', 'worker_instances', 'provision_jobs', 'worker_releases', 'rollouts'] loop
    if not exists (
      select from pg_catalog.pg_publication_tables where pubname = 'supabase_realtime' and schemaname = 'public' and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end;
$$;

notify pgrst, 'reload schema';
