-- How a job ends on its runner's word. Finishing is idempotent by (job, attempt). An attempt that lost its job may still tell
-- what it did: that is kept as a late report and changes nothing.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table private.state_locks (
  module_id uuid primary key references public.modules (id) on delete cascade,
  lock_id text not null,
  info jsonb not null,
  job_id bigint not null,
  attempt integer not null,
  created_at timestamptz not null default now()
);
alter table private.state_locks enable row level security;
comment on table private.state_locks is 'Who holds a module''s state: a job and an attempt.';
comment on column private.state_locks.module_id is 'The module.';
comment on column private.state_locks.lock_id is 'The engine''s lock id; the proof that force-unlock asks for.';
comment on column private.state_locks.info is 'What the engine said about the lock.';
comment on column private.state_locks.job_id is 'The job that holds it.';
comment on column private.state_locks.attempt is 'The attempt that holds it.';
comment on column private.state_locks.created_at is 'Since when.';

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
    delete from private.state_locks as l where l.module_id = v_job.module_id and l.job_id = p_job;
    update public.modules set last_job_id = v_job.id, last_job_type = v_job.type, last_job_status = p_status, last_job_at = now()
    where id = v_job.module_id and coalesce(last_job_id, 0) <= v_job.id;
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
  v_last integer := coalesce((p_log ->> 'last_seq')::integer, 0);
  v_stored pg_catalog.record;
begin
  if v_last > 1000000 then
    perform private.fail('RY422', 'A log has at most 1,000,000 chunks.');
  end if;
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

create function private.late_finish(p_runner private.runner, p_job bigint, p_attempt integer, p_status public.job_status, p_result jsonb,
  p_error jsonb)
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
  if v_job.attempt = p_attempt and v_job.worker_id = p_runner.worker_id and v_job.status = p_status then
    return jsonb_build_object('job', p_job, 'attempt', p_attempt, 'status', v_job.status, 'missing', '[]'::pg_catalog.jsonb, 'is_late',
      false);
  end if;
  update public.provision_jobs set late_report = jsonb_build_object(
    'attempt', p_attempt, 'status', p_status, 'result', p_result, 'error', p_error, 'worker', p_runner.worker_name, 'at', now())
  where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, 'late_report', null, null, 'worker', p_runner.worker_id, p_runner.worker_name,
    format('Attempt %s reported %s after it had lost the job.', p_attempt, p_status));
  return jsonb_build_object('job', p_job, 'attempt', p_attempt, 'status', v_job.status, 'missing', '[]'::pg_catalog.jsonb, 'is_late', true);
end;
$$;
comment on function private.late_finish(private.runner, bigint, integer, public.job_status, jsonb, jsonb) is
  'A finish for an attempt that the runner no longer has: the same answer when it is a repetition, otherwise kept as a late report.';

create type private.aftermath as (waiting uuid[], follow bigint[]); -- noqa: LT01
comment on type private.aftermath is
  'What is left to do after attempts ended: states with somebody waiting, and jobs that something follows from.';

create function private.end_attempts(p_runner private.runner, p_items jsonb)
returns private.aftermath
language plpgsql
set search_path = ''
as $$
declare
  v_left private.aftermath;
