-- What people decide about jobs: cancel, retry, and the way out of NEEDS_ATTENTION.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.my_job(p_job bigint, p_role public.member_role)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  select * into v_job from public.provision_jobs where id = p_job and org_id in (select private.my_org_ids());
  if v_job.id is null then
    perform private.fail('RY404', format('There is no job %s.', p_job));
  end if;
  perform private.need_role(v_job.org_id, p_role);
  perform private.lock_state(v_job.org_id, private.state_key(v_job));
  perform from private.live_jobs as q where q.job_id = p_job for update;
  select * into v_job from public.provision_jobs where id = p_job for no key update;
  return v_job;
end;
$$;
comment on function private.my_job(bigint, public.member_role) is
  'A job that the caller may decide about, with everything locked that a decision changes.';

create function private.cancel_job(p_job bigint, p_kind public.cancel_kind, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'operator');
begin
  if v_job.status in ('AWAITING_APPROVAL', 'QUEUED') then
    v_job := private.end_job(p_job, 'CANCELLED', 'cancelled', private.caller_kind(), private.caller_id(),
      private.caller_label(v_job.org_id), p_reason);
  elsif v_job.status in ('CLAIMED', 'PROCESSING') then
    -- Asking again may only ask for more: from "after this step" to "now".
    update public.provision_jobs set
      cancel_kind = greatest(cancel_kind, coalesce(p_kind, 'GRACEFUL')),
        cancel_requested_at = coalesce(cancel_requested_at, now()),
      cancel_requested_by = private.caller_label(v_job.org_id)
    where id = p_job returning * into v_job;
    update private.live_jobs set cancel_kind = v_job.cancel_kind where job_id = p_job;
    perform private.record_job_event(v_job, 'cancel_requested', null, null, private.caller_kind(), private.caller_id(),
      private.caller_label(v_job.org_id), p_reason,
      jsonb_build_object('kind', v_job.cancel_kind));
    perform private.ring_worker(v_job.worker_id);
  elsif v_job.status = 'NEEDS_ATTENTION' then
    perform private.fail('RY409', 'Nothing is running; the job needs a decision.',
      'Resolve it: look with a refresh-only plan, retry it, or mark it as failed.');
  else
    perform private.fail('RY409', format('The job is %s already.', v_job.status), 'What is done cannot be cancelled.');
  end if;
  perform private.audit(v_job.org_id, 'job.cancelled', 'job', p_job::pg_catalog.text,
    v_job.type || ' ' || coalesce(v_job.module_path, ''), jsonb_build_object('kind', p_kind, 'reason', p_reason));
  return to_jsonb(v_job);
end;
$$;
comment on function private.cancel_job(bigint, public.cancel_kind, text) is 'Body of public.cancel_job.';
grant execute on function private.cancel_job(bigint, public.cancel_kind, text) to authenticated;

