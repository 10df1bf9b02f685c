-- Enqueueing: a request becomes a job that names everything the runner will need. Later changes of variables or hooks
-- concern later jobs. The same idempotency key gives the same job. The same statements place one job or a thousand.

-- ## plans that are applied
-- Refuses a plan that was made against another state than the module has now.
create function private.check_state_is_planned(p_plan bigint) returns void language sql stable as $$
  select private.fail('RY409', format('The state has moved on since plan %s: it was made against %s, and now there '
    'is %s.', p.number, case when p.planned_serial < 0 then 'no state' else 'serial ' || p.planned_serial end,
    private.state_serial(p.module_id)), 'Make a new plan, and look at that one.')
  from public.provision_jobs as p where p.id = p_plan and p.planned_serial <> private.state_serial(p.module_id)
$$;

-- The settings that a plan froze, for the job that applies it: the same module, from the same commit.
create function private.planned_payload(p_plan bigint) returns jsonb language sql stable as $$
  select jsonb_set(case when p.result ->> 'commit' is null then p.payload
      else jsonb_set(p.payload, '{module,source,commit}', p.result -> 'commit') end,
    '{options}', coalesce(p.payload -> 'options', '{}') || jsonb_build_object('plan_job_id', p_plan))
  from public.provision_jobs as p where p.id = p_plan
$$;

-- ## jobs
create type private.placement as (job_id bigint, state_key uuid, priority smallint, attempt integer);
comment on type private.placement is 'What the queue of a state needs to know about a job.';

-- Jobs of a set are read by their numbers: "offset 0" makes it a look for each, and never a comparison of every row
-- with every number; the end of this file, that it is a look into the index.
-- The place of each QUEUED job among these: state and lane. All lanes are looked up together, each once.
create function private.placements(p_jobs bigint[])
returns table (job_id bigint, state_key uuid, priority smallint, attempt integer, lane_id integer) language sql as $$
  -- Modules of a group have the same lane, unless they want different runners or one has an assignment of its own.
  with alike as materialized (
    select row_number() over () as place, min(j.job_id) as first_job,
      array_agg(row(j.job_id, j.state_key, j.priority, j.attempt)::private.placement) as jobs
    from unnest(p_jobs) as p (id)
    cross join lateral (select * from private.job_states as j where j.job_id = p.id offset 0) as j
    where j.status = 'QUEUED'
    group by j.org_id, j.type, j.priority, j.labels, j.pinned_worker_id, j.pinned_instance_name, j.target_worker_id,
      j.payload #>> '{module,engine}', j.payload #>> '{module,engine_version}',
      j.payload #>> '{lifecycle,identity,provider}', case when exists (
        select from public.worker_assignments as a where a.org_id = j.org_id and a.path = j.module_path
      ) then j.module_path else j.group_path end
  ), found as materialized (
    select private.lanes_for(array_agg(private.lane_needs(j) order by a.place)) as lanes
    from alike as a join public.provision_jobs as j on j.id = a.first_job
  )
  select j.job_id, j.state_key, j.priority, j.attempt, f.lanes[a.place]
  from found as f cross join alike as a cross join lateral unnest(a.jobs) as j
$$;

-- Puts those of an organisation's jobs that are QUEUED, at most one for each state, into the queues of their states;
-- one is ready at once when nothing is before it. The caller holds the states' locks.
create function private.queue_jobs(p_org uuid, p_jobs bigint[]) returns void language plpgsql set search_path = '' as $$
declare
  v_lanes integer[];
  v_waiting pg_catalog.uuid[];
