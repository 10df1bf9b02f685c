-- The claim: exactly one runner gets a job, and it is the right one. lane_workers already holds the rules that change
-- rarely. The claim checks the rest: the runner is open, it has a free slot, and no nearer runner is available for the
-- lane. A read-only look comes first, so idle runners that poll write nothing. Then it locks, and counts in the *next*
-- statement: counting in the locking statement uses the snapshot from before the lock, and broke a limit of 4 in 58 of
-- 60 rounds.

create view private.preferred_runners as
select
  n.lane_id,
  n.distance,
  'nearer' as reason
from private.lanes as l inner join private.lane_instances as n on n.lane_id = l.id
where n.is_willing and n.free > 0 and private.shortfall(l, n.offer) is null
union all
-- 199: before every shared runner, however far away its runner is.
select
  n.lane_id,
  199::smallint as distance,
  'own_first' as reason
from private.lanes as l
inner join public.organizations as o on o.id = l.org_id and o.shared_runners = 'NONE_FITS'
inner join private.lane_instances as n on n.lane_id = l.id
where n.distance < 200 and n.is_in_use and n.is_named
  and coalesce(private.shortfall(l, n.offer), 'degraded') in ('degraded', 'engine_preparing');
comment on view private.preferred_runners is
  'The runners that keep a lane''s jobs from those that are farther away. Claim, explanation and scaling all read it.';
comment on column private.preferred_runners.distance is 'Runners that are farther away than this wait.';
comment on column private.preferred_runners.reason is
  'nearer: it is available · own_first: it is meant for the lane, and the organisation lets its own runners go before '
  'shared ones even when they are busy or away.';

-- ## taking
create type private.instance_now as (name text, offer private.offer, free integer);
comment on type private.instance_now is 'The process that asks for jobs: its name, offer, and free slots.';

-- The calling process as it is now: nothing is free while it is draining or not fresh, nor for a request that was
-- answered before. The caller holds the instance's lock.
create function private.this_instance(p_instance uuid, p_request uuid, out v_self private.instance_now)
language plpgsql stable as $$
begin
  select l.name, l.offer, case when l.is_fresh and not l.is_draining and u.is_new then l.capacity - u.used else 0 end
  into v_self
  from private.instance_liveness as l
  cross join (
    select count(*)::integer as used, coalesce(bool_and(q.claim_request_id <> p_request), true) as is_new
    from private.live_jobs as q where q.instance_id = p_instance and q.stage = 'RUNNING'
  ) as u
  where l.instance_id = p_instance;
end;
$$;

-- The first so many of these lanes for which no preferred runner is available now. A look costs as much as a lane has
-- nearer runners, so it ends with the last lane that is wanted.
create function private.lanes_left(p_worker uuid, p_lanes integer[], p_most integer) returns integer[]
language plpgsql stable as $$
begin
  return array(
    select l.id from unnest(p_lanes) with ordinality as l (id, place)
    -- "offset 0": one lane after the other, by the index, never the runners of all lanes.
    cross join lateral (
      select w.distance from private.lane_workers as w where w.worker_id = p_worker and w.lane_id = l.id offset 0
    ) as w
    where not exists (
      select from private.preferred_runners as p where p.lane_id = l.id and p.distance < w.distance offset 0)
    order by l.place limit p_most);
end;
$$;

-- The first so many lanes, in order of their next jobs, that have a ready job which this instance may take now: it
-- lacks nothing for it, nobody nearer is available, and there is no maintenance.
create function private.open_lanes(p_worker uuid, p_self private.instance_now, p_most integer) returns integer[]
language plpgsql stable as $$
declare
  v_lanes integer[];
  v_has_nearer boolean;
begin
  select coalesce(array_agg(l.id order by l.priority, l.ready_seq), '{}'), bool_or(l.has_nearer)
  into v_lanes, v_has_nearer
  from (
    select l.id, l.priority, lw.ready_seq, exists (
      select from private.lane_workers as n where n.lane_id = l.id and n.distance < lw.distance) as has_nearer
    from (
      select w.lane_id, w.distance, ready.ready_seq from private.lane_workers as w
      -- One entry of the index for each lane; "exists" may be planned as a look at every ready job of everybody.
      cross join lateral (
        select q.ready_seq from private.live_jobs as q where q.lane_id = w.lane_id
        order by q.ready_seq limit 1
      ) as ready
      where w.worker_id = p_worker and (w.instance_name is null or w.instance_name = p_self.name)
      -- First the lanes that have work at all: the rules below cost more, and a runner may serve hundreds of lanes.
      offset 0
    ) as lw
    cross join lateral (select * from private.lanes as l where l.id = lw.lane_id offset 0) as l
    where private.shortfall(row(l.*)::private.lanes, p_self.offer) is null
      and not exists (select from private.organizations_in_maintenance as m where m.org_id = l.org_id)
  ) as l;
  -- Every preferred runner is nearer, and in most lanes nobody is: how the others are is read only where it matters.
  if v_has_nearer then return private.lanes_left(p_worker, v_lanes, p_most); end if;
  return v_lanes[:p_most];
