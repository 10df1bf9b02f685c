-- The end of a job: reported by its runner, given back, or lost with its runner; and what follows a plan. Finishing is
-- idempotent by (job, attempt). An attempt that lost its job may still report: the report is kept as late and changes
-- nothing. end_job ends every job.

-- ## jobs that return to the queue
-- Given back by their runner, or lost with it. Lost before infrastructure was touched: tried again
-- after a pause that grows, until the attempts are used up or two different runners have died of it. Lost after: a
-- person decides, and the state stays locked.
-- A runner that was started again may still report what it knows about its jobs. One that was only out of contact
-- continues: inside of apply and destroy no other runner gets the job automatically, so its end counts whenever it
-- comes, until a person has released the job.
-- Puts a job back into its queue, at once or after a pause; the code is what its runner lacked. The caller holds the
-- state's lock.
create function private.requeue_job(
  p_live private.live_jobs, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text, p_reason text, p_delay
  interval, p_code text default null
) returns void language plpgsql as $$
declare
  v_old public.job_status;
  v_job public.provision_jobs;
begin
  select status into v_old from public.provision_jobs where id = p_live.job_id;
  update public.provision_jobs set
    status = 'QUEUED', queued_at = now(), phase = null,
    not_before_at = case when p_delay > interval '0' then now() + p_delay end,
    cancel_kind = null, cancel_requested_at = null, cancel_requested_by = null
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
  delete from private.state_locks as l where l.module_id = v_job.module_id and l.job_id = v_job.id;
  perform private.refresh_next(p_live.state_key);
end;
$$;

-- A job was lost or killed while it changed infrastructure: it is not run again, and its state stays locked.
create function private.hold_job(p_live private.live_jobs, p_event text, p_reason text, p_error jsonb) returns void
language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  -- After the engine's own end nobody returns; after silence the same instance may.
  update private.live_jobs as q set
    stage = 'HELD', session_id = null, instance_id = case when p_event = 'attention' then q.instance_id end
  where q.job_id = p_live.job_id;
  update public.provision_jobs set status = 'NEEDS_ATTENTION', error = p_error
  where id = p_live.job_id returning * into v_job;
  perform private.record_job_event(v_job, p_event, 'PROCESSING', 'NEEDS_ATTENTION', 'system', null, 'system', p_reason,
    jsonb_build_object('worker_id', p_live.worker_id, 'phase', v_job.phase, 'since', p_error -> 'since'));
  update public.rollouts set status = 'PAUSED', reason = format('Job %s needs attention.', v_job.number)
    where id = v_job.rollout_id
    and status = 'RUNNING';
end;
$$;

-- The error of a job that lost its runner in the middle of a change: out of contact since when, or lost.
create function private.held_words(p_live private.live_jobs, p_reason text) returns jsonb language plpgsql stable as $$
declare
  v_seen pg_catalog.timestamptz;
  v_job public.provision_jobs;
begin
  select h.last_seen_at into v_seen from private.heartbeats as h where h.instance_id = p_live.instance_id;
  select * into v_job from public.provision_jobs where id = p_live.job_id;
  -- A runner with a heartbeat, or one that reported its death, is not out of contact.
  if v_seen > now() - private.lease() or p_live.unlisted_at is not null then
    return jsonb_build_object('code', 'RUNNER_LOST', 'message', p_reason, 'since', coalesce((
        -- An attempt that has reported nothing since it returned gave its last sign of life before that.
        select (a.detail ->> 'since')::pg_catalog.timestamptz from public.job_events as r
        join public.job_events as a on a.job_id = r.job_id and a.event = 'attention' and a.id < r.id
        where r.job_id = v_job.id and r.event = 'resumed' and r.at = v_job.updated_at order by a.id desc limit 1),
        v_job.updated_at),
      'hint', 'Look at the infrastructure with a refresh-only plan, then decide.');
  end if;
  v_seen := coalesce(v_seen, p_live.lease_until - private.lease(), now());
  return jsonb_build_object('code', 'OUT_OF_CONTACT', 'since', v_seen, 'message',
    format('Out of contact since %s UTC; the %s may still be running on %s; its state is kept there.',
      to_char(v_seen at time zone 'UTC', 'HH24:MI:SS'), lower(coalesce(v_job.phase, 'APPLY')::pg_catalog.text),
        v_job.instance_name),
    'hint', 'When the runner returns, the apply continues, and its end counts. If it will not return, look with a '
      'refresh-only plan, then decide.');