create function private.retry_job(p_job bigint, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_old public.provision_jobs := private.my_job(p_job, 'operator');
  v_new public.provision_jobs := v_old;
  v_module public.modules;
begin
  if v_old.status not in ('FAILED', 'CANCELLED') then
    perform private.fail('RY409', format('The job is %s; only a failed or cancelled one can be retried.', v_old.status),
      case when v_old.status = 'NEEDS_ATTENTION' then 'Resolve it first.' else 'Enqueue a new one instead.' end);
  end if;
  select * into v_module from public.modules where id = v_old.module_id and deleted_at is null;
  if v_old.module_id is null then
    perform private.need_role(v_old.org_id, 'admin');
  elsif v_module.id is null then
    perform private.fail('RY409', 'Its module was removed.', 'Nothing is left to run it for.');
  end if;
  perform private.need_pinned_runner(v_old);
  if v_old.plan_job_id is not null then
    perform private.check_saved_plan(v_old.org_id, v_old.type, v_old.module_id, v_old.plan_job_id);
  end if;
  v_new.retry_of := p_job;
  v_new.idempotency_key := null;
  v_new.rollout_id := null;
  v_new.needs_confirmation := false;
  v_new.created_by := private.caller_id();
  v_new.created_by_label := private.caller_label(v_old.org_id);
  -- What the module asks for now counts, unless the job asked for more.
  if v_old.type in ('APPLY', 'DESTROY') then
    v_new.approvals_required := greatest(v_old.approvals_required, v_module.approvals_required);
  end if;
  v_new.approval_deadline_at := case when v_new.approvals_required > 0
    then now() + make_interval(secs => coalesce(v_module.approval_timeout_seconds, 86400)) end;
  v_new := private.add_job(v_new, coalesce(p_reason, format('Retry of job %s.', p_job)));
  perform private.record_job_event(v_old, 'retried_as', null, null, private.caller_kind(), private.caller_id(),
    private.caller_label(v_old.org_id), p_reason,
    jsonb_build_object('job', v_new.id));
  perform private.audit(v_old.org_id, 'job.retried', 'job', p_job::pg_catalog.text,
    v_old.type || ' ' || coalesce(v_old.module_path, ''), jsonb_build_object('as', v_new.id));
  return to_jsonb(v_new);
end;
$$;
comment on function private.retry_job(bigint, text) is 'Body of public.retry_job.';
grant execute on function private.retry_job(bigint, text) to authenticated;

-- ---------------------------------------------------------------------------------------------- attention

create function private.inspect_job(p_job public.provision_jobs)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_new bigint;
begin
  if p_job.module_id is null then
    perform private.fail('RY422', 'This job acts on no module, so there is nothing to plan.',
      'Retry it, or mark it as failed.');
  end if;
  v_new := (private.add_module_jobs(p_job.org_id, 'PLAN', array[p_job.module_id], null,
    jsonb_build_object('refresh_only', true, 'inspects', p_job.id, 'lock', false)))[1];
  perform private.place_jobs(p_job.org_id, array[v_new], format('To see what job %s left behind.', p_job.id));
  return (select to_jsonb(j) from public.provision_jobs as j where j.id = v_new);
end;
$$;
comment on function private.inspect_job(public.provision_jobs) is
  'Enqueues a refresh-only plan that may run although the job holds the state: it looks and writes nothing.';

create function private.resolve_attention(p_job bigint, p_action text, p_proof text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'operator');
  v_live private.live_jobs;
  v_answer pg_catalog.jsonb;
begin
  if v_job.status <> 'NEEDS_ATTENTION' then
    perform private.fail('RY409', format('The job is %s; there is nothing to resolve.', v_job.status),
      'Look at it again.');
  end if;
  select * into v_live from private.live_jobs where job_id = p_job;
  if p_action = 'refresh_plan' then
    v_answer := private.inspect_job(v_job);
  elsif p_action = 'retry' then
    perform private.need_pinned_runner(v_job);
    perform private.requeue_job(v_live, 'retried', private.caller_kind(), private.caller_id(),
      private.caller_label(v_job.org_id),
      'Decided to run it again', interval '0');
    -- A person's decision to try again is worth one attempt more than the limit.
    update public.provision_jobs set max_attempts = least(20, greatest(max_attempts, attempt + 1)), error = null
      where id = p_job returning to_jsonb(provision_jobs.*) into v_answer;
  elsif p_action = 'mark_failed' then
    perform private.fail('RY422', 'That is not the id of the lock that is held.',
      'Copy it from the state''s page, or leave it empty to keep the lock.')
    from private.state_locks as l where l.module_id = v_job.module_id and l.lock_id <> p_proof;
    v_answer := to_jsonb(private.fail_held(v_job, p_proof));
  elsif p_action = 'release_lock' then
    perform private.release_with_proof(v_job.module_id, p_proof);
    v_answer := to_jsonb(v_job);
  else
    perform private.fail('RY422', 'An action is refresh_plan, retry, mark_failed or release_lock.');
  end if;
  perform private.record_job_event(v_job, 'resolved', null, null, private.caller_kind(), private.caller_id(),
    private.caller_label(v_job.org_id), p_action);
  perform private.audit(v_job.org_id, 'job.resolved', 'job', p_job::pg_catalog.text,
    v_job.type || ' ' || coalesce(v_job.module_path, ''), jsonb_build_object('action', p_action));
  return v_answer;
end;
$$;
comment on function private.resolve_attention(bigint, text, text) is 'Body of public.resolve_attention.';
grant execute on function private.resolve_attention(bigint, text, text) to authenticated;

create function private.fail_held(p_job public.provision_jobs, p_proof text)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_lock private.state_locks;
  v_job public.provision_jobs;
begin
  select * into v_lock from private.state_locks where module_id = p_job.module_id and job_id = p_job.id;
  v_job := private.end_job(p_job.id, 'FAILED', 'marked_failed', private.caller_kind(), private.caller_id(),
    private.caller_label(p_job.org_id), 'Marked as failed');
  -- Ending a job releases its lock and lets the next one begin; this lock stays unless the caller showed that they know
  -- it, and with it everybody waits.
  if v_lock.module_id is not null and p_proof is null then
    insert into private.state_locks select v_lock.*;
    update private.live_jobs as q set stage = 'WAITING', lane_id = null
    where q.state_key = p_job.module_id and q.stage in ('READY', 'BACKOFF');
  end if;
  return v_job;
end;
$$;
comment on function private.fail_held(public.provision_jobs, text) is
  'Marks a held job as failed; its state lock goes only with the lock''s id as proof.';

revoke execute on all functions in schema private from public;
