-- What people do with runner records: register, change, assign, remove.
-- Only the bcrypt hash of a token reaches the database. A shared runner can be changed by no organisation: every
-- function about a record goes through lock_worker, which refuses it.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.check_scaling(p_scaling jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  perform private.refuse_unknown_keys(p_scaling, array['min', 'max', 'jobs_per_task', 'idle_seconds']);
  -- One planner reads the limits of all organisations: what it cannot read here would stop it for everybody.
  if exists (
    select from jsonb_each(p_scaling) as e
    -- As it is written: "300.0" is a whole number too, but no integer.
    where jsonb_typeof(e.value) <> 'number' or e.value #>> '{}' !~ '^[0-9]{1,5}$' or e.value::numeric > 86400
  ) or (p_scaling ->> 'max')::integer not between 1 and 1000
    or (p_scaling ->> 'jobs_per_task')::integer not between 1 and 1000
    or (p_scaling ->> 'min')::integer > coalesce((p_scaling ->> 'max')::integer, 1000) then
    perform private.fail('RY422', 'A limit for scaling is out of range.',
      'Whole numbers: min 0 to max, max 1 to 1,000, jobs_per_task 1 to 1,000, idle_seconds 0 to 86,400.');
  end if;
end;
$$;
comment on function private.check_scaling(jsonb) is 'Refuses limits for scaling that no planner could follow.';

create function private.check_assignment_path(p_org uuid, p_path text, p_account uuid)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_account public.service_accounts;
begin
  perform private.need_target(p_org, p_path);
  select * into v_account from public.service_accounts where id = p_account;
  if v_account.path <> '' and p_path <> v_account.path and not starts_with(p_path, v_account.path || '/') then
    perform private.fail('RY422', format('The runner''s service account serves only %s.', v_account.path),
      'A service account must be in the same group as the modules, or above them.');
  end if;
end;
$$;
comment on function private.check_assignment_path(uuid, text, uuid) is
  'Refuses an assignment to nothing, or outside of the runner''s service account.';

create function private.check_worker_options(p_org uuid, p_options jsonb)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_path pg_catalog.text;
begin
  perform private.refuse_unknown_keys(p_options, array[
    'name', 'labels', 'capacity', 'accepted_job_types', 'allow_multiple_instances', 'is_assigned_to_all_modules',
    'assignments', 'token_expires_at', 'service_account_id', 'region', 'scaling']);
  if not private.is_label_list(private.text_list(p_options -> 'labels')) then
    perform private.fail('RY422',
      'A label must read like "gpu" or "gpu=true"; at most 32, of 1,000 characters in all.');
  end if;
  -- Before the assignments, which are compared with the account's path: nobody is told that of a foreign one.
  if p_options ->> 'service_account_id' is not null and not exists (
    select from public.service_accounts where id = (p_options ->> 'service_account_id')::pg_catalog.uuid
      and org_id = p_org and removed_at is null
  ) then
    perform private.fail('RY404', 'There is no such service account.');
  end if;
  foreach v_path in array private.text_list(p_options -> 'assignments') loop
    perform private.check_assignment_path(p_org, v_path, (p_options ->> 'service_account_id')::pg_catalog.uuid);
  end loop;
  perform private.check_scaling(p_options -> 'scaling');
  perform (p_options ->> 'token_expires_at')::pg_catalog.timestamptz, (p_options ->> 'capacity')::integer,
    (p_options ->> 'allow_multiple_instances')::boolean, (p_options ->> 'is_assigned_to_all_modules')::boolean;
exception
  when data_exception then
    perform private.fail('RY422', 'A setting of the runner has the wrong type.', sqlerrm);
end;
$$;
comment on function private.check_worker_options(uuid, jsonb) is 'Refuses settings of a runner that make no sense.';

create function private.runner_settings(p_options jsonb, p_without text[])
returns jsonb
language sql immutable
set search_path = ''
as $$
  select case jsonb_typeof(p_options) when 'object' then p_options - p_without when 'null' then '{}'
    else coalesce(p_options, '{}') end
$$;
comment on function private.runner_settings(jsonb, text[]) is
  'The options without some of them; what is no object is left as it is, for check_worker_options to refuse.';

create function private.check_account_scope(p_worker public.workers)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_account public.service_accounts;
  v_outside pg_catalog.text;
begin
  select * into v_account from public.service_accounts where id = p_worker.service_account_id;
  -- The runner's row has waited for whoever was removing the account.
  if v_account.removed_at is not null then
    perform private.fail('RY404', 'There is no such service account.', 'It was removed in this moment.');
  end if;
  if p_worker.is_assigned_to_all_modules then
    v_outside := 'all modules';
  else
    select string_agg(coalesce(nullif(a.path, ''), 'all modules'), ', ' order by a.path) into v_outside
    from public.worker_assignments as a
    where a.worker_id = p_worker.id and a.path <> v_account.path and not starts_with(a.path, v_account.path || '/');
  end if;
  if v_account.path <> '' and v_outside is not null then
    perform private.fail('RY422',
      format('The service account %s serves only %s, but the runner serves %s.', v_account.name, v_account.path,
        v_outside),
      'Assign the runner to paths below it only, or choose an account of the whole organisation.');
  end if;
end;
$$;
comment on function private.check_account_scope(public.workers) is
  'Refuses a runner, as it would now be, that serves anything outside of its service account, or whose account is '
  'gone.';

create function private.job_types(p_value jsonb)
returns public.job_type[]
language plpgsql stable
set search_path = ''
as $$
begin
  if p_value is null or jsonb_typeof(p_value) = 'null' then
    return enum_range(null::public.job_type);
  end if;
  if p_value = '[]' then
    perform private.fail('RY422', 'A runner must take at least one type of job.',
      'Disable it, if it should take none.');
  end if;
  return (select array_agg(distinct t::public.job_type) from jsonb_array_elements_text(p_value) as t);
exception
  when invalid_text_representation or invalid_parameter_value then
    perform private.fail('RY422', 'There is no such type of job.',
      format('Types: %s.', array_to_string(enum_range(null::public.job_type), ', ')));
end;
$$;
comment on function private.job_types(jsonb) is 'A JSON list of job types; all of them when it is null.';

create function private.insert_worker(p_org uuid, p_name text, p_type public.worker_type, p_options jsonb)
returns public.workers
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  insert into public.workers (
    org_id, is_shared, name, type, region, labels, capacity, accepted_job_types, allow_multiple_instances,
    is_assigned_to_all_modules, service_account_id, scaling, created_by
  ) values (
    p_org, p_org is null, trim(p_name), p_type, p_options ->> 'region',
      private.sorted_labels(private.text_list(p_options -> 'labels')),
    coalesce((p_options ->> 'capacity')::integer, 1), private.job_types(p_options -> 'accepted_job_types'),
    coalesce((p_options ->> 'allow_multiple_instances')::boolean, false),
    coalesce((p_options ->> 'is_assigned_to_all_modules')::boolean, false),
    (p_options ->> 'service_account_id')::pg_catalog.uuid, coalesce(p_options -> 'scaling', '{}'), private.caller_id()
  ) returning * into v_worker;
  perform private.check_account_scope(v_worker);
  return v_worker;
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a runner called "%s".', trim(p_name)),
      'Choose another name, or remove the other one.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'The name or a setting of the runner is not valid.',
      'A name has 1 to 63 letters, digits, dots, spaces, hyphens or underscores; capacity is 1 to 256.');
