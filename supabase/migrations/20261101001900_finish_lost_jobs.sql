-- Jobs that come back: given back by their runner, or lost with it. Lost before infrastructure was touched: tried again
-- after a pause that grows, until the attempts are used up or two different runners have died of it. Lost after: a
-- person decides, and the state stays locked.
-- A runner that was started again may still say what it knows about the jobs it had. One that was only out of contact
-- goes on: inside of apply and destroy nobody else ever gets the job by itself, so its end is believed whenever it
-- comes, until a person has released the job.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.requeue_job(
  p_live private.live_jobs, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text, p_reason text,
    p_delay interval,
  p_code text default null
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
    jsonb_strip_nulls(jsonb_build_object('worker_id', p_live.worker_id, 'delay_seconds', extract(epoch from p_delay),
      'code', p_code)));
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
comment on function private.requeue_job(private.live_jobs, text, public.actor_kind, uuid, text, text, interval, text) is
  'Puts a job back into its queue, at once or after a pause; the code is what its runner lacked. The caller holds the '
  'state''s lock.';

create function private.hold_job(p_live private.live_jobs, p_event text, p_reason text, p_error jsonb)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  -- After the engine's own end nobody comes back; after silence the same instance may.
  update private.live_jobs as q set
    stage = 'HELD', session_id = null, instance_id = case when p_event = 'attention' then q.instance_id end
  where q.job_id = p_live.job_id;
  update public.provision_jobs set status = 'NEEDS_ATTENTION', lease_until = null, error = p_error
  where id = p_live.job_id returning * into v_job;
  perform private.record_job_event(v_job, p_event, 'PROCESSING', 'NEEDS_ATTENTION', 'system', null, 'system', p_reason,
    jsonb_build_object('worker_id', p_live.worker_id, 'phase', v_job.phase));
  update public.rollouts set status = 'PAUSED', reason = format('Job %s needs attention.', v_job.id)
    where id = v_job.rollout_id
    and status = 'RUNNING';
end;
$$;
comment on function private.hold_job(private.live_jobs, text, text, jsonb) is
  'A job was lost or killed while it changed infrastructure: nobody runs it again by itself, and its state stays '
  'locked.';

create function private.held_words(p_live private.live_jobs, p_reason text)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  v_seen pg_catalog.timestamptz;
  v_job public.provision_jobs;
begin
  select h.last_seen_at into v_seen from private.heartbeats as h where h.instance_id = p_live.instance_id;
  -- A runner that is heard, or that told of its death, is not out of contact.
  if v_seen > now() - interval '60 seconds' or p_live.unlisted_at is not null then
    return jsonb_build_object('code', 'RUNNER_LOST', 'message', p_reason,
      'hint', 'Look at what is there with a refresh-only plan, then decide.');
  end if;
  select * into v_job from public.provision_jobs where id = p_live.job_id;
  v_seen := coalesce(v_seen, p_live.lease_until - interval '60 seconds', now());
  return jsonb_build_object('code', 'OUT_OF_CONTACT', 'since', v_seen, 'message',
    format('Out of contact since %s UTC; the %s goes on at %s as far as we know; its state is kept there.',
      to_char(v_seen at time zone 'UTC', 'HH24:MI:SS'), lower(coalesce(v_job.phase, 'APPLY')::pg_catalog.text),
        v_job.instance_name),
    'hint',
      'When the runner comes back it goes on by itself, and its end counts. If it will not come back, look with a '
      'refresh-only plan, then decide.');
end;
$$;
comment on function private.held_words(private.live_jobs, text) is
  'What is said of a job whose runner is gone in the middle of a change: out of contact since when, or lost.';

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
  v_error pg_catalog.jsonb;
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
    v_error := private.held_words(v_live, p_reason);
    perform private.hold_job(v_live, 'attention', v_error ->> 'message', v_error);
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
      'message', 'Two different runners were lost while they ran this job.', 'hint',
        'Find out what it does to them before you retry it.'));
    return 'quarantined';
  end if;
  if v_live.attempt - v_live.returned >= v_max then
    perform private.end_job(p_job, 'FAILED', 'exhausted', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'ATTEMPTS_EXHAUSTED',
      'message', format('The runner was lost, and this was attempt %s of %s.', v_live.attempt - v_live.returned, v_max),
        'hint', 'Retry it when the runners are well.'));
    return 'exhausted';
  end if;
  perform private.requeue_job(v_live, 'lost', 'system', null, 'system', p_reason,
    make_interval(secs => least(300, 5 * 2 ^ (v_live.attempt - v_live.returned - 1)) * (0.8 + random() * 0.4)));
  return 'requeued';
