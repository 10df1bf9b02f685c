-- The end of a job, and all that follows from it: the next job of its state, an apply after its plan, a cascade, a
-- promotion, the next step of a set, the decision about a commit. An end may cancel other jobs, and so end those, too:
-- these functions call each other in a circle and live in one file.

-- Asks the runner of a job, which the caller has locked, to stop. A second request may only be harder: "now".
create function private.request_stop(
  p_job bigint, p_kind public.cancel_kind, p_actor_kind public.actor_kind, p_actor uuid, p_label text, p_reason text
) returns public.provision_jobs language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  update public.provision_jobs set cancel_kind = greatest(cancel_kind, p_kind),
    cancel_requested_at = coalesce(cancel_requested_at, now()), cancel_requested_by = p_label
  where id = p_job returning * into v_job;
  update private.live_jobs set cancel_kind = v_job.cancel_kind where job_id = p_job;
  perform private.record_job_event(v_job, 'cancel_requested', null, null, p_actor_kind, p_actor, p_label, p_reason,
    jsonb_build_object('kind', v_job.cancel_kind));
  perform private.wake_worker(v_job.worker_id);
  return v_job;
end;
$$;

-- Cancels a job that waits; asks one that runs to stop. Waits for nobody: what cannot be had at once stays as it is.
create function private.try_cancel(p_job public.provision_jobs, p_kind public.actor_kind, p_label text, p_reason text)
returns void language plpgsql as $$
begin
  if not private.try_lock_state(p_job.org_id, p_job.module_id) then return; end if;
  perform from private.live_jobs as q where q.job_id = p_job.id and (q.stage = 'RUNNING') = (p_job.status in ('CLAIMED',
    'PROCESSING')) for update skip locked;
  if not found and p_job.status <> 'AWAITING_APPROVAL' then return; end if;
  perform from public.provision_jobs as j where j.id = p_job.id and j.status = p_job.status
    for no key update skip locked;
  if not found then return; end if;
  if p_job.status in ('CLAIMED', 'PROCESSING') then
    perform private.request_stop(p_job.id, 'GRACEFUL', p_kind, null, p_label, p_reason);
  else
    perform private.end_job(p_job.id, 'CANCELLED', 'cancelled', p_kind, null, p_label, p_reason);
  end if;
end;
$$;

-- Cancels what waits of a set whose rest was cancelled, but no retry that was requested since. Running jobs finish.
-- Waits for nobody; returns how many jobs it looked at.
create function private.cancel_waiting(p_set public.job_sets, p_limit integer) returns integer language plpgsql as $$
declare
  v_job public.provision_jobs;
  v_count integer := 0;
begin
  if not private.try_lock_set(p_set.id) then return 0; end if;
  update private.set_members set left_out = 'cancelled' where set_id = p_set.id and job_id is null and left_out is null;
  for v_job in
    select j.* from private.set_members as m
    cross join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j
    where m.set_id = p_set.id and j.status in ('QUEUED', 'AWAITING_APPROVAL')
      and (j.retry_of is null or j.created_at <= p_set.cancelled_at) order by j.module_id limit p_limit loop
    v_count := v_count + 1;
    -- Jobs that are locked now are left to the sweep; jobs that a runner claims meanwhile run.
    perform private.try_cancel(v_job, 'user', p_set.cancelled_by_label, 'The rest of the set was cancelled.');
  end loop;
  return v_count;
end;
$$;

-- Ends what older commits of a branch wait for, and each waiting apply of a missing folder; stops running plans.
create function private.supersede_plans(
  p_org uuid, p_modules uuid[], p_pull_request text, p_reason text, p_is_gone boolean default false
) returns void language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  for v_job in
    select j.* from public.provision_jobs as j
    where j.org_id = p_org and j.status in ('QUEUED', 'AWAITING_APPROVAL', 'CLAIMED', 'PROCESSING')
      and j.module_id = any (p_modules)
      and j.payload #>> '{options,git,pull_request}' is not distinct from p_pull_request
      -- An apply that somebody has approved goes its way.
      and (j.payload #> '{options,git}' is not null and (j.type = 'PLAN' or j.type = 'APPLY'
        and j.status = 'AWAITING_APPROVAL' and j.approvals_received = 0)
        or p_is_gone and j.type = 'APPLY' and j.status = 'AWAITING_APPROVAL')
    order by j.module_id loop
    perform private.try_cancel(v_job, 'system', 'git', p_reason);
  end loop;
end;
$$;

