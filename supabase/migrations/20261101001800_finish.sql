-- How a job ends on its runner's word. Finishing is idempotent by (job, attempt). An attempt that lost its job may
-- still tell what it did: that is kept as a late report and changes nothing.
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
  p_job bigint, p_status public.job_status, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text,
    p_reason text,
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
    status = p_status, finished_at = now(), lease_until = null, error = coalesce(p_error, error),
    result = coalesce(p_result, result), plan_summary = coalesce(p_plan_summary, plan_summary),
    is_quarantined = is_quarantined or p_event = 'quarantined',
    planned_serial = case when type = 'PLAN' and p_status = 'SUCCEEDED' then private.state_serial(module_id) end
  where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, p_event, v_old, p_status, p_kind, p_actor, p_label, p_reason);
  perform private.release_state(v_job.module_id, p_job);
  if v_state is not null then
    perform private.refresh_head(v_state);
  end if;
  if v_job.type = 'PLAN' and p_status = 'SUCCEEDED' then
    perform private.follow_plan(v_job);
  elsif v_job.type in ('APPLY', 'DESTROY') then
    perform private.drop_outdated_applies(v_job);
  elsif v_job.module_id is null then
    perform private.after_lifecycle_job(v_job);
  end if;
  return v_job;
end;
$$;
comment on function private.end_job(bigint, public.job_status, text, public.actor_kind, uuid, text, text, jsonb, jsonb,
  jsonb) is
  'Ends a job for good, whoever ends it: status, event, state lock, the next job of its state, what follows from it. '
  'The caller holds the state''s lock.';

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
  if coalesce(p_log ->> 'last_seq', '0') !~ '^([0-9]{1,6}|1000000)$'
    or coalesce(p_log ->> 'bytes', '0') !~ '^[0-9]{1,15}$'
    or coalesce(p_log ->> 'is_incomplete', 'true') not in ('true', 'false') then
    perform private.fail('RY422',
      'A log is announced by the number of its last chunk, 1,000,000 at most, its bytes and its SHA-256.',
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
      'The stored log differs from what the runner announced.', jsonb_build_object('announced', p_log, 'stored',
        to_jsonb(v_stored)))
    from public.provision_jobs as j where j.id = p_job;
  end if;
  return '[]';
end;
$$;
comment on function private.check_log(bigint, integer, jsonb) is
  'Compares the announced log with the stored one: the ranges that are missing; a difference in content becomes an '
  'event.';

create function private.late_finish(p_runner private.runner, p_job bigint, p_attempt integer, p_status text,
  p_result jsonb, p_error jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  select * into v_job from public.provision_jobs where id = p_job;
  if not exists (
    select from public.job_events as e
    where e.job_id = p_job and e.attempt = p_attempt and e.event = 'claimed' and e.actor_id = p_runner.worker_id
  ) then
    perform private.fail('RY404', format('Job %s was never given to this runner.', p_job));
  end if;
  -- The reply to a finish was lost and it is sent again: the same answer.
  if v_job.attempt = p_attempt and v_job.worker_id = p_runner.worker_id and v_job.status::pg_catalog.text = p_status
    then
    return jsonb_build_object('status', v_job.status, 'is_late', false);
  end if;
  update public.provision_jobs set late_report = jsonb_build_object('attempt', p_attempt, 'status', p_status,
    'result', p_result, 'error', p_error, 'worker', p_runner.worker_name, 'at', now())
  where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, 'late_report', null, null, 'worker', p_runner.worker_id, p_runner.worker_name,
    format('Attempt %s reported %s after it had lost the job.', p_attempt, p_status));
  return jsonb_build_object('status', v_job.status, 'is_late', true);
end;
$$;
comment on function private.late_finish(private.runner, bigint, integer, text, jsonb, jsonb) is
  'A finish for an attempt that the runner no longer has: the same answer when it is a repetition, otherwise kept as '
  'a late report.';

create function private.finish_attempt(
  p_runner private.runner, p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb,
    p_plan_summary jsonb, p_log jsonb
)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_missing pg_catalog.jsonb := '[]';
begin
  -- A process that was started again tells of one that died: that is a lost runner, not a failed job.
  if p_error ->> 'code' = 'runner_crashed' then
    perform private.lose_job(p_job, coalesce(p_error ->> 'message', 'The runner''s process died.'));
    return (select jsonb_build_object('status', j.status) from public.provision_jobs as j where j.id = p_job);
  end if;
  if jsonb_typeof(p_log) = 'object' then
    v_missing := private.check_log(p_job, p_attempt, p_log);
  end if;
  if v_missing <> '[]' then
    return jsonb_build_object('status', 'PROCESSING', 'missing', v_missing);
  end if;
  if p_status = 'NEEDS_ATTENTION' then
    perform private.hold_job(q, 'engine_killed', coalesce(p_error ->> 'message', 'The engine was killed.'), p_error)
    from private.live_jobs as q where q.job_id = p_job;
    return jsonb_build_object('status', p_status);
  end if;
  perform private.end_job(p_job, p_status::public.job_status, lower(p_status), 'worker', p_runner.worker_id,
    p_runner.worker_name, p_error ->> 'message', nullif(p_error, 'null'), nullif(p_result, 'null'),
      nullif(p_plan_summary, 'null'));
  return jsonb_build_object('status', p_status);
end;
$$;
comment on function private.finish_attempt(private.runner, bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is
  'Ends an attempt that the runner has, unless its process died or chunks of its log are missing. The caller holds '
  'the job and its state''s lock.';

create function private.worker_finish(p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb,
  p_plan_summary jsonb, p_log jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs;
  v_answer pg_catalog.jsonb := jsonb_build_object('job', p_job, 'attempt', p_attempt, 'missing', '[]'::pg_catalog.jsonb,
    'is_late', false);
begin
  if p_job is null or p_attempt is null or p_status is null
    or p_status not in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'NEEDS_ATTENTION') then
    perform private.fail('RY422', 'A job ends as SUCCEEDED, FAILED, CANCELLED or NEEDS_ATTENTION.',
      'Send its number, its attempt and one of these.');
  end if;
  perform private.check_report(null, p_plan_summary, p_result, p_error);
  if jsonb_typeof(p_log) not in ('object', 'null') then
    perform private.fail('RY422', 'A log is announced by an object.',
      'Send {"last_seq": 1, "bytes": 10, "sha256": "…"}.');
  end if;
  perform private.check_scope(p_job, p_attempt);
  perform private.lock_states(q.org_id, array[q.state_key]) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  -- The fence: only the session that still has the attempt ends it, or that has come back to it before a person
  -- released it.
  v_live := private.locked_job(v_runner, p_job, p_attempt);
  if v_live.attempt = p_attempt and v_live.session_id = v_runner.session_id and v_live.stage = 'RUNNING' then
    return v_answer || private.finish_attempt(v_runner, p_job, p_attempt, p_status, p_result, p_error, p_plan_summary,
      p_log);
  end if;
  return v_answer || private.late_finish(v_runner, p_job, p_attempt, p_status, p_result, p_error);
end;
$$;
comment on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is
  'Body of public.worker_finish.';
grant execute on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) to worker;

revoke execute on all functions in schema private from public;
