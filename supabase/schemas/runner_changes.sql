-- Acts on runners: register, change, assign, drain, disable, deploy, remove; one, many, and shared ones.

create function private.ensure_shared_worker(
  p_name text, p_token_hash text, p_token_hint text, p_options jsonb default '{}'
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_before pg_catalog.jsonb;
  -- For whom it works; nobody named is everybody.
  v_slugs pg_catalog.text[] := private.text_list(p_options -> 'organizations');
begin
  perform private.check_worker_options(null, private.runner_settings(p_options,
    array['assignments', 'service_account_id', 'organizations']));
  perform private.lock_routing(null, true);
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null;
  if v_worker.id is null then
    v_worker := private.insert_worker(null, p_name, 'shared',
      coalesce(p_options, '{}') - array['service_account_id', 'is_assigned_to_all_modules', 'organizations']);
    perform private.record_worker_event(v_worker.id, 'registered', 'From the installation''s configuration');
    perform private.audited(to_jsonb(v_worker), 'worker.registered', v_worker.name, coalesce(p_options, '{}'));
  else
    update public.workers set
      labels = case when p_options ? 'labels' then private.sorted_labels(private.text_list(p_options -> 'labels'))
        else labels end,
      capacity = coalesce((p_options ->> 'capacity')::integer, capacity),
      accepted_job_types = case when p_options ? 'accepted_job_types'
        then private.job_types(p_options -> 'accepted_job_types')
        else accepted_job_types end,
      allow_multiple_instances = coalesce((p_options ->> 'allow_multiple_instances')::boolean, allow_multiple_instances)
    where id = v_worker.id returning * into v_worker;
    perform private.refresh_slots(v_worker.id);
  end if;
  if p_token_hash is not null and not exists (select from private.live_tokens as t
    where t.worker_id = v_worker.id and t.hash = p_token_hash) then
    perform private.expire_tokens(v_worker.id, now());
    perform private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  end if;
  v_before := private.shared_orgs(v_worker.id);
  perform private.fail('RY404', format('There is no organisation "%s".', s), 'Write its short name, as in its address.')
  from unnest(v_slugs) as s where not exists (select from public.organizations as o where o.slug = s);
  delete from private.shared_worker_orgs where worker_id = v_worker.id;
  insert into private.shared_worker_orgs (worker_id, org_id)
  select v_worker.id, o.id from public.organizations as o where o.slug = any (v_slugs);
  perform private.reroute(null, v_worker.id);
  return to_jsonb(v_worker) || jsonb_build_object('organizations', private.shared_orgs(v_worker.id),
    'organizations_before', v_before);
end;
$$;
comment on function private.ensure_shared_worker is
  'Makes or changes a shared runner as the file has it; a new token hash replaces the old. Service key only.';

create function private.remove_shared_worker(p_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
begin
  perform private.lock_routing(null, true);
  v_worker := private.need_shared_worker(p_name);
  perform private.retire_worker(v_worker.id, 'removed from the installation''s configuration');
  perform private.audited(to_jsonb(v_worker), 'worker.removed', v_worker.name);
  return (select to_jsonb(w) from public.workers as w where w.id = v_worker.id);
end;
$$;
comment on function private.remove_shared_worker is 'Removes a shared runner that left the file. Service key only.';

create function private.set_shared_worker(p_name text, p_action text, p_reason text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_done pg_catalog.text := case p_action when 'drain' then 'drained' when 'resume' then 'resumed'
    when 'disable' then 'disabled' when 'enable' then 'enabled' when 'end_sessions' then 'sessions_ended' end;
begin
  perform private.fail('RY422', 'A shared runner can drain, resume, disable, enable or end_sessions.')
  where v_done is null;
  v_worker := private.need_shared_worker(p_name);
  perform private.end_sessions(v_worker.id, null, null, coalesce(nullif(trim(p_reason), ''),
    'ended by the administrator')) where p_action = 'end_sessions';
  return private.set_worker_flags(v_worker, v_done, p_reason);
end;
$$;
comment on function private.set_shared_worker is
  'Drains, resumes, disables or enables a shared runner, or ends its sessions. Service key only.';

-- Drains, resumes, disables or enables a locked runner, and notifies everybody; sessions_ended only tells them.
create function private.set_worker_flags(p_worker public.workers, p_action text, p_reason text) returns jsonb
language plpgsql as $$
declare
  v_reason pg_catalog.text := nullif(trim(p_reason), '');
begin
  perform private.check_reason(v_reason);
  update public.workers set
    is_disabled = case p_action when 'disabled' then true when 'enabled' then false else is_disabled end,
    is_draining = case p_action when 'drained' then true when 'resumed' then false else is_draining end,
    drain_reason = case p_action when 'drained' then coalesce(v_reason, 'Drain requested') when 'resumed' then null
      else drain_reason end
  where id = p_worker.id;
  perform private.refresh_worker_status(p_worker.id);
  perform private.record_worker_event(p_worker.id, p_action,
    coalesce(v_reason, 'By ' || case when p_worker.is_shared then 'the administrator'
      else private.caller_label(p_worker.org_id) end));
  perform private.audit(p_worker.org_id, 'worker.' || p_action, 'worker', p_worker.id::pg_catalog.text, p_worker.name,
    jsonb_build_object('reason', v_reason));
  perform private.wake_worker(p_worker.id);
  perform private.wake_lanes_of(p_worker.id);
  return (select to_jsonb(w) from public.workers as w where w.id = p_worker.id);
end;
$$;

create function private.set_worker_disabled(p_worker uuid, p_disabled boolean) returns jsonb
language sql security definer set search_path = '' as $$
  select private.fail('RY422', 'Pass whether the runner is to be disabled: true or false.') where p_disabled is null;
  select private.set_worker_flags(private.lock_worker(p_worker, 'runner.manage'), case when p_disabled then 'disabled'
    else 'enabled' end, null)
$$;
comment on function private.set_worker_disabled is 'Disables or enables a runner; a disabled one gets no jobs. Admins.';

create function private.drain_worker(p_worker uuid, p_reason text default null) returns jsonb
language sql security definer set search_path = '' as $$
  select private.set_worker_flags(private.lock_worker(p_worker, 'runner.operate'), 'drained', p_reason)
$$;
comment on function private.drain_worker is 'Drains a runner: it finishes its jobs and takes no new ones. Operators.';

create function private.resume_worker(p_worker uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.set_worker_flags(private.lock_worker(p_worker, 'runner.operate'), 'resumed', null)
$$;
comment on function private.resume_worker is 'Ends a drain. Operators.';

create function private.register_worker(
  p_org uuid, p_name text, p_token_hash text, p_token_hint text, p_options jsonb default '{}'
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
begin
  perform private.need('runner.manage', p_org);
  perform private.check_worker_options(p_org, p_options);
  perform private.lock_routing(p_org, true);
  v_worker := private.insert_worker(p_org, p_name, 'self-hosted', coalesce(p_options, '{}'));
  if p_token_hash is not null then
    perform private.add_token(v_worker.id, p_token_hash, p_token_hint,
      (p_options ->> 'token_expires_at')::pg_catalog.timestamptz);
  elsif v_worker.service_account_id is null then
    perform private.fail('RY422', 'A runner needs a token or a service account.',
      'Without either it could never claim a job.');
  end if;
  insert into public.worker_assignments (org_id, worker_id, path, created_by)
  select p_org, v_worker.id, a, private.caller_id() from unnest(private.text_list(p_options -> 'assignments')) as a
    on conflict do nothing;
  perform private.reroute(p_org, v_worker.id);
  perform private.record_worker_event(v_worker.id, 'registered', 'Registered by ' || private.caller_label(p_org));
  return private.audited(to_jsonb(v_worker), 'worker.registered', v_worker.name, coalesce(p_options, '{}'));
end;
$$;
comment on function private.register_worker is
  'Registers a self-hosted runner. The caller made its token and sends only the bcrypt hash. Admins.';

create function private.update_worker(p_worker uuid, p_options jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'runner.manage');
  v_account pg_catalog.uuid := v_worker.service_account_id;
begin
  -- Options that only registration accepts would be ignored here.
  perform private.refuse_unknown_keys(p_options, array['name', 'labels', 'capacity', 'accepted_job_types',
    'allow_multiple_instances', 'is_assigned_to_all_modules', 'service_account_id', 'scaling']);
  perform private.check_worker_options(v_worker.org_id, p_options);
  update public.workers set
    name = coalesce(trim(p_options ->> 'name'), name),
    labels = case when p_options ? 'labels' then private.sorted_labels(private.text_list(p_options -> 'labels'))
      else labels end,
    capacity = coalesce((p_options ->> 'capacity')::integer, capacity),
    accepted_job_types = case when p_options ? 'accepted_job_types'
      then private.job_types(p_options -> 'accepted_job_types')
      else accepted_job_types end,
    allow_multiple_instances = coalesce((p_options ->> 'allow_multiple_instances')::boolean, allow_multiple_instances),
    is_assigned_to_all_modules = coalesce((p_options ->> 'is_assigned_to_all_modules')::boolean,
    is_assigned_to_all_modules), service_account_id = case when p_options ? 'service_account_id'
      then (p_options ->> 'service_account_id')::pg_catalog.uuid
      else service_account_id end,
    scaling = coalesce(p_options -> 'scaling', scaling)
  where id = p_worker returning * into v_worker;
  perform private.check_account_scope(v_worker);
  perform private.end_sessions(p_worker, null, v_account, 'its service account was taken from it')
  where v_account is not null and v_account is distinct from v_worker.service_account_id;
  perform private.refresh_slots(p_worker);
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.refresh_worker_status(p_worker);
  perform private.wake_worker(p_worker);
  perform private.record_worker_event(p_worker, 'updated', 'Settings changed by '
    || private.caller_label(v_worker.org_id));
  return private.audited(to_jsonb(v_worker), 'worker.updated', v_worker.name, p_options);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a runner called "%s".', p_options ->> 'name'),
      'Choose another name.');
  when check_violation or invalid_text_representation then
    perform private.fail('RY422', 'A setting of the runner is not valid.',
      'Capacity is 1 to 256; names have 1 to 63 characters.');
end;
$$;
comment on function private.update_worker is 'Changes a runner''s settings; only what is given changes. Admins.';

create function private.assign_worker(p_worker uuid, p_path text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'runner.manage');
  v_assignment public.worker_assignments;
begin
  perform private.check_assignment_path(v_worker.org_id, p_path, v_worker.service_account_id);
  insert into public.worker_assignments (org_id, worker_id, path, created_by)
  values (v_worker.org_id, p_worker, p_path, private.caller_id())
  on conflict (worker_id, path) do update set path = excluded.path returning * into v_assignment;
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.record_worker_event(p_worker, 'assigned', coalesce(nullif(p_path, ''), 'all modules'));
  perform private.audited(to_jsonb(v_worker), 'worker.assigned', v_worker.name, jsonb_build_object('path', p_path));
  return to_jsonb(v_assignment);
end;
$$;
comment on function private.assign_worker is 'Assigns a runner to modules at or below a path; "" is all. Admins.';

create function private.unassign_worker(p_worker uuid, p_path text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
begin
  v_worker := private.lock_worker(p_worker, 'runner.manage');
  delete from public.worker_assignments where worker_id = p_worker and path = p_path;
  perform private.fail('RY404', format('The runner is not assigned to "%s".', p_path)) where not found;
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.record_worker_event(p_worker, 'unassigned', coalesce(nullif(p_path, ''), 'all modules'));
  perform private.audited(to_jsonb(v_worker), 'worker.unassigned', v_worker.name, jsonb_build_object('path', p_path));
  return jsonb_build_object('worker_id', p_worker, 'path', p_path);
end;
$$;
comment on function private.unassign_worker is 'Removes an assignment. Running jobs continue. Admins.';

-- Takes a runner out of service for good: tokens, sessions, assignments, jobs. The record stays for the history.
create function private.retire_worker(p_worker uuid, p_reason text) returns void language plpgsql as $$
declare
  v_job pg_catalog.record;
begin
  update public.workers set removed_at = now(), is_disabled = true where id = p_worker;
  update private.worker_tokens set revoked_at = now() where worker_id = p_worker and revoked_at is null;
  delete from public.worker_assignments where worker_id = p_worker;
  update public.modules set pinned_worker_id = null where pinned_worker_id = p_worker;
  perform private.end_sessions(p_worker, null, null, p_reason);
  perform private.refresh_worker_status(p_worker);
  perform private.reroute((select w.org_id from public.workers as w where w.id = p_worker), p_worker);
  -- Its running jobs are lost now, not when their leases end; queued jobs that only it could run cannot run any more.
  -- Two lookups by index: this holds the routing lock alone, and the history may be millions of jobs.
  for v_job in
    select q.job_id, q.state_key, j.pinned_worker_id from public.worker_instances as i
    join private.live_jobs as q on q.instance_id = i.id and q.stage = 'RUNNING'
    join public.provision_jobs as j on j.id = q.job_id where i.worker_id = p_worker
    union all
    select q.job_id, q.state_key, null from public.provision_jobs as j join private.live_jobs as q on q.job_id = j.id
    where j.status = 'QUEUED' and j.pinned_worker_id = p_worker
    order by state_key loop
    if private.lose_job(v_job.job_id, 'The runner was removed.') = 'requeued' and v_job.pinned_worker_id = p_worker then
      perform private.lose_job(v_job.job_id, 'The runner was removed.');
    end if;
  end loop;
  perform private.end_job(j.id, 'CANCELLED', 'cancelled', 'system', null, 'system', 'The runner was removed.')
  from public.provision_jobs as j where j.pinned_worker_id = p_worker and j.status = 'AWAITING_APPROVAL';
  perform private.record_worker_event(p_worker, 'removed', p_reason);
end;
$$;

create function private.remove_worker(p_worker uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'runner.manage');
begin
  perform private.fail('RY409', format('"%s" runs in your cloud, and would keep running there.', v_worker.name),
    'Call remove_cloud_worker instead: it removes the deployment and the runner.')
  where v_worker.type = 'cloud-hosted';
  perform private.retire_worker(p_worker, 'removed by ' || private.caller_label(v_worker.org_id));
  perform private.audited(to_jsonb(v_worker), 'worker.removed', v_worker.name);
  perform private.wake_worker(p_worker);
  return (select to_jsonb(w) from public.workers as w where w.id = p_worker);
end;
$$;
comment on function private.remove_worker is
  'Removes a runner that was started by you: its sessions end, its jobs are requeued or flagged. Admins.';

create function private.change_runner(p_worker uuid, p_change text, p_options jsonb) returns void language plpgsql as $$
declare
  v_labels pg_catalog.text[];
begin
  case p_change
    when 'drain' then perform private.drain_worker(p_worker, p_options ->> 'reason');
    when 'resume' then perform private.resume_worker(p_worker);
    when 'disable' then perform private.set_worker_disabled(p_worker, true);
    when 'enable' then perform private.set_worker_disabled(p_worker, false);
    when 'update' then perform private.update_one_worker(p_worker, null);
    else
      select array(select distinct l from unnest(w.labels || private.text_list(p_options -> 'labels')) as l order by l)
      into v_labels from public.workers as w where w.id = p_worker;
      perform private.update_worker(p_worker, jsonb_build_object('labels', v_labels));
  end case;
end;
$$;

create function private.change_runners(p_org uuid, p_workers uuid[], p_change text, p_options jsonb default '{}')
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_done integer := 0;
  v_refused pg_catalog.jsonb := '[]';
begin
  perform private.need('runner.operate', p_org);
  perform private.refuse_unknown_keys(p_options, array['reason', 'labels']);
  perform private.fail('RY422', 'There is no such change of runners.',
    'Changes: drain, resume, disable, enable, update, label.')
  where p_change is null or p_change <> all (array['drain', 'resume', 'disable', 'enable', 'update', 'label']);
  perform private.fail('RY422', 'One to 200 runners are changed at a time.')
  where coalesce(cardinality(p_workers), 0) not between 1 and 200;
  for v_worker in
    select w.* from public.workers as w
    where w.id = any (p_workers) and w.org_id = p_org and w.removed_at is null order by w.id loop
    -- One that refuses keeps the others from nothing, and says why.
    begin
      perform private.change_runner(v_worker.id, p_change, p_options);
      v_done := v_done + 1;
    exception when sqlstate 'RY403' or sqlstate 'RY404' or sqlstate 'RY409' or sqlstate 'RY422' then
      v_refused := v_refused || jsonb_build_array(
        jsonb_build_object('id', v_worker.id, 'name', v_worker.name, 'why', sqlerrm));
    end;
  end loop;
  return jsonb_build_object('done', v_done, 'refused', v_refused);
end;
$$;
comment on function private.change_runners is
  'Changes up to 200 runners in one way (drain, resume, disable, enable, update, label) and returns how many were '
  'changed and which refused, and why. Options: reason, labels. Operators; each change asks for its own role.';

-- Refuses settings of a runner that make no sense.
create function private.check_worker_options(p_org uuid, p_options jsonb) returns void language plpgsql stable as $$
declare
  v_path pg_catalog.text;
begin
  perform private.check_options('runner', p_options);
  -- Before the assignments, which are compared with the account's path: nobody learns the path of a foreign one.
  perform private.fail('RY404', 'There is no such service account.')
  where p_options ->> 'service_account_id' is not null and not exists (select from public.service_accounts
    where id = (p_options ->> 'service_account_id')::pg_catalog.uuid and org_id = p_org and removed_at is null);
  foreach v_path in array private.text_list(p_options -> 'assignments') loop
    perform private.check_assignment_path(p_org, v_path, (p_options ->> 'service_account_id')::pg_catalog.uuid);
  end loop;
  -- One planner reads the limits of all organisations: what it cannot read here would stop it for everybody.
  perform private.check_options('scaling', p_options -> 'scaling');
  perform private.fail('RY422', 'The least number of tasks is above the most, or a limit is null.',
    'min is 0 to max; leave out what has no limit.')
  where (p_options #>> '{scaling,min}')::integer > (p_options #>> '{scaling,max}')::integer
    or (p_options -> 'scaling') @? '$.* ? (@ == null)';
  perform (p_options ->> 'token_expires_at')::pg_catalog.timestamptz;
exception when data_exception then
  perform private.fail('RY422', 'That is not a time at which a token can end.', sqlerrm);
end;
$$;

create function private.deploy_worker(
  p_org uuid, p_name text, p_cloud_identity uuid, p_region text, p_options jsonb default '{}'
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_job public.provision_jobs;
  -- A task of its own for each update and for each step of the scale; and no rights to act on other runners.
  v_settings pg_catalog.jsonb :=
    '{"allow_multiple_instances": true, "accepted_job_types": ["PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT",
      "RESOLVE", "STATE", "POLICY_TEST"]}';
begin
  perform private.need('runner.manage', p_org);
  v_settings := v_settings || private.runner_settings(p_options,
    array['cpu', 'memory', 'image', 'version', 'task_role_arn', 'desired_count']);
  perform private.check_worker_options(p_org, v_settings);
  perform private.fail('RY422', 'That is not a number of tasks.', 'desired_count is 0 to 1,000.')
  where coalesce(p_options ->> 'desired_count', '1') !~ '^(1000|[0-9]{1,3})$';
  perform private.lock_routing(p_org, true);
  perform private.need_proven_identity(p_org, p_cloud_identity, p_region);
  -- Else the sweep would retire what is deployed now.
  perform private.retire_worker(w.id, 'removed from the cloud') from public.workers as w
  where w.org_id = p_org and lower(w.name) = lower(trim(p_name)) and w.removed_at is null and w.cloud ? 'is_gone';
  select * into v_worker from public.workers where org_id = p_org and lower(name) = lower(trim(p_name))
    and removed_at is null
    and type = 'cloud-hosted'
    and cloud_identity_id = p_cloud_identity and region = p_region;
  if v_worker.id is null then
    v_worker := private.insert_worker(p_org, p_name, 'cloud-hosted', v_settings || jsonb_build_object('region',
      p_region));
    insert into public.worker_assignments (org_id, worker_id, path, created_by)
    select p_org, v_worker.id, a, private.caller_id()
      from unnest(private.text_list(p_options -> 'assignments')) as a on conflict do nothing;
    perform private.record_worker_event(v_worker.id, 'registered', 'Deployed by ' || private.caller_label(p_org));
  end if;
  perform private.refuse_second_lifecycle_job(v_worker.id);
  v_worker := private.keep_task(v_worker.id, p_cloud_identity, p_options);
  perform private.reroute(p_org, v_worker.id);
  v_job := private.lifecycle_job(v_worker, 'DEPLOY_WORKER', (select jsonb_object_agg(o.key, o.value)
    from jsonb_each(coalesce(p_options, '{}')) as o where o.key in ('image', 'version')));
  v_job := private.add_job(v_job, 'Deploy ' || v_worker.name);
  perform private.audited(to_jsonb(v_worker), 'worker.deployed', v_worker.name,
    jsonb_build_object('region', p_region, 'job', v_job.number));
  return jsonb_build_object('worker', to_jsonb(v_worker), 'job', to_jsonb(v_job));
end;
$$;
comment on function private.deploy_worker is
  'Registers a cloud-hosted runner (or finds it by its name) and queues the DEPLOY_WORKER job. Options: cpu, memory, '
  'image, version and a runner''s settings. Admins.';

-- Retires the records of runners that were removed from the cloud.
create function private.sweep_removals(out v_count integer) language plpgsql as $$
declare
  v_worker pg_catalog.record;
begin
  v_count := 0;
  for v_worker in select w.id, w.org_id from public.workers as w where w.cloud ? 'is_gone' and w.removed_at is null
    order by w.org_id loop
    begin
      if private.try_lock_routing(v_worker.org_id, true) then
        perform private.retire_worker(v_worker.id, 'removed from the cloud');
        v_count := v_count + 1;
      end if;
    exception when query_canceled or others then raise warning 'sweep of removed runner %: %', v_worker.id, sqlerrm;
    end;
  end loop;
end;
$$;
