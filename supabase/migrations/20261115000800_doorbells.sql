-- Doorbells: Realtime says "look again", the row is the truth. Everything works, slower, without them.
-- A ring is a private broadcast through realtime.send. Busy lanes and chatty logs are rate-limited, so that 1,000 jobs in
-- a second are not 1,000 messages for each of 500 runners. A suppressed ring is never the last word: the payload of the one
-- before asks the listener to look once more after the pause (again_ms).
set lock_timeout = '5s';
set statement_timeout = '60s';

create unlogged table private.rings (
  key text primary key,
  rung_at timestamptz not null
) with (fillfactor = 50);
alter table private.rings enable row level security;
comment on table private.rings is 'When each rate-limited doorbell last rang. UNLOGGED: losing it costs one extra ring.';
comment on column private.rings.key is 'Which doorbell.';
comment on column private.rings.rung_at is 'When it last rang.';

create function private.ring(p_topic text, p_event text, p_payload jsonb)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if to_regprocedure('realtime.send(jsonb,text,text,boolean)') is not null then
    perform realtime.send(p_payload, p_event, p_topic, true);
  end if;
end;
$$;
comment on function private.ring(text, text, jsonb) is 'Sends a private broadcast where Realtime is there; does nothing elsewhere.';

create function private.may_ring(p_key text, p_every interval)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  -- clock_timestamp, because one transaction may ring twice.
  if exists (select from private.rings as r where r.key = p_key and r.rung_at > clock_timestamp() - p_every) then
    return false;
  end if;
  -- Nobody waits for a doorbell: whoever holds it rings when they commit, which is soon enough for both.
  if not pg_try_advisory_xact_lock(hashtextextended('runyard:ring:' || p_key, 0)) then
    return false;
  end if;
  insert into private.rings as r (key, rung_at) values (p_key, clock_timestamp())
  on conflict (key) do update set rung_at = excluded.rung_at;
  return true;
end;
$$;
comment on function private.may_ring(text, interval) is 'Whether this doorbell may ring now: at most once in the given time. Never waits.';

create function private.ring_lane(p_lane integer)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_org pg_catalog.uuid;
  v_is_shared boolean;
begin
  if not private.may_ring('lane:' || p_lane, interval '50 milliseconds') then
    return;
  end if;
  select l.org_id, exists (
    select from private.lane_workers as lw join public.workers as w on w.id = lw.worker_id
    where lw.lane_id = l.id and w.is_shared
  ) into v_org, v_is_shared from private.lanes as l where l.id = p_lane;
  perform private.ring('queue:' || v_org, 'wake', jsonb_build_object('lane', p_lane, 'again_ms', 60));
  if v_is_shared then
    perform private.ring('queue:shared', 'wake', jsonb_build_object('lane', p_lane, 'again_ms', 60));
  end if;
end;
$$;
comment on function private.ring_lane(integer) is 'Wakes the runners that may take jobs of this lane.';

create function private.ring_worker(p_worker uuid)
returns void
language sql
set search_path = ''
as $$
  select private.ring('worker:' || p_worker, 'directive', '{}')
$$;
comment on function private.ring_worker(uuid) is 'Asks a runner to beat at once, because there is something for it to learn.';

create function private.ring_org(p_org uuid, p_table text, p_id text)
returns void
language sql
set search_path = ''
as $$
  select private.ring('org:' || p_org, 'changed', jsonb_build_object('table', p_table, 'id', p_id)) where p_org is not null
$$;
comment on function private.ring_org(uuid, text, text) is 'Tells open pages that a row of an unpublished table has changed.';

create function private.ring_log(p_org uuid, p_job bigint, p_attempt integer, p_seq integer)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if private.may_ring('log:' || p_job, interval '250 milliseconds') then
    perform private.ring('org:' || p_org, 'log', jsonb_build_object('job_id', p_job, 'attempt', p_attempt, 'seq', p_seq, 'again_ms', 300));
  end if;
end;
$$;
comment on function private.ring_log(uuid, bigint, integer, integer) is
  'Tells open pages how far a job''s log has come; at most four times a second.';

create function private.ring_changed_row()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  v_row pg_catalog.jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  perform private.ring_org((v_row ->> 'org_id')::pg_catalog.uuid, tg_table_name, coalesce(v_row ->> 'id', v_row ->> 'user_id'));
  return null;
end;
$$;
comment on function private.ring_changed_row() is 'Rings the organisation''s pages for a changed row of an unpublished table.';
create trigger ring after insert or update or delete on public.groups for each row execute function private.ring_changed_row();
create trigger ring after insert or delete or update of description, source_kind, source, engine, engine_version, inputs, env, extra_files,
  hooks,
  labels, runner_instance_name, pinned_worker_id, approvals_required, approval_timeout_seconds, auto_apply, deleted_at
  on public.modules for each row execute function private.ring_changed_row();
create trigger ring after insert or update or delete on public.memberships for each row execute function private.ring_changed_row();
create trigger ring after insert or update or delete on public.invitations for each row execute function private.ring_changed_row();
create trigger ring after insert or update or delete on public.worker_assignments for each row execute function private.ring_changed_row();
create trigger ring after insert on public.approvals for each row execute function private.ring_changed_row();

-- ---------------------------------------------------------------------------------------------- who may listen

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

revoke execute on all functions in schema private from public;
