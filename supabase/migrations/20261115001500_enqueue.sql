-- Enqueueing: a request becomes a job with everything frozen that the runner will need.
-- What a person changes later (inputs, hooks, variables) concerns later jobs. The same idempotency key gives the same job.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.state_key(p_job public.provision_jobs)
returns uuid
language sql immutable
set search_path = ''
as $$
  -- A look at a state whose last job needs attention must be able to run while that job holds the state.
  select case when (p_job.payload #>> '{options,inspects}') is not null
    then md5('inspect:' || p_job.module_id)::pg_catalog.uuid else coalesce(p_job.module_id, p_job.target_worker_id,
      p_job.target_identity_id) end
$$;
comment on function private.state_key(public.provision_jobs) is 'What only one job at a time may act on.';

create function private.queue_job(p_job public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_state pg_catalog.uuid := private.state_key(p_job);
  v_lane integer;
begin
  perform private.lock_state(p_job.org_id, v_state);
  if private.is_state_in_use(v_state) or private.is_state_locked(v_state) then
    insert into private.live_jobs (job_id, org_id, state_key, stage, priority, attempt)
    values (p_job.id, p_job.org_id, v_state, 'WAITING', p_job.priority, p_job.attempt);
    perform private.refresh_head(v_state);
    return;
  end if;
  v_lane := private.lane_of(p_job);
  insert into private.live_jobs (job_id, org_id, state_key, stage, priority, attempt, lane_id, ready_seq)
  values (p_job.id, p_job.org_id, v_state, 'READY', p_job.priority, p_job.attempt, v_lane, private.next_ready_seq());
  perform private.ring_lane(v_lane);
end;
$$;
comment on function private.queue_job(public.provision_jobs) is
  'Puts a QUEUED job into the queue of its state; it is ready at once when nothing is before it.';

create function private.add_job(p_job public.provision_jobs, p_reason text)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_waits boolean := p_job.approvals_required > 0;
begin
  insert into public.provision_jobs (
    org_id, type, status, module_id, module_path, group_path, target_worker_id, target_identity_id, payload, pinned_worker_id,
      pinned_instance_name,
    labels, priority, max_attempts, approvals_required, approval_deadline_at, plan_job_id, retry_of, rollout_id, idempotency_key,
    created_by, created_by_label, queued_at
  ) values (
    p_job.org_id, p_job.type, case when v_waits then 'AWAITING_APPROVAL' else 'QUEUED' end::public.job_status, p_job.module_id,
    p_job.module_path, p_job.group_path, p_job.target_worker_id, p_job.target_identity_id, p_job.payload, p_job.pinned_worker_id,
      p_job.pinned_instance_name,
    coalesce(p_job.labels, '{}'), coalesce(p_job.priority, 100), coalesce(p_job.max_attempts, 3), coalesce(p_job.approvals_required, 0),
    p_job.approval_deadline_at, p_job.plan_job_id, p_job.retry_of, p_job.rollout_id, p_job.idempotency_key,
    p_job.created_by, coalesce(p_job.created_by_label, 'system'), case when not v_waits then now() end
  ) returning * into v_job;
  perform private.record_job_event(v_job, 'enqueued', null, v_job.status,
    case when v_job.created_by is null then 'system' else 'user' end::public.actor_kind, v_job.created_by, v_job.created_by_label,
      p_reason);
  if not v_waits then
    perform private.queue_job(v_job);
  end if;
  return v_job;
end;
$$;
comment on function private.add_job(public.provision_jobs, text) is 'Writes a new job, its first event, and its place in the queue.';

create function private.group_chain(p_org uuid, p_path text, p_column text)
returns jsonb
language sql stable
set search_path = ''
as $$
  select coalesce(jsonb_object_agg(e.key, e.value order by length(g.path)), '{}')
  from public.groups as g
  cross join lateral jsonb_each(case p_column when 'env' then g.env else g.hooks end) as e
  where g.org_id = p_org and g.path = any (private.path_prefixes(p_path))
$$;
comment on function private.group_chain(uuid, text, text) is 'Variables or hooks of all groups above a module; the nearest group wins.';

create function private.freeze_payload(p_module public.modules, p_options jsonb)
returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object(
    'module', jsonb_build_object(
      'id', p_module.id, 'name', p_module.name, 'path', p_module.path, 'group_path', p_module.group_path, 'engine', p_module.engine,
      'engine_version', p_module.engine_version, 'source_kind', p_module.source_kind, 'source', p_module.source, 'inputs', p_module.inputs,
      'env', p_module.env, 'extra_files', p_module.extra_files, 'hooks', p_module.hooks),
    'group', jsonb_build_object(
      'env', private.group_chain(p_module.org_id, p_module.group_path, 'env'),
      'hooks', private.group_chain(p_module.org_id, p_module.group_path, 'hooks')),
    'options', coalesce(p_options, '{}'))
$$;
comment on function private.freeze_payload(public.modules, jsonb) is 'Everything that a runner needs to know about a module, as it is now.';

create function private.check_job_options(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.refuse_unknown_keys(p_options, array[
    'plan_job_id', 'priority', 'labels', 'pinned_worker_id', 'pinned_instance_name', 'max_attempts', 'idempotency_key',
    'approvals_required', 'auto_apply', 'refresh_only', 'destroy', 'targets', 'replace', 'reason']);
  if coalesce((p_options ->> 'priority')::integer, 100) not between 0 and 1000
    or coalesce((p_options ->> 'max_attempts')::integer, 3) not between 1 and 20
    or coalesce((p_options ->> 'approvals_required')::integer, 0) not between 0 and 10
    or length(p_options ->> 'idempotency_key') not between 1 and 200
    or not private.is_label_list(private.text_list(p_options -> 'labels')) then
    perform private.fail('RY422', 'An option of the job is out of range.',
      'priority 0 to 1000, max_attempts 1 to 20, approvals_required 0 to 10, a key of 1 to 200 characters, labels like "gpu=true".');
  end if;
  if p_options ->> 'pinned_worker_id' is not null and not exists (
    select from public.workers as w where w.id = (p_options ->> 'pinned_worker_id')::pg_catalog.uuid and w.removed_at is null
      and (w.org_id = p_org or w.is_shared)
  ) then
    perform private.fail('RY404', 'The runner that the job should be pinned to does not exist.');
  end if;
  if p_options ->> 'plan_job_id' is not null then
    perform private.check_saved_plan(p_type, p_module, (p_options ->> 'plan_job_id')::bigint);
  end if;
exception
  when invalid_text_representation or numeric_value_out_of_range then
    perform private.fail('RY422', 'An option of the job has the wrong type.', sqlerrm);
end;
$$;
comment on function private.check_job_options(uuid, public.job_type, uuid, jsonb) is 'Refuses options of a job that make no sense.';

create function private.check_saved_plan(p_type public.job_type, p_module uuid, p_plan bigint)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if p_type not in ('APPLY', 'DESTROY') or not exists (
    select from public.provision_jobs as j where j.id = p_plan and j.module_id = p_module and j.type = 'PLAN' and j.status = 'SUCCEEDED'
  ) then
    perform private.fail('RY422', format('Job %s is not a finished plan of this module.', p_plan), 'Plan first, then apply that plan.');
  end if;
  if exists (select from public.provision_jobs as j where j.plan_job_id = p_plan and j.status not in ('FAILED', 'CANCELLED')) then
    perform private.fail('RY409', format('Plan %s is already being applied, or was.', p_plan), 'Make a new plan.');
  end if;
end;
$$;
comment on function private.check_saved_plan(public.job_type, uuid, bigint) is
  'Refuses to apply what is not a finished plan of the module, and to apply a plan twice.';

create function private.module_job(p_module public.modules, p_type public.job_type, p_options jsonb)
returns public.provision_jobs
language plpgsql stable
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
begin
  v_job.org_id := p_module.org_id;
  v_job.type := p_type;
  v_job.module_id := p_module.id;
  v_job.module_path := p_module.path;
  v_job.group_path := p_module.group_path;
  v_job.labels := private.sorted_labels(p_module.labels || private.text_list(p_options -> 'labels'));
  v_job.priority := coalesce((p_options ->> 'priority')::smallint, 100);
  v_job.max_attempts := coalesce((p_options ->> 'max_attempts')::integer, 3);
  v_job.pinned_worker_id := coalesce((p_options ->> 'pinned_worker_id')::pg_catalog.uuid, p_module.pinned_worker_id);
  v_job.pinned_instance_name := coalesce(p_options ->> 'pinned_instance_name', p_module.runner_instance_name);
  v_job.plan_job_id := (p_options ->> 'plan_job_id')::bigint;
  v_job.idempotency_key := p_options ->> 'idempotency_key';
  -- A request may ask for more approvals than the module does, never for fewer.
  v_job.approvals_required := case when p_type in ('APPLY', 'DESTROY')
    then greatest(p_module.approvals_required, coalesce((p_options ->> 'approvals_required')::integer, 0)) else 0 end;
  v_job.approval_deadline_at := case when v_job.approvals_required > 0 then now() + make_interval(secs => p_module.approval_timeout_seconds) end;
  v_job.payload := private.freeze_payload(p_module, p_options - array['labels', 'priority', 'pinned_worker_id', 'pinned_instance_name',
    'max_attempts', 'idempotency_key', 'approvals_required', 'reason']);
  return v_job;
end;
$$;
comment on function private.module_job(public.modules, public.job_type, jsonb) is 'A job for a module, not yet written.';

create function private.enqueue_job(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
set plan_cache_mode = force_generic_plan
as $$
declare
  v_module public.modules;
  v_job public.provision_jobs;
begin
  perform private.need_role(p_org, 'operator');
  select * into v_module from public.modules where id = p_module and org_id = p_org and deleted_at is null;
  if v_module.id is null then
    perform private.fail('RY404', 'There is no such module.', 'It may have been removed.');
  end if;
  if p_type is null or p_type in ('DEPLOY_WORKER', 'UPDATE_WORKER', 'REMOVE_WORKER', 'VERIFY_IDENTITY') then
    perform private.fail('RY422', 'This type of job does not act on a module.',
      'Use the functions for cloud-hosted runners and cloud identities.');
  end if;
  perform pg_advisory_xact_lock(hashtextextended('runyard:idem:' || p_org || (p_options ->> 'idempotency_key'), 0))
    where p_options ->> 'idempotency_key' is not null;
  select * into v_job from public.provision_jobs where org_id = p_org and idempotency_key = p_options ->> 'idempotency_key';
  if v_job.id is not null then
    return to_jsonb(v_job);
  end if;
  perform private.check_job_options(p_org, p_type, p_module, p_options);
  v_job := private.module_job(v_module, p_type, coalesce(p_options, '{}'));
  v_job.created_by := private.caller_id();
  v_job.created_by_label := private.caller_label();
  v_job := private.add_job(v_job, p_options ->> 'reason');
  perform private.audit(p_org, 'job.enqueued', 'job', v_job.id::pg_catalog.text, p_type || ' ' || v_module.path);
  return to_jsonb(v_job);
end;
$$;
comment on function private.enqueue_job(uuid, public.job_type, uuid, jsonb) is 'Body of public.enqueue_job.';
grant execute on function private.enqueue_job(uuid, public.job_type, uuid, jsonb) to authenticated;

create function public.enqueue_job(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.enqueue_job(p_org, p_type, p_module, p_options); end $$;
comment on function public.enqueue_job(uuid, public.job_type, uuid, jsonb) is
  'Enqueues a job for a module, with everything frozen that the runner will need. Idempotent by its key. Operators.';
grant execute on function public.enqueue_job(uuid, public.job_type, uuid, jsonb) to authenticated;

revoke execute on all functions in schema private, public from public;
