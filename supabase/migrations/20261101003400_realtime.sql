-- Realtime: who may listen to which doorbell, and the tables whose changes pages follow. Logs and heartbeats are
-- not among them. Guarded, so that it can run where there is no Realtime, or where tables were added by hand.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- ------------------------------------------------------------------------------------------------------ who may listen

create function private.may_hear(p_topic text)
returns boolean
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if v_claims ->> 'role' = 'authenticated' then
    return p_topic in (select 'org:' || o from private.my_org_ids() as o);
  end if;
  return v_claims ->> 'role' = 'worker' and exists (
    select from private.sessions as s join public.workers as w on w.id = s.worker_id
    where s.id = (v_claims ->> 'sid')::pg_catalog.uuid and s.ended_at is null and w.removed_at is null
      and (s.expires_at is null or s.expires_at > now())
      and p_topic in ('worker:' || w.id, 'queue:' || coalesce(w.org_id::pg_catalog.text, 'shared'))
  );
end;
$$;
comment on function private.may_hear(text) is
  'Whether the caller may join a private topic: members org:<id>, runners worker:<own id> and their queue.';
grant execute on function private.may_hear(text) to authenticated, worker;

do $$
begin
  drop policy if exists "Members hear their organisations" on realtime.messages;
  create policy "Members hear their organisations" on realtime.messages
    for select to authenticated using (extension = 'broadcast' and (select private.may_hear(realtime.topic())));
  drop policy if exists "Runners hear their own doorbells" on realtime.messages;
  create policy "Runners hear their own doorbells" on realtime.messages
    for select to worker using (extension = 'broadcast' and (select private.may_hear(realtime.topic())));
exception
  when undefined_table or invalid_schema_name then raise notice 'There is no Realtime here; pages and runners poll.';
end;
$$;

do $$
declare
  v_table pg_catalog.text;
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
  foreach v_table in array array['workers', 'worker_instances', 'provision_jobs', 'worker_releases', 'rollouts'] loop
    if not exists (
      select from pg_catalog.pg_publication_tables where pubname = 'supabase_realtime' and schemaname = 'public'
        and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end;
$$;

notify pgrst, 'reload schema';

revoke execute on all functions in schema private from public;
