-- Schemas and default privileges as hosted has them. The wide defaults on public are hosted's own: the
-- project's first migration takes them back, and is only tested for real when they are here to be taken.

create schema if not exists auth authorization supabase_auth_admin;
create schema if not exists extensions authorization postgres;
create schema if not exists graphql_public;
create schema if not exists realtime;
create schema if not exists _realtime;
create schema if not exists storage;
create schema if not exists vault;

grant usage on schema public to postgres, anon, authenticated, service_role;
grant create on schema public to postgres;
grant usage on schema extensions to anon, authenticated, service_role, supabase_realtime_admin, dashboard_user;
grant usage on schema auth to anon, authenticated, service_role, postgres, supabase_realtime_admin, dashboard_user;
grant usage on schema realtime to anon, authenticated, service_role, dashboard_user;
grant usage on schema realtime to postgres with grant option;
grant all on schema realtime to supabase_realtime_admin with grant option;
grant usage on schema storage, graphql_public to anon, authenticated, service_role, postgres;

do $$
declare
  maker text;
  kind text;
begin
  foreach maker in array array['postgres', 'supabase_admin'] loop
    foreach kind in array array['tables', 'functions', 'sequences'] loop
      execute format(
        'alter default privileges for role %I in schema public grant all on %s to postgres, anon, authenticated, service_role',
        maker, kind
      );
    end loop;
  end loop;
end
$$;

do $$
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
    alter publication supabase_realtime owner to postgres;
  end if;
  execute format('alter database %I owner to postgres', current_database());
  execute format('grant create on database %I to postgres, supabase_realtime_admin', current_database());
end
$$;

-- PostgREST's schema cache listens on channel pgrst; hosted reloads it after every change of the schema.
create or replace function extensions.pgrst_ddl_watch() returns event_trigger
language plpgsql set search_path = '' as $$
declare
  command record;
begin
  for command in select * from pg_catalog.pg_event_trigger_ddl_commands() loop
    if command.schema_name is distinct from 'pg_temp' and command.object_type in (
      'schema', 'table', 'foreign table', 'view', 'materialized view', 'function', 'procedure', 'trigger', 'type', 'rule',
      'table column', 'domain constraint', 'table constraint', 'aggregate', 'policy'
    ) then
      notify pgrst, 'reload schema';
      return;
    end if;
  end loop;
end
$$;

create or replace function extensions.pgrst_drop_watch() returns event_trigger
language plpgsql set search_path = '' as $$
declare
  dropped record;
begin
  for dropped in select * from pg_catalog.pg_event_trigger_dropped_objects() loop
    if not dropped.is_temporary and dropped.object_type in (
      'schema', 'table', 'foreign table', 'view', 'materialized view', 'function', 'trigger', 'type', 'rule', 'table column'
    ) then
      notify pgrst, 'reload schema';
      return;
    end if;
  end loop;
end
$$;

do $$
begin
  if not exists (select from pg_catalog.pg_event_trigger where evtname = 'pgrst_ddl_watch') then
    create event trigger pgrst_ddl_watch on ddl_command_end execute function extensions.pgrst_ddl_watch();
    create event trigger pgrst_drop_watch on sql_drop execute function extensions.pgrst_drop_watch();
  end if;
end
$$;
