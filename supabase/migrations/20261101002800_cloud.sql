-- Cloud-hosted runners: the database keeps the record and queues the job; a runner that may act in the cloud does the
-- work. What that job learns about its target (token hash, ARNs) comes back through functions that are fenced by its
-- attempt. "Test connection": only a runner with rights in the cloud can try a role, so trying it is a job like any
-- other: it is queued, explained while it waits, fenced by its attempt, logged, and its end says whether the identity
-- works.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.lifecycle_job(p_worker public.workers, p_type public.job_type, p_lifecycle jsonb)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_identity public.cloud_identities;
begin
  select * into v_identity from public.cloud_identities where id = p_worker.cloud_identity_id;
  v_job.org_id := p_worker.org_id;
  v_job.type := p_type;
  v_job.target_worker_id := p_worker.id;
  v_job.approvals_required := 0;
  v_job.priority := 50;
  v_job.max_attempts := 3;
  v_job.created_by := private.caller_id();
  v_job.created_by_label := private.caller_label(p_worker.org_id);
  v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object(
    'worker', jsonb_build_object('id', p_worker.id, 'name', p_worker.name), 'region', p_worker.region,
    'identity', jsonb_build_object('id', v_identity.id, 'provider', v_identity.provider, 'account_id',
      v_identity.account_id, 'role_arn', v_identity.role_arn,
      'external_id', v_identity.external_id, 'network', v_identity.network),
    'cloud', p_worker.cloud, 'desired_count', p_worker.desired_count,
    'version', coalesce(private.latest_version(), 'latest'))
    || coalesce(p_worker.cloud -> 'task', '{}') || coalesce(p_lifecycle, '{}'));
  return v_job;
end;
$$;
comment on function private.lifecycle_job(public.workers, public.job_type, jsonb) is
  'A job about a cloud-hosted runner, not yet written.';

create function private.refuse_second_lifecycle_job(p_worker uuid)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.fail('RY409', format('Job %s is already at work on this runner.', q.job_id), 'Wait until it is done.')
  from private.live_jobs as q where q.state_key = p_worker and q.stage <> 'WAITING';
end;
$$;
comment on function private.refuse_second_lifecycle_job(uuid) is
  'One job at a time deploys, updates or removes a runner.';

create function private.need_proven_identity(p_org uuid, p_identity uuid, p_region text)
returns void
language plpgsql stable
set search_path = ''
as $$
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
      v_identity.verification_error), 'Mend it, and test the connection again (Settings, Cloud identities).');
  elsif v_identity.verified_at is null then
    perform private.fail('RY409', format('"%s" has not been tested since it was made or changed.', v_identity.name),
      'Test the connection first (Settings, Cloud identities).');
  end if;
end;
$$;
comment on function private.need_proven_identity(uuid, uuid, text) is
  'Refuses to deploy with a cloud identity whose last test failed, or that has not been tested as it is now.';

create function private.deploy_worker(p_org uuid, p_name text, p_cloud_identity uuid, p_region text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_job public.provision_jobs;
  -- A task of its own for each update and for each step of the scale; and no rights to act on other runners.
  v_settings pg_catalog.jsonb :=
    '{"allow_multiple_instances": true, "accepted_job_types": ["PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT"]}';
  v_task pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'admin');
  v_settings := v_settings || private.runner_settings(p_options,
    array['cpu', 'memory', 'image', 'version', 'task_role_arn', 'desired_count']);
  perform private.check_worker_options(p_org, v_settings);
  if coalesce(p_options ->> 'desired_count', '1') !~ '^(1000|[0-9]{1,3})$' then
    perform private.fail('RY422', 'That is not a number of tasks.', 'desired_count is 0 to 1,000.');
  end if;
  perform private.need_proven_identity(p_org, p_cloud_identity, p_region);
  perform private.lock_routing(p_org, true);
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
  -- What the task is made of is kept: the next deployment and every update make it the same, at their own version.
  select jsonb_object_agg(o.key, case when o.key = 'image' then to_jsonb(regexp_replace(o.value #>> '{}', ':[^:/]+$',
    '')) else o.value end)
  into v_task from jsonb_each(coalesce(p_options, '{}')) as o where o.key in ('cpu', 'memory', 'image',
    'task_role_arn');
  update public.workers set cloud_identity_id = p_cloud_identity,
    cloud = cloud || jsonb_build_object('task', coalesce(cloud -> 'task', '{}') || coalesce(v_task, '{}')),
    desired_count = coalesce((p_options ->> 'desired_count')::integer, desired_count)
  where id = v_worker.id returning * into v_worker;
  perform private.reroute(p_org, v_worker.id);
  v_job := private.lifecycle_job(v_worker, 'DEPLOY_WORKER', (select jsonb_object_agg(o.key, o.value)
    from jsonb_each(coalesce(p_options, '{}')) as o where o.key in ('image', 'version')));
  v_job := private.add_job(v_job, 'Deploy ' || v_worker.name);
  perform private.audit(p_org, 'worker.deployed', 'worker', v_worker.id::pg_catalog.text, v_worker.name,
    jsonb_build_object('region', p_region, 'job', v_job.id));
  return jsonb_build_object('worker', to_jsonb(v_worker), 'job', to_jsonb(v_job));
