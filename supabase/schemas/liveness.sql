-- Liveness: heartbeats, and the status that follows from them. A call every 15 s reports "I am here, I run these jobs"
-- and returns everything a runner must learn. It writes one row of an UNLOGGED table and, only when something visible
-- has changed, the runner's rows. A lease is not a row to renew: it is the instance's last heartbeat plus 60
-- s. A job that heartbeats do not mention for 30 s (a lost reply, a forgotten child) loses its lease all the same. One
-- view derives the status of a runner from the heartbeats of its instances and the record's flags, so the table, the
-- API and the page cannot disagree.

create unlogged table private.heartbeats (
  instance_id uuid primary key,
  session_id uuid not null,
  worker_id uuid not null,
  last_seen_at timestamptz not null,
  is_draining boolean not null default false,
  tick_at timestamptz not null,
  tick_heartbeats integer not null default 0,
  tick_busy integer not null default 0,
  tick_slots integer not null default 0,
  tick_draining integer not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.2);
comment on table private.heartbeats is
  'Last heartbeat of each instance. UNLOGGED and unpublished: 50 bytes of WAL, no message. Empty after a crash.';
comment on column private.heartbeats.tick_at is 'Start of the quarter of an hour that the counters below are for.';
comment on column private.heartbeats.tick_busy is 'Sum over those heartbeats of the jobs that were running.';
comment on column private.heartbeats.tick_slots is 'Sum over those heartbeats of the slots.';
comment on column private.heartbeats.tick_draining is 'Those of them that were sent while draining.';

create table private.worker_ticks (
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_id uuid not null,
  at timestamptz not null,
  heartbeats integer not null,
  busy integer not null,
  slots integer not null,
  draining integer not null,
  primary key (worker_id, at, instance_id)
);
create index worker_ticks_at_idx on private.worker_ticks (at);
comment on table private.worker_ticks is
  'A runner''s quarters of an hour: how many heartbeats it sent, and how busy it was. The strip on its page.';
comment on column private.worker_ticks.heartbeats is 'Heartbeats in it; 60 when nothing was missed.';
comment on column private.worker_ticks.busy is 'Sum over the heartbeats of running jobs.';
comment on column private.worker_ticks.slots is 'Sum over the heartbeats of slots.';
comment on column private.worker_ticks.draining is 'Heartbeats sent while draining.';

create type private.offer as (engines jsonb, engine_note text, clouds jsonb, is_degraded boolean);
comment on type private.offer is
  'What an instance has for jobs: engines with a version or a list of them, a note, clouds it can act in, its health.';

create view private.instance_liveness as
select
  i.id as instance_id,
  i.worker_id,
  i.name,
  h.session_id,
  h.last_seen_at,
  h.is_draining,
  i.capacity,
  row(
    -- With a dispatcher the image's engines count, not the host's.
    case when coalesce(i.facts ->> 'dispatcher', 'local') <> 'local' then i.facts -> 'dispatcher_engines'
      else nullif(i.engines, case when i.engine_note is null then '{}' end::jsonb)
        || case jsonb_typeof(i.facts -> 'engine_versions') when 'object' then i.facts -> 'engine_versions'
          else '{}' end end,
    case when coalesce(i.facts ->> 'dispatcher', 'local') = 'local' then i.engine_note end,
    i.facts -> 'clouds', coalesce(jsonb_typeof(i.facts -> 'degraded') = 'object', false)
  )::private.offer as offer,
  coalesce(h.last_seen_at > now() - private.lease(), false) as is_fresh,
  i.connected_at,
  (select count(*) from private.live_jobs as j where j.instance_id = i.id and j.stage = 'RUNNING') as used
from public.worker_instances as i left join private.heartbeats as h on h.instance_id = i.id;
comment on view private.instance_liveness is
  'The one place that decides whether an instance is alive: a heartbeat within 60 s.';

create view private.worker_prospects as
select
  w.id as worker_id,
  coalesce(w.desired_count > 0 and (w.cloud ->> 'starting_at')::timestamptz > now() - interval '10 minutes', false)
    as is_starting,
  -- A cloud-hosted runner gets its token from the job that starts it.
  w.type = 'cloud-hosted' or exists (
    select from private.live_tokens as t where t.worker_id = w.id
  ) or exists (
    select from public.service_accounts as a
    where a.id = w.service_account_id and a.removed_at is null and not a.is_disabled
  ) as has_credential
from public.workers as w;
comment on view private.worker_prospects is 'Whether a runner that is not there could come.';
comment on column private.worker_prospects.is_starting is 'Whether it was started lately, in a cloud, and may connect.';
comment on column private.worker_prospects.has_credential is
  'Whether it could sign in at all: it has a live token, or a service account that is not disabled.';