begin
  with queued as (
    insert into private.live_jobs (job_id, org_id, state_key, stage, priority, attempt, lane_id, ready_seq)
    select j.job_id, p_org, j.state_key, case when f.is_free then 'READY' else 'WAITING' end::private.job_stage,
      j.priority, j.attempt, case when f.is_free then j.lane_id end,
      case when f.is_free then nextval('private.ready_seq') end
    from private.placements(p_jobs) as j
    -- Free is what nobody uses and nobody has left locked. "offset 0": a look into the indexes for each, never a join.
    cross join lateral (
      select not exists (select from private.states_in_use as u where u.state_key = j.state_key offset 0)
        and not exists (select from private.locked_states as s where s.state_key = j.state_key offset 0) as is_free
      offset 0
    ) as f
    order by j.job_id
    returning state_key, lane_id
  )
  select array(select q.lane_id from queued as q where q.lane_id is not null order by q.lane_id),
    array(select q.state_key from queued as q where q.lane_id is null)
  into v_lanes, v_waiting;
  perform private.wake_lane(l, count(*)::integer) from unnest(v_lanes) as l group by l order by l;
  perform private.refresh_next(w) from unnest(v_waiting) as w;
end;
$$;

-- Writes the first events of new jobs and their places in the queue. The caller holds the locks of their states.
create function private.place_jobs(p_org uuid, p_jobs bigint[], p_reason text) returns void
language plpgsql set search_path = '' as $$
declare
  v_kind public.actor_kind := case when private.is_account() then 'service_account' else 'user' end;
begin
  insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, to_status, reason)
  select p_org, j.id, j.attempt, case when j.created_by is null
      or j.payload #>> '{options,is_by_schedule}' = 'true' then 'system' else v_kind end,
    j.created_by, j.created_by_label, 'enqueued', j.status, p_reason
  from unnest(p_jobs) as p (id)
  cross join lateral (select * from public.provision_jobs as j where j.id = p.id offset 0) as j
  order by j.id;
  perform private.queue_jobs(p_org, p_jobs);
end;
$$;

-- Writes a new job, its first event, and its place in the queue.
create function private.add_job(p_job public.provision_jobs, p_reason text, out v_job public.provision_jobs)
language plpgsql as $$
declare
  v_waits boolean := p_job.approvals_required > 0 or coalesce(p_job.needs_confirmation, false);
begin
  insert into public.provision_jobs (
    org_id, type, status, module_id, module_path, group_path, target_worker_id, target_identity_id,
      target_connection_id, payload, pinned_worker_id, pinned_instance_name,
    labels, priority, max_attempts, approvals_required, approval_deadline_at, plan_job_id, retry_of, rollout_id,
    idempotency_key, created_by, created_by_label, queued_at, needs_confirmation, message, plan_sha256
  ) values (
    p_job.org_id, p_job.type, case when v_waits then 'AWAITING_APPROVAL' else 'QUEUED' end::public.job_status,
    p_job.module_id, p_job.module_path, p_job.group_path, p_job.target_worker_id, p_job.target_identity_id,
      p_job.target_connection_id, p_job.payload, p_job.pinned_worker_id, p_job.pinned_instance_name,
    coalesce(p_job.labels, '{}'), coalesce(p_job.priority, 100), coalesce(p_job.max_attempts, 3),
      coalesce(p_job.approvals_required, 0),
    p_job.approval_deadline_at, p_job.plan_job_id, p_job.retry_of, p_job.rollout_id, p_job.idempotency_key,
    p_job.created_by, coalesce(p_job.created_by_label, 'system'), case when not v_waits then now() end,
    coalesce(p_job.needs_confirmation, false), p_job.message,
    case when p_job.plan_job_id is not null then p_job.plan_sha256 end
  ) returning * into v_job;
  perform private.freeze_variables(v_job.org_id, array[v_job.id], '{}');
  perform private.lock_state(v_job.org_id, s.state_key) from private.job_states as s where s.job_id = v_job.id;
  perform private.place_jobs(v_job.org_id, array[v_job.id], p_reason);
end;
$$;

-- ## what is frozen
-- Hooks of all groups above a module; the nearest group wins.
create function private.group_chain(p_org uuid, p_path text) returns jsonb language plpgsql stable as $$
declare
  v_prefixes pg_catalog.text[] := private.path_prefixes(p_path);
  v_hooks pg_catalog.jsonb := '{}';
  v_limits pg_catalog.jsonb := (select o.time_limits from public.organizations as o where o.id = p_org);
  v_group public.groups;
