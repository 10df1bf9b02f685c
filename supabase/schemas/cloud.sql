-- Cloud-hosted runners: the database keeps the record and queues the job; a runner with rights in the cloud does the
-- work. Results about the target (token hash, ARNs) are stored through functions that are fenced by the attempt. "Test
-- connection" is a job too: queued, explained while it waits, fenced, logged, and its end shows whether the identity
-- works. Scaling decisions are recorded here; a runner's planner makes them.

-- ## jobs about runners
-- A job of the caller that asks nobody for approval, not yet written.
create function private.new_job(p_org uuid, p_type public.job_type, p_priority integer, out v_job public.provision_jobs)
language plpgsql stable as $$
begin
  v_job.org_id := p_org;
  v_job.type := p_type;
  v_job.priority := p_priority;
  v_job.approvals_required := 0;
  v_job.created_by := private.caller_id();
  v_job.created_by_label := private.caller_label(p_org);
end;
$$;

-- A cloud identity as jobs are given it.
create function private.identity_json(p_identity public.cloud_identities) returns jsonb language sql immutable as $$
  select to_jsonb(i) from (select p_identity.id, p_identity.provider, p_identity.account_id, p_identity.role_arn,
    p_identity.external_id, p_identity.network) as i
$$;

-- A job about a cloud-hosted runner, not yet written.
create function private.lifecycle_job(
  p_worker public.workers, p_type public.job_type, p_lifecycle jsonb, out v_job public.provision_jobs
) language plpgsql as $$
begin
  v_job := private.new_job(p_worker.org_id, p_type, 50);
  v_job.target_worker_id := p_worker.id;
  v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object(
    'worker', jsonb_build_object('id', p_worker.id, 'name', p_worker.name), 'region', p_worker.region, 'identity', (
      select private.identity_json(i) from public.cloud_identities as i where i.id = p_worker.cloud_identity_id),
    'cloud', p_worker.cloud, 'desired_count', p_worker.desired_count,
    'version', coalesce(private.latest_version(), 'latest'))
    || coalesce(p_worker.cloud -> 'task', '{}') || coalesce(p_lifecycle, '{}'));
end;
$$;

-- One job at a time deploys, updates or removes a runner.
create function private.refuse_second_lifecycle_job(p_worker uuid) returns void language sql stable as $$
  select private.fail('RY409', format('Job %s is already at work on this runner.', private.job_number(q.job_id)),
    'Wait until it is done.')
  from private.live_jobs as q where q.state_key = p_worker and q.stage <> 'WAITING'
$$;

