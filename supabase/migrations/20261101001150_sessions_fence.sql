-- The fence: which attempt of a job a caller may speak for. Every call of a runner or an executor about a job passes
-- it; it is what makes requeueing safe, and what lets an attempt that was out of contact come back before a person
-- released it.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.check_scope(p_job bigint, p_attempt integer)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if v_claims ->> 'role' in ('executor', 'engine')
    and (v_claims ->> 'job', v_claims ->> 'att') is distinct from (p_job::pg_catalog.text, p_attempt::pg_catalog.text)
      then
    perform private.fail('RY403', format('This credential is not for attempt %s of job %s.', p_attempt, p_job),
      'An executor or an engine works on the one job that it was started for.');
  end if;
end;
$$;
comment on function private.check_scope(bigint, integer) is
  'Refuses an executor (a process that a runner started for one job) or an engine (what that job runs) that names '
  'another job or attempt than its token does.';

create function private.known_job(p_runner private.runner, p_job bigint)
returns public.provision_jobs
language sql stable
set search_path = ''
as $$
  select j.* from public.provision_jobs as j
  where j.id = p_job and (j.org_id = p_runner.org_id or exists (
    select from public.job_events as e where e.job_id = j.id and e.event = 'claimed'
      and e.actor_id = p_runner.worker_id))
$$;
comment on function private.known_job(private.runner, bigint) is
  'A job that a runner may hear about: of its organisation, or once given to it. Null for every other, as for one '
  'that does not exist.';

create function private.resume_held(p_runner private.runner, p_job bigint, p_attempt integer)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  -- Without waiting, because a heartbeat asks, too: whoever must not miss it holds the row already.
  update private.live_jobs as q set
    stage = 'RUNNING', session_id = p_runner.session_id, unlisted_at = null, lease_until = now() + interval '60 seconds'
  where q.job_id = (
    select h.job_id from private.live_jobs as h
    where h.job_id = p_job and h.attempt = p_attempt and h.stage = 'HELD' and h.instance_id = p_runner.instance_id
      for update skip locked);
  if not found then
    return;
  end if;
  update public.provision_jobs set status = 'PROCESSING', error = null where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, 'resumed', 'NEEDS_ATTENTION', 'PROCESSING', 'worker', p_runner.worker_id,
    p_runner.worker_name, 'The runner is in contact again and still has this attempt.');
end;
$$;
comment on function private.resume_held(private.runner, bigint, integer) is
  'The attempt that holds a job has come back before a person released it: it goes on, and its end will be believed.';

create function private.locked_job(p_runner private.runner, p_job bigint, p_attempt integer)
returns private.live_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_live private.live_jobs;
begin
  -- The lock keeps sweep and cancel out until this call has written what it came to write. A job of somebody else is
  -- not touched: whoever guesses numbers must not hold up other runners.
  select * into v_live from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = p_runner.instance_id for update;
  if v_live.stage = 'HELD' then
    perform private.resume_held(p_runner, p_job, p_attempt);
    select * into v_live from private.live_jobs as q where q.job_id = p_job;
  end if;
  return v_live;
end;
$$;
comment on function private.locked_job(private.runner, bigint, integer) is
  'The row of a job of this instance, locked; the attempt that holds it goes on, if it is the one that asks. Null '
  'where the job is over or another''s.';

create function private.fenced_job(p_runner private.runner, p_job bigint, p_attempt integer)
returns private.live_jobs
language plpgsql stable
set search_path = ''
as $$
declare
  v_live private.live_jobs;
begin
  perform private.check_scope(p_job, p_attempt);
  select * into v_live from private.live_jobs as q
  where q.job_id = p_job and q.attempt = p_attempt
    and (q.stage = 'RUNNING' and q.session_id = p_runner.session_id or q.stage = 'HELD'
      and q.instance_id = p_runner.instance_id);
  if v_live.job_id is null then
    perform private.fail('RY410', format('Attempt %s of job %s is not this runner''s any more.', p_attempt, p_job),
      'Stop working on it; what it wrote until now is kept.',
      (select jsonb_build_object('job', j.id, 'attempt', j.attempt, 'status', j.status)::pg_catalog.text
        from private.known_job(p_runner, p_job) as j where j.id is not null));
  end if;
  return v_live;
end;
$$;
comment on function private.fenced_job(private.runner, bigint, integer) is
  'The fence: the attempt that holds the job, if it is this session''s, or this instance''s while a person is waited '
  'for. It makes requeueing safe.';

create function private.owned_job(p_runner private.runner, p_job bigint, p_attempt integer)
returns private.live_jobs
language plpgsql
set search_path = ''
as $$
begin
  perform private.locked_job(p_runner, p_job, p_attempt);
  return private.fenced_job(p_runner, p_job, p_attempt);
end;
$$;
comment on function private.owned_job(private.runner, bigint, integer) is
  'The running attempt behind the fence, locked for what the call has to write.';

revoke execute on all functions in schema private from public;