end;
$$;

-- Ends a lost job that is not tried again: stopped, fatal to two runners, or out of attempts. Null for one that is.
create function private.end_lost(p_live private.live_jobs, p_reason text) returns text language plpgsql as $$
declare
  v_tried integer := p_live.attempt - p_live.returned;
  v_max integer;
begin
  if p_live.cancel_kind is not null then
    perform private.end_job(p_live.job_id, 'CANCELLED', 'cancelled', 'system', null, 'system', p_reason);
    return 'cancelled';
  end if;
  if (select not bool_or(e.detail ->> 'worker_id' = p_live.worker_id::pg_catalog.text) from public.job_events as e
    where e.job_id = p_live.job_id and e.event = 'lost' and e.detail ->> 'worker_id' is not null) then
    perform private.end_job(p_live.job_id, 'FAILED', 'quarantined', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'QUARANTINED',
      'message', 'Two different runners were lost while they ran this job.', 'hint',
        'Find out what it does to them before you retry it.'));
    return 'quarantined';
  end if;
  select j.max_attempts into v_max from public.provision_jobs as j where j.id = p_live.job_id;
  if v_tried >= v_max then
    perform private.end_job(p_live.job_id, 'FAILED', 'exhausted', 'system', null, 'system', p_reason,
      jsonb_build_object('code', 'ATTEMPTS_EXHAUSTED',
      'message', format('The runner was lost, and this was attempt %s of %s.', v_tried, v_max),
        'hint', 'Retry it when the runners are well.'));
    return 'exhausted';
  end if;
  return null;
end;
$$;

-- Decides about a job whose runner was lost: attention if infrastructure was touched, else cancelled, quarantined,
-- failed for good, or queued again.
create function private.lose_job(p_job bigint, p_reason text) returns text language plpgsql as $$
declare
  v_live private.live_jobs;
  v_end pg_catalog.text;
  v_error pg_catalog.jsonb;
begin
  select * into v_live from private.live_jobs as q where q.job_id = p_job;
  if v_live.job_id is null then return 'gone'; end if;
  perform private.lock_state(v_live.org_id, v_live.state_key);
  select * into v_live from private.live_jobs as q where q.job_id = p_job for update;
  if v_live.job_id is null or v_live.stage = 'HELD' then return 'gone'; end if;
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
  v_end := private.end_lost(v_live, p_reason);
  if v_end is not null then return v_end; end if;
  perform private.requeue_job(v_live, 'lost', 'system', null, 'system', p_reason,
    make_interval(secs => least(300, 5 * 2 ^ (v_live.attempt - v_live.returned - 1)) * (0.8 + random() * 0.4)));
  return 'requeued';
end;
$$;

-- Counts the runners that gave a job back for lack of the same thing, and how often; with each runner's reason.
create function private.given_back(p_job bigint, p_code text) returns table (runners integer, times integer, words text)
language sql stable as $$
  select count(*)::integer, coalesce(sum(r.times), 0)::integer,
    string_agg(r.actor_label || ': ' || r.reason, '; ' order by r.actor_label)
  from (
    select distinct on (e.actor_id) e.actor_label, e.reason, count(*) over (partition by e.actor_id) as times
    from public.job_events as e
    where e.job_id = p_job and e.event = 'returned' and e.detail ->> 'code' = p_code order by e.actor_id, e.id desc
  ) as r
$$;

