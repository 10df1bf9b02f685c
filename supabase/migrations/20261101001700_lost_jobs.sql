-- Jobs that come back: given back by their runner, or lost with it. Lost before infrastructure was touched: tried again
-- after a pause that grows, until the attempts are used up or two different runners have died of it. Lost after: a
-- person decides, and the state stays locked. A runner that was started again may still say what it knows about the
-- jobs it had.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.requeue_job(
  p_live private.live_jobs, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text, p_reason text,
    p_delay interval
)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_old public.job_status;
  v_job public.provision_jobs;
begin
  select status into v_old from public.provision_jobs where id = p_live.job_id for no key update;
  update public.provision_jobs set
    status = 'QUEUED', queued_at = now(), phase = null, lease_until = null,
    not_before_at = case when p_delay > interval '0' then now() + p_delay end
  where id = p_live.job_id returning * into v_job;
  perform private.record_job_event(v_job, p_event, v_old, 'QUEUED', p_kind, p_actor, p_label, p_reason,
    jsonb_build_object('worker_id', p_live.worker_id, 'delay_seconds', extract(epoch from p_delay)));
  update private.live_jobs as q set
    stage = case when p_delay > interval '0' then 'BACKOFF' else 'WAITING' end::private.job_stage,
    returned = q.returned + (p_event = 'returned')::integer, not_before_at = v_job.not_before_at, has_touched = false,
      cancel_kind = null,
    worker_id = null, instance_id = null, session_id = null, claim_request_id = null, unlisted_at = null,
      lease_until = null
  where q.job_id = p_live.job_id;
  perform private.refresh_head(p_live.state_key);
end;
$$;
comment on function private.requeue_job(private.live_jobs, text, public.actor_kind, uuid, text, text, interval) is
  'Puts a job back into its queue, at once or after a pause. The caller holds the state''s lock.';

create function private.hold_job(p_live private.live_jobs, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  update private.live_jobs as q set stage = 'HELD', session_id = null where q.job_id = p_live.job_id;
  update public.provision_jobs set status = 'NEEDS_ATTENTION', lease_until = null, error = jsonb_build_object(
    'code', 'RUNNER_LOST', 'message', p_reason, 'hint', 'Look at what is there with a refresh-only plan, then decide.')
  where id = p_live.job_id returning * into v_job;
  perform private.record_job_event(v_job, 'attention', 'PROCESSING', 'NEEDS_ATTENTION', 'system', null, 'system',
    p_reason,
    jsonb_build_object('worker_id', p_live.worker_id, 'phase', v_job.phase));
  update public.rollouts set status = 'PAUSED', reason = format('Job %s needs attention.', v_job.id)
    where id = v_job.rollout_id
    and status = 'RUNNING';
end;
$$;
comment on function private.hold_job(private.live_jobs, text) is
  'A job died while it changed infrastructure: nobody runs it again by itself, and its state stays locked.';

create function private.lost_workers(p_job bigint)
returns integer
language sql stable
set search_path = ''
as $$
  select count(distinct e.detail ->> 'worker_id')::integer from public.job_events as e where e.job_id = p_job
    and e.event = 'lost'
$$;
comment on function private.lost_workers(bigint) is 'How many different runners were lost while they ran this job.';

create function private.lose_job(p_job bigint, p_reason text)
returns text
language plpgsql
set search_path = ''
as $$
declare
  v_live private.live_jobs;
  v_max integer;
  v_module pg_catalog.uuid;
begin
  select * into v_live from private.live_jobs as q where q.job_id = p_job;
  if v_live.job_id is null then
    return 'gone';
  end if;
  perform private.lock_state(v_live.org_id, v_live.state_key);
  select * into v_live from private.live_jobs as q where q.job_id = p_job for update;
  if v_live.job_id is null or v_live.stage = 'HELD' then
    return 'gone';
  end if;
  if v_live.stage <> 'RUNNING' then
    perform private.end_job(p_job, 'FAILED', 'failed', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'RUNNER_REMOVED', 'message', p_reason));
    return 'failed';
  end if;
  if v_live.has_touched then
    perform private.hold_job(v_live, p_reason);
    return 'attention';
  end if;
  select j.max_attempts, j.module_id into v_max, v_module from public.provision_jobs as j where j.id = p_job;
  perform private.release_state(v_module, p_job);
  if v_live.cancel_kind is not null then
    perform private.end_job(p_job, 'CANCELLED', 'cancelled', 'system', null, 'system', p_reason);
    return 'cancelled';
  end if;
  if private.lost_workers(p_job) >= 1 and not exists (
    select from public.job_events as e where e.job_id = p_job and e.event = 'lost'
      and e.detail ->> 'worker_id' = v_live.worker_id::pg_catalog.text
  ) then
    perform private.end_job(p_job, 'FAILED', 'quarantined', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'QUARANTINED',
      'message', 'Two different runners were lost while they ran this job.', 'hint', 'Find out what it does to them before you retry it.'));
    return 'quarantined';
  end if;
  if v_live.attempt - v_live.returned >= v_max then
    perform private.end_job(p_job, 'FAILED', 'exhausted', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'ATTEMPTS_EXHAUSTED',
      'message', format('The runner was lost, and this was attempt %s of %s.', v_live.attempt - v_live.returned, v_max), 'hint',
        'Retry it when the runners are well.'));
    return 'exhausted';
  end if;
  perform private.requeue_job(v_live, 'lost', 'system', null, 'system', p_reason,
    make_interval(secs => least(300, 5 * 2 ^ (v_live.attempt - v_live.returned - 1)) * (0.8 + random() * 0.4)));
  return 'requeued';
