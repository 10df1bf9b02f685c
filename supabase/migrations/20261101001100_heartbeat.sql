-- The beat: one call every 15 s says "I am here, this is what I run", and brings back everything a runner must learn.
-- It writes one row of an UNLOGGED table and, only when something a person can see has changed, the runner's rows.
-- A lease is not a row that beats renew: it is the instance's last beat plus 60 s. A job that the beats do not mention
-- for 30 s (a lost reply, a forgotten child) loses it all the same.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table private.worker_ticks (
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_id uuid not null,
  at timestamptz not null,
  beats integer not null,
  busy integer not null,
  slots integer not null,
  draining integer not null,
  primary key (worker_id, at, instance_id)
);
create index worker_ticks_at_idx on private.worker_ticks (at);
alter table private.worker_ticks enable row level security;
comment on table private.worker_ticks is 'A runner''s quarters of an hour: how often it beat, and how busy it was. The strip on its page.';
comment on column private.worker_ticks.worker_id is 'The runner.';
comment on column private.worker_ticks.instance_id is 'The instance.';
comment on column private.worker_ticks.at is 'Start of the quarter.';
comment on column private.worker_ticks.beats is 'Beats in it; 60 when nothing was missed.';
comment on column private.worker_ticks.busy is 'Sum over the beats of running jobs.';
comment on column private.worker_ticks.slots is 'Sum over the beats of slots.';
comment on column private.worker_ticks.draining is 'Beats sent while draining.';

create function private.flush_tick(p_instance uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into private.worker_ticks as t (worker_id, instance_id, at, beats, busy, slots, draining)
  select h.worker_id, h.instance_id, h.tick_at, h.tick_beats, h.tick_busy, h.tick_slots, h.tick_draining
  from private.heartbeats as h where h.instance_id = p_instance and h.tick_beats > 0 for update
  on conflict (worker_id, at, instance_id) do update set
    beats = t.beats + excluded.beats, busy = t.busy + excluded.busy, slots = t.slots + excluded.slots,
      draining = t.draining + excluded.draining;
end;
$$;
comment on function private.flush_tick(uuid) is 'Writes down an instance''s last quarter of an hour when a new one has begun.';

create function private.beat(p_runner private.runner, p_is_draining boolean)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_tick pg_catalog.timestamptz := date_bin('15 minutes', now(), '2000-01-01');
begin
  -- Only the session's own row: another process may have taken over since the caller looked.
  if p_runner.tick_at = v_tick then
    update private.heartbeats as h set
      last_seen_at = now(), is_draining = p_is_draining, tick_beats = h.tick_beats + 1,
      tick_slots = h.tick_slots + p_runner.capacity, tick_draining = h.tick_draining + p_is_draining::integer
    where h.instance_id = p_runner.instance_id and h.session_id = p_runner.session_id and h.tick_at = v_tick;
    if found then
      return;
    end if;
  end if;
  perform private.flush_tick(p_runner.instance_id);
  insert into private.heartbeats as h (instance_id, session_id, worker_id, last_seen_at, is_draining, tick_at, tick_beats,
    tick_slots, tick_draining)
  values (p_runner.instance_id, p_runner.session_id, p_runner.worker_id, now(), p_is_draining, v_tick, 1, p_runner.capacity,
    p_is_draining::integer)
  on conflict (instance_id) do update set
    last_seen_at = excluded.last_seen_at, is_draining = excluded.is_draining, tick_at = excluded.tick_at,
    tick_beats = excluded.tick_beats, tick_busy = excluded.tick_busy, tick_slots = excluded.tick_slots,
    tick_draining = excluded.tick_draining
  where h.session_id = excluded.session_id;
end;
$$;
comment on function private.beat(private.runner, boolean) is
  'Writes the beat: one row of an UNLOGGED table. At the turn of a quarter of an hour, also what the last one was like.';

create function private.note_instance(p_runner private.runner, p_status public.worker_status, p_version text, p_facts jsonb)
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
      o.facts || coalesce(p_facts - 'engines' - 'engine_note' - 'last_error', '{}') as facts,
      coalesce(p_facts ->> 'hostname', o.hostname) as hostname, coalesce(nullif(p_facts -> 'engines', 'null'), o.engines) as engines,
      case when p_facts ? 'engine_note' then left(p_facts ->> 'engine_note', 300) else o.engine_note end as engine_note,
      case when p_facts ? 'last_error' then left(p_facts ->> 'last_error', 1000) else o.last_error end as last_error,
      least(w.capacity, greatest(1, coalesce((p_facts ->> 'capacity')::integer, (o.facts ->> 'capacity')::integer, w.capacity))) as capacity
    from public.worker_instances as o join public.workers as w on w.id = o.worker_id where o.id = p_runner.instance_id
  ) as n
  where i.id = p_runner.instance_id
    and (i.status, i.version, i.facts, i.hostname, i.engines, i.engine_note, i.last_error, i.capacity)
      is distinct from (n.status, n.version, n.facts, n.hostname, n.engines, n.engine_note, n.last_error, n.capacity);
  update public.workers as w set version = p_version where w.id = p_runner.worker_id and p_version is not null and w.version is distinct
    from p_version;
  perform private.refresh_worker_status(p_runner.worker_id);