-- Writes down what a job found out about a cloud identity.
create function private.note_identity(p_identity uuid, p_job public.provision_jobs) returns void language sql as $$
  -- The job tested what was frozen into it: its verdict does not apply to an identity that was changed meanwhile.
  update public.cloud_identities as c set
    verified_at = case when p_job.status = 'SUCCEEDED' then now() else c.verified_at end,
    verification_error = case when p_job.status = 'SUCCEEDED' then null
      else left(coalesce(p_job.error ->> 'message', c.verification_error), 2000) end
  where c.id = p_identity and p_job.status in ('SUCCEEDED', 'FAILED')
    and (c.account_id, c.role_arn, c.external_id, c.network) = (p_job.payload #>> '{lifecycle,identity,account_id}',
      p_job.payload #>> '{lifecycle,identity,role_arn}', p_job.payload #>> '{lifecycle,identity,external_id}',
        p_job.payload #> '{lifecycle,identity,network}')
$$;

-- Refuses to deploy with a cloud identity whose last test failed, or that has not been tested as it is now.
create function private.need_proven_identity(p_org uuid, p_identity uuid, p_region text) returns void
language plpgsql stable as $$
declare
  v_identity public.cloud_identities;
begin
  select * into v_identity from public.cloud_identities where id = p_identity and org_id = p_org and removed_at is null
    and p_region = any (regions);
  if v_identity.id is null then
    perform private.fail('RY404', 'There is no such cloud identity, or it does not allow that region.',
      'Choose a region that the identity lists.');
  elsif v_identity.verification_error is not null then
    perform private.fail('RY409', format('The last test of "%s" failed: %s', v_identity.name,
      v_identity.verification_error), 'Fix it, and test the connection again (Settings, Cloud identities).');
  elsif v_identity.verified_at is null then
    perform private.fail('RY409', format('"%s" has not been tested since it was created or changed.', v_identity.name),
      'Test the connection first (Settings, Cloud identities).');
  end if;
end;
$$;

-- Writes down what a cloud-hosted runner's tasks are made of, and how many of them are wanted.
create function private.keep_task(p_worker uuid, p_cloud_identity uuid, p_options jsonb, out v_worker public.workers)
language plpgsql as $$
declare
  v_task pg_catalog.jsonb;
begin
  -- The task's definition is kept: the next deployment and every update use it again, with their own version.
  select jsonb_object_agg(o.key, case when o.key = 'image' then to_jsonb(regexp_replace(o.value #>> '{}', ':[^:/]+$',
    '')) else o.value end)
  into v_task from jsonb_each(coalesce(p_options, '{}')) as o where o.key in ('cpu', 'memory', 'image',
    'task_role_arn');
  update public.workers set cloud_identity_id = p_cloud_identity,
    cloud = cloud || jsonb_build_object('task', coalesce(cloud -> 'task', '{}') || coalesce(v_task, '{}')),
    desired_count = coalesce((p_options ->> 'desired_count')::integer, desired_count)
  where id = p_worker returning * into v_worker;
end;
$$;

create function private.remove_cloud_worker(p_worker uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'runner.manage');
  v_job public.provision_jobs;
begin
  perform private.fail('RY422', format('"%s" is %s; Runyard did not deploy it.', v_worker.name, v_worker.type),
    'Remove its record; what runs there is yours.') where v_worker.type <> 'cloud-hosted';
  perform private.refuse_second_lifecycle_job(p_worker);
  v_job := private.add_job(private.lifecycle_job(v_worker, 'REMOVE_WORKER', null), 'Remove ' || v_worker.name);
  update public.workers set is_draining = true, drain_reason = 'Being removed' where id = p_worker;
  perform private.refresh_worker_status(p_worker);
  perform private.wake_worker(p_worker);
  perform private.audited(to_jsonb(v_worker), 'worker.removal_queued', v_worker.name,
    jsonb_build_object('job', v_job.number));
  return to_jsonb(v_job);
end;
$$;
comment on function private.remove_cloud_worker is
  'Drains a cloud-hosted runner and queues the REMOVE_WORKER job; it goes when that job has succeeded. Admins.';

-- ## what the job says about its target
-- The runner that the calling attempt deploys, updates or removes.
create function private.owned_target(p_job bigint, p_attempt integer, out v_worker public.workers)
language plpgsql as $$
begin
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  select w.* into v_worker from public.provision_jobs as j join public.workers as w on w.id = j.target_worker_id
    where j.id = p_job;
  perform private.fail('RY422', 'This job is not about a runner.') where v_worker.id is null;
end;
$$;

create function private.worker_target_token(p_job bigint, p_attempt integer, p_token_hash text, p_token_hint text)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.owned_target(p_job, p_attempt);
  v_token pg_catalog.uuid;
begin
  -- The plaintext of an earlier try was lost with it.
  update private.worker_tokens set revoked_at = now() where worker_id = v_worker.id and revoked_at is null
    and last_used_at is null;
  v_token := private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  perform private.record_worker_event(v_worker.id, 'token_rotated', format('By job %s', private.job_number(p_job)));
  return jsonb_build_object('token_id', v_token);
end;
$$;
comment on function private.worker_target_token is 'Gives a target its token (hash only); an unused one is replaced.';

-- The facts about a runner that a job for it needs.
create function private.target_json(p_worker uuid) returns jsonb language sql stable as $$
  select jsonb_build_object('id', w.id, 'name', w.name, 'status', s.status, 'status_reason', s.reason, 'version',
    w.version, 'is_draining', w.is_draining,
    'desired_count', w.desired_count, 'cloud', w.cloud, 'removed', w.removed_at is not null,
    'last_seen_at', (select max(i.last_seen_at) from private.instance_liveness as i where i.worker_id = w.id),
    'instances', (select count(*) from private.instance_liveness as i where i.worker_id = w.id and i.is_fresh),
    'versions', (select coalesce(jsonb_agg(distinct n.version), '[]') from public.worker_instances as n
      join private.instance_liveness as i on i.instance_id = n.id where n.worker_id = w.id and i.is_fresh),
    'running', (select count(*) from private.live_jobs as q where q.worker_id = w.id and q.stage = 'RUNNING'))
  from public.workers as w cross join lateral private.derive_worker_status(w.id) as s where w.id = p_worker
$$;

create function private.worker_target_update(p_job bigint, p_attempt integer, p_patch jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.owned_target(p_job, p_attempt);
begin
  perform private.check_options('target', p_patch);
  -- Only the database writes the column's other keys (since when it starts, that it was removed, its task).
  perform private.fail('RY422', 'The cloud resources are an object of names and ARNs, of at most 16 KiB.',
    'Send {"cloud": {"service_arn": "arn:…"}}.')
  where jsonb_typeof(p_patch -> 'cloud') <> 'object' or jsonb_path_exists(p_patch,
      '$.cloud.keyvalue() ? (!(@.key like_regex "_arn$" && @.value.type() == "string"))', silent => true)
    or pg_column_size(v_worker.cloud || (p_patch -> 'cloud')) > 16384;
  update public.workers set
    cloud = cloud || coalesce(p_patch -> 'cloud', '{}'),
      desired_count = coalesce((p_patch ->> 'desired_count')::integer, desired_count),
    is_scaled_to_zero = coalesce((p_patch ->> 'is_scaled_to_zero')::boolean, is_scaled_to_zero),
    is_draining = coalesce((p_patch ->> 'is_draining')::boolean, is_draining),
    drain_reason = case when p_patch ? 'is_draining' then left(p_patch ->> 'drain_reason', 200) else drain_reason end
  where id = v_worker.id;
  perform private.refresh_worker_status(v_worker.id);
  perform private.wake_worker(v_worker.id);
  return private.target_json(v_worker.id);
end;
$$;
comment on function private.worker_target_update is
  'Records what a deploying job made (cloud: names and ARNs), drains or resumes its target. As worker_target_status.';

create function private.worker_target_status(p_job bigint, p_attempt integer) returns jsonb
language sql security definer set search_path = '' as $$
  select private.target_json((private.owned_target(p_job, p_attempt)).id)
$$;
comment on function private.worker_target_status is 'A deploying job''s target: status, live versions, running jobs.';

create index workers_gone_idx on public.workers (id) where cloud ? 'is_gone' and removed_at is null;

create function private.verify_cloud_identity(p_identity uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
  v_job public.provision_jobs;
begin
  select j.* into v_job from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
    where q.state_key = p_identity
    and q.stage <> 'WAITING';
  if v_job.id is null then
    v_job := private.new_job(v_identity.org_id, 'VERIFY_IDENTITY', 50);
    v_job.target_identity_id := p_identity;
    v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object('regions', to_jsonb(v_identity.regions),
      'identity', private.identity_json(v_identity) || jsonb_build_object('name', v_identity.name)));
    v_job := private.add_job(v_job, 'Test ' || v_identity.name);
    perform private.audited(to_jsonb(v_identity), 'cloud_identity.tested', v_identity.name,
      jsonb_build_object('job', v_job.number));
  end if;
  return to_jsonb(v_identity) || jsonb_build_object('job', to_jsonb(v_job));
end;
$$;
comment on function private.verify_cloud_identity is
  'Queues the job that tries a cloud identity in all of its regions, or finds the one that is under way; verified_at '
  'or verification_error follow from it. Admins.';

-- ## scaling
-- Scaling, as the runner that holds the cloud's rights does it: it asks for the numbers, decides by a pure planner,
-- sets the count in the cloud and writes down what it did. One runner decides for an organisation at a time, by a lease
-- that the next one takes over.
create table public.scaling_decisions (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  worker_id uuid not null references public.workers (id) on delete cascade,
  at timestamptz not null default now(),
  from_count integer not null,
  to_count integer not null,
  reason text not null,
  detail jsonb not null default '{}',
  dry_run boolean not null default false
);
create index scaling_decisions_worker_id_idx on public.scaling_decisions (worker_id, id desc);
create index scaling_decisions_org_id_idx on public.scaling_decisions (org_id, id desc);
comment on table public.scaling_decisions is 'Why a cloud-hosted runner was given more or fewer tasks, or none.';

-- The facts by which a planner decides how many tasks each cloud-hosted runner should have; null: of all organisations.
create function private.scaling_inputs(p_orgs uuid[]) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'worker_id', w.id, 'org_id', w.org_id, 'name', w.name, 'region', w.region, 'cloud', w.cloud,
    'limits', jsonb_build_object('minimum', coalesce((w.scaling ->> 'min')::integer, 0), 'maximum',
      coalesce((w.scaling ->> 'max')::integer, 1),
      'jobs_per_task', coalesce((w.scaling ->> 'jobs_per_task')::integer, w.capacity), 'idle_seconds',
        coalesce((w.scaling ->> 'idle_seconds')::integer, 300)),
    'load', jsonb_build_object('desired', w.desired_count, 'connected', l.connected, 'waiting', (
        -- Nearer runners are looked up once for a lane that has work, not for each of its jobs.
        select coalesce(sum(case when ready.jobs > 0 and not exists (
          select from private.preferred_runners as p where p.lane_id = lw.lane_id and p.distance < lw.distance offset 0
        ) then ready.jobs end), 0)
        from private.lane_workers as lw
        cross join lateral (
          select count(*) as jobs from private.live_jobs as q where q.lane_id = lw.lane_id
        ) as ready
        where lw.worker_id = w.id
          -- Nobody could take them: a task would be started, and paid for, to wait.
          and not exists (select from private.organizations_in_maintenance as m where m.org_id = w.org_id)),
      'running', l.running, 'busy_tasks', l.busy, 'takes_jobs', not (w.is_disabled or w.is_draining)),
    'last', (select to_jsonb(d) from public.scaling_decisions as d where d.worker_id = w.id order by d.id desc limit 1)
  ) order by w.created_at, w.id), '[]')
  from public.workers as w
  cross join lateral (
    select count(*) filter (where i.is_fresh) as connected, coalesce(sum(i.used), 0) as running,
      count(*) filter (where i.is_fresh and i.used > 0) as busy
    from private.instance_liveness as i where i.worker_id = w.id
  ) as l
  where w.type = 'cloud-hosted' and w.removed_at is null and not w.cloud ? 'is_gone'
    and (p_orgs is null or w.org_id = any (p_orgs))