create function private.worker_return_job(
  p_job bigint, p_attempt integer, p_reason text default null, p_code text default null, p_log jsonb default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs;
  v_back pg_catalog.record;
  v_missing pg_catalog.jsonb := '[]';
begin
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  v_live := private.owned_job(v_runner, p_job, p_attempt);
  perform private.fail('RY422',
    'A runner lacks disk, work_directory, dispatcher, image, engine, memory or rights, or has not begun.',
    'Send one of these, or nothing.')
  where coalesce(p_code, '') not in ('', 'not_begun', 'disk', 'work_directory', 'dispatcher', 'image', 'engine',
    'memory', 'rights');
  -- The answer to the report of the change may have been lost, so that the change itself never began: its runner knows.
  perform private.fail('RY409', 'This attempt has begun to change infrastructure; it cannot be given back.',
    'Finish it, or report what happened.') where v_live.has_touched and p_code is distinct from 'not_begun';
  if jsonb_typeof(p_log) = 'object' then
    v_missing := private.check_log(p_job, p_attempt, p_log, private.announced_seq(p_log));
  end if;
  if v_missing <> '[]' then return jsonb_build_object('status', 'PROCESSING', 'missing', v_missing); end if;
  -- Somebody asked it to stop, and it has: it is not offered again.
  if v_live.cancel_kind is not null then
    perform private.end_job(p_job, 'CANCELLED', 'cancelled', 'worker', v_runner.worker_id, v_runner.worker_name,
      left(coalesce(p_reason, 'Given back'), 1000));
    return jsonb_build_object('status', 'CANCELLED');
  end if;
  perform private.requeue_job(v_live, 'returned', 'worker', v_runner.worker_id, v_runner.worker_name,
    left(coalesce(p_reason, 'Given back'), 1000),
    -- A runner that lacks a right stays free and would take the job again at once; others are degraded.
    case when p_code = 'rights' then make_interval(mins => 1 + (select g.times
      from private.given_back(p_job, p_code) as g)) else interval '0' end, p_code);
  select * into v_back from private.given_back(p_job, nullif(p_code, 'not_begun'));
  if v_back.runners >= 3 or p_code = 'rights' and v_back.times >= 3 then
    perform private.end_job(p_job, 'FAILED', 'unfit', 'system', null, 'system',
      'It was given back three times for the same reason.', jsonb_build_object('code', 'RUNNERS_UNFIT', 'message',
        format('%s gave this job back: %s',
          case v_back.runners when 1 then 'One runner' else v_back.runners || ' runners' end, v_back.words),
      'hint', 'If they are well otherwise, the job needs more than they have.'));
    return jsonb_build_object('status', 'FAILED');
  end if;
  return jsonb_build_object('status', 'QUEUED');
end;
$$;
comment on function private.worker_return_job is
  'A runner that must stop, or that lacks something (p_code), gives a job back before it changed anything; the '
  'attempt does not count. Three runners that lack the same end it FAILED; a job with a request to stop ends '
  'CANCELLED. Missing chunks of p_log are named as by worker_finish, and the attempt stays until they came.';

-- Releases a state lock for somebody who knows its id, and never under a running job.
create function private.release_with_proof(p_module uuid, p_lock_id text, out v_lock private.state_locks)
language plpgsql as $$
begin
  select * into v_lock from private.state_locks where module_id = p_module for update;
  perform private.fail('RY404', 'The state is not locked.') where v_lock.module_id is null;
  perform private.fail('RY422', 'That is not the id of the lock that is held.',
    'Copy it from the state''s page, so that nobody releases a lock they have not checked.')
  where v_lock.lock_id is distinct from p_lock_id;
  perform private.fail('RY409', format('Job %s is running and holds the lock.', private.job_number(v_lock.job_id)),
    'Cancel it first; that releases its lock.')
  where exists (select from private.live_jobs as q where q.job_id = v_lock.job_id and q.stage = 'RUNNING');
  delete from private.state_locks where module_id = p_module;
  -- Released: the attempt that held it does not return to it any more.
  update private.live_jobs as q set instance_id = null where q.job_id = v_lock.job_id and q.stage = 'HELD';
  perform private.refresh_next(p_module);
end;
$$;

create function private.worker_recover(p_running jsonb default '[]') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_answer pg_catalog.jsonb;
  v_job bigint;
begin
  perform private.check_running(p_running);
  -- A dead one, too: it corrects the earlier "the apply may still be running there".
  perform private.resume_held(v_runner, (l ->> 'job')::bigint, (l ->> 'attempt')::integer)
  from jsonb_array_elements(coalesce(p_running, '[]')) as l;
  for v_job in
    select q.job_id from private.live_jobs as q
    left join jsonb_array_elements(coalesce(p_running, '[]')) as l
      on q.job_id = (l ->> 'job')::bigint and q.attempt = (l ->> 'attempt')::integer
    where q.stage = 'RUNNING' and q.instance_id = v_runner.instance_id and ((l ->> 'is_dead')::boolean or l is null
      and q.claimed_at < (
      select s.opened_at from private.sessions as s where s.id = v_runner.session_id))
    order by q.state_key loop
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
comment on function private.worker_recover is
  'What a restarted process found on disk, [{job, attempt, is_dead}]. Answers report (it is yours: send logs, then '
  'finish it or name it dead) or drop (it is another''s).';

-- ## finish
-- The number of the last chunk of an announced log.
create function private.announced_seq(p_log jsonb) returns integer language plpgsql immutable as $$
begin
  if coalesce(p_log ->> 'last_seq', '0') !~ '^([0-9]{1,6}|1000000)$'
    or coalesce(p_log ->> 'bytes', '0') !~ '^[0-9]{1,15}$'
    or coalesce(p_log ->> 'is_incomplete', 'true') not in ('true', 'false') then
    perform private.fail('RY422',
      'A log is announced by the number of its last chunk, 1,000,000 at most, its bytes and its SHA-256.',
        'Send {"last_seq": 1, "bytes": 10, "sha256": "…"}.');
  end if;
  return coalesce(p_log ->> 'last_seq', '0');
end;
$$;

-- Compares the announced log with the stored one: the ranges that are missing; other content becomes an event.
create function private.check_log(p_job bigint, p_attempt integer, p_log jsonb, p_last integer) returns jsonb
language plpgsql as $$
declare
  v_day pg_catalog.date;
  v_stored pg_catalog.record;
begin
  if coalesce((p_log ->> 'is_incomplete')::boolean, false) then return '[]'; end if;
  v_day := (select q.log_day from private.live_jobs as q where q.job_id = p_job);
  v_stored := private.stored_log(p_job, p_attempt, v_day, p_last);
  if v_stored.chunks < p_last then return private.log_gaps(p_job, p_attempt, v_day, p_last); end if;
  if v_stored.bytes <> (p_log ->> 'bytes')::bigint or v_stored.sha256 <> p_log ->> 'sha256' then
    perform private.record_job_event(j, 'log_mismatch', null, null, 'system', null, 'system',
      'The stored log differs from what the runner announced.', jsonb_build_object('announced', jsonb_build_object(
        'last_seq', p_last, 'bytes', p_log -> 'bytes', 'sha256', left(p_log ->> 'sha256', 64)),
        'stored', to_jsonb(v_stored) - 'chunks'))
    from public.provision_jobs as j where j.id = p_job;
  end if;
  return '[]';
end;
$$;

-- A finish for an attempt that the runner no longer has: the same answer when it is a repetition, otherwise kept as a
-- late report. Its log is wanted in any case.
create function private.late_finish(
  p_runner private.runner, p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb, p_log jsonb
) returns jsonb language plpgsql as $$
declare
  v_job public.provision_jobs;
  v_missing pg_catalog.jsonb := '[]';
  v_day pg_catalog.date;
begin
  select * into v_job from public.provision_jobs where id = p_job;
  v_day := private.claimed_day(p_runner, p_job, p_attempt);
  if v_day is null then
    perform private.fail('RY404', format('Job %s was never given to this runner.', p_job));
  end if;
  if jsonb_typeof(p_log) = 'object' and p_log ->> 'is_incomplete' is distinct from 'true' then
    v_missing := private.log_gaps(p_job, p_attempt, v_day, private.announced_seq(p_log));
  end if;
  -- The reply to a finish was lost and it is sent again: the same answer.
  if v_job.attempt = p_attempt and v_job.worker_id = p_runner.worker_id and v_job.status::pg_catalog.text = p_status
    then
    return jsonb_build_object('status', v_job.status, 'is_late', false, 'missing', v_missing);
  end if;
  if (v_job.late_report ->> 'attempt', v_job.late_report ->> 'status') = (p_attempt::pg_catalog.text, p_status) then
    return jsonb_build_object('status', v_job.status, 'is_late', true, 'missing', v_missing);
  end if;
  update public.provision_jobs set late_report = jsonb_build_object('attempt', p_attempt, 'status', p_status,
    'result', p_result, 'error', p_error, 'worker', p_runner.worker_name, 'at', now())
  where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, 'late_report', null, null, 'worker', p_runner.worker_id, p_runner.worker_name,
    format('Attempt %s reported %s after it had lost the job.', p_attempt, p_status));
  return jsonb_build_object('status', v_job.status, 'is_late', true, 'missing', v_missing);