end;
$$;
comment on function private.note_instance(private.runner, public.worker_status, text, jsonb) is
  'Writes what a beat says that was not known: status, version, facts. Nothing is written otherwise.';

create function private.compare_running(p_runner private.runner, p_running jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
begin
  with owned as (
    select q.job_id, q.attempt, q.cancel_kind, q.unlisted_at, q.claimed_at from private.live_jobs as q
    where q.instance_id = p_runner.instance_id and q.stage = 'RUNNING' and q.session_id = p_runner.session_id
  ), listed as (
    select (l ->> 'job')::bigint as job_id, (l ->> 'attempt')::integer as attempt
    from jsonb_array_elements(coalesce(p_running, '[]')) as l
  ), noted as (
    -- Without waiting: whoever changes a job may be about to change its runner, too, and would wait for this beat.
    update private.live_jobs as q set unlisted_at = case when q.unlisted_at is null then now() end
    where q.job_id in (
      select f.job_id from owned as o join private.live_jobs as f on f.job_id = o.job_id
      left join listed as l on l.job_id = o.job_id and l.attempt = o.attempt
      where (l.job_id is null) <> (o.unlisted_at is not null) and o.claimed_at < now() - interval '10 seconds'
      for update of f skip locked)
  )
  select jsonb_build_object(
    'cancel', (
      select coalesce(jsonb_agg(jsonb_build_object('job', o.job_id, 'attempt', o.attempt, 'kind', o.cancel_kind, 'reason',
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
  'Compares what the runner says it runs with what it has: what to cancel, what it lost, and (noted) what it does not know of.';

create function private.update_offer(p_version text)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  v_version pg_catalog.text;
  v_offer pg_catalog.jsonb;
begin
  select r.version, jsonb_build_object('version', r.version, 'notes', r.notes, 'is_breaking', r.is_breaking) into v_version, v_offer
  from public.worker_releases as r
  where r.channel = 'stable' and r.withdrawn_at is null order by private.version_key(r.version) collate "C" desc limit 1;
  -- Comparing is the dear part: not for a runner that has the newest, nor where nothing was released.
  if v_version is null or v_version = p_version or not coalesce(private.is_version_less(p_version, v_version), false) then
    return null;
  end if;
  return v_offer;
end;
$$;
comment on function private.update_offer(text) is 'The newest stable release, when it is newer than a version; otherwise null.';

create function private.has_ready_lane(p_worker uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (
    select from private.lane_workers as lw
    where lw.worker_id = p_worker and exists (
      select from private.live_jobs as q where q.lane_id = lw.lane_id and q.stage = 'READY' and q.ready_seq > coalesce((
        select f.floor from private.lane_floors as f where f.lane_id = lw.lane_id order by f.floor desc limit 1), 0))
  );
end;
$$;
comment on function private.has_ready_lane(uuid) is 'Whether some lane of a runner has a job ready, whoever is nearer.';

create function private.copy_settings(p_runner private.runner)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_settings pg_catalog.jsonb;
begin
  -- The caller has written the beat, so whoever changes the runner now waits for its row, and makes the copy unknown after this.
  update private.heartbeats as h set
    is_known = true, org_id = w.org_id, worker_name = w.name, instance_name = i.name, capacity = i.capacity, worker_status = w.status,
    instance_status = i.status, version = i.version, is_open = not (w.is_disabled or w.is_draining), settings = jsonb_build_object(
      'lease_seconds', 60, 'heartbeat_seconds', 15, 'drain', w.is_draining, 'drain_reason', w.drain_reason,
      'update', private.update_offer(i.version),
      'worker', jsonb_build_object('name', w.name, 'labels', w.labels, 'capacity', w.capacity, 'is_disabled', w.is_disabled,
        'accepted_job_types', w.accepted_job_types, 'allow_multiple_instances', w.allow_multiple_instances))
  from private.sessions as s, public.workers as w, public.worker_instances as i
  where h.session_id = p_runner.session_id and s.id = p_runner.session_id and s.ended_at is null
    and w.id = p_runner.worker_id and w.removed_at is null and i.id = p_runner.instance_id
  returning h.settings into v_settings;
  -- The session may have ended while the beat waited for the runner: then this says so.
  if v_settings is null then
    perform private.this_runner();
  end if;
  return v_settings;
end;
$$;
comment on function private.copy_settings(private.runner) is
  'Writes beside the beat what the runner''s next calls ask about it. Answers what a beat is told.';

create function private.beat_with_news(p_status public.worker_status, p_version text, p_facts jsonb)
returns private.runner
language plpgsql
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_is_held boolean := false;
begin
  -- Rows are locked in one order everywhere: the runner, its beat, its instance, its jobs. A beat that says nothing new may hold its
  -- row already, from a look that found it changed meanwhile: it must not wait for the runner. What it would note, the next one will.
  -- Where there is no row (after a crash) it must: who changes the runner just now found none to make unknown.
  if p_facts is not null then
    perform private.check_facts(p_facts);
  end if;
  if p_facts is not null or p_status <> 'ONLINE' or v_runner.tick_at is null then
    perform from public.workers as w where w.id = v_runner.worker_id for no key update;
    v_is_held := true;
  elsif v_runner.worker_status <> 'ONLINE' or v_runner.instance_status <> 'ONLINE'
    or v_runner.version is distinct from coalesce(p_version, v_runner.version) then
    perform from public.workers as w where w.id = v_runner.worker_id for no key update skip locked;
    v_is_held := found;
  end if;
  perform private.beat(v_runner, p_status = 'DRAINING');
  if v_is_held then
    perform private.note_instance(v_runner, p_status, left(p_version, 50), p_facts);
  end if;
  v_runner.settings := private.copy_settings(v_runner);
  return v_runner;
end;
$$;
comment on function private.beat_with_news(public.worker_status, text, jsonb) is
  'A beat that is not like the one before: the first, one with news, one after a change of the runner, or the first of a quarter of an hour.';

create function private.worker_heartbeat(p_status text, p_version text, p_running jsonb, p_facts jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_claims pg_catalog.jsonb := current_setting('request.jwt.claims', true);
  v_runner private.runner;
  v_used integer;
  v_compared pg_catalog.jsonb := '{"cancel": [], "lost": []}';
begin
  if p_status is null or p_status not in ('ONLINE', 'DRAINING') then
    perform private.fail('RY422', 'A runner says ONLINE or DRAINING.');
  end if;
  -- Nearly every beat is like the one before: the row that it writes also says who is calling.
  if p_status = 'ONLINE' and p_facts is null then
    update private.heartbeats as h set
      last_seen_at = now(), is_draining = false, tick_beats = h.tick_beats + 1, tick_slots = h.tick_slots + h.capacity
    where h.session_id = (v_claims ->> 'sid')::pg_catalog.uuid and h.is_known and h.tick_at = date_bin('15 minutes', now(), '2000-01-01')
      and h.worker_status = 'ONLINE' and h.instance_status = 'ONLINE' and h.version = coalesce(p_version, h.version)
    returning h.session_id, h.worker_id, h.instance_id, h.is_open, h.settings
    into v_runner.session_id, v_runner.worker_id, v_runner.instance_id, v_runner.is_open, v_runner.settings;
  end if;
  if v_runner.session_id is null then
    v_runner := private.beat_with_news(p_status::public.worker_status, p_version, p_facts);
  end if;
  select count(*) into v_used from private.live_jobs as q
  where q.instance_id = v_runner.instance_id and q.stage = 'RUNNING' and q.claim_seq > coalesce((
    select f.floor from private.instance_floors as f where f.instance_id = v_runner.instance_id order by f.floor desc limit 1), 0);
  if v_used > 0 then
    update private.heartbeats as h set tick_busy = h.tick_busy + v_used where h.instance_id = v_runner.instance_id;
  end if;
  if v_used > 0 or coalesce(p_running, '[]') <> '[]' then
    perform private.check_running(coalesce(p_running, '[]'));
    v_compared := private.compare_running(v_runner, p_running);
  end if;
  -- Asked here first: nearly every beat is spared two calls.
  if not exists (select from private.clocks as c where c.name = 'sweep' and c.ran_at > now() - interval '5 seconds') then
    perform private.sweep_if_due();
  end if;
  return v_runner.settings || v_compared || jsonb_build_object(
    'server_time', clock_timestamp(), 'look', v_runner.is_open and p_status = 'ONLINE' and private.has_ready_lane(v_runner.worker_id));
end;
$$;
comment on function private.worker_heartbeat(text, text, jsonb, jsonb) is 'Body of public.worker_heartbeat.';
grant execute on function private.worker_heartbeat(text, text, jsonb, jsonb) to worker;

revoke execute on all functions in schema private from public;
