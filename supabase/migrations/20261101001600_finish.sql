-- How a job ends on its runner's word. Finishing is idempotent by (job, attempt). An attempt that lost its job may still tell
-- what it did: that is kept as a late report and changes nothing.
-- And what follows: the apply of a plan with changes, and what jobs about runners and cloud identities lead to.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.release_state(p_module uuid, p_job bigint)
returns void
language plpgsql
set search_path = ''
as $$
begin
  delete from private.state_locks as l where l.module_id = p_module and l.job_id = p_job;
end;
$$;
comment on function private.release_state(uuid, bigint) is 'Releases the state lock that a job holds.';

create function private.end_job(
  p_job bigint, p_status public.job_status, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text, p_reason text,
  p_error jsonb default null, p_result jsonb default null, p_plan_summary jsonb default null
)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_old public.job_status;
  v_job public.provision_jobs;
  v_state pg_catalog.uuid;
begin
  delete from private.live_jobs where job_id = p_job returning state_key into v_state;
  select status into v_old from public.provision_jobs where id = p_job for no key update;
  update public.provision_jobs set
    status = p_status, finished_at = now(), error = coalesce(p_error, error), lease_until = null, result = coalesce(p_result, result),
    plan_summary = coalesce(p_plan_summary, plan_summary), is_quarantined = is_quarantined or p_event = 'quarantined'
  where id = p_job returning * into v_job;
  insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status, to_status, reason)
  values (v_job.org_id, p_job, v_job.attempt, p_kind, p_actor, p_label, p_event, v_old, p_status, p_reason);
  if v_job.module_id is not null then
    perform private.release_state(v_job.module_id, p_job);
  end if;
  if v_state is not null then
    perform private.refresh_head(v_state);
  end if;
  if v_job.type = 'PLAN' and p_status = 'SUCCEEDED' or v_job.module_id is null then
    perform private.follow_up(v_job);
  end if;
  return v_job;
end;
$$;
comment on function private.end_job(bigint, public.job_status, text, public.actor_kind, uuid, text, text, jsonb, jsonb, jsonb) is
  'Ends a job for good: status, event, state lock, the next job of its state, what follows from it. The caller holds the state''s lock.';

-- ---------------------------------------------------------------------------------------------- finish