end;
$$;

-- Ends a runner's attempt, unless its process died or log chunks are missing. The caller holds job and state lock.
create function private.finish_attempt(
  p_runner private.runner, p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb,
  p_plan_summary jsonb, p_log jsonb
) returns jsonb language plpgsql as $$
declare
  v_last integer;
  v_missing pg_catalog.jsonb := '[]';
begin
  -- A process that was started again reports one that died: that is a lost runner, not a failed job.
  if p_error ->> 'code' = 'runner_crashed' then
    perform private.lose_job(p_job, coalesce(p_error ->> 'message', 'The runner''s process died.'));
    return (select jsonb_build_object('status', j.status) from public.provision_jobs as j where j.id = p_job);
  end if;
  if jsonb_typeof(p_log) = 'object' then
    v_last := private.announced_seq(p_log);
    v_missing := private.check_log(p_job, p_attempt, p_log, v_last);
  end if;
  -- The end writes it with the rest: a row that is written twice in one transaction is checked against its foreign
  -- keys again.
  if v_missing <> '[]' or p_status = 'NEEDS_ATTENTION' then
    update public.provision_jobs set last_log_seq = coalesce(v_last, last_log_seq),
      plan_summary = coalesce(p_plan_summary, plan_summary)
    where id = p_job;
  end if;
  if v_missing <> '[]' then return jsonb_build_object('status', 'PROCESSING', 'missing', v_missing); end if;
  if p_status = 'NEEDS_ATTENTION' then
    perform private.hold_job(q, 'engine_killed', coalesce(p_error ->> 'message', 'The engine was killed.'), p_error)
    from private.live_jobs as q where q.job_id = p_job;
    return jsonb_build_object('status', p_status);
  end if;
  return jsonb_build_object('status', private.end_job(p_job, p_status::public.job_status, lower(p_status), 'worker',
    p_runner.worker_id, p_runner.worker_name, p_error ->> 'message', p_error, p_result, p_plan_summary, v_last));