-- Ends the applies that still wait and can no longer be applied, because the state has changed; queued ones only for a
-- caller that holds the state's lock.
create function private.drop_outdated_applies(p_org uuid, p_module uuid, p_is_locked boolean) returns void
language plpgsql as $$
begin
  perform private.end_job(j.id, 'CANCELLED', 'outdated', 'system', null, 'system',
    format('The state has moved on since plan %s.', p.number))
  from public.provision_jobs as j join public.provision_jobs as p on p.id = j.plan_job_id
  where j.org_id = p_org and j.module_id = p_module
    and (j.status = 'AWAITING_APPROVAL' or j.status = 'QUEUED' and p_is_locked)
    and p.planned_serial <> private.state_serial(p_module);
end;
$$;

-- Queues applies that only waited for a commit to be applied in this module, or in any. It waits for no state: one that
-- somebody is at, and an apply that began to wait in the same moment, are left to the sweep.
create function private.promote(p_producer uuid default null, out v_count integer) language plpgsql as $$
declare
  v_next private.promotable_jobs;
  v_job public.provision_jobs;
begin
  v_count := 0;
  for v_next in select n.* from private.promotable_jobs as n
    where n.producer_id = coalesce(p_producer, n.producer_id) order by n.module_id limit 200 loop
    -- Locked, then read again.
    continue when not private.try_lock_state(v_next.org_id, v_next.module_id)
      or not exists (select from private.promotable_jobs as n where n.id = v_next.id);
    update public.provision_jobs set status = 'QUEUED', queued_at = now() where id = v_next.id returning * into v_job;
    perform private.record_job_event(v_job, 'confirmed', 'AWAITING_APPROVAL', 'QUEUED', 'system', null, 'promotion',
      format('Its commit was applied in %s.', m.path)) from public.modules as m where m.id = v_next.producer_id;
    perform private.queue_jobs(v_next.org_id, array[v_next.id]);
    v_count := v_count + 1;
  end loop;
end;
$$;