end;
$$;
comment on function private.insert_worker(uuid, text, public.worker_type, jsonb) is
  'Writes a runner record from checked options.';

create function private.register_worker(p_org uuid, p_name text, p_token_hash text, p_token_hint text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.need_role(p_org, 'admin');
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
  perform private.audit(p_org, 'worker.registered', 'worker', v_worker.id::pg_catalog.text, v_worker.name,
    coalesce(p_options, '{}'));
  return to_jsonb(v_worker);
end;
$$;
comment on function private.register_worker(uuid, text, text, text, jsonb) is 'Body of public.register_worker.';
grant execute on function private.register_worker(uuid, text, text, text, jsonb) to authenticated;

create function private.update_worker(p_worker uuid, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'admin');
  v_account pg_catalog.uuid := v_worker.service_account_id;
begin
  -- What only registration takes would be ignored here.
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
      is_assigned_to_all_modules),
    service_account_id = case when p_options ? 'service_account_id'
      then (p_options ->> 'service_account_id')::pg_catalog.uuid
      else service_account_id end,
    scaling = coalesce(p_options -> 'scaling', scaling)
  where id = p_worker returning * into v_worker;
  perform private.check_account_scope(v_worker);
  if v_account is not null and v_account is distinct from v_worker.service_account_id then
    perform private.end_sessions(p_worker, null, v_account, 'its service account was taken from it');
  end if;
  perform private.refresh_slots(p_worker);
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.refresh_worker_status(p_worker);
  perform private.wake_worker(p_worker);
  perform private.record_worker_event(p_worker, 'updated', 'Settings changed by '
    || private.caller_label(v_worker.org_id));
  perform private.audit(v_worker.org_id, 'worker.updated', 'worker', p_worker::pg_catalog.text, v_worker.name,
    p_options);
  return to_jsonb(v_worker);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a runner called "%s".', p_options ->> 'name'),
      'Choose another name.');
  when check_violation or invalid_text_representation then
    perform private.fail('RY422', 'A setting of the runner is not valid.',
      'Capacity is 1 to 256; names have 1 to 63 characters.');