end;
$$;

create function private.worker_finish(
  p_job bigint, p_attempt integer, p_status text, p_result jsonb default null, p_error jsonb default null,
  p_plan_summary jsonb default null, p_log jsonb default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_answer pg_catalog.jsonb := jsonb_build_object('job', p_job, 'attempt', p_attempt, 'missing', '[]'::pg_catalog.jsonb,
    'is_late', false);
begin
  if p_job is null or p_attempt is null or p_status is null
    or p_status not in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'NEEDS_ATTENTION') then
    perform private.fail('RY422', 'A job ends as SUCCEEDED, FAILED, CANCELLED or NEEDS_ATTENTION.',
      'Send its number, its attempt and one of these.');
  end if;
  p_plan_summary := private.report_object(p_plan_summary, 2097152, 'A plan''s summary');
  p_result := private.report_object(p_result, 4194304, 'A result');
  p_error := private.report_error(p_error);
  if jsonb_typeof(p_log) not in ('object', 'null') then
    perform private.fail('RY422', 'A log is announced by an object.',
      'Send {"last_seq": 1, "bytes": 10, "sha256": "…"}.');
  end if;
  if v_runner.is_for_one_job then perform private.check_scope(p_job, p_attempt); end if;
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  -- The fence: only the session that has the attempt ends it, or that returned to it before a person released it.
  if private.lock_attempt(v_runner, p_job, p_attempt) then
    return v_answer || private.finish_attempt(v_runner, p_job, p_attempt, p_status, p_result, p_error, p_plan_summary,
      p_log);
  end if;
  return v_answer || private.late_finish(v_runner, p_job, p_attempt, p_status, p_result, p_error, p_log);
end;
$$;
comment on function private.worker_finish is
  'Ends a job: SUCCEEDED, FAILED or CANCELLED; or NEEDS_ATTENTION, where a killed engine left it to a person. p_log '
  '{last_seq, bytes, sha256} is checked; missing chunks are named and the job stays open until they came.';
