-- Plan, review, confirm. A plan that is to be applied (option confirm, or its module applies by itself) is followed by
-- a job of its own when it has changes. No runner waits meanwhile: the plan's file is an artifact, and the apply waits
-- here for a member to confirm that plan, or for the module's approvals. What was planned is what is applied, also when
-- the module has changed since: the payload is the plan's, with the commit that it was made from. When the state has
-- moved on, the plan is worth nothing: it is refused, and an apply that still waits for somebody ends by itself.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.state_serial(p_module uuid)
returns bigint
language sql stable
set search_path = ''
as $$
  select coalesce((select s.serial from private.states as s where s.module_id = p_module), 0)
$$;
comment on function private.state_serial(uuid) is 'The serial of a module''s state; 0 while it has none.';

create function private.check_state_is_planned(p_plan bigint)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_plan public.provision_jobs;
begin
  select * into v_plan from public.provision_jobs where id = p_plan;
  if v_plan.planned_serial <> private.state_serial(v_plan.module_id) then
    perform private.fail('RY409', format('The state has moved on since plan %s: it was made against serial %s, and now '
      'there is %s.', p_plan, v_plan.planned_serial, private.state_serial(v_plan.module_id)),
      'Make a new plan, and look at that one.');
  end if;
end;
$$;
comment on function private.check_state_is_planned(bigint) is
  'Refuses a plan that was made against another state than the module has now.';

create function private.planned_payload(p_plan bigint)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  v_plan public.provision_jobs;
  v_commit pg_catalog.text;
begin
  select * into v_plan from public.provision_jobs where id = p_plan;
  v_commit := v_plan.result ->> 'commit';
  return jsonb_set(case when v_commit is null then v_plan.payload
      else jsonb_set(v_plan.payload, '{module,source,commit}', to_jsonb(v_commit)) end,
    '{options}', coalesce(v_plan.payload -> 'options', '{}') || jsonb_build_object('plan_job_id', p_plan));
end;
$$;
comment on function private.planned_payload(bigint) is
  'What a plan had frozen, for the job that applies it: the same module, from the same commit.';