$$;

-- Records a scaling decision and, unless it is a rehearsal, sets the new count.
create function private.record_scaling_decision(
  p_worker uuid, p_to_count integer, p_reason text, p_detail jsonb, p_dry_run boolean
) returns jsonb language plpgsql as $$
declare
  v_worker public.workers;
  v_decision public.scaling_decisions;
begin
  select * into v_worker from public.workers where id = p_worker and type = 'cloud-hosted' and removed_at is null;
  perform private.fail('RY422', 'A decision needs a cloud-hosted runner and a count from 0 to 1,000.')
  where v_worker.id is null or p_to_count is null or p_to_count not between 0 and 1000;
  insert into public.scaling_decisions (org_id, worker_id, from_count, to_count, reason, detail, dry_run)
  values (v_worker.org_id, p_worker, v_worker.desired_count, p_to_count, p_reason, coalesce(p_detail, '{}'),
    coalesce(p_dry_run, false)) returning * into v_decision;
  if not v_decision.dry_run then
    update public.workers set desired_count = p_to_count, is_scaled_to_zero = p_to_count = 0 where id = p_worker;
    perform private.refresh_worker_status(p_worker);
  end if;
  perform private.wake_org(v_worker.org_id, 'scaling_decisions', v_decision.id::pg_catalog.text);
  return to_jsonb(v_decision);