create view private.worker_liveness as
select
  w.id as worker_id,
  l.fresh,
  l.willing,
  l.last_seen_at,
  l.used,
  l.capacity,
  case when l.fresh = 0 then 'OFFLINE' when w.is_draining or l.willing = 0 then 'DRAINING'
    else 'ONLINE' end::public.worker_status as status
from public.workers as w
cross join lateral (
  select
    count(*) filter (where i.is_fresh) as fresh,
    count(*) filter (where i.is_fresh and not i.is_draining) as willing,
    max(i.last_seen_at) as last_seen_at,
    coalesce(sum(i.used) filter (where i.is_fresh), 0) as used,
    coalesce(sum(i.capacity) filter (where i.is_fresh), 0) as capacity
  from private.instance_liveness as i where i.worker_id = w.id
) as l;
comment on view private.worker_liveness is 'What heartbeats make of a runner: the only place for its status.';
comment on column private.worker_liveness.fresh is 'Instances with a recent heartbeat.';
comment on column private.worker_liveness.willing is 'Of those, not draining.';
comment on column private.worker_liveness.used is 'Slots in use of the fresh instances.';

-- ## a runner that returned
-- Refuses a list of attempts that cannot be read.
create function private.check_running(p_running jsonb) returns void language plpgsql immutable as $$
begin
  if jsonb_typeof(p_running) <> 'array' or jsonb_array_length(case jsonb_typeof(p_running) when 'array'
    then p_running end) > 1000
    or exists (
    select from jsonb_array_elements(case jsonb_typeof(p_running) when 'array' then p_running end) as l
    where coalesce(l ->> 'job', '') !~ '^[0-9]{1,18}$' or coalesce(l ->> 'attempt', '') !~ '^[0-9]{1,9}$'
      or coalesce(l ->> 'is_dead', 'true') not in ('true', 'false')
  ) then
    perform private.fail('RY422', 'Running jobs are a list of at most 1,000 jobs with their attempts.',
      'Send [{"job": 1, "attempt": 1}], or [] for nothing.');
  end if;
end;
$$;

create type private.instance_before as (
  capacity integer, status public.worker_status, version text, tick_at timestamptz, used integer
);
comment on type private.instance_before is
  'What was known of a process before its heartbeat, and how many jobs it has; without a tick when it is the first.';

-- Writes the heartbeat: one row of an UNLOGGED table. At the turn of a quarter of an hour, also what the last one was
-- like. False when there is no row.
create function private.write_heartbeat(p_runner private.runner, p_known private.instance_before, p_is_draining boolean)
returns boolean language plpgsql as $$
declare
  v_tick pg_catalog.timestamptz := date_bin('15 minutes', now(), '2000-01-01 00:00+00');
begin
  if p_known.tick_at <> v_tick then
    insert into private.worker_ticks as t (worker_id, instance_id, at, heartbeats, busy, slots, draining)
    select h.worker_id, h.instance_id, h.tick_at, h.tick_heartbeats, h.tick_busy, h.tick_slots, h.tick_draining
    from private.heartbeats as h where h.instance_id = p_runner.instance_id and h.tick_heartbeats > 0 for update
    on conflict (worker_id, at, instance_id) do update set heartbeats = t.heartbeats + excluded.heartbeats,
      busy = t.busy + excluded.busy, slots = t.slots + excluded.slots, draining = t.draining + excluded.draining;
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

-- Whether a heartbeat has new facts, or is the first one: nearly none has.
create function private.has_changed(
  p_runner private.runner, p_known private.instance_before, p_status public.worker_status, p_version text, p_facts jsonb
) returns boolean language plpgsql immutable as $$
begin
  return p_facts is not null or p_status <> 'ONLINE' or p_runner.worker_status <> 'ONLINE'
    or p_known.status <> 'ONLINE' or p_known.version is distinct from coalesce(p_version, p_known.version)
    or p_known.tick_at is null;
end;
$$;

-- The calling runner, locked and read again, so that its new facts can be written.
create function private.hold_runner(p_runner private.runner) returns private.runner language plpgsql as $$
begin
  -- Rows are locked in one order everywhere: the runner, its heartbeat, its instance, its jobs. The session may have
  -- ended while this waited for the runner: a second check raises.
  perform from public.workers as w where w.id = p_runner.worker_id for no key update;
  p_runner := private.this_runner();
  -- After a crash there is no row: UNLOGGED tables are empty then.
  insert into private.heartbeats (instance_id, session_id, worker_id, last_seen_at, tick_at)
  values (p_runner.instance_id, p_runner.session_id, p_runner.worker_id, now(),
    date_bin('15 minutes', now(), '2000-01-01 00:00+00'))
  on conflict do nothing;
  return p_runner;
