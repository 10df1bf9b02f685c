-- Heads: of the jobs that act on one state, one at a time is ready or runs; the others wait behind it.
-- Whoever changes a state's queue holds the state's lock, and lets the most urgent of those that wait be next.
set lock_timeout = '5s';
set statement_timeout = '60s';

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

create function private.make_ready(p_job bigint)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_lane integer;
begin
  select * into v_job from public.provision_jobs as j where j.id = p_job;
  v_lane := private.lane_of(v_job);
  update private.live_jobs as q
  set stage = 'READY', lane_id = v_lane, ready_seq = nextval('private.ready_seq'), not_before_at = null
  where q.job_id = p_job and q.stage in ('WAITING', 'BACKOFF');
  if found then
    perform private.ring_lane(v_lane);
  end if;
end;
$$;
comment on function private.make_ready(bigint) is
  'Puts a job at the end of its lane and wakes the runners of that lane.';

-- In two parts, because there are two indexes.
create view private.states_in_use as
select q.state_key from private.live_jobs as q where q.stage <> 'WAITING'
union all
select q.state_key from private.live_jobs as q where q.stage = 'WAITING';
comment on view private.states_in_use is 'States that a job is queued, running or held for.';
comment on column private.states_in_use.state_key is 'What only one job at a time may act on.';

create view private.locked_states as
select l.module_id as state_key from private.state_locks as l
where not exists (select from private.live_jobs as q where q.job_id = l.job_id);
comment on view private.locked_states is
  'States that a job which is over has left locked. Until somebody unlocks one, no other job may begin.';
comment on column private.locked_states.state_key is 'The state: a module.';

create function private.is_state_in_use(p_state uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (select from private.states_in_use as u where u.state_key = p_state);
end;
$$;
comment on function private.is_state_in_use(uuid) is 'Whether a job is queued, running or held for a state.';

create function private.is_state_locked(p_state uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (select from private.locked_states as l where l.state_key = p_state);
end;
$$;
comment on function private.is_state_locked(uuid) is
  'Whether a job that is over has left the state locked.';

create function private.refresh_head(p_state uuid)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_next private.live_jobs;
  v_head private.live_jobs;
begin
  select * into v_next from private.live_jobs as q
  where q.state_key = p_state and q.stage = 'WAITING' order by q.priority, q.job_id limit 1;
  if v_next.job_id is null or private.is_state_locked(p_state) then
    return;
  end if;
  select * into v_head from private.live_jobs as q where q.state_key = p_state and q.stage <> 'WAITING';
  if v_head.job_id is not null then
    -- Somebody more urgent takes the place of one that has not begun; one that runs is never displaced.
    update private.live_jobs as q set stage = 'WAITING', lane_id = null
    where q.job_id = v_head.job_id and q.stage in ('READY', 'BACKOFF') and q.priority > v_next.priority;
    if not found then
      return;
    end if;
  end if;
  if v_next.not_before_at > now() then
    update private.live_jobs as q set stage = 'BACKOFF' where q.job_id = v_next.job_id;
  else
    perform private.make_ready(v_next.job_id);
  end if;
end;
$$;
comment on function private.refresh_head(uuid) is
  'Makes the most urgent waiting job of a state its next one, if none is next, running or held. The caller holds the '
  'state''s lock.';

create function private.state_key(p_job public.provision_jobs)
returns uuid
language plpgsql immutable
set search_path = ''
as $$
begin
  -- A look at a state whose last job needs attention must be able to run while that job holds the state.
  return case when p_job.payload #>> '{options,inspects}' is not null
    then md5('inspect:' || p_job.module_id)::pg_catalog.uuid
    else coalesce(p_job.module_id, p_job.target_worker_id, p_job.target_identity_id) end;
end;
$$;
comment on function private.state_key(public.provision_jobs) is 'What only one job at a time may act on.';

create function private.lock_job_states(p_jobs bigint[])
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.lock_states(q.org_id, q.states) from (
    select q.org_id, array_agg(q.state_key) as states from private.live_jobs as q where q.job_id = any (p_jobs)
    group by q.org_id order by q.org_id
  ) as q;
end;
$$;
comment on function private.lock_job_states(bigint[]) is
  'Serialises what happens to the queues of these jobs'' states.';

create function private.try_lock_state(p_org uuid, p_state uuid)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  return pg_try_advisory_xact_lock_shared(private.lock_key('routing'))
    and pg_try_advisory_xact_lock_shared(private.lock_key('routing', p_org::pg_catalog.text))
    and pg_try_advisory_xact_lock(private.lock_key('state', p_state::pg_catalog.text));
end;
$$;
comment on function private.try_lock_state(uuid, uuid) is 'The same locks as lock_state, if they can be had at once.';

create function private.try_lock_job(p_job private.live_jobs)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  -- The row is asked again behind the lock: meanwhile it may have been given back, taken by another or displaced.
  return private.try_lock_state(p_job.org_id, p_job.state_key) and exists (
    select from private.live_jobs as q
    where q.job_id = p_job.job_id and q.stage = p_job.stage and q.attempt = p_job.attempt for update skip locked);
end;
$$;
comment on function private.try_lock_job(private.live_jobs) is
  'Locks a job and the queue of its state, if that can be had at once and the job still stands where it stood when it '
  'was looked at.';

create function private.need_pinned_runner(p_job public.provision_jobs)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.fail('RY409', format('The runner that it is pinned to, "%s", was removed.', w.name),
    'Nothing could run it. Enqueue a new job: it goes where the module''s jobs go now.')
  from public.workers as w where w.id = p_job.pinned_worker_id and w.removed_at is not null;
end;
$$;
comment on function private.need_pinned_runner(public.provision_jobs) is
  'Refuses to queue a job again that would wait for ever for a runner that is gone.';

revoke execute on all functions in schema private from public;
