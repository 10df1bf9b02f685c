-- What follows from a job that ended: the apply of a plan with changes, and what jobs about runners and cloud identities lead to.
set lock_timeout = '5s';
set statement_timeout = '60s';

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