end;
$$;

create table private.scaling_leases (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  session_id uuid not null,
  held_until timestamptz not null
);
comment on table private.scaling_leases is 'Which session decides about an organisation''s cloud-hosted runners.';

create table private.scaling_memory (
  worker_id uuid primary key references public.workers (id) on delete cascade,
  surplus_since timestamptz,
  started_at timestamptz,
  boot_failures integer check (boot_failures between 0 and 999),
  broken_until timestamptz,
  verdict text,
  -- The next to decide reads them in Python, and that may be a runner that decides for all organisations.
  constraint scaling_memory_readable check (least(surplus_since, started_at, broken_until) >= '2000-01-01 00:00+00'
    and greatest(surplus_since, started_at, broken_until) < '9000-01-01 00:00+00')
);
comment on table private.scaling_memory is 'What the planner remembers of a runner between two decisions.';
comment on column private.scaling_memory.started_at is 'When tasks were started that have sent no heartbeat yet.';
comment on column private.scaling_memory.boot_failures is 'Starts in a row without a heartbeat.';
comment on column private.scaling_memory.broken_until is 'No task is started before, after too many of these.';

-- The calling runner, if it may act on other runners.
create function private.need_lifecycle_runner(out v_runner private.runner) language plpgsql as $$
begin
  v_runner := private.this_runner();
  perform private.fail('RY403', 'This runner does not accept jobs about runners.',
    'Add UPDATE_WORKER to the jobs that it accepts.')
  where not exists (select from public.workers as w where w.id = v_runner.worker_id
    and coalesce('UPDATE_WORKER' = any (w.accepted_job_types), true));
