-- The claim: exactly one runner gets a job, and it is the right one.
-- Rules that change rarely are in lane_workers already. What is left for the moment of the claim: is this runner open, has
-- it a free slot, and is nobody nearer available for the lane. A read-only look comes first, so that idle runners that
-- poll write nothing. Then lock, then count in the *next* statement: counting in the same statement counts what was
-- there before the lock was got, and broke a limit of 4 in 58 of 60 rounds.
-- The planner switches on the entry points are part of the design: a connection that lives for days must not keep the plan
-- that was right when the table was empty, nor plan again for every call. Every statement in there is an index lookup.
set lock_timeout = '5s';

create function private.is_available(p_worker uuid, p_instance_name text)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (
    select from public.workers as w join private.instance_liveness as i on i.worker_id = w.id
    where w.id = p_worker and w.removed_at is null and not w.is_disabled and not w.is_draining
      and i.is_fresh and not i.is_draining and (p_instance_name is null or i.name = p_instance_name) and i.used < i.capacity
  );
end;
$$;
comment on function private.is_available(uuid, text) is 'Whether a runner could take a job now: enabled, not draining, a fresh instance with a free slot.';

create function private.has_nearer(p_lane integer, p_distance smallint)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (
    select from private.lane_workers as n
    where n.lane_id = p_lane and n.distance < p_distance and private.is_available(n.worker_id, n.instance_name)
  );
end;
$$;
comment on function private.has_nearer(integer, smallint) is 'Whether a runner nearer than this is available for the lane. The claim and the explanation both use it.';

create function private.open_lanes(p_worker uuid, p_instance_name text)
returns integer[]
language plpgsql stable
set search_path = ''
as $$
begin
  return (
    select array_agg(lw.lane_id) from private.lane_workers as lw
    where lw.worker_id = p_worker
      and (lw.instance_name is null or lw.instance_name = p_instance_name)
      and exists (select from private.live_jobs as q where q.lane_id = lw.lane_id and q.stage = 'READY')
      and (lw.distance = 0 or not private.has_nearer(lw.lane_id, lw.distance))
  );
end;
$$;
comment on function private.open_lanes(uuid, text) is 'Lanes that have a ready job which this instance may take now: nobody nearer is available.';

create function private.pick_jobs(p_lanes integer[], p_count integer)
returns bigint[]
language plpgsql
set search_path = ''
as $$
begin
  if cardinality(p_lanes) = 1 then
    return array(
      select q.job_id from private.live_jobs as q
      where q.stage = 'READY' and q.lane_id = p_lanes[1]
      order by q.priority, q.ready_seq limit p_count for update skip locked);
  end if;
  -- Look first how many to take from which lane, so that no job is locked that will not be taken: another runner
  -- that skipped it would go to sleep beside work.
  return array(
    with wanted as materialized (
      select c.lane_id, count(*) as n from (
        select c.lane_id from unnest(p_lanes) as l (lane_id)
        cross join lateral (
          select q.lane_id, q.priority, q.ready_seq from private.live_jobs as q
          where q.stage = 'READY' and q.lane_id = l.lane_id order by q.priority, q.ready_seq limit p_count
        ) as c
        order by c.priority, c.ready_seq limit p_count
      ) as c group by c.lane_id
    )
    select c.job_id from wanted as w
    cross join lateral (
      select q.job_id from private.live_jobs as q
      where q.stage = 'READY' and q.lane_id = w.lane_id
      order by q.priority, q.ready_seq limit w.n for update skip locked
    ) as c);
end;
$$;
comment on function private.pick_jobs(integer[], integer) is 'Locks the next jobs of these lanes, in order of priority and of becoming ready.';

create function private.job_for_runner(p_job public.provision_jobs, p_org_slug text)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return jsonb_build_object(
    'id', p_job.id, 'attempt', p_job.attempt, 'type', p_job.type, 'lease_seconds', 60, 'org_id', p_job.org_id, 'org_slug', p_org_slug,
    'module_id', p_job.module_id, 'module_path', p_job.module_path, 'group_path', p_job.group_path, 'target_worker_id', p_job.target_worker_id,
    'payload', p_job.payload, 'plan_job_id', p_job.plan_job_id, 'labels', p_job.labels, 'max_attempts', p_job.max_attempts,
    'created_by_label', p_job.created_by_label);
end;
$$;
comment on function private.job_for_runner(public.provision_jobs, text) is 'A job as its runner gets it.';

