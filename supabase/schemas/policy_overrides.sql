-- Overrides: a person with policy.override lets a plan pass an overridable set that it failed, with a reason. It is for
-- this plan alone, and approvals that were given before it end: they were for a plan whose checks had not passed.

-- Refuses an override of a plan that can no longer be applied.
create function private.check_override_is_current(p_plan public.provision_jobs) returns void language sql stable as $$
  select private.check_state_is_planned(p_plan.id);
  select private.fail('RY409', 'Nothing of this plan waits any more: it was replaced, applied or discarded.',
    'Override the check of the newest plan.')
  where p_plan.status <> 'SUCCEEDED' or private.discarded_at(p_plan.id) is not null or exists (
      select from public.provision_jobs as j where j.plan_job_id = p_plan.id
      having count(*) > 0 and count(*) filter (where j.status = 'AWAITING_APPROVAL') = 0)
    or p_plan.payload #> '{options,git,pull_request}' is not null and not exists (
      select from public.pull_requests as r where r.is_open
        and r.connection_id = (p_plan.payload #>> '{options,git,connection_id}')::pg_catalog.uuid
        and r.number = (p_plan.payload #>> '{options,git,pull_request}')::integer
        and r.head_commit = p_plan.payload #>> '{options,git,head_commit}')
$$;

create function private.override_check(p_job bigint, p_policy uuid, p_reason text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'policy.override');
  v_plan public.provision_jobs := (select j from public.provision_jobs as j
    where j.id = coalesce(v_job.plan_job_id, v_job.id));
  v_check public.policy_checks;
begin
  perform private.fail('RY422', 'An override needs a reason of at most 500 characters.',
    'Explain why this plan may pass all the same.')
  where length(trim(coalesce(p_reason, ''))) not between 1 and 500;
  select * into v_check from public.policy_checks where job_id = v_plan.id and set_id = p_policy for update;
  if v_check.job_id is null then
    perform private.fail('RY404', 'This plan has no such check.');
  elsif v_check.level <> 'overridable' or v_check.verdict not in ('failed', 'error')
    or v_check.overridden_at is not null then
    perform private.fail('RY409', format('The check "%s" does not wait for an override.', v_check.name),
      'Only a failed check of an overridable set does. Nobody overrides a mandatory one.');
  end if;
  perform private.check_override_is_current(v_plan);
  perform private.fail('RY403', 'You requested this job; somebody else overrides its checks.',
    'Ask another member with policy.override.')
  where private.caller_id() in (select private.requesters(v_job) union select private.requesters(v_plan)) and exists (
    select from public.modules as m join public.organizations as o on o.id = m.org_id
    where m.id = v_job.module_id and not o.can_approve_own_jobs and greatest(m.approvals_required, (
      select max(j.approvals_required) from public.provision_jobs as j
      where j.id = v_plan.id or j.plan_job_id = v_plan.id)) > 0);
  update public.policy_checks set overridden_by = private.caller_id(), override_reason = trim(p_reason),
    overridden_label = private.caller_label(v_job.org_id), overridden_at = now()
  where job_id = v_plan.id and set_id = p_policy returning * into v_check;
  with waiting as (
    update public.provision_jobs set approvals_received = 0 where plan_job_id = v_plan.id
      and status = 'AWAITING_APPROVAL' returning id)
  delete from public.approvals as a where a.decision = 'approve'
    and (a.job_id = v_plan.id or a.job_id in (select w.id from waiting as w));
  perform private.record_job_event(v_job, 'check_overridden', null, null, private.caller_kind(), private.caller_id(),
    v_check.overridden_label, format('%s: %s', v_check.name, v_check.override_reason));
  perform private.audit(v_job.org_id, 'policy.overridden', 'job', v_job.number::pg_catalog.text,
    v_job.type || ' ' || v_job.module_path, jsonb_build_object('policy', v_check.name, 'reason',
      v_check.override_reason, 'plan_sha256', v_plan.plan_sha256));
  return to_jsonb(v_check);
end;
$$;
comment on function private.override_check is
  'Overrides an overridable policy set that a plan failed, with a reason. Approvals given before it end. Not by the '
  'requester where others have to approve. Admins.';
