-- The heartbeat: a call every 15 s says "I am here, this is what I run", and brings back all that a runner must learn.
-- It writes one row of an UNLOGGED table and, only when something a person can see has changed, the runner's rows. A
-- lease is not a row that heartbeats renew: it is the instance's last one plus 60 s. A job that they do not mention
-- for 30 s (a lost reply, a forgotten child) loses it all the same.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.flush_tick(p_instance uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into private.worker_ticks as t (worker_id, instance_id, at, heartbeats, busy, slots, draining)
  select h.worker_id, h.instance_id, h.tick_at, h.tick_heartbeats, h.tick_busy, h.tick_slots, h.tick_draining
  from private.heartbeats as h where h.instance_id = p_instance and h.tick_heartbeats > 0 for update
  on conflict (worker_id, at, instance_id) do update set
    heartbeats = t.heartbeats + excluded.heartbeats, busy = t.busy + excluded.busy, slots = t.slots + excluded.slots,
      draining = t.draining + excluded.draining;
end;
$$;
comment on function private.flush_tick(uuid) is
  'Writes down an instance''s last quarter of an hour when a new one has begun.';

create type private.instance_before as (
  capacity integer, status public.worker_status, version text, tick_at timestamptz, used integer
);
comment on type private.instance_before is
  'What was known of a process before its heartbeat, and how many jobs it has; without a tick when it is the first.';

create function private.write_heartbeat(p_runner private.runner, p_known private.instance_before, p_is_draining boolean)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_tick pg_catalog.timestamptz := date_bin('15 minutes', now(), '2000-01-01');
begin
  if p_known.tick_at <> v_tick then
    perform private.flush_tick(p_runner.instance_id);
  end if;
  -- Only the session's own row: another process may have taken over since the caller looked.
  update private.heartbeats as h set
    last_seen_at = now(), is_draining = p_is_draining, tick_at = v_tick,
    tick_heartbeats = case h.tick_at when v_tick then h.tick_heartbeats else 0 end + 1,
    tick_busy = case h.tick_at when v_tick then h.tick_busy else 0 end + p_known.used,
    tick_slots = case h.tick_at when v_tick then h.tick_slots else 0 end + p_known.capacity,
    tick_draining = case h.tick_at when v_tick then h.tick_draining else 0 end + p_is_draining::integer
  where h.instance_id = p_runner.instance_id and h.session_id = p_runner.session_id;
  return found;
end;
$$;
comment on function private.write_heartbeat(private.runner, private.instance_before, boolean) is
  'Writes the heartbeat: one row of an UNLOGGED table. At the turn of a quarter of an hour, also what the last one was '
  'like. False when there is no row.';

create function private.has_news(p_runner private.runner, p_known private.instance_before,
  p_status public.worker_status, p_version text, p_facts jsonb)
returns boolean
language plpgsql immutable
set search_path = ''
as $$
begin
  return p_facts is not null or p_status <> 'ONLINE' or p_runner.worker_status <> 'ONLINE'
    or p_known.status <> 'ONLINE' or p_known.version is distinct from coalesce(p_version, p_known.version)
    or p_known.tick_at is null;
end;
$$;
comment on function private.has_news(private.runner, private.instance_before, public.worker_status, text, jsonb) is
  'Whether a heartbeat says what is not known yet, or is the first one: nearly none does.';

create function private.hold_runner(p_runner private.runner)
returns private.runner
language plpgsql
set search_path = ''
as $$
begin
  -- Rows are locked in one order everywhere: the runner, its heartbeat, its instance, its jobs. The session may have
  -- ended while this waited for the runner: asked again, it says so.
  perform from public.workers as w where w.id = p_runner.worker_id for no key update;
  p_runner := private.this_runner();
  -- After a crash there is no row: UNLOGGED tables are empty then.
  insert into private.heartbeats (instance_id, session_id, worker_id, last_seen_at, tick_at)
  values (p_runner.instance_id, p_runner.session_id, p_runner.worker_id, now(),
    date_bin('15 minutes', now(), '2000-01-01'))
  on conflict do nothing;
  return p_runner;
end;
$$;
comment on function private.hold_runner(private.runner) is
  'The calling runner, locked and looked at again, so that what is new about it can be written.';

create function private.note_instance(p_runner private.runner, p_status public.worker_status, p_version text,
  p_facts jsonb)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update public.worker_instances as i set
    status = n.status, version = n.version, facts = n.facts, hostname = n.hostname, engines = n.engines,
    engine_note = n.engine_note, last_error = n.last_error, capacity = n.capacity, disconnected_at = null
  from (
    select p_status as status, coalesce(p_version, o.version) as version,
      o.facts || coalesce(p_facts - array['engines', 'engine_note', 'last_error'], '{}') as facts,
      coalesce(left(p_facts ->> 'hostname', 255), o.hostname) as hostname,
        coalesce(nullif(p_facts -> 'engines', 'null'), o.engines) as engines,
      case when p_facts ? 'engine_note' then left(p_facts ->> 'engine_note', 300) else o.engine_note end as engine_note,
      case when o.is_shared then null when p_facts ? 'last_error' then left(p_facts ->> 'last_error', 1000)
        else o.last_error end as last_error,
      private.slots_of(w.capacity, o.facts || coalesce(p_facts, '{}')) as capacity
    from public.worker_instances as o join public.workers as w on w.id = o.worker_id where o.id = p_runner.instance_id
  ) as n
  where i.id = p_runner.instance_id
    and (i.status, i.version, i.facts, i.hostname, i.engines, i.engine_note, i.last_error, i.capacity)
      is distinct from (n.status, n.version, n.facts, n.hostname, n.engines, n.engine_note, n.last_error, n.capacity);
  update public.workers as w set version = p_version where w.id = p_runner.worker_id and p_version is not null
    and w.version is distinct
    from p_version;
  perform private.refresh_worker_status(p_runner.worker_id);
end;
$$;
comment on function private.note_instance(private.runner, public.worker_status, text, jsonb) is
  'Writes what a heartbeat says that was not known: status, version, facts. Nothing is written otherwise.';

create function private.compare_running(p_runner private.runner, p_running jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
begin
  perform private.resume_held(p_runner, (l ->> 'job')::bigint, (l ->> 'attempt')::integer)
  from jsonb_array_elements(coalesce(p_running, '[]')) as l
  where exists (select from private.live_jobs as q where q.job_id = (l ->> 'job')::bigint and q.stage = 'HELD');
  with owned as (
    select q.job_id, q.attempt, q.cancel_kind, q.unlisted_at, q.claimed_at from private.live_jobs as q
    where q.instance_id = p_runner.instance_id and q.stage = 'RUNNING' and q.session_id = p_runner.session_id
  ), listed as (
    select (l ->> 'job')::bigint as job_id, (l ->> 'attempt')::integer as attempt
    from jsonb_array_elements(coalesce(p_running, '[]')) as l
  ), noted as (
    -- Without waiting: whoever changes a job may be about to change its runner, too, and would wait for this heartbeat.
    update private.live_jobs as q set unlisted_at = case when q.unlisted_at is null then now() end
    where q.job_id in (
      select f.job_id from owned as o join private.live_jobs as f on f.job_id = o.job_id
      left join listed as l on l.job_id = o.job_id and l.attempt = o.attempt
      where (l.job_id is null) <> (o.unlisted_at is not null) and o.claimed_at < now() - interval '10 seconds'
      for update of f skip locked)
  )
  select jsonb_build_object(
    'cancel', (
      select coalesce(jsonb_agg(jsonb_build_object('job', o.job_id, 'attempt', o.attempt, 'kind', o.cancel_kind,
        'reason',
        j.cancel_requested_by)), '[]')
      from owned as o join public.provision_jobs as j on j.id = o.job_id where o.cancel_kind is not null),
    'lost', (
      select coalesce(jsonb_agg(jsonb_build_object('job', l.job_id, 'attempt', l.attempt)), '[]')
      from listed as l left join owned as o on o.job_id = l.job_id and o.attempt = l.attempt where o.job_id is null)
  ) into v_answer;
  return v_answer;
end;
$$;
comment on function private.compare_running(private.runner, jsonb) is
  'Compares what the runner says it runs with what it has: what to cancel, what it lost, and (noted) what it does not '
  'know of.';

create function private.update_offer(p_version text)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  v_version pg_catalog.text := private.latest_version();
begin
  -- Comparing is the expensive part: not for a runner that has the newest, nor where nothing was released.
  if v_version is null or v_version = p_version or not coalesce(private.is_version_less(p_version, v_version), false)
    then
    return null;
  end if;
  return (select jsonb_build_object('version', r.version, 'notes', r.notes, 'is_breaking', r.is_breaking)
    from public.worker_releases as r where r.version = v_version);
end;
$$;
comment on function private.update_offer(text) is
  'The newest stable release, when it is newer than a version; otherwise null.';

create function private.has_ready_lane(p_worker uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (
    select from private.lane_workers as lw
    cross join lateral (
      select from private.live_jobs as q where q.lane_id = lw.lane_id and q.stage = 'READY' limit 1
    ) as ready
    where lw.worker_id = p_worker);
end;
$$;
comment on function private.has_ready_lane(uuid) is 'Whether some lane of a runner has a job ready, whoever is nearer.';

create function private.heartbeat_answer(p_runner private.runner)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'lease_seconds', 60, 'heartbeat_seconds', 15, 'drain', w.is_draining, 'drain_reason', w.drain_reason,
      'update', private.update_offer(i.version),
      'worker', jsonb_build_object('name', w.name, 'labels', w.labels, 'capacity', w.capacity, 'is_disabled',
        w.is_disabled, 'accepted_job_types', w.accepted_job_types, 'allow_multiple_instances',
          w.allow_multiple_instances))
    from public.workers as w join public.worker_instances as i on i.id = p_runner.instance_id
      where w.id = p_runner.worker_id);
end;
$$;
comment on function private.heartbeat_answer(private.runner) is 'What a heartbeat tells a runner about itself.';

create function private.worker_heartbeat(p_status text, p_version text, p_running jsonb, p_facts jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_known private.instance_before;
  v_has_news boolean;
  v_compared pg_catalog.jsonb := '{"cancel": [], "lost": []}';
begin
  if p_status is null or p_status not in ('ONLINE', 'DRAINING') then
    perform private.fail('RY422', 'A runner says ONLINE or DRAINING.');
  end if;
  select i.capacity, i.status, i.version, h.tick_at, (
      select count(*) from private.live_jobs as q where q.instance_id = i.id and q.stage = 'RUNNING')
  into v_known
  from public.worker_instances as i left join private.heartbeats as h on h.instance_id = i.id
  where i.id = v_runner.instance_id;
  v_has_news := private.has_news(v_runner, v_known, p_status::public.worker_status, p_version, p_facts);
  if v_has_news then
    perform private.check_facts(coalesce(p_facts, '{}'), v_runner.instance_id);
    v_runner := private.hold_runner(v_runner);
  end if;
  if not private.write_heartbeat(v_runner, v_known, p_status = 'DRAINING') then
    -- Its session ended while this was under way: that is said by who asks who is calling.
    perform private.this_runner();
  end if;
  if v_has_news then
    perform private.note_instance(v_runner, p_status::public.worker_status, left(p_version, 50), p_facts);
  end if;
  if v_known.used > 0 or coalesce(p_running, '[]') <> '[]' then
    perform private.check_running(coalesce(p_running, '[]'));
    v_compared := private.compare_running(v_runner, p_running);
  end if;
  perform private.sweep_if_due();
  return private.heartbeat_answer(v_runner) || v_compared || jsonb_build_object('server_time', clock_timestamp(),
    'has_work', v_runner.is_open and p_status = 'ONLINE' and private.has_ready_lane(v_runner.worker_id));
end;
$$;
comment on function private.worker_heartbeat(text, text, jsonb, jsonb) is 'Body of public.worker_heartbeat.';
grant execute on function private.worker_heartbeat(text, text, jsonb, jsonb) to worker;

revoke execute on all functions in schema private from public;