end;
$$;

-- Organisations with cloud-hosted runners that the calling runner works for; none while it takes no jobs itself.
create function private.orgs_to_scale(p_runner private.runner) returns setof uuid language sql stable as $$
  select distinct w.org_id from public.workers as w
  where w.type = 'cloud-hosted' and w.removed_at is null and p_runner.is_open
    and (w.org_id = p_runner.org_id or exists (
      select from private.shared_refusals as r
      where r.worker_id = p_runner.worker_id and r.org_id = w.org_id and r.reason is null))
$$;

create function private.worker_scaling_inputs(p_except uuid[] default '{}') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.need_lifecycle_runner();
  v_orgs pg_catalog.uuid[];
begin
  with held as (
    insert into private.scaling_leases as l (org_id, session_id, held_until)
    select o, v_runner.session_id, now() + interval '45 seconds'
    from private.orgs_to_scale(v_runner) as o where o <> all (coalesce(p_except, '{}'))
    on conflict (org_id) do update set session_id = excluded.session_id, held_until = excluded.held_until
    where l.session_id = excluded.session_id or l.held_until < now()
    returning l.org_id
  )
  select array_agg(h.org_id) into v_orgs from held as h;
  return jsonb_build_object(
    'has_cloud', exists (select from private.orgs_to_scale(v_runner)),
    'workers', coalesce((
      select jsonb_agg(i.input || jsonb_build_object('memory', coalesce(to_jsonb(m) - array['worker_id', 'verdict'],
        '{}'), 'verdict', m.verdict, 'identity', jsonb_build_object('account_id', c.account_id, 'role_arn', c.role_arn,
        'external_id', c.external_id, 'network', c.network)))
      -- Others decide about the rest: their queues are theirs to read.
      from jsonb_array_elements(private.scaling_inputs(coalesce(v_orgs, '{}'))) as i (input)
      join public.workers as w on w.id = (i.input ->> 'worker_id')::pg_catalog.uuid and w.cloud ? 'service_arn'
      join public.cloud_identities as c on c.id = w.cloud_identity_id
      left join private.scaling_memory as m on m.worker_id = w.id
      where not private.is_state_in_use(w.id)
    ), '[]'));