begin
  for v_group in
    select g.* from public.groups as g
    where g.org_id = p_org and g.path = any (v_prefixes) and (g.hooks <> '{}' or g.time_limits <> '{}')
    order by length(g.path) loop
    v_hooks := v_hooks || v_group.hooks;
    v_limits := v_limits || v_group.time_limits;
  end loop;
  return jsonb_build_object('hooks', v_hooks, 'time_limits', v_limits);
end;
$$;

-- Hooks and time limits from above each of these modules, by the path of its group; each group is read once.
create function private.group_chains(p_org uuid, p_modules uuid[]) returns jsonb language plpgsql stable as $$
begin
  return (
    select jsonb_object_agg(g.path, private.group_chain(p_org, g.path))
    from (
      select distinct m.group_path as path from unnest(p_modules) as p (id)
      cross join lateral (select m.org_id, m.group_path from public.modules as m where m.id = p.id offset 0) as m
      where m.org_id = p_org
    ) as g
  );
end;
$$;

-- When somebody rejected a plan, or an apply of it; null where nobody has.
create function private.discarded_at(p_plan bigint) returns timestamptz language sql stable as $$
  select min(e.at) from (
    select p_plan as id union all select j.id from public.provision_jobs as j where j.plan_job_id = p_plan
  ) as r join public.job_events as e on e.job_id = r.id and e.event = 'rejected'
$$;

-- Refuses a plan that was discarded, and one that an apply has already.
create function private.check_plan_is_unused(p_plan bigint) returns void language sql stable as $$
  select private.fail('RY409', format('Plan %s was discarded.', private.job_number(p_plan)), 'Make a new plan.')
  where private.discarded_at(p_plan) is not null;
  select private.fail('RY409', format('Plan %s is already being applied, or was.', private.job_number(p_plan)),
    'Make a new plan.')
  where exists (select from public.provision_jobs as j where j.plan_job_id = p_plan
    and j.status not in ('FAILED', 'CANCELLED'))
$$;