begin
  -- One statement for the whole batch: a finish costs what its rows cost.
  with item as (
    select i.job, i.attempt, i.status::public.job_status as status, i.result, i.error, i.plan_summary
    from jsonb_to_recordset(p_items) as i (
      job bigint, attempt integer, status pg_catalog.text, result pg_catalog.jsonb, error pg_catalog.jsonb, plan_summary pg_catalog.jsonb)
  ), gone as (
    delete from private.live_jobs as q using item as i
    where q.job_id = i.job and q.attempt = i.attempt and q.session_id = p_runner.session_id and q.stage = 'RUNNING'
    returning q.job_id, q.state_key
  ), ended as (
    update public.provision_jobs as j set
      status = i.status, finished_at = now(), error = coalesce(i.error, j.error), lease_until = null, result = coalesce(i.result, j.result),
      plan_summary = coalesce(i.plan_summary, j.plan_summary)
    from item as i join gone as g on g.job_id = i.job
    join lateral (select o.status from public.provision_jobs as o where o.id = i.job) as old on true
    where j.id = i.job
    returning j.id, j.org_id, j.attempt, j.status, j.type, j.module_id, j.plan_summary, old.status as was, g.state_key,
      i.error ->> 'message' as reason
  ), noted as (
    insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status, to_status, reason)
    select e.org_id, e.id, e.attempt, 'worker', p_runner.worker_id, p_runner.worker_name, lower(e.status::pg_catalog.text), e.was, e.status,
      e.reason from ended as e
  ), unlocked as (
    delete from private.state_locks as l using ended as e where l.module_id = e.module_id and l.job_id = e.id
  ), shown as (
    update public.modules as m set last_job_id = e.id, last_job_type = e.type, last_job_status = e.status, last_job_at = now()
    from ended as e where m.id = e.module_id and coalesce(m.last_job_id, 0) <= e.id
  )
  select
    array_agg(e.state_key) filter (where exists (select from private.live_jobs as w where w.state_key = e.state_key
      and w.stage = 'WAITING')),
    array_agg(e.id) filter (where e.module_id is null or e.type = 'PLAN' and e.status = 'SUCCEEDED'
      and e.plan_summary ->> 'has_changes' = 'true')
  into v_left from ended as e;
  return v_left;
end;
$$;
comment on function private.end_attempts(private.runner, jsonb) is
  'Ends those of the runner''s attempts that it still has, in one statement. The caller holds their states'' locks.';

create function private.settle(p_left private.aftermath)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_left.waiting is not null then
    perform private.refresh_head(w) from unnest(p_left.waiting) as w;
  end if;
  if p_left.follow is not null then
    perform private.follow_up(j) from public.provision_jobs as j where j.id = any (p_left.follow);
  end if;
end;
$$;
comment on function private.settle(private.aftermath) is
  'After attempts ended: the next job of each state, and what follows from each job.';

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
    return private.late_finish(p_runner, v_job, v_attempt, (p_item ->> 'status')::public.job_status, p_item -> 'result', p_item -> 'error');
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
  'What must be answered instead of ending an attempt: it is not the runner''s any more, its process died, or chunks of its log are missing. Null when nothing is in the way.';

create function private.are_plain(p_runner private.runner, p_items jsonb)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return not p_runner.is_executor and jsonb_array_length(p_items) = (
    select count(*)
    from jsonb_to_recordset(p_items) as i (job bigint, attempt integer, status pg_catalog.text, error pg_catalog.jsonb,
      log pg_catalog.jsonb)
    join private.live_jobs as q on q.job_id = i.job and q.attempt = i.attempt and q.session_id = p_runner.session_id and q.stage = 'RUNNING'
    where i.status in ('SUCCEEDED', 'FAILED', 'CANCELLED') and i.log is null and i.error ->> 'code' is distinct from 'runner_crashed');
end;
$$;
comment on function private.are_plain(private.runner, jsonb) is
  'Whether nothing about these ends needs a second look: they are the runner''s, without a log to compare.';

create function private.finish_jobs(p_runner private.runner, p_items jsonb)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_item pg_catalog.jsonb;
  v_answer pg_catalog.jsonb;
  v_answers pg_catalog.jsonb := '[]';
  v_good pg_catalog.jsonb := '[]';