end;
$$;
comment on function private.worker_scaling_inputs is
  'Takes the right to decide where nobody has it, but for those organisations, and answers with what the planner '
  'needs of each deployed runner that no job is at work on.';

create function private.worker_scaling_decided(p_worker uuid, p_decision jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.need_lifecycle_runner();
  v_worker public.workers;
  v_before private.scaling_memory;
  v_count integer;
begin
  perform private.fail('RY422', 'That is not a decision.',
    'Send {desired, verdict, reason, memory, dry_run}, 64 KiB at most; desired is 0 to 1,000.')
  where coalesce(p_decision ->> 'desired', '') !~ '^(1000|[0-9]{1,3})$'
    or jsonb_typeof(p_decision -> 'memory') <> 'object' or pg_column_size(p_decision) > 65536
    or jsonb_typeof(p_decision -> 'dry_run') <> 'boolean' or coalesce(p_decision ->> 'reason', '') = '';
  perform private.check_reason(p_decision ->> 'reason');
  perform private.refuse_unknown_keys(p_decision -> 'memory',
    array['surplus_since', 'started_at', 'boot_failures', 'broken_until']);
  v_count := (p_decision ->> 'desired')::integer;
  select w.* into v_worker from public.workers as w
  join private.scaling_leases as l on l.org_id = w.org_id and l.session_id = v_runner.session_id
    and l.held_until > now()
  where w.id = p_worker and w.type = 'cloud-hosted' and w.removed_at is null;
  perform private.fail('RY409', 'Another runner decides about this one now.', 'Ask for the numbers again.')
  where v_worker.id is null;
  select * into v_before from private.scaling_memory where worker_id = p_worker;
  insert into private.scaling_memory select * from jsonb_populate_record(null::private.scaling_memory,
    coalesce(p_decision -> 'memory', '{}')
    || jsonb_build_object('worker_id', p_worker, 'verdict', p_decision -> 'verdict'))
  on conflict (worker_id) do update set surplus_since = excluded.surplus_since, started_at = excluded.started_at,
    boot_failures = excluded.boot_failures, broken_until = excluded.broken_until, verdict = excluded.verdict;
  if v_count <> v_worker.desired_count or (p_decision ->> 'verdict' = 'BROKEN' and v_before.verdict is distinct
    from 'BROKEN') then
    if v_count > v_worker.desired_count and not coalesce((p_decision ->> 'dry_run')::boolean, false) then
      update public.workers set cloud = cloud || jsonb_build_object('starting_at', now()) where id = p_worker;
    end if;
    return private.record_scaling_decision(p_worker, v_count, p_decision ->> 'reason',
      p_decision - array['memory', 'reason', 'dry_run'], coalesce((p_decision ->> 'dry_run')::boolean, false));
  end if;
  return null;
exception when data_exception or check_violation then
  perform private.fail('RY422', 'The planner''s memory is not valid.',
    'Times are like 2026-11-01T08:00:00+00:00 or null; boot_failures is 0 to 999.');
end;
$$;
comment on function private.worker_scaling_decided is
  'Writes down what was decided about a runner: {desired, verdict, reason, load, memory, dry_run}. A row in '
  'scaling_decisions only where something changed.';
