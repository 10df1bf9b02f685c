-- Heads: of the jobs that act on one state, one at a time is ready or runs; the others wait behind it.
-- Whoever changes a state's queue holds the state's lock, and lets the most urgent of those that wait be next.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.next_ready_seq()
returns bigint
language plpgsql
set search_path = ''
as $$
begin
  -- The transaction gets its id before the number: who knows the ids in flight then knows the numbers in flight.
  return case when pg_current_xact_id() is not null then nextval('private.ready_seq') end;
end;
$$;
comment on function private.next_ready_seq() is 'The next number in the order of becoming ready.';

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
  set stage = 'READY', lane_id = v_lane, ready_seq = private.next_ready_seq(), not_before_at = null
  where q.job_id = p_job and q.stage in ('WAITING', 'BACKOFF');
  if found then
    perform private.ring_lane(v_lane);
  end if;
end;
$$;
comment on function private.make_ready(bigint) is 'Puts a job at the end of its lane and wakes the runners of that lane.';

create function private.is_state_in_use(p_state uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  -- Two questions, because there are two indexes.
  return exists (select from private.live_jobs as q where q.state_key = p_state and q.stage <> 'WAITING')
    or exists (select from private.live_jobs as q where q.state_key = p_state and q.stage = 'WAITING');
end;
$$;
comment on function private.is_state_in_use(uuid) is 'Whether a job is queued, running or held for a state.';

create function private.is_state_locked(p_state uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return exists (
    select from private.state_locks as l
    where l.module_id = p_state and not exists (select from private.live_jobs as q where q.job_id = l.job_id)
  );
end;
$$;
comment on function private.is_state_locked(uuid) is
  'Whether a job that is over has left the state locked. Until somebody unlocks it, no other job may begin.';

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
  'Makes the most urgent waiting job of a state its next one, if none is next, running or held. The caller holds the state''s lock.';

revoke execute on all functions in schema private from public;
