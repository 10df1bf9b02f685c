-- The roles of a hosted Supabase project, with the same rights.
-- The superuser is supabase_admin, as there; postgres owns the project but is not a superuser, so that what
-- a migration may do here it may also do there.

do $$
declare
  wanted record;
begin
  for wanted in
    select *
    from (values
      ('postgres', 'login createdb createrole replication bypassrls'),
      ('anon', 'nologin noinherit'),
      ('authenticated', 'nologin noinherit'),
      ('service_role', 'nologin noinherit bypassrls'),
      ('authenticator', 'login noinherit'),
      ('supabase_auth_admin', 'login noinherit'),
      ('supabase_storage_admin', 'nologin noinherit'),
      ('supabase_realtime_admin', 'login noinherit replication'),
      ('supabase_replication_admin', 'login replication'),
      ('supabase_read_only_user', 'nologin bypassrls'),
      ('dashboard_user', 'nologin createdb createrole replication')
    ) as roles (name, attributes)
  loop
    if not exists (select from pg_catalog.pg_roles where rolname = wanted.name) then
      execute format('create role %I %s', wanted.name, wanted.attributes);
    end if;
  end loop;
end
$$;

grant anon, authenticated, service_role to authenticator;
grant anon, authenticated, service_role to postgres with admin option;
grant anon, authenticated, service_role to supabase_realtime_admin;
grant pg_monitor, pg_read_all_data, pg_signal_backend to postgres;
grant pg_read_all_data to supabase_read_only_user;
-- Hosted lets postgres write policies on realtime.messages through an extension; membership gives the same here.
grant supabase_realtime_admin to postgres;

alter role anon set statement_timeout = '3s';
alter role authenticated set statement_timeout = '8s';
alter role authenticator set statement_timeout = '8s';
alter role authenticator set lock_timeout = '8s';
alter role authenticator set idle_in_transaction_session_timeout = '60s';
do $$
begin
  if current_setting('server_version_num')::integer >= 170000 then
    alter role authenticator set transaction_timeout = '5min';
  end if;
end
$$;
alter role postgres set search_path = "$user", public, extensions;
alter role supabase_admin set search_path = "$user", public, auth, extensions;
alter role supabase_auth_admin set search_path = auth;
alter role supabase_auth_admin set idle_in_transaction_session_timeout = '60s';
alter role supabase_realtime_admin set search_path = public, extensions, realtime;