end;
$$;
comment on function private.deploy_worker(uuid, text, uuid, text, jsonb) is 'Body of public.deploy_worker.';
grant execute on function private.deploy_worker(uuid, text, uuid, text, jsonb) to authenticated;

create function private.remove_cloud_worker(p_worker uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'admin');
  v_job public.provision_jobs;
begin
  if v_worker.type <> 'cloud-hosted' then
    perform private.fail('RY422', format('"%s" is %s; Runyard did not deploy it.', v_worker.name, v_worker.type),
      'Remove its record; what runs there is yours.');
  end if;
  perform private.refuse_second_lifecycle_job(p_worker);
  v_job := private.add_job(private.lifecycle_job(v_worker, 'REMOVE_WORKER', null), 'Remove ' || v_worker.name);
  update public.workers set is_draining = true, drain_reason = 'Being removed' where id = p_worker;
  perform private.refresh_worker_status(p_worker);
  perform private.ring_worker(p_worker);
  perform private.audit(v_worker.org_id, 'worker.removal_queued', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('job', v_job.id));
  return to_jsonb(v_job);
end;
$$;
comment on function private.remove_cloud_worker(uuid) is 'Body of public.remove_cloud_worker.';
grant execute on function private.remove_cloud_worker(uuid) to authenticated;

-- ---------------------------------------------------------------------------------------------- what the job says
-- about its target

create function private.owned_target(p_job bigint, p_attempt integer)
returns public.workers
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  select w.* into v_worker from public.provision_jobs as j join public.workers as w on w.id = j.target_worker_id
    where j.id = p_job;
  if v_worker.id is null then
    perform private.fail('RY422', 'This job is not about a runner.');
  end if;
  return v_worker;
end;
$$;
comment on function private.owned_target(bigint, integer) is
  'The runner that the calling attempt deploys, updates or removes.';