create function private.take_jobs(p_runner private.runner, p_request uuid, p_jobs bigint[])
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
begin
  with taken as (
    update private.live_jobs as q set
      stage = 'RUNNING', lane_id = null, attempt = q.attempt + 1, worker_id = p_runner.worker_id, instance_id = p_runner.instance_id,
      session_id = p_runner.session_id, claim_request_id = p_request, claimed_at = now(), lease_until = now() + interval '60 seconds',
      log_day = (now() at time zone 'utc')::pg_catalog.date, has_touched = false, unlisted_at = null
    where q.job_id = any (p_jobs)
    returning q.job_id, q.attempt, q.lease_until, q.ready_seq
  ), marked as (
    update public.provision_jobs as j set
      status = 'CLAIMED', attempt = t.attempt, worker_id = p_runner.worker_id, worker_name = p_runner.worker_name,
      instance_id = p_runner.instance_id, instance_name = p_runner.instance_name, claimed_at = now(), lease_until = t.lease_until,
      started_at = null, phase = null, steps = '[]', last_log_seq = 0, not_before_at = null
    from taken as t where j.id = t.job_id
    returning j as job, t.ready_seq
  ), noted as (
    insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status, to_status, reason)
    select (m.job).org_id, (m.job).id, (m.job).attempt, 'worker', p_runner.worker_id, p_runner.worker_name, 'claimed', 'QUEUED', 'CLAIMED',
      'Instance ' || p_runner.instance_name
    from marked as m
  )
  select jsonb_agg(private.job_for_runner(m.job, o.slug) order by (m.job).priority, m.ready_seq) into v_answer
  from marked as m join public.organizations as o on o.id = (m.job).org_id;
  return v_answer;
end;
$$;
comment on function private.take_jobs(private.runner, uuid, bigint[]) is 'Gives locked jobs to the runner: a new attempt, a lease, an event. Answers them as the runner gets them.';

create function private.claimed_json(p_instance uuid, p_request uuid)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (
    select coalesce(jsonb_agg(private.job_for_runner(j, o.slug) order by j.priority, q.ready_seq), '[]')
    from private.live_jobs as q
    join public.provision_jobs as j on j.id = q.job_id
    join public.organizations as o on o.id = j.org_id
    where q.instance_id = p_instance and q.stage = 'RUNNING' and q.claim_request_id = p_request
  );
end;
$$;
comment on function private.claimed_json(uuid, uuid) is 'What a claim took: a repeated claim gets the same answer.';

create function private.claim_jobs(p_runner private.runner, p_request uuid, p_slots integer)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_lanes integer[];
  v_free integer;
  v_is_repeated boolean;
  v_jobs bigint[];
begin
  if p_request is null or coalesce(p_slots, 0) not between 1 and 256 then
    perform private.fail('RY422', 'A claim needs a request id and 1 to 256 slots.');
  end if;
  select p_runner.capacity - count(*), coalesce(bool_or(q.claim_request_id = p_request), false) into v_free, v_is_repeated
  from private.live_jobs as q where q.instance_id = p_runner.instance_id and q.stage = 'RUNNING';
  if v_is_repeated then
    return private.claimed_json(p_runner.instance_id, p_request);
  end if;
  if v_free <= 0 or not coalesce(p_runner.is_free, false) then
    return '[]';
  end if;
  v_lanes := private.open_lanes(p_runner.worker_id, p_runner.instance_name);
  if v_lanes is null then
    return '[]';
  end if;
  perform pg_advisory_xact_lock(private.lock_key('instance', p_runner.instance_id));
  select p_runner.capacity - count(*), coalesce(bool_or(q.claim_request_id = p_request), false) into v_free, v_is_repeated
  from private.live_jobs as q where q.instance_id = p_runner.instance_id and q.stage = 'RUNNING';
  if v_is_repeated then
    return private.claimed_json(p_runner.instance_id, p_request);
  end if;
  v_jobs := case when v_free > 0 then private.pick_jobs(v_lanes, least(v_free, p_slots)) end;
  return case when coalesce(v_jobs, '{}') = '{}' then '[]' else private.take_jobs(p_runner, p_request, v_jobs) end;
end;
$$;
comment on function private.claim_jobs(private.runner, uuid, integer) is 'Claims up to so many jobs for the calling instance. The same request id gets the same answer.';

create function private.worker_claim(p_request_id uuid, p_slots integer)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  return jsonb_build_object('jobs', private.claim_jobs(private.this_runner(), p_request_id, p_slots));
end;
$$;
comment on function private.worker_claim(uuid, integer) is 'Body of public.worker_claim.';
grant execute on function private.worker_claim(uuid, integer) to worker;
create function public.worker_claim(p_request_id uuid, p_slots integer default 1)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_claim(p_request_id, p_slots); end $$;
comment on function public.worker_claim(uuid, integer) is
  'Claims up to so many jobs. Repeating a request id gets the same answer, so that a lost reply strands no job.';
grant execute on function public.worker_claim(uuid, integer) to worker;

revoke execute on all functions in schema private, public from public;