create function private.is_applied_next(p_plan public.provision_jobs)
returns boolean
language sql immutable
set search_path = ''
as $$
  select coalesce((p_plan.plan_summary ->> 'has_changes')::boolean, false)
    and not coalesce((p_plan.payload #>> '{options,refresh_only}')::boolean, false)
    and p_plan.payload #>> '{options,inspects}' is null
    and p_plan.payload #>> '{module,source_kind}' is distinct from 'upload'
$$;
comment on function private.is_applied_next(public.provision_jobs) is
  'Whether there is something to apply in a plan: it has changes, and was not made only to look.';

create function private.follow_plan(p_plan public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_module public.modules;
  v_job public.provision_jobs := p_plan;
  v_is_destroy boolean;
  v_is_auto boolean;
  v_is_held boolean;
begin
  select * into v_module from public.modules where id = p_plan.module_id and deleted_at is null;
  v_is_destroy := coalesce((p_plan.payload #>> '{options,destroy}')::boolean, false);
  -- A module that applies by itself does not destroy by itself.
  v_is_auto := coalesce((p_plan.payload #>> '{options,auto_apply}')::boolean, v_module.auto_apply and not v_is_destroy);
  -- What a person has locked waits for a person.
  v_is_held := not v_is_auto or exists (select from public.module_locks as l where l.module_id = v_module.id);
  if v_module.id is null or not private.is_applied_next(p_plan)
    or not (v_is_auto or coalesce((p_plan.payload #>> '{options,confirm}')::boolean, false)) then
    return;
  end if;
  v_job.type := case when v_is_destroy then 'DESTROY' else 'APPLY' end;
  v_job.payload := private.planned_payload(p_plan.id);
  v_job.plan_job_id := p_plan.id;
  v_job.retry_of := null;
  v_job.idempotency_key := null;
  v_job.max_attempts := 3;
  v_job.approvals_required := v_module.approvals_required;
  v_job.needs_confirmation := v_is_held;
  v_job.approval_deadline_at := case when v_module.approvals_required > 0 or v_is_held
    then now() + make_interval(secs => v_module.approval_timeout_seconds) end;
  perform private.add_job(v_job, format('Plan %s has changes%s.', p_plan.id,
    case when not v_is_held then ', and its module applies by itself' else '' end));
end;
$$;
comment on function private.follow_plan(public.provision_jobs) is
  'Enqueues the apply of a finished plan that has something to apply: to be confirmed, or by itself where the module '
  'says so.';

create function private.drop_outdated_applies(p_job public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.end_job(j.id, 'CANCELLED', 'outdated', 'system', null, 'system',
    format('The state has moved on since plan %s.', j.plan_job_id))
  from public.provision_jobs as j join public.provision_jobs as p on p.id = j.plan_job_id
  where j.org_id = p_job.org_id and j.status = 'AWAITING_APPROVAL' and j.module_id = p_job.module_id
    and j.id <> p_job.id and p.planned_serial <> private.state_serial(p_job.module_id);
end;
$$;
comment on function private.drop_outdated_applies(public.provision_jobs) is
  'Ends what still waits for somebody and can no longer be applied, because this job has changed the state.';

-- ---------------------------------------------------------------------------------------------- deciding

create function private.check_own_approval(p_job public.provision_jobs, p_override_reason text)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  -- An organisation has an owner: who is alone is one.
  v_is_alone boolean := not exists (
    select from public.memberships as m where m.org_id = p_job.org_id and m.user_id <> private.caller_id()
      and m.role <= 'operator');
  -- A confirmation is no approval: where no approval is asked for, who asked may give it.
  v_is_own boolean := p_job.approvals_required > 0 and p_job.created_by = private.caller_id() and not (
    select o.can_approve_own_jobs from public.organizations as o where o.id = p_job.org_id);
begin
  if not coalesce(v_is_own, false) then
    if p_override_reason is not null then
      perform private.fail('RY422', 'There is nothing to override: you may approve this job.',
        'Approve it without a reason for an override.');
    end if;
  elsif not v_is_alone and p_override_reason is not null then
    perform private.fail('RY403', 'You are not alone: somebody else can approve it.',
      'Ask another operator, admin or owner.');
  elsif p_override_reason is null then
    perform private.fail('RY403', 'You asked for this job; somebody else approves it.', case when v_is_alone
      then 'You are the only one who could: give a reason, and approve it all the same.'
      else 'Ask another operator, admin or owner; or an owner changes the organisation''s setting.' end);
  elsif trim(p_override_reason) = '' then
    perform private.fail('RY422', 'An override needs a reason.', 'Say why you approve a job of your own.');
  end if;
end;
$$;
comment on function private.check_own_approval(public.provision_jobs, text) is
  'Refuses the approval of somebody who asked for the job; an owner whom nobody else could approve for says why, and '
  'may.';

create function private.approve_job(p_job bigint, p_decision text, p_comment text, p_override_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'operator');
  v_is_override boolean := p_decision = 'approve' and p_override_reason is not null;
  v_comment pg_catalog.text := coalesce(case when v_is_override then trim(p_override_reason) else p_comment end, '');
  v_label pg_catalog.text := private.caller_label(v_job.org_id);
begin
  if p_decision is null or p_decision not in ('approve', 'reject') then
    perform private.fail('RY422', 'A decision is "approve" or "reject".');
  end if;
  if v_job.status <> 'AWAITING_APPROVAL' then
    perform private.fail('RY409', format('The job is %s; it does not wait for approval.', v_job.status),
      'Look at it again.');
  end if;
  if p_decision = 'approve' then
    perform private.check_own_approval(v_job, p_override_reason);
    perform private.check_state_is_planned(v_job.plan_job_id);
    perform private.refuse_locked_modules(array[v_job.module_id]);
  end if;
  insert into public.approvals (org_id, job_id, user_id, user_label, decision, comment, is_override)
  values (v_job.org_id, p_job, private.caller_id(), v_label, p_decision, v_comment, v_is_override);
  perform private.audit(v_job.org_id, 'job.' || case when v_is_override then 'approval_overridden'
    when p_decision = 'approve' and v_job.approvals_required = 0 then 'confirmed' else p_decision end,
    'job', p_job::pg_catalog.text, v_job.type || ' ' || coalesce(v_job.module_path, ''),
    jsonb_build_object(case when v_is_override then 'reason' else 'comment' end, v_comment));
  if p_decision = 'reject' then
    return to_jsonb(private.end_job(p_job, 'CANCELLED', 'rejected', private.caller_kind(), private.caller_id(),
      v_label, v_comment));
  end if;
  -- Nobody else is there to approve the rest of what an override stands for.
  update public.provision_jobs set approvals_received = case when v_is_override then approvals_required
    else approvals_received + 1 end
  where id = p_job returning * into v_job;
  if v_job.approvals_received >= v_job.approvals_required then
    update public.provision_jobs set status = 'QUEUED', queued_at = now() where id = p_job returning * into v_job;
    perform private.record_job_event(v_job, case when v_job.approvals_required = 0 then 'confirmed' else 'approved' end,
      'AWAITING_APPROVAL', 'QUEUED', private.caller_kind(), private.caller_id(), v_label, v_comment);
    perform private.queue_jobs(v_job.org_id, array[p_job]);
  else
    perform private.record_job_event(v_job, 'approval', null, null, private.caller_kind(), private.caller_id(),
      v_label, v_comment);
  end if;
  return to_jsonb(v_job);
exception
  when unique_violation then
    perform private.fail('RY409', 'You have already decided about this job.', 'Another member must decide now.');
  when check_violation then
    perform private.fail('RY422', 'The comment is too long.', 'At most 2,000 characters.');
end;
$$;
comment on function private.approve_job(bigint, text, text, text) is 'Body of public.approve_job.';
grant execute on function private.approve_job(bigint, text, text, text) to authenticated;

-- ---------------------------------------------------------------------------------------------- what is reviewed

create function private.plan_changes(p_job bigint, p_address text)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_answer pg_catalog.jsonb;
begin
  select * into v_job from public.provision_jobs where id = p_job and org_id in (select private.my_org_ids());
  if v_job.id is null then
    perform private.fail('RY404', format('There is no job %s.', p_job));
  end if;
  select convert_from(a.body, 'UTF8')::pg_catalog.jsonb into v_answer from private.artifacts as a
  where a.job_id in (v_job.id, v_job.plan_job_id) and a.name = 'changes.json' order by a.job_id, a.attempt desc limit 1;
  v_answer := coalesce(v_answer, '{"resources": []}');
  return case when p_address is null then v_answer else jsonb_set(v_answer, '{resources}', coalesce((
    select jsonb_agg(r) from jsonb_array_elements(v_answer -> 'resources') as r where r ->> 'address' = p_address),
    '[]')) end;
end;
$$;
comment on function private.plan_changes(bigint, text) is 'Body of public.plan_changes.';
grant execute on function private.plan_changes(bigint, text) to authenticated;

create table public.job_comments (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  user_id uuid not null,
  user_label text not null,
  body text not null check (length(trim(body)) between 1 and 4000),
  created_at timestamptz not null default now()
);
create index job_comments_job_id_idx on public.job_comments (job_id, id);
create index job_comments_org_id_idx on public.job_comments (org_id);
alter table public.job_comments enable row level security;
grant select on public.job_comments to authenticated, service_role;

create policy "Members see their organisation's comments" on public.job_comments
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.job_comments is 'What members say to each other about a job. Never changed, never removed.';
comment on column public.job_comments.user_label is 'Their name at that time.';
comment on column public.job_comments.body is 'What they said, at most 4,000 characters.';
create trigger ring after insert on public.job_comments for each row execute function private.ring_changed_row();

create function private.comment_on_job(p_job bigint, p_body text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_org pg_catalog.uuid := (
    select j.org_id from public.provision_jobs as j where j.id = p_job and j.org_id in (select private.my_org_ids()));
  v_comment public.job_comments;
begin
  if v_org is null then
    perform private.fail('RY404', format('There is no job %s.', p_job));
  end if;
  perform private.need_role(v_org, 'viewer');
  insert into public.job_comments (org_id, job_id, user_id, user_label, body)
  values (v_org, p_job, private.caller_id(), private.caller_label(v_org), trim(p_body)) returning * into v_comment;
  return to_jsonb(v_comment);
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A comment has 1 to 4,000 characters.', 'Say something, or less.');
end;
$$;
comment on function private.comment_on_job(bigint, text) is 'Body of public.comment_on_job.';
grant execute on function private.comment_on_job(bigint, text) to authenticated;

revoke execute on all functions in schema private from public;