end;
$$;

-- Writes the new facts of a heartbeat: status, version, facts. Nothing is written otherwise.
create function private.note_instance(
  p_runner private.runner, p_status public.worker_status, p_version text, p_facts jsonb
) returns void language plpgsql as $$
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

-- Compares the runner's list of jobs with what it has: what to cancel, what it lost, what it does not know of.
create function private.compare_running(p_runner private.runner, p_running jsonb, out v_answer jsonb)
language plpgsql as $$
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
    -- Without waiting: a change of a job may be about to change its runner, too, and would wait for this heartbeat.
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
end;
$$;

-- The newest stable release, when it is newer than a version; otherwise null.
create function private.update_offer(p_version text) returns jsonb language plpgsql stable as $$
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

-- Whether some lane of a runner has a job ready, even if another runner is nearer.
create function private.has_ready_lane(p_worker uuid) returns boolean language plpgsql stable as $$
begin
  return exists (
    select from private.lane_workers as lw
    cross join lateral (
      select from private.live_jobs as q where q.lane_id = lw.lane_id limit 1
    ) as ready
    where lw.worker_id = p_worker);
end;
$$;

-- The part of the answer to a heartbeat that is about the runner itself.
create function private.heartbeat_answer(p_runner private.runner) returns jsonb language plpgsql stable as $$
begin
  return (
    select jsonb_build_object(
      'lease_seconds', extract(epoch from private.lease())::integer, 'heartbeat_seconds', 15,
      'drain', w.is_draining, 'drain_reason', w.drain_reason,
      'update', private.update_offer(i.version),
      'worker', jsonb_build_object('name', w.name, 'labels', w.labels, 'capacity', w.capacity, 'is_disabled',
        w.is_disabled, 'accepted_job_types', w.accepted_job_types, 'allow_multiple_instances',
          w.allow_multiple_instances))
    from public.workers as w join public.worker_instances as i on i.id = p_runner.instance_id
      where w.id = p_runner.worker_id);
end;
$$;

create function private.worker_heartbeat(
  p_status text, p_version text, p_running jsonb default '[]', p_facts jsonb default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_known private.instance_before;
  v_has_changed boolean;
  v_compared pg_catalog.jsonb := '{"cancel": [], "lost": []}';
begin
  if p_status is null or p_status not in ('ONLINE', 'DRAINING') then
    perform private.fail('RY422', 'A runner reports ONLINE or DRAINING.');
  end if;
  select i.capacity, i.status, i.version, h.tick_at, (
      select count(*) from private.live_jobs as q where q.instance_id = i.id and q.stage = 'RUNNING')
  into v_known
  from public.worker_instances as i left join private.heartbeats as h on h.instance_id = i.id
  where i.id = v_runner.instance_id;
  v_has_changed := private.has_changed(v_runner, v_known, p_status::public.worker_status, p_version, p_facts);
  if v_has_changed then
    perform private.check_facts(coalesce(p_facts, '{}'), v_runner.instance_id);
    v_runner := private.hold_runner(v_runner);
  end if;
  if not private.write_heartbeat(v_runner, v_known, p_status = 'DRAINING') then
    -- The session ended meanwhile; this_runner() raises.
    perform private.this_runner();
  end if;
  if v_has_changed then
    perform private.note_instance(v_runner, p_status::public.worker_status, left(p_version, 50), p_facts);
  end if;
  if v_known.used > 0 or coalesce(p_running, '[]') <> '[]' then
    perform private.check_running(coalesce(p_running, '[]'));
    v_compared := private.compare_running(v_runner, p_running);
  end if;
  return private.heartbeat_answer(v_runner) || v_compared || jsonb_build_object('server_time', clock_timestamp(),
    'has_work', v_runner.is_open and p_status = 'ONLINE' and private.has_ready_lane(v_runner.worker_id));
end;
$$;
comment on function private.worker_heartbeat is
  'A runner''s heartbeat: status, version, running attempts, news about the host. Answers what to cancel, what was '
  'lost, drain, update, look for work.';

-- When the grace for leases began: none ends in the 60 s after it, so that living runners can send a heartbeat.
create function private.grace_began_at() returns timestamptz language sql stable as $$
  select coalesce((
    select f.swept_at from private.first_sweeps as f where f.server_started_at = pg_postmaster_start_time()), now())
$$;
