-- Decisions of people about jobs: cancel, retry, resolve, approve, confirm, comment; maintenance, which stops claims.

-- ## maintenance
-- Maintenance, of an organisation or of the installation: nothing new is claimed, what runs finishes, and every job
-- that waits shows until when and why. It ends at that time.
create view private.organizations_in_maintenance as
select
  o.id as org_id,
  -- Whichever lasts longer.
  case when o.maintenance_until > coalesce(i.maintenance_until, '-infinity') then
      jsonb_build_object('scope', 'organization', 'until', o.maintenance_until, 'reason', o.maintenance_reason)
    else jsonb_build_object('scope', 'installation', 'until', i.maintenance_until, 'reason', i.maintenance_reason)
  end as maintenance
from public.organizations as o cross join private.installation as i
where i.is_only and greatest(i.maintenance_until, o.maintenance_until) > now();
comment on view private.organizations_in_maintenance is 'Organisations whose jobs are not taken now.';

-- The maintenance that keeps an organisation's jobs from being taken now: whose it is, until when and why; or null.
create function private.current_maintenance(p_org uuid) returns jsonb language sql stable as $$
  select m.maintenance from private.organizations_in_maintenance as m where m.org_id = p_org
$$;

create function private.maintenance(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('organization.read', p_org);
  select private.current_maintenance(p_org)
$$;
comment on function private.maintenance is
  'The maintenance that keeps the organisation''s jobs waiting, {scope, until, reason}, or null. Members.';

-- Refuses a maintenance without an end or a reason.
create function private.check_maintenance(p_until timestamptz, p_reason text) returns void language sql stable as $$
  select private.fail('RY422', 'Maintenance ends at a time within the next 30 days.',
    'Send the time of its end, or none to end it now.')
  where p_until <= now() or p_until > now() + interval '30 days';
  select private.fail('RY422', 'Maintenance needs a reason of at most 500 characters.',
    'Add a reason why jobs wait: every member reads it.')
  where p_until is not null and length(trim(coalesce(p_reason, ''))) not between 1 and 500
$$;

-- Wakes the runners of every lane with a ready job, of one organisation or of all.
create function private.wake_lanes(p_org uuid) returns void language sql as $$
  select private.wake_lane(l.id) from private.ready_lanes as l where p_org is null or l.org_id = p_org limit 1000
$$;

-- Notes a maintenance of an organisation or of the installation. Jobs that waited for its end are offered again.
create function private.note_maintenance(p_org uuid, p_until timestamptz, p_reason text) returns void language sql as $$
  select private.audit(p_org, s.scope || case when p_until is null then '.maintenance_ended' else '.maintenance' end,
    s.scope, p_org::pg_catalog.text, null, jsonb_build_object('until', p_until, 'reason', p_reason))
  from (select case when p_org is null then 'installation' else 'organization' end as scope) as s;
  select private.wake_org(o.id, 'organizations', o.id::pg_catalog.text) from public.organizations as o
  where p_org is null or o.id = p_org;
  select private.wake_lanes(p_org) where p_until is null
$$;

create function private.set_maintenance(p_org uuid, p_until timestamptz default null, p_reason text default null)
returns jsonb language sql security definer set search_path = '' as $$
  select private.need('organization.maintain', p_org);
  select private.check_maintenance(p_until, p_reason);
  update public.organizations set maintenance_until = p_until,
    maintenance_reason = case when p_until is not null then trim(p_reason) end where id = p_org;
  select private.note_maintenance(p_org, p_until, p_reason);
  select jsonb_build_object('maintenance', private.current_maintenance(p_org))
$$;
comment on function private.set_maintenance is
  'Until then no runner takes a job of the organisation; what runs, finishes. Without a time it ends at once. Admins.';

create function private.set_installation_maintenance(p_until timestamptz default null, p_reason text default null)
returns jsonb language sql security definer set search_path = '' as $$
  select private.check_maintenance(p_until, p_reason);
  update private.installation set maintenance_until = p_until,
    maintenance_reason = case when p_until is not null then trim(p_reason) end where is_only;
  select private.note_maintenance(null, p_until, p_reason);
  select jsonb_build_object('maintenance', case when p_until is not null then jsonb_build_object('scope',
    'installation', 'until', p_until, 'reason', trim(p_reason)) end)
$$;
comment on function private.set_installation_maintenance is
  'Until then no runner takes any job; what runs, finishes. Without a time it ends at once. Service key only.';

-- A job that the caller may decide about, with everything locked that a decision changes.
create function private.my_job(p_job bigint, p_verb text, out v_job public.provision_jobs) language plpgsql as $$
begin
  v_job := private.seen_job(p_job, p_verb);
  perform private.lock_state(v_job.org_id, s.state_key) from private.job_states as s where s.job_id = p_job;
  perform from private.live_jobs as q where q.job_id = p_job for update;
  select * into v_job from public.provision_jobs where id = p_job for no key update;
end;
$$;

create function private.cancel_job(
  p_job bigint, p_kind public.cancel_kind default 'GRACEFUL', p_reason text default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  -- A person who may plan may stop a plan of their own.
  v_job public.provision_jobs := private.my_job(p_job, (select case when j.created_by = private.caller_id()
    and j.type in ('PLAN', 'DRIFT') then 'job.plan' else 'job.cancel' end
    from public.provision_jobs as j where j.id = p_job));
begin
  perform private.check_reason(p_reason);
  if v_job.status in ('AWAITING_APPROVAL', 'QUEUED') then
    perform private.end_job(p_job, 'CANCELLED', 'cancelled', private.caller_kind(), private.caller_id(),
      private.caller_label(v_job.org_id), p_reason);
    select * into v_job from public.provision_jobs where id = p_job;
  elsif v_job.status in ('CLAIMED', 'PROCESSING') then
    v_job := private.request_stop(p_job, coalesce(p_kind, 'GRACEFUL'), private.caller_kind(), private.caller_id(),
      private.caller_label(v_job.org_id), p_reason);
  elsif v_job.status = 'NEEDS_ATTENTION' then
    perform private.fail('RY409', 'Nothing is running; the job needs a decision.',
      'Resolve it: look with a refresh-only plan, retry it, or mark it as failed.');
  else
    perform private.fail('RY409', format('The job is %s already.', v_job.status), 'Finished jobs cannot be cancelled.');
  end if;
  perform private.audit(v_job.org_id, 'job.cancelled', 'job', v_job.number::pg_catalog.text,
    v_job.type || ' ' || coalesce(v_job.module_path, ''), jsonb_build_object('kind', p_kind, 'reason', p_reason));
  return to_jsonb(v_job);
end;
$$;
comment on function private.cancel_job is
  'Cancels a job that has not begun at once, and asks the runner to stop one that has: after the step, gracefully, or '
  'now. Operators; planners for their own plans.';

-- Refuses to run a job again about a runner that was removed or has another job, or to a release that was withdrawn.
create function private.check_retry_target(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_worker public.workers;
begin
  -- Or the newest plan, which is reviewed and applied, would be of older content.
  perform private.fail('RY409', format('Pull request #%s has a newer plan of this module.',
    p_job.payload #>> '{options,git,pull_request}'), 'Look at that one, or plan the pull request again.')
  where p_job.type = 'PLAN' and exists (select from public.provision_jobs as j where j.org_id = p_job.org_id
    and j.module_id = p_job.module_id and j.type = 'PLAN' and j.id > p_job.id
    and j.payload #>> '{options,git,pull_request}' = p_job.payload #>> '{options,git,pull_request}'
    and j.payload #>> '{options,git,connection_id}' = p_job.payload #>> '{options,git,connection_id}');
  if p_job.target_worker_id is null then return; end if;
  select * into v_worker from public.workers where id = p_job.target_worker_id;
  perform private.fail('RY409', format('"%s" was removed.', v_worker.name),
    'Nothing is left to run it for. Deploy the runner again instead.')
  where v_worker.removed_at is not null or v_worker.cloud ? 'is_gone';
  perform private.refuse_second_lifecycle_job(v_worker.id);
  perform private.need_updatable(v_worker, p_job.payload #>> '{lifecycle,version}') where p_job.type = 'UPDATE_WORKER';
end;
$$;

create function private.retry_job(p_job bigint, p_reason text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.provision_jobs := private.my_job(p_job, 'job.read');
  v_new public.provision_jobs := v_old;
  v_module public.modules;
begin
  perform private.need(private.verb_to_run(v_old.type, v_old.payload -> 'options'), v_old.org_id, v_old.module_path);
  perform private.check_reason(p_reason);
  perform private.fail('RY409', format('The job is %s; only a failed or cancelled one can be retried.', v_old.status),
    case when v_old.status = 'NEEDS_ATTENTION' then 'Resolve it first.' else 'Enqueue a new one instead.' end)
  where v_old.status not in ('FAILED', 'CANCELLED');
  perform private.fail('RY409', 'The job ended more than 90 days ago; its options are past their retention period.',
    'Enqueue a new one instead.') where v_old.slimmed_at is not null;
  select * into v_module from public.modules where id = v_old.module_id and deleted_at is null;
  if v_old.module_id is null then
    perform private.need('job.destroy', v_old.org_id, v_old.module_path);
  elsif v_module.id is null then
    perform private.fail('RY409', 'Its module was removed.', 'Nothing is left to run it for.');
  end if;
  perform private.need_pinned_runner(v_old.pinned_worker_id);
  perform private.check_retry_target(v_old);
  perform private.check_state_change(array[v_old.module_id], v_old.payload #> '{options,state_change}')
  where v_old.type = 'STATE';
  if v_old.plan_job_id is not null then
    perform private.check_saved_plan(v_old.org_id, v_old.type, v_old.module_id, v_old.plan_job_id);
  elsif v_old.type in ('PLAN', 'APPLY', 'DESTROY') then
    v_new.payload := private.with_policies(v_old.payload, v_old.org_id, v_old.module_path);
  end if;
  v_new.retry_of := p_job;
  v_new.idempotency_key := null;
  v_new.rollout_id := null;
  v_new.needs_confirmation := false;
  v_new.created_by := private.caller_id();
  v_new.created_by_label := private.caller_label(v_old.org_id);
  if v_old.type = 'PLAN' then
    v_new.payload := v_new.payload || jsonb_build_object('options', private.caller_options(v_old.org_id, 'PLAN',
      array[v_old.module_path], v_old.payload -> 'options'));
  end if;
  -- The module's present requirement counts, unless the job requires more.
  if v_old.type in ('APPLY', 'DESTROY', 'STATE') then
    perform private.refuse_locked_modules(array[v_old.module_id], v_old.plan_job_id);
    v_new.approvals_required := greatest(v_old.approvals_required, v_module.approvals_required);
  end if;
  v_new.approval_deadline_at := case when v_new.approvals_required > 0
    then now() + make_interval(secs => coalesce(v_module.approval_timeout_seconds, 86400)) end;
  -- States come before the locks of sets, and the new job takes the place of the old one in its set.
  perform private.lock_state(v_old.org_id, s.state_key) from private.job_states as s where s.job_id = p_job;
  v_new := private.add_job(v_new, coalesce(p_reason, format('Retry of job %s.', v_old.number)));
  perform private.record_job_event(v_old, 'retried_as', null, null, private.caller_kind(), private.caller_id(),
    private.caller_label(v_old.org_id), p_reason, jsonb_build_object('job', v_new.number));
  perform private.audit(v_old.org_id, 'job.retried', 'job', v_old.number::pg_catalog.text,
    v_old.type || ' ' || coalesce(v_old.module_path, ''), jsonb_build_object('as', v_new.number));
  return to_jsonb(v_new);
end;
$$;
comment on function private.retry_job is
  'Enqueues a failed or cancelled job again, as a new job with the same frozen payload and the larger number of '
  'approvals. Operators; admins for runners'' own jobs.';

-- ## attention
-- Enqueues a refresh-only plan that may run although the job holds the state: it looks and writes nothing.
create function private.inspect_job(p_job public.provision_jobs) returns jsonb language plpgsql as $$
declare
  v_new bigint;
begin
  perform private.fail('RY422', 'This job acts on no module, so there is nothing to plan.',
    'Retry it, or mark it as failed.') where p_job.module_id is null;
  v_new := (private.add_module_jobs(p_job.org_id, 'PLAN', array[p_job.module_id], null,
    jsonb_build_object('refresh_only', true, 'inspects', p_job.id, 'lock', false)))[1];
  perform private.lock_state(p_job.org_id, s.state_key) from private.job_states as s where s.job_id = v_new;
  perform private.place_jobs(p_job.org_id, array[v_new], format('To see what job %s left behind.', p_job.number));
  return (select to_jsonb(j) from public.provision_jobs as j where j.id = v_new);
end;
$$;

-- Marks a held job as failed; its state lock goes only with the lock's id as proof.
create function private.fail_held(p_job public.provision_jobs, p_proof text, out v_job public.provision_jobs)
language plpgsql as $$
declare
  v_lock private.state_locks;
begin
  select * into v_lock from private.state_locks where module_id = p_job.module_id and job_id = p_job.id;
  perform private.end_job(p_job.id, 'FAILED', 'marked_failed', private.caller_kind(), private.caller_id(),
    private.caller_label(p_job.org_id), 'Marked as failed');
  select * into v_job from public.provision_jobs where id = p_job.id;
  -- Ending a job releases its lock and lets the next one begin; this lock stays unless the caller showed that they know
  -- it, and with it everybody waits.
  if v_lock.module_id is not null and p_proof is null then
    insert into private.state_locks select v_lock.*;
    update private.live_jobs as q set stage = 'WAITING', lane_id = null
    where q.state_key = p_job.module_id and q.stage in ('READY', 'BACKOFF');
  end if;
end;
$$;

-- Runs a held job again as it is, unless a member has locked its module or it would need more approvals now.
create function private.retry_held(p_job public.provision_jobs, p_live private.live_jobs) returns jsonb
language sql as $$
  select private.need_pinned_runner(p_job.pinned_worker_id);
  select private.refuse_locked_modules(array[p_job.module_id], p_job.plan_job_id);
  select private.fail('RY409', format('Its module requires %s approvals now; the job has %s.', m.approvals_required,
    p_job.approvals_received), 'Mark it as failed and retry it: the new job waits for them.')
  from public.modules as m where m.id = p_job.module_id and m.approvals_required > p_job.approvals_required;
  select private.requeue_job(p_live, 'retried', private.caller_kind(), private.caller_id(),
    private.caller_label(p_job.org_id), 'Decided to run it again', interval '0');
  -- A person's decision to try again is worth one attempt more than the limit.
  update public.provision_jobs as j set max_attempts = least(20, greatest(max_attempts, attempt + 1)), error = null
  where id = p_job.id returning to_jsonb(j)
$$;

create function private.resolve_attention(p_job bigint, p_action text, p_proof text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'job.resolve');
  v_live private.live_jobs;
  v_answer pg_catalog.jsonb;
begin
  perform private.fail('RY409', format('The job is %s; there is nothing to resolve.', v_job.status),
    'Look at it again.') where v_job.status <> 'NEEDS_ATTENTION';
  select * into v_live from private.live_jobs where job_id = p_job;
  if p_action = 'refresh_plan' then
    v_answer := private.inspect_job(v_job);
  elsif p_action = 'retry' then
    v_answer := private.retry_held(v_job, v_live);
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
  perform private.audit(v_job.org_id, 'job.resolved', 'job', v_job.number::pg_catalog.text,
    v_job.type || ' ' || coalesce(v_job.module_path, ''), jsonb_build_object('action', p_action));
  return v_answer;
end;
$$;
comment on function private.resolve_attention is
  'The way out of NEEDS_ATTENTION: refresh_plan, retry, mark_failed, release_lock (proof: the lock''s id). Operators.';

-- ## deciding
-- The people who requested a job: directly, by requesting the job that it retries or follows, by running a schedule of
-- which it or its plan is part, or by making the change that it was planned for.
create function private.requesters(p_job public.provision_jobs) returns setof uuid language sql stable as $$
  with recursive line as (
    select p_job.created_by as who, p_job.retry_of, p_job.plan_job_id
    union
    select j.created_by, j.retry_of, j.plan_job_id from line as l join public.provision_jobs as j
      -- The member who planned what a service account applies has requested it, too.
      on j.id = l.retry_of or j.id = l.plan_job_id and (j.created_by = l.who or not exists (
        select from public.memberships as m where m.org_id = j.org_id and m.user_id = l.who))
  )
  select l.who from line as l where l.who is not null
  union
  select s.started_by from private.set_members as m join public.job_sets as s on s.id = m.set_id
  where m.job_id in (p_job.id, p_job.plan_job_id) and s.started_by is not null
  union
  select private.change_makers(p_job)
$$;

-- Whether nobody but this member may approve jobs.
create function private.is_only_approver(p_org uuid, p_path text, p_user uuid) returns boolean language sql stable as $$
  select not exists (select from public.memberships as m where m.org_id = p_org and m.user_id <> p_user
    and private.may('job.approve', p_org, p_path, m.user_id))
$$;

-- Jobs that wait for others: each with a member who requested it and may not approve it, or has approved it already.
create function private.waits_for_others(p_org uuid, p_modules uuid[] default null)
returns table (user_id uuid, job_id bigint, type public.job_type) language sql stable as $$
  select r.user_id, j.id, j.type from public.provision_jobs as j
    join public.organizations as o on o.id = j.org_id and not o.can_approve_own_jobs
    cross join lateral private.requesters(j) as r (user_id)
    join public.memberships as m on m.org_id = p_org and m.user_id = r.user_id
  where j.org_id = p_org and j.status = 'AWAITING_APPROVAL' and j.approvals_required > 0
    and (p_modules is null or j.module_id = any (p_modules))
    and not private.is_only_approver(p_org, j.module_path, m.user_id)
  union
  select a.user_id, j.id, j.type from public.provision_jobs as j join public.approvals as a on a.job_id = j.id
  where j.org_id = p_org and j.status = 'AWAITING_APPROVAL' and (p_modules is null or j.module_id = any (p_modules))
$$;

-- Refuses an approval by a requester; an owner whom nobody else could approve for gives a reason, and may.
create function private.check_own_approval(p_job public.provision_jobs, p_override_reason text) returns void
language plpgsql stable as $$
declare
  -- An organisation has an owner, so its only member is one.
  v_is_alone boolean := private.is_only_approver(p_job.org_id, p_job.module_path, private.caller_id());
  -- A confirmation is not an approval: where no approval is required, the requester may confirm.
  v_is_own boolean := p_job.approvals_required > 0 and private.caller_id() in (
    select private.requesters(p_job)) and not (
    select o.can_approve_own_jobs from public.organizations as o where o.id = p_job.org_id);
begin
  if not coalesce(v_is_own, false) then
    perform private.fail('RY422', 'There is nothing to override: you may approve this job.',
      'Approve it without a reason for an override.') where p_override_reason is not null;
  elsif not v_is_alone and p_override_reason is not null then
    perform private.fail('RY403', 'You are not alone: somebody else can approve it.',
      'Ask another operator, admin or owner.');
  elsif p_override_reason is null then
    perform private.fail('RY403', format('%s; somebody else approves it.', case
      when private.caller_id() in (select private.change_makers(p_job)) then 'You made this change'
      else 'You requested this job' end), case when v_is_alone
      then 'You are the only one who could: give a reason, and approve it all the same.'
      else 'Ask another operator, admin or owner; or an owner changes the organisation''s setting.' end);
  elsif trim(p_override_reason) = '' then
    perform private.fail('RY422', 'An override needs a reason.', 'Explain why you approve a job of your own.');
  end if;
end;
$$;

-- Whether a job is a plan that can be discarded although no apply of it waits.
create function private.is_discardable(p_job public.provision_jobs) returns boolean language sql stable as $$
  select p_job.type = 'PLAN' and p_job.status = 'SUCCEEDED' and coalesce(p_job.plan_summary -> 'has_changes' = 'true',
    false) and p_job.payload #> '{options,git,pull_request}' is null
$$;

create function private.approve_job(
  p_job bigint, p_decision text, p_comment text default null, p_override_reason text default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'job.approve');
  v_is_override boolean := p_decision = 'approve' and p_override_reason is not null;
  v_comment pg_catalog.text := coalesce(case when v_is_override then trim(p_override_reason) else p_comment end, '');
  v_label pg_catalog.text := private.caller_label(v_job.org_id);
  v_is_plan boolean := private.is_discardable(v_job) and p_decision = 'reject';
begin
  perform private.fail('RY422', 'A decision is "approve" or "reject".')
  where p_decision is null or p_decision not in ('approve', 'reject');
  if v_job.type = 'PLAN' and v_job.payload #>> '{options,git,pull_request}' is not null then
    perform private.review_pull_plan(v_job, p_decision, v_comment);
    return to_jsonb(v_job);
  end if;
  perform private.fail('RY409', format('The job is %s; it does not wait for approval.', v_job.status),
    case when v_job.finished_at is null then 'Cancel it, or let it end.' else 'It is over.' end)
  where v_job.status <> 'AWAITING_APPROVAL' and not v_is_plan;
  perform private.check_plan_is_unused(p_job) where v_is_plan;
  if p_decision = 'approve' then
    -- A confirmation is what runs it.
    perform private.need('job.apply', v_job.org_id, v_job.module_path) where v_job.approvals_required = 0;
    perform private.check_own_approval(v_job, p_override_reason);
    perform private.check_promotion(v_job.plan_job_id);
    perform private.check_state_is_planned(v_job.plan_job_id);
    -- An approval that is not the last may come before an override, which ends it.
    perform private.check_policies(v_job.plan_job_id) where v_job.approvals_received + 1 >= v_job.approvals_required;
    perform private.refuse_locked_modules(array[v_job.module_id], v_job.plan_job_id);
  end if;
  insert into public.approvals (org_id, job_id, user_id, user_label, decision, comment, is_override, plan_sha256,
    signed_in)
  values (v_job.org_id, p_job, private.caller_id(), v_label, p_decision, v_comment, v_is_override, v_job.plan_sha256,
    private.signed_in());
  perform private.audit(v_job.org_id, 'job.' || case when v_is_override then 'approval_overridden'
    when p_decision = 'approve' and v_job.approvals_required = 0 then 'confirmed' else p_decision end,
    'job', v_job.number::pg_catalog.text, v_job.type || ' ' || coalesce(v_job.module_path, ''),
    jsonb_strip_nulls(jsonb_build_object(case when v_is_override then 'reason' else 'comment' end, v_comment,
      'plan_sha256', v_job.plan_sha256)));
  if v_is_plan then
    perform private.record_job_event(v_job, 'rejected', null, null, private.caller_kind(), private.caller_id(), v_label,
      v_comment);
    return to_jsonb(v_job);
  elsif p_decision = 'reject' then
    perform private.end_job(p_job, 'CANCELLED', 'rejected', private.caller_kind(), private.caller_id(), v_label,
      v_comment);
    return (select to_jsonb(j) from public.provision_jobs as j where j.id = p_job);
  end if;
  return to_jsonb(private.count_approval(p_job, v_is_override, v_label, v_comment));
exception
  when unique_violation then
    perform private.fail('RY409', 'You have already decided about this job.', 'Another member must decide now.');
  when check_violation then
    perform private.fail('RY422', 'The comment is too long.', 'At most 2,000 characters.');
end;
$$;
comment on function private.approve_job is
  'Approves (or confirms) or rejects a job that waits for somebody, once per member; who asked for it does not '
  'approve it, unless an owner is alone and gives a reason, but may confirm its plan where no approval is needed. '
  'Refused when the state has moved on since the plan. The last approval needed queues it. A finished plan with '
  'changes can be rejected before any apply; once rejected, it is never applied. The plan of a pull request '
  'is reviewed so; the review counts after the merge, where content and changes are the same. Operators.';

-- ## what is reviewed
create function private.plan_changes(p_job bigint, p_address text default null) returns jsonb
language sql stable security definer set search_path = '' as $$
  select case when p_address is null then f.found else jsonb_set(f.found, '{resources}', coalesce((
    select jsonb_agg(r) from jsonb_array_elements(f.found -> 'resources') as r where r ->> 'address' = p_address),
    '[]')) end
  from private.seen_job(p_job) as j cross join lateral (select coalesce((
    select convert_from(a.body, 'UTF8')::pg_catalog.jsonb from private.artifacts as a
    where a.job_id in (j.id, j.plan_job_id) and a.name = 'changes.json' order by a.job_id, a.attempt desc limit 1),
    '{"resources": []}') as found) as f
$$;
comment on function private.plan_changes is
  'What a job''s plan changes, attribute by attribute (old, new, known after apply), of one resource or of all; '
  'sensitive values are masked. Members.';

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
comment on table public.job_comments is 'What members say to each other about a job. Never changed, never removed.';

create function private.comment_on_job(p_job bigint, p_body text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_org pg_catalog.uuid := (private.seen_job(p_job, 'job.comment')).org_id;
  v_comment public.job_comments;
begin
  insert into public.job_comments (org_id, job_id, user_id, user_label, body)
  values (v_org, p_job, private.caller_id(), private.caller_label(v_org), trim(p_body)) returning * into v_comment;
  return to_jsonb(v_comment);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'A comment has 1 to 4,000 characters.', 'Write something, or less.');
end;
$$;
comment on function private.comment_on_job is 'Comments on a job for all its viewers. Members.';