end;
$$;

-- Locks the next jobs of a lane, in order of becoming ready; leaves out those that another runner is taking.
create function private.lock_next(p_lane integer, p_count integer) returns bigint[] language plpgsql as $$
begin
  return array(
    select q.job_id from private.live_jobs as q
    where q.lane_id = p_lane order by q.ready_seq limit p_count for update skip locked);
end;
$$;

-- Locks the next jobs of these lanes, in order of priority and of becoming ready.
create function private.pick_jobs(p_lanes integer[], p_count integer) returns bigint[] language plpgsql as $$
declare
  v_wanted pg_catalog.record;
  v_jobs bigint[] := '{}';
begin
  if cardinality(p_lanes) = 1 then return private.lock_next(p_lanes[1], p_count); end if;
  -- Look first how many to take from which lane, so that no job is locked that will not be taken: another runner
  -- that skipped it would go to sleep beside work.
  for v_wanted in
    select c.lane_id, count(*)::integer as n from (
      select l.lane_id from unnest(p_lanes) as l (lane_id)
      cross join lateral (
        select q.priority, q.ready_seq from private.live_jobs as q
        where q.lane_id = l.lane_id order by q.ready_seq limit p_count
      ) as c
      order by c.priority, c.ready_seq limit p_count
    ) as c group by c.lane_id loop
    v_jobs := v_jobs || private.lock_next(v_wanted.lane_id, v_wanted.n);
  end loop;
  return array(select q.job_id from unnest(v_jobs) as p (id) join private.live_jobs as q on q.job_id = p.id
    order by q.priority, q.ready_seq);
end;
$$;

-- A job as its runner gets it. As json, not jsonb: the claim's answer is sent as it is made, and nobody takes it apart.
create function private.job_for_runner(p_job public.provision_jobs, p_org_slug text) returns json
language plpgsql stable as $$
begin
  return json_build_object(
    'id', p_job.id, 'number', p_job.number, 'attempt', p_job.attempt, 'type', p_job.type, 'lease_seconds',
      extract(epoch from private.lease())::integer, 'org_id', p_job.org_id,
      'org_slug', p_org_slug,
    'module_id', p_job.module_id, 'module_path', p_job.module_path, 'group_path', p_job.group_path, 'target_worker_id',
      p_job.target_worker_id,
    'payload', p_job.payload, 'plan_job_id', p_job.plan_job_id, 'plan_sha256', p_job.plan_sha256,
    'labels', p_job.labels, 'max_attempts', p_job.max_attempts,
    'created_by_label', p_job.created_by_label);
end;
$$;

-- The jobs that this request has claimed already, so that a repeated claim gets the same answer; nothing otherwise.
create function private.claimed_json(p_instance uuid, p_request uuid) returns json language plpgsql stable as $$
begin
  return (
    select coalesce(json_agg(private.job_for_runner(j, o.slug) order by j.priority, q.ready_seq), '[]')
    from private.live_jobs as q
    join public.provision_jobs as j on j.id = q.job_id
    join public.organizations as o on o.id = j.org_id
    where q.instance_id = p_instance and q.stage = 'RUNNING' and q.claim_request_id = p_request
  );
end;
$$;

-- Takes up to so many jobs out of these lanes for the runner: a new attempt, a lease. The caller writes their records.
create function private.take_jobs(p_runner private.runner, p_request uuid, p_lanes integer[], p_count integer)
returns bigint[] language plpgsql as $$
declare
  v_jobs bigint[] := private.pick_jobs(p_lanes, p_count);
begin
  update private.live_jobs as q set
    stage = 'RUNNING', lane_id = null, attempt = q.attempt + 1, worker_id = p_runner.worker_id,
    instance_id = p_runner.instance_id, session_id = p_runner.session_id, claim_request_id = p_request,
    claimed_at = now(), lease_until = now() + private.lease(),
    log_day = (now() at time zone 'utc')::pg_catalog.date, has_touched = false, unlisted_at = null
  where q.job_id = any (v_jobs);
  return v_jobs;
end;
$$;