create function private.check_log(p_job bigint, p_attempt integer, p_log jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_last integer;
  v_stored pg_catalog.record;
begin
  if coalesce(p_log ->> 'last_seq', '0') !~ '^([0-9]{1,6}|1000000)$' or coalesce(p_log ->> 'bytes', '0') !~ '^[0-9]{1,15}$'
    or coalesce(p_log ->> 'is_incomplete', 'true') not in ('true', 'false') then
    perform private.fail('RY422', 'A log is announced by the number of its last chunk, 1,000,000 at most, its bytes and its SHA-256.',
      'Send {"last_seq": 1, "bytes": 10, "sha256": "…"}.');
  end if;
  v_last := coalesce(p_log ->> 'last_seq', '0');
  update public.provision_jobs set last_log_seq = v_last where id = p_job and last_log_seq <> v_last;
  if coalesce((p_log ->> 'is_incomplete')::boolean, false) then
    return '[]';
  end if;
  if private.log_gaps(p_job, p_attempt, v_last) <> '[]' then
    return private.log_gaps(p_job, p_attempt, v_last);
  end if;
  select * into v_stored from private.log_digest(p_job, p_attempt);
  if v_stored.bytes <> (p_log ->> 'bytes')::bigint or v_stored.sha256 <> p_log ->> 'sha256' then
    perform private.record_job_event(j, 'log_mismatch', null, null, 'system', null, 'system',
      'The stored log differs from what the runner announced.', jsonb_build_object('announced', p_log, 'stored', to_jsonb(v_stored)))
    from public.provision_jobs as j where j.id = p_job;
  end if;
  return '[]';
end;
$$;
comment on function private.check_log(bigint, integer, jsonb) is
  'Compares the announced log with the stored one: the ranges that are missing; a difference in content becomes an event.';

create function private.late_finish(p_runner private.runner, p_item jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_id bigint := p_item ->> 'job';
  v_attempt integer := p_item ->> 'attempt';
  v_answer pg_catalog.jsonb := jsonb_build_object('job', v_id, 'attempt', v_attempt, 'missing', '[]'::pg_catalog.jsonb);
  v_job public.provision_jobs;
begin
  select * into v_job from public.provision_jobs where id = v_id;
  if not exists (
    select from public.job_events as e
    where e.job_id = v_id and e.attempt = v_attempt and e.event = 'claimed' and e.actor_id = p_runner.worker_id
  ) then
    perform private.fail('RY404', format('Job %s was never given to this runner.', v_id));
  end if;
  -- The reply to a finish was lost and it is sent again: the same answer.
  if v_job.attempt = v_attempt and v_job.worker_id = p_runner.worker_id and v_job.status::pg_catalog.text = p_item ->> 'status' then
    return v_answer || jsonb_build_object('status', v_job.status, 'is_late', false);
  end if;
  update public.provision_jobs set late_report = jsonb_build_object('attempt', v_attempt, 'status', p_item -> 'status',
    'result', p_item -> 'result', 'error', p_item -> 'error', 'worker', p_runner.worker_name, 'at', now())
  where id = v_id returning * into v_job;
  perform private.record_job_event(v_job, 'late_report', null, null, 'worker', p_runner.worker_id, p_runner.worker_name,
    format('Attempt %s reported %s after it had lost the job.', v_attempt, p_item ->> 'status'));
  return v_answer || jsonb_build_object('status', v_job.status, 'is_late', true);
end;
$$;
comment on function private.late_finish(private.runner, jsonb) is
  'A finish for an attempt that the runner no longer has: the same answer when it is a repetition, otherwise kept as a late report.';

create function private.check_finish(p_runner private.runner, p_item jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_job bigint := (p_item ->> 'job')::bigint;
  v_attempt integer := (p_item ->> 'attempt')::integer;
  v_missing pg_catalog.jsonb;
begin
  if not exists (
    select from private.live_jobs as q
    where q.job_id = v_job and q.attempt = v_attempt and q.session_id = p_runner.session_id and q.stage = 'RUNNING' for update
  ) then
    return null;
  end if;
  -- A process that was started again tells of one that died: that is a lost runner, not a failed job.
  if p_item #>> '{error,code}' = 'runner_crashed' then
    perform private.lose_job(v_job, coalesce(p_item #>> '{error,message}', 'The runner''s process died.'));
    return (select jsonb_build_object('job', j.id, 'attempt', v_attempt, 'status', j.status, 'missing', '[]'::pg_catalog.jsonb, 'is_late',
      false)
      from public.provision_jobs as j where j.id = v_job);
  end if;
  if jsonb_typeof(p_item -> 'log') = 'object' then
    v_missing := private.check_log(v_job, v_attempt, p_item -> 'log');
    if v_missing <> '[]' then
      return jsonb_build_object('job', v_job, 'attempt', v_attempt, 'status', 'PROCESSING', 'missing', v_missing, 'is_late', false);
    end if;
  end if;
  return null;
end;
$$;
comment on function private.check_finish(private.runner, jsonb) is
  'What must be answered instead of ending an attempt that the runner has: its process died, or chunks of its log are missing. Null when nothing is in the way.';

create function private.write_records(p_runner private.runner, p_jobs bigint[], p_said jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
  v_followed bigint[];
  v_job public.provision_jobs;
begin
  -- One statement for both, because starting one on so wide a table is most of its price. What is QUEUED is being claimed; what
  -- is not has ended, as said.
  with written as (
    update public.provision_jobs as j set
      status = case when j.status = 'QUEUED' then 'CLAIMED' else (p_said #>> array[j.id::pg_catalog.text, 'status'])::public.job_status end,
      attempt = j.attempt + (j.status = 'QUEUED')::integer, worker_id = p_runner.worker_id, worker_name = p_runner.worker_name,
      instance_id = p_runner.instance_id, instance_name = p_runner.instance_name,
      claimed_at = case when j.status = 'QUEUED' then now() else j.claimed_at end,
      lease_until = case when j.status = 'QUEUED' then now() + interval '60 seconds' end,
      started_at = case when j.status <> 'QUEUED' then j.started_at end, phase = case when j.status <> 'QUEUED' then j.phase end,
      steps = case when j.status = 'QUEUED' then '[]' else j.steps end,
      last_log_seq = case when j.status = 'QUEUED' then 0 else j.last_log_seq end, not_before_at = null,
      finished_at = case when j.status <> 'QUEUED' then now() end,
      error = case when j.status <> 'QUEUED' then coalesce(nullif(p_said #> array[j.id::pg_catalog.text, 'error'], 'null'), j.error) end,
      result = case when j.status <> 'QUEUED' then coalesce(nullif(p_said #> array[j.id::pg_catalog.text, 'result'], 'null'), j.result) end,
      plan_summary = case when j.status <> 'QUEUED'
        then coalesce(nullif(p_said #> array[j.id::pg_catalog.text, 'plan_summary'], 'null'), j.plan_summary) end, updated_at = now()
    where j.id = any (p_jobs)
    returning j.id, j.org_id, j.attempt, j.status, j.started_at, j.error, j.module_id, j.type, case when j.status = 'CLAIMED'
      then private.job_for_runner(j, (select o.slug from public.organizations as o where o.id = j.org_id)) end as job
  ), noted as (
    insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status, to_status, reason)
    select w.org_id, w.id, w.attempt, 'worker', p_runner.worker_id, p_runner.worker_name, lower(w.status::pg_catalog.text),
      case when w.job is not null then 'QUEUED' when w.started_at is null then 'CLAIMED' else 'PROCESSING' end::public.job_status,
      w.status, case when w.job is null then w.error ->> 'message' else 'Instance ' || p_runner.instance_name end
    from written as w order by w.job is not null, w.id
  )
  select jsonb_agg(w.job order by array_position(p_jobs, w.id)) filter (where w.job is not null),
    array_agg(w.id) filter (where w.module_id is null or w.type = 'PLAN' and w.status = 'SUCCEEDED')
  into v_answer, v_followed from written as w;
  if v_followed is not null then
    for v_job in select * from public.provision_jobs as j where j.id = any (v_followed) and j.finished_at is not null loop
      perform private.follow_up(v_job);
    end loop;
  end if;
  return v_answer;
end;
$$;
comment on function private.write_records(private.runner, bigint[], jsonb) is
  'Records and events of jobs that have just ended as said, {job: {status, …}}, with what follows from them, and of those just claimed, which it answers.';

create function private.end_attempt(p_session uuid, p_item jsonb)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_gone pg_catalog.record;
begin
  -- The delete is the fence: what it finds is this session's still, and after it nobody else can end it.
  delete from private.live_jobs as q
  where q.job_id = (p_item ->> 'job')::bigint and q.attempt = (p_item ->> 'attempt')::integer
    and q.session_id = p_session and q.stage = 'RUNNING'
  returning q.job_id, q.state_key,
    exists (select from private.state_locks as l where l.module_id = q.state_key) as has_lock,
    exists (select from private.live_jobs as w where w.state_key = q.state_key and w.stage = 'WAITING') as has_successor
  into v_gone;
  if v_gone.has_lock then
    perform private.release_state(v_gone.state_key, v_gone.job_id);
  end if;
  if v_gone.has_successor then
    perform private.refresh_head(v_gone.state_key);
  end if;
  return v_gone.job_id is not null;
end;
$$;
comment on function private.end_attempt(uuid, jsonb) is
  'Takes a running attempt of a session out of the queue; the next job of its state may begin. False when it is not the session''s any more.';

create function private.check_ends(p_runner private.runner, p_items jsonb)
returns bigint[]
language plpgsql stable
set search_path = ''
as $$
declare
  v_item pg_catalog.jsonb;
  v_jobs bigint[] := '{}';
begin
  if jsonb_typeof(p_items) <> 'array' then
    perform private.fail('RY422', 'What has ended is a list.', 'Send [{"job": 1, "attempt": 1, "status": "SUCCEEDED"}], or [] for nothing.');
  end if;
  for n in 0 .. jsonb_array_length(p_items) - 1 loop
    v_item := p_items -> n;
    if concat_ws('/', v_item ->> 'status', v_item ->> 'job', v_item ->> 'attempt')
      !~ '^(SUCCEEDED|FAILED|CANCELLED)/[1-9][0-9]{0,17}/[1-9][0-9]{0,8}$' then
      perform private.fail('RY422', 'A job ends as SUCCEEDED, FAILED or CANCELLED.', 'Send its number, its attempt and one of these.');
    end if;
    if p_runner.is_executor then
      perform private.check_scope((v_item ->> 'job')::bigint, (v_item ->> 'attempt')::integer);
    end if;
    v_jobs := v_jobs || (v_item ->> 'job')::bigint;
  end loop;
  return v_jobs;
end;
$$;
comment on function private.check_ends(private.runner, jsonb) is 'Refuses ends of jobs that make no sense. Answers the jobs.';

create function private.step(p_request uuid, p_finished jsonb, p_slots integer)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_item pg_catalog.jsonb;
  v_answer pg_catalog.jsonb;
  v_answers pg_catalog.jsonb := '[]';
  v_said pg_catalog.jsonb := '{}';
  v_ended bigint[] := '{}';
  v_taken bigint[];
begin
  if p_slots is null or p_slots not between 0 and 256 or p_slots > 0 and p_request is null then
    perform private.fail('RY422', 'A claim needs a request id and 1 to 256 slots.');
  end if;
  if p_finished <> '[]' then
    perform private.lock_job_states(private.check_ends(v_runner, p_finished));
    for n in 0 .. jsonb_array_length(p_finished) - 1 loop
      v_item := p_finished -> n;
      v_answer := null;
      if jsonb_typeof(v_item -> 'log') = 'object' or v_item #>> '{error,code}' = 'runner_crashed' then
        v_answer := private.check_finish(v_runner, v_item);
      end if;
      if v_answer is null and private.end_attempt(v_runner.session_id, v_item) then
        v_ended := v_ended || (v_item ->> 'job')::bigint;
        v_said := v_said || jsonb_build_object(v_item ->> 'job', v_item);
        v_answer := v_item - '{result,error,plan_summary,log}'::pg_catalog.text[] || '{"missing": [], "is_late": false}';
      end if;
      v_answers := v_answers || coalesce(v_answer, 'null');
    end loop;
  end if;
  if p_slots > 0 and v_runner.is_free then
    v_taken := private.take_jobs(v_runner, p_request, p_slots);
  end if;
  v_answer := null;
  if v_ended <> '{}' or v_taken <> '{}' then
    v_answer := private.write_records(v_runner, v_ended || v_taken, v_said);
  end if;
  if p_slots > 0 and v_answer is null then
    v_answer := private.claimed_json(v_runner.instance_id, p_request);
  end if;
  -- Only now, when the records are written: one call may say the same end twice.
  for n in 0 .. jsonb_array_length(v_answers) - 1 loop
    if v_answers -> n = 'null' then
      v_answers := jsonb_set(v_answers, array[n::pg_catalog.text], private.late_finish(v_runner, p_finished -> n));
    end if;
  end loop;
  return jsonb_build_object('finished', v_answers, 'jobs', coalesce(v_answer, '[]'));
end;
$$;
comment on function private.step(uuid, jsonb, integer) is
  'Ends attempts on their runner''s word, [{job, attempt, status, result, error, plan_summary, log}], then claims. The same request gets the same jobs.';

create function private.worker_finish(p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb, p_plan_summary jsonb,
  p_log jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return private.step(null, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('job', p_job, 'attempt', p_attempt, 'status', p_status))
    || jsonb_build_object('result', p_result, 'error', p_error, 'plan_summary', p_plan_summary, 'log', p_log)), 0) #> '{finished,0}';
end;
$$;
comment on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is 'Body of public.worker_finish.';
grant execute on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) to worker;

create function private.worker_step(p_request_id uuid, p_finished jsonb, p_slots integer)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return private.step(p_request_id, coalesce(p_finished, '[]'), coalesce(p_slots, 0));
end;
$$;
comment on function private.worker_step(uuid, jsonb, integer) is 'Body of public.worker_step.';
grant execute on function private.worker_step(uuid, jsonb, integer) to worker;

create function private.apply_plan(p_plan public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_module public.modules;
  -- What was planned is what is applied: the module may have changed since.
  v_job public.provision_jobs := p_plan;
begin
  select * into v_module from public.modules where id = p_plan.module_id and deleted_at is null;
  if v_module.id is null or not coalesce((p_plan.payload #>> '{options,auto_apply}')::boolean, v_module.auto_apply)
    or not coalesce((p_plan.plan_summary ->> 'has_changes')::boolean, false)
    or coalesce((p_plan.payload #>> '{options,refresh_only}')::boolean, false)
    or p_plan.payload #>> '{options,inspects}' is not null then
    return;
  end if;
  v_job.type := case when coalesce((p_plan.payload #>> '{options,destroy}')::boolean, false) then 'DESTROY' else 'APPLY' end;
  v_job.payload := jsonb_set(p_plan.payload, '{options}', (p_plan.payload -> 'options') || jsonb_build_object('plan_job_id', p_plan.id));
  v_job.plan_job_id := p_plan.id;
  v_job.retry_of := null;
  v_job.idempotency_key := null;
  v_job.max_attempts := 3;
  v_job.approvals_required := v_module.approvals_required;
  v_job.approval_deadline_at := case when v_module.approvals_required > 0
    then now() + make_interval(secs => v_module.approval_timeout_seconds) end;
  perform private.add_job(v_job, format('Plan %s has changes, and its module applies by itself.', p_plan.id));
end;
$$;
comment on function private.apply_plan(public.provision_jobs) is
  'Enqueues the apply of a finished plan when its module applies by itself and there is something to apply.';

create function private.follow_up(p_job public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_job.type = 'PLAN' and p_job.status = 'SUCCEEDED' then
    perform private.apply_plan(p_job);
  elsif p_job.module_id is null then
    perform private.after_lifecycle_job(p_job);
  end if;
end;
$$;
comment on function private.follow_up(public.provision_jobs) is 'What follows from a job that ended.';

revoke execute on all functions in schema private from public;
