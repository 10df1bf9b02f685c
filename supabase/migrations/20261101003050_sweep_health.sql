-- Is the installation well? For its operator: what keeps vacuum back, whether the sweep comes by, what pages follow.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.installation_health()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select jsonb_build_object(
    'postgres', current_setting('server_version'),
    'bytes', pg_database_size(current_database()),
    'connections', (select count(*) from pg_catalog.pg_stat_activity as a where a.datname = current_database()),
    'most_connections', current_setting('max_connections')::integer,
    'oldest_transaction_seconds', coalesce((
      select extract(epoch from max(clock_timestamp() - a.xact_start))::integer from pg_catalog.pg_stat_activity as a
      where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()), 0),
    'swept_seconds_ago', (select extract(epoch from now() - max(c.ran_at))::integer from private.clocks as c
      where c.name in ('sweep', 'housekeeping')),
    'published', coalesce((select jsonb_agg(t.tablename order by t.tablename) from pg_catalog.pg_publication_tables as t
      where t.pubname = 'supabase_realtime' and t.schemaname = 'public'), '[]'),
    'organizations', (select count(*) from public.organizations),
    'unfinished_jobs', (select count(*) from private.live_jobs),
    'runners_online', (select count(*) from public.workers as w where w.removed_at is null and w.status = 'ONLINE'))
$$;
comment on function private.installation_health() is 'Body of public.installation_health.';
grant execute on function private.installation_health() to service_role;

revoke execute on all functions in schema private from public;