create function private.worker_target_token(p_job bigint, p_attempt integer, p_token_hash text, p_token_hint text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.owned_target(p_job, p_attempt);
  v_token pg_catalog.uuid;
begin
  -- The plaintext of an earlier try was lost with it.
  update private.worker_tokens set revoked_at = now() where worker_id = v_worker.id and revoked_at is null
    and last_used_at is null;
  v_token := private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  perform private.record_worker_event(v_worker.id, 'token_rotated', format('By job %s', p_job));
  return jsonb_build_object('token_id', v_token);
end;
$$;
comment on function private.worker_target_token(bigint, integer, text, text) is 'Body of public.worker_target_token.';
grant execute on function private.worker_target_token(bigint, integer, text, text) to worker;

create function private.worker_target_update(p_job bigint, p_attempt integer, p_patch jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.owned_target(p_job, p_attempt);
begin
  perform private.refuse_unknown_keys(p_patch, array['cloud', 'desired_count', 'is_scaled_to_zero', 'is_draining',
    'drain_reason']);
  update public.workers set
    cloud = cloud || coalesce(p_patch -> 'cloud', '{}'),
      desired_count = coalesce((p_patch ->> 'desired_count')::integer, desired_count),
    is_scaled_to_zero = coalesce((p_patch ->> 'is_scaled_to_zero')::boolean, is_scaled_to_zero),
    is_draining = coalesce((p_patch ->> 'is_draining')::boolean, is_draining),
    drain_reason = case when p_patch ? 'is_draining' then left(p_patch ->> 'drain_reason', 200) else drain_reason end
  where id = v_worker.id;
  perform private.refresh_worker_status(v_worker.id);
  perform private.ring_worker(v_worker.id);
  return private.target_json(v_worker.id);
end;
$$;
comment on function private.worker_target_update(bigint, integer, jsonb) is 'Body of public.worker_target_update.';
grant execute on function private.worker_target_update(bigint, integer, jsonb) to worker;

create function private.target_json(p_worker uuid)
returns jsonb
language sql stable
set search_path = ''
as $$
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
comment on function private.target_json(uuid) is 'What a job about a runner needs to know of it.';

create function private.worker_target_status(p_job bigint, p_attempt integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.owned_target(p_job, p_attempt);
begin
  return private.target_json(v_worker.id);
end;
$$;
comment on function private.worker_target_status(bigint, integer) is 'Body of public.worker_target_status.';
grant execute on function private.worker_target_status(bigint, integer) to worker;

-- ---------------------------------------------------------------------------------------------- after such a job

create function private.undrain_after_update(p_worker uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  -- However the update ended, also without a last word of its runner: what it drained takes jobs again. What a person
  -- drained stays so.
  update public.workers set is_draining = false, drain_reason = null
  where id = p_worker and is_draining and drain_reason like 'Update to %' and removed_at is null;
  if found then
    perform private.refresh_worker_status(p_worker);
    perform private.ring_worker(p_worker);
  end if;
end;
$$;
comment on function private.undrain_after_update(uuid) is 'Lets a runner take jobs again whose update did not succeed.';

create function private.after_lifecycle_job(p_job public.provision_jobs)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_job.type = 'REMOVE_WORKER' and p_job.status = 'SUCCEEDED' then
    -- Taking the record out needs the routing lock alone, which the end of a job must not ask for: the sweep does it.
    update public.workers set cloud = cloud || '{"is_gone": true}', is_disabled = true
      where id = p_job.target_worker_id;
  elsif p_job.type = 'VERIFY_IDENTITY' then
    perform private.note_identity(p_job.target_identity_id, p_job);
  elsif p_job.type = 'DEPLOY_WORKER' and (p_job.status = 'SUCCEEDED' or p_job.error ->> 'code' in ('cloud_identity',
    'cloud_account')) then
    -- A deployment that failed for another reason says nothing about the role.
    perform private.note_identity((select w.cloud_identity_id from public.workers as w
      where w.id = p_job.target_worker_id), p_job);
  end if;
  if p_job.type = 'UPDATE_WORKER' and p_job.status in ('FAILED', 'CANCELLED') then
    perform private.undrain_after_update(p_job.target_worker_id);
  end if;
  if p_job.rollout_id is not null then
    perform private.advance_rollout(p_job.rollout_id);
  end if;
end;
$$;
comment on function private.after_lifecycle_job(public.provision_jobs) is
  'What follows from a job about a runner: its record goes, its identity is proven, its rollout goes on.';

create function private.sweep_removals()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_worker pg_catalog.record;
  v_count integer := 0;
begin
  for v_worker in select w.id, w.org_id from public.workers as w where w.cloud ? 'is_gone' and w.removed_at is null
    order by w.org_id loop
    if pg_try_advisory_xact_lock_shared(private.lock_key('routing'))
      and pg_try_advisory_xact_lock(private.lock_key('routing', v_worker.org_id::pg_catalog.text)) then
      perform private.retire_worker(v_worker.id, 'removed from the cloud');
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_removals() is 'Retires the records of runners that are gone from the cloud.';

-- squawk-ignore require-concurrent-index-creation
create index workers_gone_idx on public.workers (id) where cloud ? 'is_gone' and removed_at is null;

create function private.note_identity(p_identity uuid, p_job public.provision_jobs)
returns void
language sql
set search_path = ''
as $$
  -- The job tried what was frozen into it: its verdict is no news about an identity that was changed meanwhile.
  update public.cloud_identities as c set
    verified_at = case when p_job.status = 'SUCCEEDED' then now() else c.verified_at end,
    verification_error = case when p_job.status = 'SUCCEEDED' then null
      else left(coalesce(p_job.error ->> 'message', c.verification_error), 2000) end
  where c.id = p_identity and p_job.status in ('SUCCEEDED', 'FAILED')
    and (c.account_id, c.role_arn, c.external_id, c.network) = (p_job.payload #>> '{lifecycle,identity,account_id}',
      p_job.payload #>> '{lifecycle,identity,role_arn}', p_job.payload #>> '{lifecycle,identity,external_id}',
        p_job.payload #> '{lifecycle,identity,network}')
$$;
comment on function private.note_identity(uuid, public.provision_jobs) is
  'Writes down what a job found out about a cloud identity.';

create function private.verify_cloud_identity(p_identity uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
  v_job public.provision_jobs;
begin
  select j.* into v_job from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
    where q.state_key = p_identity
    and q.stage <> 'WAITING';
  if v_job.id is null then
    v_job.org_id := v_identity.org_id;
    v_job.type := 'VERIFY_IDENTITY';
    v_job.target_identity_id := p_identity;
    v_job.approvals_required := 0;
    v_job.priority := 50;
    v_job.max_attempts := 3;
    v_job.created_by := private.caller_id();
    v_job.created_by_label := private.caller_label(v_identity.org_id);
    v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object('regions', to_jsonb(v_identity.regions),
      'identity', jsonb_build_object('id', v_identity.id, 'name', v_identity.name, 'provider', v_identity.provider,
        'account_id', v_identity.account_id,
        'role_arn', v_identity.role_arn, 'external_id', v_identity.external_id, 'network', v_identity.network)));
    v_job := private.add_job(v_job, 'Test ' || v_identity.name);
    perform private.audit(v_identity.org_id, 'cloud_identity.tested', 'cloud_identity', p_identity::pg_catalog.text,
      v_identity.name, jsonb_build_object('job', v_job.id));
  end if;
  return to_jsonb(v_identity) || jsonb_build_object('job', to_jsonb(v_job));
end;
$$;
comment on function private.verify_cloud_identity(uuid) is 'Body of public.verify_cloud_identity.';
grant execute on function private.verify_cloud_identity(uuid) to authenticated;

revoke execute on all functions in schema private from public;