end;
$$;
comment on function private.update_worker(uuid, jsonb) is 'Body of public.update_worker.';
grant execute on function private.update_worker(uuid, jsonb) to authenticated;

create function private.assign_worker(p_worker uuid, p_path text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_assignment public.worker_assignments;
begin
  v_worker := private.lock_worker(p_worker, 'admin');
  perform private.check_assignment_path(v_worker.org_id, p_path, v_worker.service_account_id);
  insert into public.worker_assignments (org_id, worker_id, path, created_by)
  values (v_worker.org_id, p_worker, p_path, private.caller_id())
  on conflict (worker_id, path) do update set path = excluded.path returning * into v_assignment;
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.record_worker_event(p_worker, 'assigned', coalesce(nullif(p_path, ''), 'all modules'));
  perform private.audit(v_worker.org_id, 'worker.assigned', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('path', p_path));
  return to_jsonb(v_assignment);
end;
$$;
comment on function private.assign_worker(uuid, text) is 'Body of public.assign_worker.';
grant execute on function private.assign_worker(uuid, text) to authenticated;

create function private.unassign_worker(p_worker uuid, p_path text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  v_worker := private.lock_worker(p_worker, 'admin');
  delete from public.worker_assignments where worker_id = p_worker and path = p_path;
  if not found then
    perform private.fail('RY404', format('The runner is not assigned to "%s".', p_path));
  end if;
  perform private.reroute(v_worker.org_id, p_worker);
  perform private.record_worker_event(p_worker, 'unassigned', coalesce(nullif(p_path, ''), 'all modules'));
  perform private.audit(v_worker.org_id, 'worker.unassigned', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('path', p_path));
  return jsonb_build_object('worker_id', p_worker, 'path', p_path);
end;
$$;
comment on function private.unassign_worker(uuid, text) is 'Body of public.unassign_worker.';
grant execute on function private.unassign_worker(uuid, text) to authenticated;

-- ------------------------------------------------------------------------------------------------------------- removal

create function private.retire_worker(p_worker uuid, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
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
  for v_job in
    select q.job_id from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
    where (q.stage = 'RUNNING' and q.worker_id = p_worker) or (q.stage in ('WAITING', 'BACKOFF', 'READY')
      and j.pinned_worker_id = p_worker)
    order by q.state_key
  loop
    perform private.lose_job(v_job.job_id, 'The runner was removed.');
  end loop;
  perform private.end_job(j.id, 'CANCELLED', 'cancelled', 'system', null, 'system', 'The runner was removed.')
  from public.provision_jobs as j where j.pinned_worker_id = p_worker and j.status = 'AWAITING_APPROVAL';
  perform private.record_worker_event(p_worker, 'removed', p_reason);
end;
$$;
comment on function private.retire_worker(uuid, text) is
  'Takes a runner out of service for good: tokens, sessions, assignments, jobs. The record stays for the history.';

create function private.remove_worker(p_worker uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  v_worker := private.lock_worker(p_worker, 'admin');
  if v_worker.type = 'cloud-hosted' then
    perform private.fail('RY409', format('"%s" runs in your cloud, and would go on there.', v_worker.name),
      'Call remove_cloud_worker instead: it takes down what was deployed, and the runner goes with it.');
  end if;
  perform private.retire_worker(p_worker, 'removed by ' || private.caller_label(v_worker.org_id));
  perform private.audit(v_worker.org_id, 'worker.removed', 'worker', p_worker::pg_catalog.text, v_worker.name);
  perform private.wake_worker(p_worker);
  return (select to_jsonb(w) from public.workers as w where w.id = p_worker);
end;
$$;
comment on function private.remove_worker(uuid) is 'Body of public.remove_worker.';
grant execute on function private.remove_worker(uuid) to authenticated;

-- ------------------------------------------------------------------------------------------------------ shared runners
-- Shared runners: they come from the installation's file, belong to no organisation, and are changed by its
-- administrator alone.

create function private.shared_orgs(p_worker uuid)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (select coalesce(jsonb_agg(o.slug order by o.slug), '[]')
    from private.shared_worker_orgs as s join public.organizations as o on o.id = s.org_id
    where s.worker_id = p_worker);
end;
$$;
comment on function private.shared_orgs(uuid) is
  'The organisations that a shared runner works for, by their short names; none for everybody.';

create function private.set_shared_orgs(p_worker uuid, p_slugs text[])
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.fail('RY404', format('There is no organisation "%s".', s), 'Write its short name, as in its address.')
  from unnest(p_slugs) as s where not exists (select from public.organizations as o where o.slug = s);
  delete from private.shared_worker_orgs where worker_id = p_worker;
  insert into private.shared_worker_orgs (worker_id, org_id)
  select p_worker, o.id from public.organizations as o where o.slug = any (p_slugs);
end;
$$;
comment on function private.set_shared_orgs(uuid, text[]) is
  'Says for whom a shared runner works; nobody named is everybody. The caller holds the routing lock alone.';

create function private.need_shared_worker(p_name text)
returns public.workers
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null
  for no key update;
  if v_worker.id is null then
    perform private.fail('RY404', format('There is no shared runner "%s".', left(p_name, 200)));
  end if;
  return v_worker;
end;
$$;
comment on function private.need_shared_worker(text) is 'A shared runner by its name, with its row held.';

create function private.ensure_shared_worker(p_name text, p_token_hash text, p_token_hint text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_before pg_catalog.jsonb;
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
    perform private.audit(null, 'worker.registered', 'worker', v_worker.id::pg_catalog.text, v_worker.name,
      coalesce(p_options, '{}'));
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
  perform private.set_shared_orgs(v_worker.id, private.text_list(p_options -> 'organizations'));
  perform private.reroute(null, v_worker.id);
  return to_jsonb(v_worker) || jsonb_build_object('organizations', private.shared_orgs(v_worker.id),
    'organizations_before', v_before);
end;
$$;
comment on function private.ensure_shared_worker(text, text, text, jsonb) is 'Body of public.ensure_shared_worker.';
grant execute on function private.ensure_shared_worker(text, text, text, jsonb) to service_role;

create function private.remove_shared_worker(p_name text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.lock_routing(null, true);
  v_worker := private.need_shared_worker(p_name);
  perform private.retire_worker(v_worker.id, 'removed from the installation''s configuration');
  perform private.audit(null, 'worker.removed', 'worker', v_worker.id::pg_catalog.text, v_worker.name);
  return (select to_jsonb(w) from public.workers as w where w.id = v_worker.id);
end;
$$;
comment on function private.remove_shared_worker(text) is 'Body of public.remove_shared_worker.';
grant execute on function private.remove_shared_worker(text) to service_role;

create function private.set_shared_worker(p_name text, p_action text, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_done pg_catalog.text := case p_action when 'drain' then 'drained' when 'resume' then 'resumed'
    when 'disable' then 'disabled' when 'enable' then 'enabled' when 'end_sessions' then 'sessions_ended' end;
begin
  if v_done is null then
    perform private.fail('RY422', 'A shared runner can drain, resume, disable, enable or end_sessions.');
  end if;
  v_worker := private.need_shared_worker(p_name);
  if p_action = 'end_sessions' then
    perform private.end_sessions(v_worker.id, null, null, coalesce(nullif(trim(p_reason), ''),
      'ended by the administrator'));
  end if;
  return private.set_worker_flags(v_worker, v_done, p_reason);
end;
$$;
comment on function private.set_shared_worker(text, text, text) is 'Body of public.set_shared_worker.';
grant execute on function private.set_shared_worker(text, text, text) to service_role;

revoke execute on all functions in schema private from public;