-- Refuses to apply what is not a finished plan of the module, a plan twice, and a plan whose state has moved on.
create function private.check_saved_plan(p_org uuid, p_type public.job_type, p_module uuid, p_plan bigint) returns void
language plpgsql stable as $$
begin
  perform private.fail('RY422', format('Job %s is not a finished plan of this module.', coalesce((
    select j.number from public.provision_jobs as j where j.id = p_plan and j.org_id = p_org), p_plan)),
    'Plan first, then apply that plan. A destroy needs a destroy plan; a check of a held job is none.')
  where p_type not in ('APPLY', 'DESTROY') or not exists (
    select from public.provision_jobs as j
    where j.id = p_plan and j.org_id = p_org and j.module_id = p_module and j.type = 'PLAN' and j.status = 'SUCCEEDED'
      -- A look beside a held job was made without the state's lock, and what carries it out would run without it, too.
      and j.payload #>> '{options,inspects}' is null
      and (p_type <> 'DESTROY' or j.payload #> '{options,destroy}' = 'true')
  );
  perform private.fail('RY403', format('Plan %s is of a folder on somebody''s disk; that may not be applied to %s.',
    j.number, m.path), 'Push the change and plan the module; or set can_apply_uploads on the module, which admins may.')
  from public.provision_jobs as j join public.modules as m on m.id = j.module_id
  where j.id = p_plan and j.payload #>> '{module,source_kind}' = 'upload' and not m.can_apply_uploads;
  perform private.fail('RY409', format('Job %s is a preview: it has values that were not applied, and is never '
    'applied.', private.job_number(p_plan)), 'Apply the modules that it depends on. Then plan this one.')
  from public.provision_jobs as j where j.id = p_plan and j.payload #> '{options,preview}' is not null;
  perform private.refuse_unmerged(p_plan);
  perform private.check_plan_is_unused(p_plan);
  perform private.check_promotion(p_plan);
  perform private.check_state_is_planned(p_plan);
  perform private.check_policies(p_plan);
end;
$$;

-- Refuses types of job that are not about a module, options that make no sense, and a runner that is not there.
create function private.check_job_options(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb)
returns void language plpgsql stable as $$
begin
  perform private.fail('RY422', 'This type of job does not act on a module.',
    'Use the functions for cloud-hosted runners, cloud identities and repositories.')
  where p_type is null or p_type in ('DEPLOY_WORKER', 'UPDATE_WORKER', 'REMOVE_WORKER', 'VERIFY_IDENTITY', 'RESOLVE');
  if p_options is null or p_options = '{}' then return; end if;
  perform private.check_options('job', p_options);
  perform private.check_reason(p_options ->> 'reason');
  perform private.fail('RY404', 'The runner that the job should be pinned to does not exist.')
  where p_options ->> 'pinned_worker_id' is not null and not exists (
    select from public.workers as w where w.id = (p_options ->> 'pinned_worker_id')::pg_catalog.uuid
      and w.removed_at is null and (w.org_id = p_org or w.is_shared));
  if p_options ->> 'plan_job_id' is not null then
    perform private.check_saved_plan(p_org, p_type, p_module, (p_options ->> 'plan_job_id')::bigint);
  end if;
  if p_options ? 'upload_id' then
    perform private.check_upload(p_org, p_type, p_module, (p_options ->> 'upload_id')::pg_catalog.uuid,
      coalesce(p_options -> 'auto_apply' = 'true', false));
  end if;
  if p_options ? 'variables' then
    perform private.fail('RY422', 'A saved plan has its variables already.', 'Plan again with the new values.')
    where p_options ->> 'plan_job_id' is not null;
    perform private.fail('RY422', 'Variables are an object of names and values.',
      'Write {"region": "eu-west-1"}; at most 1 MiB.')
    where jsonb_typeof(p_options -> 'variables') <> 'object' or exists (select from jsonb_object_keys(
        p_options -> 'variables') as k where k !~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$')
      or octet_length((p_options -> 'variables')::pg_catalog.text) > 1048576;
    perform private.refuse_bound_inputs(p_module, p_options -> 'variables');
  end if;
end;
$$;

-- Names those of these modules that the organisation does not have.
create function private.refuse_missing_modules(p_org uuid, p_modules uuid[]) returns void language sql stable as $$
  select private.fail('RY404', 'There is no such module.', 'It may have been removed.', (
    select jsonb_build_object('modules', jsonb_agg(p))::pg_catalog.text from unnest(p_modules) as p
    where not exists (select from public.modules as m where m.id = p and m.org_id = p_org and m.deleted_at is null
      and private.shown_path(p_org, m.path) = m.path)))
$$;

-- Writes a job for each of these modules, with everything frozen that a runner needs to know about it as it is now;
-- their numbers, in the order of the modules. Refuses one that lost its pinned runner. The caller holds the modules'
-- locks, and places the jobs.
-- Under a plan that is kept: for one job the planner would make a new one each time.
create function private.add_module_jobs(
  p_org uuid, p_type public.job_type, p_modules uuid[], p_keys text[], p_options jsonb, out v_jobs bigint[]
) language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan as $$
declare
  -- The member for whom a schedule or a set acts: the sweep that places its jobs runs in anybody's call.
  v_by pg_catalog.uuid := case when p_options ? 'created_by' then p_options ->> 'created_by'
    else private.jwt() ->> 'sub' end;
  v_labels pg_catalog.text[] := case when p_options ? 'labels' then private.text_list(p_options -> 'labels') end;
  v_approvals integer := case when p_type in ('APPLY', 'DESTROY', 'STATE')
    then coalesce(p_options ->> 'approvals_required',
    '0') end;
  v_label pg_catalog.text := coalesce(p_options ->> 'created_by_label', private.caller_label(p_org));
  v_sent pg_catalog.jsonb := case when p_options ? 'upload_id'
    then (select jsonb_build_object('source_kind', 'upload', 'source', jsonb_build_object('sha256', u.sha256, 'bytes',
      octet_length(u.body))) from private.uploads as u where u.id = (p_options ->> 'upload_id')::pg_catalog.uuid)
    else '{}' end;
  v_options pg_catalog.jsonb := coalesce(p_options, '{}') - array['labels', 'priority', 'pinned_worker_id',
    'pinned_instance_name', 'max_attempts', 'idempotency_key', 'approvals_required', 'reason', 'upload_id',
    'variables', 'created_by', 'created_by_label'];
  -- A push or a pull request plans that commit, or that merge, wherever the branch is by then.
  v_pin pg_catalog.jsonb := jsonb_strip_nulls(jsonb_build_object('commit', p_options #> '{git,commit}', 'merge',
    p_options #> '{git,merge}'));
  v_groups pg_catalog.jsonb := private.group_chains(p_org, p_modules);
  -- An apply of a plan may have the plan's number.
  v_counter pg_catalog.regclass := case when p_options ->> 'plan_job_id' is null then private.job_counter(p_org) end;
  v_is_checked boolean := p_type in ('PLAN', 'APPLY', 'DESTROY') and exists (
    select from public.policy_sets as s where s.org_id = p_org);
  v_pins pg_catalog.uuid[];
begin
  -- An apply without a plan is of the commit that was applied where it should have been.
  perform private.fail('RY409', format('%s', p.problem), 'Apply that module first.') from unnest(p_modules) as m (id)
  cross join lateral (
    select private.promotion_problem(m.id, private.promoted_source(m.id) ->> 'commit') as problem) as p
  where p_type = 'APPLY' and v_counter is not null and p.problem is not null limit 1;
  with made as (
    insert into public.provision_jobs as j (
      org_id, number, type, status, module_id, module_path, group_path, payload, pinned_worker_id,
        pinned_instance_name, labels, priority,
      max_attempts, approvals_required, approval_deadline_at, plan_job_id, plan_sha256, message, idempotency_key,
      created_by, created_by_label, queued_at
    )
    select p_org, nextval(v_counter), p_type,
      case when n.approvals > 0 then 'AWAITING_APPROVAL' else 'QUEUED' end::public.job_status,
      m.id, m.path, m.group_path,
      case when p_options ->> 'plan_job_id' is not null
        then private.planned_payload((p_options ->> 'plan_job_id')::bigint)
      when v_is_checked then private.with_policies(to_jsonb(payload), p_org, m.path)
      else to_jsonb(payload) end,
      coalesce((p_options ->> 'pinned_worker_id')::pg_catalog.uuid, m.pinned_worker_id),
      coalesce(p_options ->> 'pinned_instance_name', m.runner_instance_name),
      case when v_labels is null then m.labels else private.job_labels(m.labels, v_labels) end,
      coalesce((p_options ->> 'priority')::smallint, 100), coalesce((p_options ->> 'max_attempts')::integer, 3),
        n.approvals,
      case when n.approvals > 0 then now() + make_interval(secs => m.approval_timeout_seconds) end,
      (p_options ->> 'plan_job_id')::bigint, (select a.plan_sha256 from public.provision_jobs as a
        where a.id = (p_options ->> 'plan_job_id')::bigint), p_options ->> 'reason', p_keys[p.place], v_by,
      v_label, case when n.approvals = 0 then now() end
    from unnest(p_modules) with ordinality as p (id, place)
    cross join lateral (select * from public.modules as m where m.id = p.id offset 0) as m
    cross join lateral (select m.id, m.name, m.path, m.group_path, m.engine::pg_catalog.text as engine,
      m.engine_version, m.backend, coalesce(v_sent ->> 'source_kind', m.source_kind::pg_catalog.text) as source_kind,
      coalesce(v_sent -> 'source', m.source || case when m.source_kind = 'git' and p_type in ('PLAN', 'APPLY')
        then private.promoted_source(m.id) else '{}' end) || v_pin as source, m.extra_files, m.hooks,
        m.time_limits, case when p_type = 'DRIFT' then m.drift_ignores end as drift_ignores,
      -- Without the producer: who reads the job need not see that module.
      (select jsonb_object_agg(b.input, b.output) from public.module_bindings as b
        where b.consumer_id = m.id) as bindings) as frozen
    cross join lateral (select frozen as module, v_groups -> m.group_path as "group", v_options as options) as payload
    -- A request may require more approvals than the module does, never fewer.
    cross join lateral (select case when v_approvals is null then 0
      else greatest(m.approvals_required, v_approvals) end as approvals) as n
    where m.org_id = p_org and m.deleted_at is null
    order by p.place
    returning j.id, j.pinned_worker_id
  )
  select array_agg(m.id), array_agg(m.pinned_worker_id) filter (where m.pinned_worker_id is not null)
  into v_jobs, v_pins from made as m;
  perform private.refuse_missing_modules(p_org, p_modules)
  where cardinality(v_jobs) is distinct from cardinality(p_modules);
  perform private.freeze_variables(p_org, v_jobs, private.add_run_variables(p_org, p_options -> 'variables'));
  perform private.need_pinned_runner(w.id) from (select distinct p as id from unnest(v_pins) as p) as w;
end;
$$;

-- Numbers as a person writes them: "7-9, 12".
create function private.number_ranges(p_numbers bigint[]) returns text language sql immutable as $$
  select string_agg(lower(r) || case when upper(r) - lower(r) > 1 then '-' || upper(r) - 1 else '' end, ', '
    order by r)
  from unnest((select range_agg(int8range(n, n, '[]')) from unnest(p_numbers) as n)) as r
$$;

-- Refuses to bring in a state where one is kept already, and together with options that would hide what differs.
create function private.check_bring_state(p_type public.job_type, p_modules uuid[], p_options jsonb) returns void
language sql stable as $$
  select private.fail('RY422', 'A state is brought in by a plan of the whole module, and nothing is applied after.',
    'Enqueue a PLAN with bring_state, without targets and without options that apply.')
  where p_type <> 'PLAN' or p_options ?| array['destroy', 'refresh_only', 'targets', 'replace', 'upload_id',
    'auto_apply', 'confirm'];
  select private.fail('RY409', format('Runyard has a state of "%s" already.', m.path),
    'Plan the module. An older version becomes the newest again by a rollback.')
  from public.modules as m join private.states as s on s.module_id = m.id where m.id = any (p_modules);
  select private.fail('RY409', format('"%s" keeps its own backend or is a Pulumi module.', m.path),
    'Let Runyard keep the state first (backend null); for Pulumi: runyard state push MODULE FILE.')
  from public.modules as m where m.id = any (p_modules) and (m.backend = 'own' or m.engine = 'pulumi')
$$;

-- Enqueues a job for each of these modules, as a member requests it, and writes the audit log; returns their numbers.
create function private.request_jobs(
  p_org uuid, p_type public.job_type, p_modules uuid[], p_keys text[], p_options jsonb, out v_jobs bigint[]
) language plpgsql as $$
begin
  -- Before anything is checked: a module or a runner that is removed meanwhile, a lock that somebody puts on and a plan
  -- that somebody else applies must be seen, also by a job that waits for approval first.
  perform private.lock_module_states(p_org, p_modules || private.other_module(p_options -> 'state_change'));
  -- The refusals below name facts of a module: never of another organisation's.
  perform private.refuse_missing_modules(p_org, p_modules) where exists (
    select from public.modules as m where m.id = any (p_modules) and m.org_id <> p_org);
  perform private.check_job_options(p_org, p_type, p_modules[1], p_options);
  if p_options -> 'bring_state' = 'true' then perform private.check_bring_state(p_type, p_modules, p_options); end if;
  -- An output job reads only; tokens of applies are for applies that somebody confirmed.
  perform private.fail('RY422', 'Identities are tested by an output job.', 'Enqueue an OUTPUT with test_identities.')
  where p_options -> 'test_identities' = 'true' and p_type <> 'OUTPUT';
  if p_type = 'STATE' or p_options ? 'state_change' then
    perform private.check_state_job(p_type, p_modules, p_options);
    -- Reviewers read it first, on every page and in every list.
    p_options := jsonb_build_object('reason', private.state_change_words(p_options -> 'state_change')) || p_options;
  end if;
  perform private.refuse_locked_modules(p_modules, (p_options ->> 'plan_job_id')::bigint)
  where p_type in ('APPLY', 'DESTROY', 'STATE');
  v_jobs := private.add_module_jobs(p_org, p_type, p_modules, p_keys, private.caller_options(p_org, p_type, array(
    select m.path from public.modules as m where m.id = any (p_modules) and m.auto_apply), p_options));
  if p_options ? 'upload_id' then
    perform private.take_upload(v_jobs[1], (p_options ->> 'upload_id')::pg_catalog.uuid);
  end if;
  perform private.place_jobs(p_org, v_jobs, p_options ->> 'reason');
  -- One act is one line in the log of acts, however many jobs it makes; each of them has its own first event.
  if cardinality(v_jobs) = 1 then
    perform private.audit(p_org, 'job.enqueued', 'job', j.number::pg_catalog.text, p_type || ' ' || j.module_path)
    from public.provision_jobs as j where j.id = v_jobs[1];
  else
    perform private.audit(p_org, 'jobs.enqueued', 'job', null, format('%s of %s modules', p_type, cardinality(v_jobs)),
      jsonb_build_object('jobs', private.number_ranges(array(
        select j.number from unnest(v_jobs) as p (id)
        cross join lateral (select j.number from public.provision_jobs as j where j.id = p.id offset 0) as j))));
  end if;
end;
$$;

-- The verb that a job needs: a plan that is applied without another act is an apply, and so is one that stores a state.
create function private.verb_to_run(p_type public.job_type, p_options jsonb default '{}') returns text
language sql immutable as $$
  select case when p_type in ('APPLY', 'DESTROY', 'STATE') or p_options -> 'auto_apply' = 'true'
    or p_options -> 'confirm' = 'true' or p_options -> 'bring_state' = 'true' then 'job.apply' else 'job.plan' end
$$;

-- The options of the caller's job: no auto-apply follows the plan of somebody who may not apply at one of these paths.
create function private.caller_options(p_org uuid, p_type public.job_type, p_paths text[], p_options jsonb)
returns jsonb language plpgsql stable as $$
begin
  return case when p_type = 'PLAN' and not private.is_allowed('job.apply', p_org, '') and exists (
    select from unnest(p_paths) as p (path) where not private.is_allowed('job.apply', p_org, p.path))
    then coalesce(p_options, '{}') || '{"auto_apply": false}' else p_options end;
end;
$$;

-- Refuses the caller unless they may run such a job for each of these modules.
create function private.need_to_run(p_org uuid, p_type public.job_type, p_modules uuid[], p_options jsonb) returns void
language plpgsql stable as $$
declare
  v_verb pg_catalog.text := private.verb_to_run(p_type, p_options);
begin
  if private.is_allowed(v_verb, p_org, '') then
    perform private.need(v_verb, p_org);
    return;
  end if;
  perform private.need('organization.read', p_org);
  perform private.refuse_missing_modules(p_org, p_modules) where exists (
    select from public.modules as m where m.id = any (p_modules) and m.org_id = p_org
      and not private.may_see(p_org, m.path));
  perform private.need(v_verb, p_org, m.path) from public.modules as m
  where m.id = any (p_modules) and m.org_id = p_org and m.deleted_at is null;
end;
$$;

create function private.enqueue_job(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb default '{}')
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_key pg_catalog.text := p_options ->> 'idempotency_key';
  v_job bigint;
begin
  perform private.need_to_run(p_org, p_type, array[p_module], p_options);
  if v_key is not null then
    perform pg_advisory_xact_lock(private.lock_key('idem', p_org || v_key));
    select j.id into v_job from public.provision_jobs as j
    where j.org_id = p_org and j.module_id = p_module and j.idempotency_key = v_key;
  end if;
  if v_job is null then
    v_job := (private.request_jobs(p_org, p_type, array[p_module], array[v_key], p_options))[1];
  end if;
  return (select to_jsonb(j) from public.provision_jobs as j where j.id = v_job);
end;
$$;
comment on function private.enqueue_job is
  'Enqueues a job for a module, with everything frozen that the runner will need. Idempotent by its key. Operators.';

-- The answer is `json`: it is sent as it is made.
create function private.enqueue_jobs(p_org uuid, p_type public.job_type, p_modules uuid[], p_options jsonb default '{}')
returns json language plpgsql security definer set search_path = '' as $$
declare
  v_key pg_catalog.text := p_options ->> 'idempotency_key';
  v_modules pg_catalog.uuid[];
  v_keys pg_catalog.text[];
  v_jobs bigint[] := '{}';
begin
  perform private.need_to_run(p_org, p_type, p_modules, p_options);
  perform private.fail('RY422', 'One call takes 1 to 1,000 modules.', 'Send more in several calls.')
  where p_modules is null or cardinality(p_modules) not between 1 and 1000;
  perform private.fail('RY422', 'A saved plan belongs to one module.', 'Apply it with enqueue_job.')
  where p_options ? 'plan_job_id';
  perform private.fail('RY422', 'An upload belongs to one module.', 'Plan it with enqueue_job.')
  where p_options ? 'upload_id' and cardinality(p_modules) > 1;
  -- A module that is named twice is meant once. Each job has a key of its own: another call may name others, too.
  select array_agg(u.id order by u.place), array_agg(v_key || '/' || u.id order by u.place) into v_modules, v_keys
  from (select m.id, min(m.place) as place from unnest(p_modules) with ordinality as m (id, place) group by m.id) as u;
  if v_key is not null then
    perform pg_advisory_xact_lock(private.lock_key('idem', p_org || v_key));
    v_jobs := array(select j.id from public.provision_jobs as j where j.org_id = p_org
      and j.module_id = any (v_modules) and j.idempotency_key = any (v_keys));
    select array_agg(u.id order by u.place), array_agg(u.key order by u.place) into v_modules, v_keys
    from unnest(v_modules, v_keys) with ordinality as u (id, key, place)
    where not exists (select from public.provision_jobs as j where j.module_id = u.id and j.idempotency_key = u.key);
  end if;
  if v_modules is not null then
    v_jobs := v_jobs || private.request_jobs(p_org, p_type, v_modules, v_keys, p_options);
  end if;
  return (
    select json_agg(made) from (
      select j.id, j.number, j.module_id, j.module_path, j.status::pg_catalog.text as status
      from unnest(v_jobs) as p (id)
      cross join lateral (select * from public.provision_jobs as j where j.id = p.id offset 0) as j
      order by j.id
    ) as made
  );
end;
$$;
comment on function private.enqueue_jobs is
  'Enqueues a job for each of up to 1,000 modules, all or none, and returns their numbers, modules and statuses. '
  'Idempotent by its key. Operators.';

-- A job is read by its number through its index, whatever was known about the tables when a session made its
-- plans: made for empty tables, they read every job once for each of a thousand. (No JIT: see the runners' roles.)
do $$
declare
  v_function pg_catalog.regprocedure;
begin
  foreach v_function in array array['private.add_module_jobs(uuid, public.job_type, uuid[], text[], jsonb)',
    'private.place_jobs(uuid, bigint[], text)', 'private.queue_jobs(uuid, bigint[])',
    'private.lock_module_states(uuid, uuid[])',
    'private.enqueue_jobs(uuid, public.job_type, uuid[], jsonb)']::pg_catalog.regprocedure[] loop
    execute format('alter function %s set enable_seqscan = off', v_function);
    execute format('alter function %s set jit = off', v_function);
  end loop;
end;
$$;