end;
$$;
comment on function private.lose_job(bigint, text) is
  'What happens to a job whose runner is gone: attention if infrastructure was touched, else cancelled, quarantined, failed for good, or queued again.';

create function private.worker_return_job(p_job bigint, p_attempt integer, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs;
begin
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q where q.job_id = p_job;
  v_live := private.owned_job(v_runner, p_job, p_attempt);
  if v_live.has_touched then
    perform private.fail('RY409', 'This attempt has begun to change infrastructure; it cannot be given back.',
      'Finish it, or report what happened.');
  end if;
  -- Somebody asked it to stop, and it has: it is not offered again.
  if v_live.cancel_kind is not null then
    perform private.end_job(p_job, 'CANCELLED', 'cancelled', 'worker', v_runner.worker_id, v_runner.worker_name,
      coalesce(p_reason, 'Given back'));
    return jsonb_build_object('status', 'CANCELLED');
  end if;
  perform private.release_state(v_live.state_key, p_job);
  perform private.requeue_job(v_live, 'returned', 'worker', v_runner.worker_id, v_runner.worker_name,
    coalesce(p_reason, 'Given back'),
    interval '0');
  return jsonb_build_object('status', 'QUEUED');
end;
$$;
comment on function private.worker_return_job(bigint, integer, text) is 'Body of public.worker_return_job.';
grant execute on function private.worker_return_job(bigint, integer, text) to worker;

create function private.release_with_proof(p_module uuid, p_lock_id text)
returns private.state_locks
language plpgsql
set search_path = ''
as $$
declare
  v_lock private.state_locks;
begin
  select * into v_lock from private.state_locks where module_id = p_module for update;
  if v_lock.module_id is null then
    perform private.fail('RY404', 'The state is not locked.');
  end if;
  if v_lock.lock_id is distinct from p_lock_id then
    perform private.fail('RY422', 'That is not the id of the lock that is held.',
      'Copy it from the state''s page, so that nobody releases a lock they have not looked at.');
  end if;
  if exists (select from private.live_jobs as q where q.job_id = v_lock.job_id and q.stage = 'RUNNING') then
    perform private.fail('RY409', format('Job %s is running and holds the lock.', v_lock.job_id),
      'Cancel it first; its lock goes with it.');
  end if;
  delete from private.state_locks where module_id = p_module;
  perform private.refresh_head(p_module);
  return v_lock;
end;
$$;
comment on function private.release_with_proof(uuid, text) is
  'Releases a state lock for somebody who knows its id, and never under a running job.';

-- ---------------------------------------------------------------------------------------------- a runner that came back

create function private.check_running(p_running jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if jsonb_typeof(p_running) <> 'array' or jsonb_array_length(case jsonb_typeof(p_running) when 'array'
    then p_running end) > 1000
    or exists (
    select from jsonb_array_elements(case jsonb_typeof(p_running) when 'array' then p_running end) as l
    where coalesce(l ->> 'job', '') !~ '^[0-9]{1,18}$' or coalesce(l ->> 'attempt', '') !~ '^[0-9]{1,9}$'
      or coalesce(l ->> 'is_dead', 'true') not in ('true', 'false')
  ) then
    perform private.fail('RY422', 'What runs is a list of at most 1,000 jobs with their attempts.',
      'Send [{"job": 1, "attempt": 1}], or [] for nothing.');
  end if;
end;
$$;
comment on function private.check_running(jsonb) is 'Refuses a list of attempts that cannot be read.';

create function private.worker_recover(p_running jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_answer pg_catalog.jsonb;
  v_job bigint;
begin
  perform private.check_running(p_running);
  for v_job in
    select q.job_id from private.live_jobs as q
    left join jsonb_array_elements(coalesce(p_running, '[]')) as l
      on q.job_id = (l ->> 'job')::bigint and q.attempt = (l ->> 'attempt')::integer
    where q.stage = 'RUNNING' and q.instance_id = v_runner.instance_id and ((l ->> 'is_dead')::boolean or l is null
      and q.claimed_at < (
      select s.opened_at from private.sessions as s where s.id = v_runner.session_id))
    order by q.state_key
  loop
    perform private.lose_job(v_job, 'The runner''s process ended in the middle of this attempt.');
  end loop;
  update private.live_jobs as q set session_id = v_runner.session_id, unlisted_at = null
  from jsonb_array_elements(coalesce(p_running, '[]')) as l
  where q.stage = 'RUNNING' and q.instance_id = v_runner.instance_id and q.job_id = (l ->> 'job')::bigint
    and q.attempt = (l ->> 'attempt')::integer;
  select coalesce(jsonb_agg(jsonb_build_object('job', l ->> 'job', 'attempt', l ->> 'attempt', 'status', j.status,
    'action', case when q.job_id is null then 'drop' else 'report' end, 'has_touched', q.has_touched)), '[]') into v_answer
  from jsonb_array_elements(coalesce(p_running, '[]')) as l
  left join private.live_jobs as q on q.job_id = (l ->> 'job')::bigint and q.attempt = (l ->> 'attempt')::integer
    and q.session_id = v_runner.session_id and q.stage = 'RUNNING'
  left join lateral private.known_job(v_runner, (l ->> 'job')::bigint) as j on true;
  return jsonb_build_object('jobs', v_answer);
end;
$$;
comment on function private.worker_recover(jsonb) is 'Body of public.worker_recover.';
grant execute on function private.worker_recover(jsonb) to worker;

revoke execute on all functions in schema private from public;