begin
  -- In order of state and before any row, so that two batches never wait for each other; the same keys as in lock_state.
  perform pg_advisory_xact_lock_shared(hashtextextended('runyard:routing:', 0)),
    pg_advisory_xact_lock_shared(hashtextextended('runyard:routing:' || q.org_id, 0)),
    pg_advisory_xact_lock(hashtextextended('runyard:state:' || q.state_key, 0))
  from (
    select q.org_id, q.state_key from private.live_jobs as q
    where q.job_id in (select (i ->> 'job')::bigint from jsonb_array_elements(p_items) as i) order by q.state_key offset 0
  ) as q;
  if private.are_plain(p_runner, p_items) then
    perform private.settle(private.end_attempts(p_runner, p_items));
    return (
      select jsonb_agg(jsonb_build_object('job', i -> 'job', 'attempt', i -> 'attempt', 'status', i -> 'status', 'missing',
        '[]'::pg_catalog.jsonb,
        'is_late', false)) from jsonb_array_elements(p_items) as i);
  end if;
  for v_item in select i from jsonb_array_elements(p_items) as i loop
    if coalesce(v_item ->> 'status', '') not in ('SUCCEEDED', 'FAILED', 'CANCELLED') then
      perform private.fail('RY422', 'A job ends as SUCCEEDED, FAILED or CANCELLED.');
    end if;
    perform private.check_scope((v_item ->> 'job')::bigint, (v_item ->> 'attempt')::integer);
    v_answer := private.check_finish(p_runner, v_item);
    if v_answer is null then
      v_good := v_good || v_item;
      v_answer := jsonb_build_object('job', v_item -> 'job', 'attempt', v_item -> 'attempt', 'status', v_item -> 'status',
        'missing', '[]'::pg_catalog.jsonb, 'is_late', false);
    end if;
    v_answers := v_answers || v_answer;
  end loop;
  if v_good <> '[]' then
    perform private.settle(private.end_attempts(p_runner, v_good));
  end if;
  return v_answers;
end;
$$;
comment on function private.finish_jobs(private.runner, jsonb) is
  'Ends attempts on their runner''s word: [{job, attempt, status, result, error, plan_summary, log}].';

create function private.finish_job(
  p_runner private.runner, p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb, p_plan_summary jsonb, p_log jsonb
)
returns jsonb
language plpgsql
set search_path = ''
as $$
begin
  return private.finish_jobs(p_runner, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('job', p_job, 'attempt', p_attempt, 'status',
    p_status))
    || jsonb_build_object('result', p_result, 'error', p_error, 'plan_summary', p_plan_summary, 'log', p_log))) -> 0;
end;
$$;
comment on function private.finish_job(private.runner, bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is
  'Ends one attempt on its runner''s word.';

create function private.worker_finish(p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb, p_plan_summary jsonb,
  p_log jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return private.finish_job(private.this_runner(), p_job, p_attempt, p_status, p_result, p_error, p_plan_summary, p_log);
end;
$$;
comment on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is 'Body of public.worker_finish.';
grant execute on function private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) to worker;
create function public.worker_finish(
  p_job bigint, p_attempt integer, p_status text, p_result jsonb default null, p_error jsonb default null,
    p_plan_summary jsonb default null, p_log jsonb default null
)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_finish(p_job, p_attempt, p_status, p_result, p_error, p_plan_summary, p_log); end $$;
comment on function public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is
  'Ends a job: SUCCEEDED, FAILED or CANCELLED. p_log {last_seq, bytes, sha256} is checked; missing chunks are named and the job goes on until they came.';
grant execute on function public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) to worker;

create function private.worker_step(p_request_id uuid, p_finished jsonb, p_slots integer)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  v_runner private.runner := private.this_runner();
  v_done pg_catalog.jsonb := '[]';
begin
  if coalesce(p_finished, '[]') <> '[]' then
    v_done := private.finish_jobs(v_runner, p_finished);
  end if;
  return jsonb_build_object('finished', v_done, 'jobs',
    case when coalesce(p_slots, 0) > 0 then private.claim_jobs(v_runner, p_request_id, p_slots) else '[]' end);
end;
$$;
comment on function private.worker_step(uuid, jsonb, integer) is 'Body of public.worker_step.';
grant execute on function private.worker_step(uuid, jsonb, integer) to worker;
create function public.worker_step(p_request_id uuid, p_finished jsonb default '[]', p_slots integer default 1)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_step(p_request_id, p_finished, p_slots); end $$;
comment on function public.worker_step(uuid, jsonb, integer) is
  'Finishes jobs and claims the next in one commit. p_finished [{job, attempt, status, result, error, plan_summary, log}].';
grant execute on function public.worker_step(uuid, jsonb, integer) to worker;

revoke execute on all functions in schema private, public from public;