end;
$$;
comment on function private.lose_job(bigint, text) is
  'What happens to a job whose runner is gone: attention if infrastructure was touched, else cancelled, quarantined, '
  'failed for good, or queued again.';

create function private.given_back(p_job bigint, p_code text)
returns table (runners integer, times integer, words text)
language sql stable
set search_path = ''
as $$
  select count(*)::integer, coalesce(sum(r.times), 0)::integer,
    string_agg(r.actor_label || ': ' || r.reason, '; ' order by r.actor_label)
  from (
    select distinct on (e.actor_id) e.actor_label, e.reason, count(*) over (partition by e.actor_id) as times
    from public.job_events as e
    where e.job_id = p_job and e.event = 'returned' and e.detail ->> 'code' = p_code order by e.actor_id, e.id desc
  ) as r
$$;
comment on function private.given_back(bigint, text) is
  'How many different runners gave a job back for want of the same thing, how often, and in which words.';

create function private.pause_after(p_job bigint, p_code text)
returns interval
language plpgsql stable
set search_path = ''
as $$
begin
  -- A runner that lacks a right stays free and would take the job again at once; what lacks anything else is degraded.
  return case when p_code = 'rights'
    then make_interval(mins => 1 + (select g.times from private.given_back(p_job, p_code) as g))
    else interval '0' end;
end;
$$;
comment on function private.pause_after(bigint, text) is
  'How long a job that was given back waits: until another runner, or somebody who grants the right, can help.';

create function private.worker_return_job(p_job bigint, p_attempt integer, p_reason text, p_code text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs;
  v_back pg_catalog.record;
begin
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  v_live := private.owned_job(v_runner, p_job, p_attempt);
  if coalesce(p_code, '') not in ('', 'not_begun', 'disk', 'work_directory', 'dispatcher', 'image', 'engine',
    'memory', 'rights') then
    perform private.fail('RY422',
      'A runner lacks disk, work_directory, dispatcher, image, engine, memory or rights, or has not begun.',
      'Send one of these, or nothing.');
  end if;
  -- The answer to the report of the change may have been lost, so that the change itself never began: its runner knows.
  if v_live.has_touched and p_code is distinct from 'not_begun' then
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
    left(coalesce(p_reason, 'Given back'), 1000), private.pause_after(p_job, p_code), p_code);
  select * into v_back from private.given_back(p_job, nullif(p_code, 'not_begun'));
  if v_back.runners >= 3 or p_code = 'rights' and v_back.times >= 3 then
    perform private.end_job(p_job, 'FAILED', 'unfit', 'system', null, 'system',
      'It was given back three times for the same reason.', jsonb_build_object('code', 'RUNNERS_UNFIT', 'message',
        format('%s gave this job back: %s',
          case v_back.runners when 1 then 'One runner' else v_back.runners || ' runners' end, v_back.words),
      'hint', 'If they are well otherwise, the job asks for more than they have.'));
    return jsonb_build_object('status', 'FAILED');
  end if;
  return jsonb_build_object('status', 'QUEUED');
end;
$$;
comment on function private.worker_return_job(bigint, integer, text, text) is 'Body of public.worker_return_job.';
grant execute on function private.worker_return_job(bigint, integer, text, text) to worker;

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
  -- Released: the attempt that held it does not come back to it any more.
  update private.live_jobs as q set instance_id = null where q.job_id = v_lock.job_id and q.stage = 'HELD';
  perform private.refresh_head(p_module);
  return v_lock;
end;
$$;
comment on function private.release_with_proof(uuid, text) is
  'Releases a state lock for somebody who knows its id, and never under a running job.';

-- ---------------------------------------------------------------------------------------------- a runner that came
-- back

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
  -- A dead one, too: whoever said "it goes on there as far as we know" learns now that it does not.
  perform private.resume_held(v_runner, (l ->> 'job')::bigint, (l ->> 'attempt')::integer)
  from jsonb_array_elements(coalesce(p_running, '[]')) as l;
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
    'action', case when q.job_id is null then 'drop' else 'report' end, 'has_touched', q.has_touched)),
      '[]') into v_answer
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