-- Plans what depends on a module that was just applied, as one set. The caller has the lock of the module's state.
create function private.cascade(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_modules pg_catalog.uuid[];
  v_words pg_catalog.text := format('After job %s of %s.', p_job.number, p_job.module_path);
  v_set public.job_sets;
begin
  -- Most modules have no such consumer: one look into the index, and nothing is planned for them.
  if not exists (select from public.module_dependencies as d where d.producer_id = p_job.module_id
    and d.cascades <> 'off') then
    return;
  end if;
  v_modules := private.cascaded_modules(p_job);
  if v_modules = '{}' then return; end if;
  if cardinality(v_modules) > 500 then
    perform private.record_job_event(p_job, 'cascade_refused', null, null, 'system', null, 'system', format(
      '%s modules depend on its outputs, and one apply plans 500 at most. Plan their group.', cardinality(v_modules)));
    return;
  end if;
  insert into public.job_sets (org_id, type, path, options, cause_job_id, starts_at, created_by_label)
  values (p_job.org_id, 'PLAN', p_job.module_path, jsonb_build_object('priority', 150, 'confirm', true, 'reason',
    v_words), p_job.id, now() + interval '5 s', format('cascade of #%s', p_job.number)) returning * into v_set;
  perform private.add_members(v_set, v_modules);
end;
$$;

-- Plans the merge of a pull request, in place of older plans of it; the set, or null where nothing is to be planned.
create function private.plan_pull(
  p_connection public.git_connections, p_pull public.pull_requests, p_findings private.git_finding[], p_found jsonb
) returns uuid language plpgsql as $$
declare
  v_modules pg_catalog.uuid[] := array(select f.module_id from unnest(p_findings) as f where f.is_planned
    order by f.path);
  v_contents pg_catalog.text[] := array(select f.fingerprint from unnest(p_findings) as f where f.is_planned
    order by f.path);
  v_number pg_catalog.text := p_pull.number;
begin
  -- Also of modules that it changes no more.
  perform private.supersede_plans(p_connection.org_id, array(select f.module_id from unnest(p_findings) as f
    where f.fingerprint is distinct from p_pull.planned ->> f.module_id::pg_catalog.text), v_number,
    'The pull request has other content now.');
  update public.pull_requests set problem = left(p_found ->> 'problem', 1000), head_commit = coalesce(
    p_found ->> 'head_commit', head_commit), planned = (select coalesce(jsonb_object_agg(f.module_id, f.fingerprint),
    '{}') from unnest(p_findings) as f where f.is_planned
      or f.fingerprint = p_pull.planned ->> f.module_id::pg_catalog.text)
  where connection_id = p_pull.connection_id and number = p_pull.number;
  if v_modules = '{}' then return null; end if;
  return private.plan_commit(p_connection, v_modules, v_contents, jsonb_build_object('pull_request', p_pull.number,
    'branch', p_pull.base, 'head_commit', p_found ->> 'head_commit', 'base_commit', p_found ->> 'base_commit', 'title',
    p_pull.title, 'author', p_pull.sender, 'is_fork', p_pull.is_fork, 'merge', jsonb_build_object('base',
      p_found ->> 'base_commit', 'head', p_found ->> 'head_commit', 'ref', p_found ->> 'ref')),
    jsonb_build_object('reason', format('#%s: %s', p_pull.number, p_pull.title))
      || case when p_pull.is_fork then '{"labels": ["untrusted=true"]}' else '{}' end::pg_catalog.jsonb,
    format('git (#%s@%s)', p_pull.number, left(p_found ->> 'head_commit', 7)));
end;
$$;

-- Updates pull requests after a reading of their repository.
create function private.decide_pulls(p_job public.provision_jobs, p_connection public.git_connections) returns void
language plpgsql as $$
declare
  v_found pg_catalog.jsonb;
  v_pull public.pull_requests;
  v_findings private.git_finding[];
begin
  for v_found in select e from jsonb_path_query(p_job.result, 'strict $.git.pull_requests[*]', silent => true) as e
    where e ->> 'ref' not like 'refs/heads/%' loop
    select * into v_pull from public.pull_requests where connection_id = p_connection.id and is_open
      and number = (v_found ->> 'number')::integer for update;
    continue when v_pull.number is null;
    perform private.note_emails(p_connection.id, '#' || v_pull.number, v_found);
    if v_pull.is_fork and v_found ->> 'head_commit' is distinct from v_pull.allowed_commit then
      v_found := v_found || jsonb_build_object('problem', private.fork_words(v_found ->> 'head_commit'));
    end if;
    -- A request is for one plan: a base that moves later starts none.
    update public.pull_requests set allowed_commit = null where connection_id = p_connection.id
      and number = v_pull.number and is_fork and allowed_commit = v_found ->> 'head_commit';
    v_findings := array(select f from private.judge_pull(p_connection, v_pull, v_found) as f);
    perform private.answer_pull(p_job, v_pull, v_findings, private.plan_pull(p_connection, v_pull, v_findings, v_found),
      v_found ->> 'problem');
  end loop;
  update public.git_deliveries set verdict = 'NOTHING', decided_at = now(),
    reason = 'Nothing has changed since the last reading.'
  where job_id = p_job.id and verdict = 'PENDING' and pull_request is not null;
end;
$$;

-- Plans what is to be planned of the branches, one set for each commit and way to apply; the sets, by branch.
create function private.plan_branches(
  p_connection public.git_connections, p_findings private.git_finding[], p_found jsonb, out v_sets jsonb
) language plpgsql as $$
declare
  v_group pg_catalog.record;
  v_set pg_catalog.uuid;
begin
  v_sets := '{}';
  for v_group in
    select f.commit, f.branch, f.apply, array_agg(f.module_id order by f.path) as modules,
      array_agg(f.fingerprint order by f.path) as contents
    from unnest(p_findings) as f where f.is_planned group by f.commit, f.branch, f.apply order by 2, 3 loop
    perform private.note_emails(p_connection.id, v_group.commit, p_found #> array['commits', v_group.commit]);
    v_set := private.plan_commit(p_connection, v_group.modules, v_group.contents, jsonb_build_object('commit',
      v_group.commit, 'branch', v_group.branch)
        || coalesce((p_found #> array['commits', v_group.commit]) - 'emails', '{}'),
      jsonb_build_object('confirm', v_group.apply <> 'never', 'reason', format('%s@%s', v_group.branch,
        left(v_group.commit, 7)) || coalesce(': ' || left(p_found #>> array['commits', v_group.commit, 'subject'], 300),
        '')), format('git (%s@%s)', v_group.branch, left(v_group.commit, 7)));
    v_sets := jsonb_set(v_sets, array[v_group.branch],
      coalesce(v_sets -> v_group.branch, '[]') || to_jsonb(v_set));
    -- Every push that nobody has answered yet may be in that commit.
    update public.module_git as g set seen_set_id = v_set, pushes = array(
      select unnest(g.pushes || v_group.commit) union select d.after_commit from public.git_deliveries as d
      where d.connection_id = p_connection.id and d.verdict = 'PENDING' and d.ref = 'refs/heads/' || v_group.branch)
    where module_id = any (v_group.modules);
  end loop;
end;
$$;

-- Acts on the result of a RESOLVE job that a runner finished.
create function private.decide_resolved(p_job public.provision_jobs, p_connection public.git_connections) returns void
language plpgsql as $$
declare
  v_found pg_catalog.jsonb := p_job.result -> 'git';
  v_findings private.git_finding[] := array(select f from private.judge_branches(p_connection, v_found) as f);
  -- First the branches with a folder that is newly missing, as branches without a set.
  v_sets pg_catalog.jsonb := (select coalesce(jsonb_object_agg(f.branch, '[]'::pg_catalog.jsonb), '{}')
    from unnest(v_findings) as f join public.modules as m on m.id = f.module_id
    left join public.module_git as g on g.module_id = m.id
    where f.is_missing and private.missing_folder(m, g) is null);
begin
  perform private.supersede_plans(p_connection.org_id, array(select f.module_id from unnest(v_findings) as f
    where f.is_missing), null, 'Its branch has its folder no more.', true);
  if jsonb_typeof(v_found -> 'modules') = 'array' then
    perform private.supersede_plans(p_connection.org_id, array(select f.module_id from unnest(v_findings) as f
      join public.module_git as g on g.module_id = f.module_id where f.fingerprint is distinct from g.seen_fingerprint
        and f.fingerprint is not null), null, 'A newer commit of its branch has other content.');
    perform private.note_seen(p_connection, v_findings, v_found);
    v_sets := v_sets || private.plan_branches(p_connection, v_findings, v_found);
  end if;
  update public.git_connections set resolved_at = now(), error = null,
    heads = case when jsonb_typeof(v_found -> 'heads') = 'object' then v_found -> 'heads' else heads end,
    work_digest = v_found ->> 'digest'
  where id = p_connection.id;
  perform private.decide_queue(p_job, p_connection);
  perform private.answer_deliveries(p_job, v_findings, v_sets);
  perform private.decide_pulls(p_job, p_connection);
end;
$$;

-- Acts on the end of any RESOLVE job; an error here never makes the end of a job fail.
create function private.after_resolve(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_connection public.git_connections;
  v_error pg_catalog.text := p_job.error ->> 'message';
begin
  select * into v_connection from public.git_connections where id = p_job.target_connection_id
    and removed_at is null for update;
  if p_job.status = 'SUCCEEDED' and v_connection.id is not null then
    begin
      perform private.decide_resolved(p_job, v_connection);
      return;
    exception when others then
      raise warning 'decision of job %: %', p_job.id, sqlerrm;
      v_error := sqlerrm;
    end;
  end if;
  v_error := left(coalesce(v_error, 'The reading was cancelled.'), 1000);
  update public.git_connections set error = v_error where id = v_connection.id;
  update public.git_deliveries set verdict = 'FAILED', reason = v_error, decided_at = now()
  where job_id = p_job.id and verdict = 'PENDING';
end;
$$;

-- Continues the set of a plan that was just applied: previews that used the plan, and what waited for the apply, are
-- planned for real. The caller has the lock of the job's state.
create function private.follow_apply(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_set public.job_sets;
  v_preview public.provision_jobs;
begin
  select s.* into v_set from private.set_members as m join public.job_sets as s on s.id = m.set_id
  where m.job_id = p_job.plan_job_id and s.cancelled_at is null and s.options #> '{git,pull_request}' is null
    and m.awaited_by <> '{}';
  if v_set.id is null then return; end if;
  perform private.lock_set(v_set.id);
  for v_preview in select * from private.outdated_previews(v_set.id, p_job.module_id) loop
    update private.set_members set job_id = null where set_id = v_set.id and module_id = v_preview.module_id;
    if v_preview.status = 'QUEUED' then
      perform private.try_cancel(v_preview, 'system', 'system', 'The module is planned with what was applied.');
    end if;
  end loop;
  perform private.settle_set(v_set.id);
  update public.job_sets as s set finished_at = null where s.id = v_set.id and s.finished_at is not null
    and exists (select from private.placeable_members as m where m.set_id = s.id);
  perform private.place_members(v_set, 200, false, v_set.id);
end;
$$;

-- Enqueues the apply of a finished plan that has something to apply: to be confirmed, unless the module has auto-apply.
create function private.follow_plan(p_plan public.provision_jobs) returns void language plpgsql as $$
declare
  v_module public.modules;
  v_job public.provision_jobs := p_plan;
  v_is_destroy boolean;
  v_is_auto boolean;
  v_is_locked boolean;
  v_is_early boolean := private.plan_promotion_problem(p_plan) is not null;
  v_is_checked boolean := private.policy_problem(p_plan.id) is null;
  v_is_held boolean;
begin
  select * into v_module from public.modules where id = p_plan.module_id and deleted_at is null;
  v_is_destroy := coalesce(p_plan.payload #> '{options,destroy}' = 'true', false);
  -- A module with auto-apply does not destroy automatically.
  v_is_auto := private.repairs_drift(p_plan) or coalesce(nullif(p_plan.payload #> '{options,auto_apply}', 'null')
    = 'true', v_module.auto_apply and not v_is_destroy);
  -- A module that a person has locked waits for a person.
  v_is_locked := exists (select from public.module_locks as l where l.module_id = v_module.id);
  v_is_held := not v_is_auto or v_is_locked or v_is_early or not v_is_checked;
  if v_module.id is null or not (v_is_auto or coalesce(p_plan.payload #> '{options,confirm}' = 'true', false))
    or p_plan.payload #>> '{module,source_kind}' = 'upload' and not v_module.can_apply_uploads then
    return;
  end if;
  v_job.type := case when v_is_destroy then 'DESTROY' else 'APPLY' end;
  v_job.payload := private.planned_payload(p_plan.id);
  if v_is_auto and v_is_early and v_is_checked and not v_is_locked then
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

-- Ends a job for good, for every caller, and returns its status: event, state lock, the next job of its state, what
-- follows from it. The caller holds the state's lock, or the row of a job that still waits for approval.
create function private.end_job(
  p_job bigint, p_status public.job_status, p_event text, p_kind public.actor_kind, p_actor uuid, p_label text,
  p_reason text, p_error jsonb default null, p_result jsonb default null, p_plan_summary jsonb default null,
  p_last_log_seq integer default null
) returns public.job_status language plpgsql as $$
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
  if v_is_awaited then perform private.refresh_next(v_state); end if;
  if v_type <> 'OUTPUT' then perform private.follow_end(p_job); end if;
  return p_status;
end;
$$;

-- Acts on the end of a job: drift, the apply of a plan, applies that are outdated now, what it was done for.
create function private.follow_end(p_job bigint) returns void language plpgsql as $$
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
    if v_job.result ? 'change_digest' then perform private.note_plan_digest(v_job); end if;
    if v_job.payload #> '{options,bring_state}' = 'true' then
      perform private.write_change_record(v_job, v_job.module_id);
    end if;
    if private.is_applied_next(v_job.payload, v_job.plan_summary) then perform private.follow_plan(v_job); end if;
  elsif v_job.type in ('APPLY', 'DESTROY') then
    perform private.write_change_record(v_job, v_job.module_id);
    perform private.drop_outdated_applies(v_job.org_id, v_job.module_id, true);
    perform private.note_applied(v_job);
    if v_job.status = 'SUCCEEDED' then
      update private.artifacts set expires_at = least(expires_at, now() + interval '1 day')
      where job_id = v_job.plan_job_id and name = 'plan.tfplan';
      perform private.note_applied_inputs(v_job);
      perform private.promote(v_job.module_id);
      perform private.follow_apply(v_job);
      perform private.cascade(v_job);
      -- Only a check shows that drift has ended, which was repaired or accepted.
      perform private.add_drift_job(v_job, 'DRIFT', '{}', format('After job %s.', v_job.number))
      where v_job.payload #> '{options,rechecks_drift}' = 'true';
    end if;
  elsif v_job.type = 'STATE' then
    perform private.drop_outdated_applies(v_job.org_id, m, m = v_job.module_id), private.write_change_record(v_job, m)
    from unnest(array[v_job.module_id, private.other_module(v_job.payload #> '{options,state_change}')]) as m;
  elsif v_job.type = 'RESOLVE' then
    perform private.after_resolve(v_job);
  elsif v_job.module_id is null then
    perform private.after_lifecycle_job(v_job);
  end if;
  if v_is_in_set then perform private.follow_in_set(v_job); end if;
  if v_job.payload #> '{options,git,queue}' is not null then perform private.follow_group(v_job); end if;
end;
$$;