-- Writes the records and events of jobs that were just taken, and answers the jobs as their runner gets them.
create function private.record_claims(p_runner private.runner, p_instance text, p_jobs bigint[], out v_answer json)
language plpgsql as $$
begin
  with claimed as (
    update public.provision_jobs as j set
      status = 'CLAIMED', attempt = j.attempt + 1, worker_id = p_runner.worker_id, worker_name = p_runner.worker_name,
      instance_id = p_runner.instance_id, instance_name = p_instance, claimed_at = now(),
        started_at = null, phase = null,
      not_before_at = null, steps = '[]', last_log_seq = 0,
        log_day = (now() at time zone 'utc')::pg_catalog.date, error = null,
        result = null,
      plan_summary = null
    where j.id = any (p_jobs)
    returning j.org_id, j.id, j.attempt, private.job_for_runner(j, (
      select o.slug from public.organizations as o where o.id = j.org_id)) as answer
  ), noted as (
    insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status,
      to_status, reason)
    select c.org_id, c.id, c.attempt, 'worker', p_runner.worker_id, p_runner.worker_name, 'claimed', 'QUEUED',
      'CLAIMED', 'Instance ' || p_instance
    from claimed as c
  )
  select json_agg(c.answer order by array_position(p_jobs, c.id)) into v_answer from claimed as c;
end;
$$;

create function private.worker_claim(p_request_id uuid, p_slots integer default 1) returns json
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_self private.instance_now;
  v_lanes integer[];
  v_jobs bigint[];
  v_wanted integer;
begin
  if p_request_id is null or p_slots is null or p_slots not between 1 and 256 then
    perform private.fail('RY422', 'A claim needs a request id and 1 to 256 slots.');
  end if;
  perform pg_advisory_xact_lock(private.lock_key('instance', v_runner.instance_id::pg_catalog.text));
  v_self := private.this_instance(v_runner.instance_id, p_request_id);
  if v_runner.is_open and v_self.free > 0 then
    v_wanted := least(p_slots, v_self.free);
    -- So many lanes hold the next jobs; the runners of three more lanes are woken.
    v_lanes := private.open_lanes(v_runner.worker_id, v_self, v_wanted + 3);
  end if;
  if v_lanes <> '{}' then
    v_jobs := private.take_jobs(v_runner, p_request_id, v_lanes, v_wanted);
    if cardinality(v_jobs) = v_wanted then perform private.ring_on(v_lanes); end if;
  end if;
  return json_build_object('jobs', case when v_jobs <> '{}' then private.record_claims(v_runner, v_self.name, v_jobs)
    else private.claimed_json(v_runner.instance_id, p_request_id) end);
end;
$$;
comment on function private.worker_claim is
  'Claims up to so many jobs. Repeating a request id gets the same answer, so that a lost reply strands no job.';

-- When the lease of an attempt ends: as long as it was given, or as the last heartbeat of its session holds. An
-- instance without any has lost it in a crash of the server, and no lease ends within the grace after that.
create function private.lease_ends_at(p_live private.live_jobs) returns timestamptz language sql stable as $$
  select greatest(p_live.lease_until, private.lease() + case when h.instance_id is null then private.grace_began_at()
    when h.session_id = p_live.session_id then h.last_seen_at end)
  from (select) as one left join private.heartbeats as h on h.instance_id = p_live.instance_id
$$;

create function private.worker_job(p_job bigint, p_attempt integer, p_has_payload boolean default true) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs := private.owned_job(v_runner, p_job, p_attempt);
  v_answer pg_catalog.jsonb;
begin
  -- In the middle of a change the executor keeps its attempt alive, with or without its runner.
  if v_live.has_touched and private.jwt() ->> 'role' = 'executor' then
    update private.live_jobs as q set lease_until = now() + private.lease(), unlisted_at = null
    where q.job_id = p_job;
  end if;
  v_answer := jsonb_build_object('cancel_kind', v_live.cancel_kind, 'has_touched', v_live.has_touched,
    'heartbeat_seconds', 15, 'lease_seconds', greatest(0, round(extract(epoch from private.lease_ends_at(v_live)
      - now()))));
  if p_has_payload then
    select private.job_for_runner(j, o.slug)::pg_catalog.jsonb || v_answer into v_answer
    from public.provision_jobs as j join public.organizations as o on o.id = j.org_id
    where j.id = p_job;
  end if;
  return v_answer;
end;
$$;
comment on function private.worker_job is
  'A running attempt as the claim gave it, whether it touched infrastructure, how to cancel it, and how long its '
  'runner''s last heartbeat holds.';
