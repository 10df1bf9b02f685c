-- The end of a job: reported by its runner, given back, or lost with its runner; and what follows a plan. Finishing is
-- idempotent by (job, attempt). An attempt that lost its job may still report: the report is kept as late and changes
-- nothing. end_job ends every job.

-- ## what follows a plan

-- A plan that is to be applied (option confirm, or its module has auto-apply) is followed by a job of its own when
-- it has changes. No runner waits meanwhile: the plan's file is an artifact, and the apply waits here for a member to
-- confirm that plan, or for the module's approvals. Exactly that plan is applied, also when the module has
-- changed since: the payload is the plan's, with the commit that it was made from. When the state has moved on, the
-- plan is worth nothing: it is refused, and an apply that still waits for somebody ends automatically.
-- Whether there is something to apply in a plan: it has changes, and was not made only to look.
create function private.is_applied_next(p_payload jsonb, p_plan_summary jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  return coalesce(p_plan_summary -> 'has_changes' = 'true', false)
    and not coalesce(p_payload #> '{options,refresh_only}' = 'true', false)
    and p_payload #>> '{options,inspects}' is null
    and p_payload #>> '{options,git,pull_request}' is null
    -- A preview has values that nobody has applied.
    and p_payload #> '{options,preview}' is null
    -- A person reads the plan of a state that has just come in, also where the module has auto-apply.
    and not coalesce(p_payload #> '{options,bring_state}' = 'true', false)
    -- An apply of somebody's own folder is requested by name; the module's auto-apply is not about it.
    and (p_payload #>> '{module,source_kind}' is distinct from 'upload'
      or coalesce(p_payload #> '{options,auto_apply}' = 'true', false));
end;
$$;

-- Enqueues the apply of a finished plan that has something to apply: to be confirmed, or at once where the module
-- has auto-apply.
create function private.follow_plan(p_plan public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_module public.modules;
  v_job public.provision_jobs := p_plan;
  v_is_destroy boolean;
  v_is_auto boolean;
  v_is_locked boolean;
  v_is_early boolean := private.plan_promotion_problem(p_plan) is not null;
  v_is_held boolean;
begin
  select * into v_module from public.modules where id = p_plan.module_id and deleted_at is null;
  v_is_destroy := coalesce(p_plan.payload #> '{options,destroy}' = 'true', false);
  -- A module with auto-apply does not destroy automatically.
  v_is_auto := coalesce(nullif(p_plan.payload #> '{options,auto_apply}', 'null') = 'true',
    v_module.auto_apply and not v_is_destroy);
  -- A module that a person has locked waits for a person.
  v_is_locked := exists (select from public.module_locks as l where l.module_id = v_module.id);
  v_is_held := not v_is_auto or v_is_locked or v_is_early;
  if v_module.id is null or not (v_is_auto or coalesce(p_plan.payload #> '{options,confirm}' = 'true', false))
    or p_plan.payload #>> '{module,source_kind}' = 'upload' and not v_module.can_apply_uploads then
    return;
  end if;
  v_job.type := case when v_is_destroy then 'DESTROY' else 'APPLY' end;
  v_job.payload := private.planned_payload(p_plan.id);
  if v_is_auto and v_is_early and not v_is_locked then
    v_job.payload := jsonb_set(v_job.payload, '{options,awaits_promotion}', 'true');
  end if;
  v_job.plan_job_id := p_plan.id;
  v_job.retry_of := null;
  v_job.idempotency_key := null;
  v_job.max_attempts := 3;
  v_job.approvals_required := v_module.approvals_required;
  v_job.needs_confirmation := v_is_held;
  v_job.approval_deadline_at := case when v_module.approvals_required > 0 or v_is_held
    then now() + make_interval(secs => v_module.approval_timeout_seconds) end;
  perform private.count_reviews(private.add_job(v_job, format('Plan %s has changes%s.', p_plan.number,
    case when not v_is_held then ', and its module has auto-apply' else '' end)), p_plan);
end;
$$;

-- Whether a job looks for drift.
create function private.is_drift_check(p_type public.job_type, p_payload jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  return p_type = 'DRIFT'
    or p_type = 'PLAN' and coalesce(p_payload #> '{options,refresh_only}' = 'true', false);
end;
$$;

-- Whether a plan or a drift check found changes. A drift check also lists outputs that no apply has written yet:
-- resources alone are drift.
create function private.has_found_changes(p_type public.job_type, p_payload jsonb, p_summary jsonb) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  return case when private.is_drift_check(p_type, p_payload)
    then private.plan_count(p_summary, '{create,update,replace,delete}') > 0
    else coalesce(p_summary -> 'has_changes' = 'true', false) end;
end;
$$;

-- Notes or clears the drift of a job's module, by what the job found. Drift is something that is so of a module, not
-- only the result of a job: since when, in how many resources, and when it was last looked for. A drift check that
-- finds some notes it; a plan or a check of the whole module that finds nothing to do clears it. An apply does not:
-- only the next check shows whether it removed all drift.
create function private.note_drift(p_job public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_options pg_catalog.jsonb := coalesce(p_job.payload -> 'options', '{}');
  v_looks boolean := private.is_drift_check(p_job.type, p_job.payload);
  v_has_changes boolean := private.has_found_changes(p_job.type, p_job.payload, p_job.plan_summary);
begin
  -- A look beside a held state, at a pull request, at some resources alone, with previewed values or at what a destroy
  -- would do proves nothing about the module.
  if v_options ?| array['inspects', 'preview'] or v_options #> '{git,pull_request}' is not null
    or v_options -> 'destroy' = 'true' or jsonb_typeof(p_job.plan_summary) is distinct from 'object' then
    return;
  end if;
  if v_looks and v_has_changes then
    update public.modules set drift_since = coalesce(drift_since, now()), drift_checked_at = now(),
      drift_resources = private.plan_count(p_job.plan_summary, '{create,update,replace,delete}')
    where id = p_job.module_id;
  elsif not v_has_changes and coalesce(jsonb_array_length(nullif(v_options -> 'targets', 'null')), 0) = 0 then
    update public.modules set drift_since = null, drift_resources = null,
      drift_checked_at = case when v_looks or drift_since is not null then now() else drift_checked_at end
    where id = p_job.module_id and (v_looks or drift_since is not null);
  end if;
end;
$$;

-- Ends the applies that still wait and can no longer be applied, because the state has changed; queued ones only for a
-- caller that holds the state's lock.
create function private.drop_outdated_applies(p_org uuid, p_module uuid, p_is_locked boolean) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.end_job(j.id, 'CANCELLED', 'outdated', 'system', null, 'system',
    format('The state has moved on since plan %s.', p.number))
  from public.provision_jobs as j join public.provision_jobs as p on p.id = j.plan_job_id
  where j.org_id = p_org and j.module_id = p_module
    and (j.status = 'AWAITING_APPROVAL' or j.status = 'QUEUED' and p_is_locked)
    and p.planned_serial <> private.state_serial(p_module);
end;
$$;

-- Acts on the end of a job: drift noted or cleared, the apply of a plan, applies that are outdated now, what
-- it was done for.
create function private.follow_end(p_job bigint) returns void
language plpgsql set search_path = '' as $$
declare
  v_job public.provision_jobs := (select j from public.provision_jobs as j where j.id = p_job);
  v_has_drift boolean;
  v_has_proposals boolean;
  v_is_in_set boolean;
begin
  -- One query for what most modules and jobs do not have: each rule below costs as much to find nothing to do.
  select m.drift_since is not null, exists (
      select from private.dependency_proposals as d where d.consumer_id = m.id), exists (
      select from private.set_members as s where s.job_id = p_job)
  into v_has_drift, v_has_proposals, v_is_in_set
  from public.modules as m where m.id = v_job.module_id;
  if v_job.type in ('PLAN', 'DRIFT') and v_job.status = 'SUCCEEDED'
    and (v_has_drift or private.is_drift_check(v_job.type, v_job.payload)) then
    perform private.note_drift(v_job);
  end if;
  if v_job.type in ('PLAN', 'APPLY') and v_job.plan_job_id is null and (v_has_proposals or v_job.result ? 'reads')
    and v_job.payload #> '{options,git,pull_request}' is null then
    perform private.note_reads(v_job);
  end if;
  if v_job.type = 'PLAN' and v_job.status = 'SUCCEEDED' then
    if v_job.result ? 'change_digest' then
      perform private.note_plan_digest(v_job);
    end if;
    if private.is_applied_next(v_job.payload, v_job.plan_summary) then
      perform private.follow_plan(v_job);
    end if;
  elsif v_job.type in ('APPLY', 'DESTROY') then
    perform private.drop_outdated_applies(v_job.org_id, v_job.module_id, true);
    perform private.note_applied(v_job);
    if v_job.status = 'SUCCEEDED' then
      perform private.note_applied_inputs(v_job);
      perform private.promote(v_job.module_id);
      perform private.follow_apply(v_job);
      perform private.cascade(v_job);
    end if;
  elsif v_job.type = 'STATE' then
    perform private.drop_outdated_applies(v_job.org_id, m, m = v_job.module_id)
    from unnest(array[v_job.module_id, private.other_module(v_job.payload #> '{options,state_change}')]) as m;
  elsif v_job.type = 'RESOLVE' then
    perform private.after_resolve(v_job);
  elsif v_job.module_id is null then
    perform private.after_lifecycle_job(v_job);
  end if;
  if v_is_in_set then
    perform private.follow_in_set(v_job);
  end if;
  if v_job.payload #> '{options,git,queue}' is not null then
    perform private.follow_group(v_job);
  end if;
end;
$$;

-- ## the end

-- Ends a job for good, for every caller, and returns its status: event, state lock, the next job of its state, what
-- follows from it. The caller holds the state's lock, or the row of a job that still waits for approval.
create function private.end_job(
  p_job bigint, p_status public.job_status, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text,
  p_reason text, p_error jsonb default null, p_result jsonb default null, p_plan_summary jsonb default null,
  p_last_log_seq integer default null
) returns public.job_status
language plpgsql set search_path = '' as $$
declare
  v_state pg_catalog.uuid;
  v_is_awaited boolean;
  v_type public.job_type;
  v_module pg_catalog.uuid;
begin
  delete from private.live_jobs as q where q.job_id = p_job
  returning q.state_key, exists (
    select from private.live_jobs as n where n.state_key = q.state_key and n.stage = 'WAITING')
  into v_state, v_is_awaited;
  -- One statement for record and event; a row of fifty columns is read only by those who need it, in follow_end.
  -- Without a lock of its own: the caller that changes a status holds the state's lock.
  with ended as (
    update public.provision_jobs as j set
      status = p_status, finished_at = now(), error = coalesce(p_error, j.error),
      result = coalesce(p_result, j.result), plan_summary = coalesce(p_plan_summary, j.plan_summary),
      is_quarantined = j.is_quarantined or p_event = 'quarantined',
      last_log_seq = coalesce(p_last_log_seq, j.last_log_seq),
      planned_serial = case when j.type = 'PLAN' and p_status = 'SUCCEEDED' then private.state_serial(j.module_id) end,
      plan_sha256 = case when j.type <> 'PLAN' then j.plan_sha256
        when p_status = 'SUCCEEDED' then substring(p_result ->> 'plan_sha256' from '^[0-9a-f]{64}$') end
    from public.provision_jobs as old
    where j.id = p_job and old.id = p_job
    returning j.org_id, j.attempt, j.type, j.module_id, old.status
  ), noted as (
    insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status,
      to_status, reason)
    select e.org_id, p_job, e.attempt, p_kind, p_actor, p_label, p_event, e.status, p_status, p_reason from ended as e
  )
  select e.type, e.module_id into v_type, v_module from ended as e;
  delete from private.state_locks as l where l.module_id = v_module and l.job_id = p_job;
  if v_is_awaited then
    perform private.refresh_next(v_state);
  end if;
  if v_type <> 'OUTPUT' then
    perform private.follow_end(p_job);
  end if;
  return p_status;
end;
$$;

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
) returns void
language plpgsql set search_path = '' as $$
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
language plpgsql set search_path = '' as $$
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
    jsonb_build_object('worker_id', p_live.worker_id, 'phase', v_job.phase));
  update public.rollouts set status = 'PAUSED', reason = format('Job %s needs attention.', v_job.number)
    where id = v_job.rollout_id
    and status = 'RUNNING';
end;
$$;

-- The error of a job that lost its runner in the middle of a change: out of contact since when, or lost.
create function private.held_words(p_live private.live_jobs, p_reason text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  v_seen pg_catalog.timestamptz;
  v_job public.provision_jobs;
begin
  select h.last_seen_at into v_seen from private.heartbeats as h where h.instance_id = p_live.instance_id;
  -- A runner with a heartbeat, or one that reported its death, is not out of contact.
  if v_seen > now() - private.lease() or p_live.unlisted_at is not null then
    return jsonb_build_object('code', 'RUNNER_LOST', 'message', p_reason,
      'hint', 'Look at the infrastructure with a refresh-only plan, then decide.');
  end if;
  select * into v_job from public.provision_jobs where id = p_live.job_id;
  v_seen := coalesce(v_seen, p_live.lease_until - private.lease(), now());
  return jsonb_build_object('code', 'OUT_OF_CONTACT', 'since', v_seen, 'message',
    format('Out of contact since %s UTC; the %s may still be running on %s; its state is kept there.',
      to_char(v_seen at time zone 'UTC', 'HH24:MI:SS'), lower(coalesce(v_job.phase, 'APPLY')::pg_catalog.text),
        v_job.instance_name),
    'hint',
      'When the runner returns, the apply continues, and its end counts. If it will not return, look with a '
      'refresh-only plan, then decide.');
end;
$$;

-- Counts the different runners that were lost while they ran this job.
create function private.lost_workers(p_job bigint) returns integer
language sql stable set search_path = '' as $$
  select count(distinct e.detail ->> 'worker_id')::integer from public.job_events as e where e.job_id = p_job
    and e.event = 'lost'
$$;

-- Ends a lost job that is not tried again: asked to stop, two runners died of it, or no attempt is left. Null for one
-- that is.
create function private.end_lost(p_live private.live_jobs, p_reason text) returns text
language plpgsql set search_path = '' as $$
declare
  v_tried integer := p_live.attempt - p_live.returned;
  v_max integer;
begin
  if p_live.cancel_kind is not null then
    perform private.end_job(p_live.job_id, 'CANCELLED', 'cancelled', 'system', null, 'system', p_reason);
    return 'cancelled';
  end if;
  if private.lost_workers(p_live.job_id) >= 1 and not exists (
    select from public.job_events as e where e.job_id = p_live.job_id and e.event = 'lost'
      and e.detail ->> 'worker_id' = p_live.worker_id::pg_catalog.text
  ) then
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
create function private.lose_job(p_job bigint, p_reason text) returns text
language plpgsql set search_path = '' as $$
declare
  v_live private.live_jobs;
  v_end pg_catalog.text;
  v_error pg_catalog.jsonb;
begin
  select * into v_live from private.live_jobs as q where q.job_id = p_job;
  if v_live.job_id is null then
    return 'gone';
  end if;
  perform private.lock_state(v_live.org_id, v_live.state_key);
  select * into v_live from private.live_jobs as q where q.job_id = p_job for update;
  if v_live.job_id is null or v_live.stage = 'HELD' then
    return 'gone';
  end if;
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
  if v_end is not null then
    return v_end;
  end if;
  perform private.requeue_job(v_live, 'lost', 'system', null, 'system', p_reason,
    make_interval(secs => least(300, 5 * 2 ^ (v_live.attempt - v_live.returned - 1)) * (0.8 + random() * 0.4)));
  return 'requeued';
end;
$$;

-- Counts the runners that gave a job back for lack of the same thing, and how often; with each runner's reason.
create function private.given_back(p_job bigint, p_code text) returns table (runners integer, times integer, words text)
language sql stable set search_path = '' as $$
  select count(*)::integer, coalesce(sum(r.times), 0)::integer,
    string_agg(r.actor_label || ': ' || r.reason, '; ' order by r.actor_label)
  from (
    select distinct on (e.actor_id) e.actor_label, e.reason, count(*) over (partition by e.actor_id) as times
    from public.job_events as e
    where e.job_id = p_job and e.event = 'returned' and e.detail ->> 'code' = p_code order by e.actor_id, e.id desc
  ) as r
$$;

create function private.worker_return_job(
  p_job bigint, p_attempt integer, p_reason text default null, p_code text default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs;
  v_back pg_catalog.record;
begin
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  v_live := private.owned_job(v_runner, p_job, p_attempt);
  if coalesce(p_code, '') not in ('', 'not_begun', 'disk', 'work_directory', 'dispatcher', 'image', 'engine',
    'memory', 'rights') then
    perform private.fail('RY422',
      'A runner lacks disk, work_directory, dispatcher, image, engine, memory or rights, or has not begun.',
      'Send one of these, or nothing.');
  end if;
  -- The answer to the report of the change may have been lost, so that the change itself never began: its runner knows.
  if v_live.has_touched and p_code is distinct from 'not_begun' then
    perform private.fail('RY409', 'This attempt has begun to change infrastructure; it cannot be given back.',
      'Finish it, or report what happened.');
  end if;
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
  'CANCELLED.';
grant execute on function private.worker_return_job to worker, executor;

-- Releases a state lock for somebody who knows its id, and never under a running job.
create function private.release_with_proof(p_module uuid, p_lock_id text) returns private.state_locks
language plpgsql set search_path = '' as $$
declare
  v_lock private.state_locks;
begin
  select * into v_lock from private.state_locks where module_id = p_module for update;
  if v_lock.module_id is null then
    perform private.fail('RY404', 'The state is not locked.');
  end if;
  if v_lock.lock_id is distinct from p_lock_id then
    perform private.fail('RY422', 'That is not the id of the lock that is held.',
      'Copy it from the state''s page, so that nobody releases a lock they have not checked.');
  end if;
  if exists (select from private.live_jobs as q where q.job_id = v_lock.job_id and q.stage = 'RUNNING') then
    perform private.fail('RY409', format('Job %s is running and holds the lock.', private.job_number(v_lock.job_id)),
      'Cancel it first; that releases its lock.');
  end if;
  delete from private.state_locks where module_id = p_module;
  -- Released: the attempt that held it does not return to it any more.
  update private.live_jobs as q set instance_id = null where q.job_id = v_lock.job_id and q.stage = 'HELD';
  perform private.refresh_next(p_module);
  return v_lock;
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
    order by q.state_key
  loop
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
grant execute on function private.worker_recover to worker;

-- ## finish

-- The number of the last chunk of an announced log.
create function private.announced_seq(p_log jsonb) returns integer
language plpgsql immutable set search_path = '' as $$
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

-- Compares the announced log with the stored one: the ranges that are missing; a difference in content becomes an
-- event.
create function private.check_log(p_job bigint, p_attempt integer, p_log jsonb, p_last integer) returns jsonb
language plpgsql set search_path = '' as $$
declare
  v_day pg_catalog.date;
  v_stored pg_catalog.record;
begin
  if coalesce((p_log ->> 'is_incomplete')::boolean, false) then
    return '[]';
  end if;
  v_day := (select q.log_day from private.live_jobs as q where q.job_id = p_job);
  v_stored := private.stored_log(p_job, p_attempt, v_day, p_last);
  if v_stored.chunks < p_last then
    return private.log_gaps(p_job, p_attempt, v_day, p_last);
  end if;
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
) returns jsonb
language plpgsql set search_path = '' as $$
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

-- Ends an attempt that the runner has, unless its process died or chunks of its log are missing. The caller holds the
-- job and its state's lock.
create function private.finish_attempt(
  p_runner private.runner, p_job bigint, p_attempt integer, p_status text, p_result jsonb, p_error jsonb,
  p_plan_summary jsonb, p_log jsonb
) returns jsonb
language plpgsql set search_path = '' as $$
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
    update public.provision_jobs set last_log_seq = v_last where id = p_job and last_log_seq <> v_last;
  end if;
  if v_missing <> '[]' then
    return jsonb_build_object('status', 'PROCESSING', 'missing', v_missing);
  end if;
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
) returns jsonb
language plpgsql security definer set search_path = '' as $$
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
  if v_runner.is_for_one_job then
    perform private.check_scope(p_job, p_attempt);
  end if;
  perform private.lock_state(q.org_id, q.state_key) from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = v_runner.instance_id;
  -- The fence: only the session that still has the attempt ends it, or that has returned to it before a person
  -- released it.
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
grant execute on function private.worker_finish to worker, executor;
