-- What pages say about a module's state without its text: resources and outputs, an older version made the newest
-- again, the answer to "is it safe to break the engine's lock?", and the lock of a person who wants nothing applied.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.terraform_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean)
language sql immutable
set search_path = ''
as $$
  select concat_ws('.', r.resource ->> 'module', case when r.resource ->> 'mode' = 'data' then 'data' end,
    r.resource ->> 'type', r.resource ->> 'name') || case jsonb_typeof(i.instance -> 'index_key')
      when 'number' then format('[%s]', i.instance ->> 'index_key')
      when 'string' then format('[%s]', i.instance -> 'index_key') else '' end,
    r.resource ->> 'type', r.resource ->> 'mode' is distinct from 'data'
  from jsonb_array_elements(case when jsonb_typeof(p_state -> 'resources') = 'array' then p_state -> 'resources'
    else '[]' end) as r (resource)
  cross join jsonb_array_elements(case when jsonb_typeof(r.resource -> 'instances') = 'array'
    then r.resource -> 'instances' else '[]' end) as i (instance)
$$;
comment on function private.terraform_resources(jsonb) is 'The resources in a state of OpenTofu or Terraform.';

create function private.pulumi_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean)
language sql immutable
set search_path = ''
as $$
  select r.resource ->> 'urn', r.resource ->> 'type', r.resource ->> 'type' not like 'pulumi:%'
  from jsonb_array_elements(case when jsonb_typeof(p_state #> '{deployment,resources}') = 'array'
    then p_state #> '{deployment,resources}' else '[]' end) as r (resource)
$$;
comment on function private.pulumi_resources(jsonb) is 'The resources in a checkpoint of Pulumi.';

create function private.state_outputs(p_state jsonb)
returns jsonb
language sql immutable
set search_path = ''
as $$
  select coalesce(jsonb_object_agg(o.key, jsonb_build_object('sensitive', o.is_secret, 'value',
    case when not o.is_secret then o.value end)), '{}')
  from (
    select t.key, t.value -> 'value' as value, coalesce((t.value ->> 'sensitive')::boolean, false) as is_secret
    from jsonb_each(case when jsonb_typeof(p_state -> 'outputs') = 'object' then p_state -> 'outputs'
      else '{}' end) as t
    union all
    -- This key is how Pulumi marks an encrypted value.
    select p.key, p.value, p.value::pg_catalog.text like '%4dabf18193072939515e22adb298388d%'
    from jsonb_path_query_first(p_state, '$.deployment.resources[*] ? (@.type == "pulumi:pulumi:Stack").outputs') as s,
      jsonb_each(case when jsonb_typeof(s) = 'object' then s else '{}' end) as p
  ) as o
$$;
comment on function private.state_outputs(jsonb) is 'The outputs in a state; a sensitive one is named, never told.';

create function private.state_resources(p_module uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'viewer');
  v_row private.states;
  v_state pg_catalog.jsonb;
begin
  select * into v_row from private.states where module_id = v_module.id;
  v_state := coalesce(v_row.body, '{}')::pg_catalog.jsonb;
  return (
    with found as materialized (
      select r.* from private.terraform_resources(v_state) as r
      union all select p.* from private.pulumi_resources(v_state) as p
    )
    select jsonb_build_object('serial', coalesce(v_row.serial, 0),
      'total', (select count(*) from found where is_managed),
      'resources', (select coalesce(jsonb_agg(jsonb_build_object('address', f.address, 'type', f.type)
          order by f.address), '[]')
        from (select * from found where is_managed order by address limit 500) as f),
      'types', (select coalesce(jsonb_object_agg(t.type, t.number), '{}')
        from (select type, count(*) as number from found where is_managed group by type) as t),
      'outputs', private.state_outputs(v_state)));
end;
$$;
comment on function private.state_resources(uuid) is 'Body of public.state_resources.';
grant execute on function private.state_resources(uuid) to authenticated;

create function private.roll_back_state(p_module uuid, p_serial bigint)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_version private.state_versions;
  v_serial bigint;
begin
  perform private.lock_state(v_module.org_id, p_module);
  if exists (select from private.state_locks as l where l.module_id = p_module)
    or exists (select from private.live_jobs as q where q.state_key = p_module and q.stage in ('RUNNING', 'HELD')) then
    perform private.fail('RY423', 'A job is using the module''s state.', 'Wait until it is done, then roll back.');
  end if;
  v_version := private.known_version(p_module, p_serial);
  v_serial := private.state_serial(p_module);
  if v_version.serial = v_serial then
    perform private.fail('RY409', format('Serial %s is the current state.', p_serial), 'Choose an older version.');
  end if;
  -- An engine refuses a state that is older than what it knows: this one is the newest now.
  perform private.write_state(p_module, v_serial + 1, v_version.lineage,
    case when v_version.body::pg_catalog.jsonb ? 'serial'
    then jsonb_set(v_version.body::pg_catalog.jsonb, '{serial}', to_jsonb(v_serial + 1))::pg_catalog.text
    else v_version.body end, v_version.job_id, v_version.attempt);
  perform private.audit(v_module.org_id, 'state.rolled_back', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('to', p_serial, 'before', v_serial, 'serial', v_serial + 1));
  perform private.ring_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('serial', v_serial + 1);
end;
$$;
comment on function private.roll_back_state(uuid, bigint) is 'Body of public.roll_back_state.';
grant execute on function private.roll_back_state(uuid, bigint) to authenticated;

-- ---------------------------------------------------------------------------------------------- is it safe to break?

create function private.lock_evidence(p_module uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'viewer');
  v_lock private.state_locks;
  v_job public.provision_jobs;
  v_live private.live_jobs;
  v_seen pg_catalog.timestamptz;
  v_kept bigint;
  v_found pg_catalog.jsonb := '[]';
begin
  select * into v_lock from private.state_locks where module_id = v_module.id;
  if v_lock.module_id is null then
    return jsonb_build_object('is_locked', false, 'verdict', 'free', 'evidence', v_found);
  end if;
  select * into v_job from public.provision_jobs where id = v_lock.job_id;
  select * into v_live from private.live_jobs where job_id = v_lock.job_id;
  select i.last_seen_at into v_seen from private.instance_liveness as i where i.instance_id = v_job.instance_id;
  select count(*) into v_kept from private.kept_states as k
  where k.job_id = v_lock.job_id and k.stored_at is null and k.discarded_at is null;
  v_found := v_found || case
    when v_live.stage = 'RUNNING' and v_live.attempt = v_lock.attempt then private.evidence('against',
      format('Job %s is running on %s and writes this state.', v_job.id, v_job.worker_name), v_job.started_at)
    when v_live.job_id is null then private.evidence('for',
      format('Job %s has ended: %s.', v_job.id, v_job.status), v_job.finished_at)
    when v_live.stage = 'HELD' and v_job.error ->> 'code' = 'engine_killed' then private.evidence('unclear',
      format('The engine of job %s was killed: nothing writes any more, and the state may lack what it made.',
        v_job.id), v_job.updated_at)
    when v_live.stage = 'HELD' and v_live.instance_id is null then private.evidence('for',
      format('Attempt %s was released by a person: what it still writes is kept aside.', v_lock.attempt), null)
    when v_live.stage = 'HELD' then private.evidence('unclear',
      format('Nobody knows how far job %s got.', v_job.id), v_job.updated_at)
    else private.evidence('for', format('Attempt %s has lost the job; it can no longer write.', v_lock.attempt),
      null) end;
  if v_live.stage = 'HELD' and v_live.instance_id is not null then
    v_found := v_found || case when v_seen > now() - interval '60 seconds' then private.evidence('against',
        format('%s is in contact, and may come back to it.', v_job.worker_name), v_seen)
      else private.evidence('unclear',
        format('%s is out of contact. Its engine may go on without us, and its state is kept there.',
          v_job.worker_name), v_seen) end;
  end if;
  if v_kept > 0 then
    v_found := v_found || private.evidence('unclear',
      format('%s of its states were written and not stored. Decide about them first.', v_kept), null);
  end if;
  return jsonb_build_object('is_locked', true, 'lock_id', v_lock.lock_id, 'job_id', v_lock.job_id, 'attempt',
    v_lock.attempt, 'evidence', v_found, 'verdict', case when v_found @> '[{"weighs": "against"}]' then 'unsafe'
      when v_found @> '[{"weighs": "unclear"}]' then 'unclear' else 'safe' end);
end;
$$;
comment on function private.lock_evidence(uuid) is 'Body of public.lock_evidence.';
grant execute on function private.lock_evidence(uuid) to authenticated;

create function private.evidence(p_weighs text, p_text text, p_at timestamptz)
returns jsonb
language sql immutable
set search_path = ''
as $$
  select jsonb_build_object('weighs', p_weighs, 'text', p_text, 'at', p_at)
$$;
comment on function private.evidence(text, text, timestamptz) is
  'One line about a lock: whether it speaks for breaking it, against it, or leaves it unclear; and since when.';

-- ---------------------------------------------------------------------------------------------- a person's lock

create table public.module_locks (
  module_id uuid primary key references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  reason text not null check (length(trim(reason)) between 1 and 500),
  user_id uuid not null,
  user_label text not null,
  created_at timestamptz not null default now()
);
create index module_locks_org_id_idx on public.module_locks (org_id);
alter table public.module_locks enable row level security;
grant select on public.module_locks to authenticated, service_role;

create policy "Members see their organisation's module locks" on public.module_locks
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.module_locks is 'Modules that a member has locked: nothing is applied or destroyed meanwhile.';
comment on column public.module_locks.reason is 'Why, shown to whoever is refused.';
comment on column public.module_locks.user_label is 'The member''s name at that time.';

create function private.refuse_locked_modules(p_modules uuid[])
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_lock public.module_locks;
begin
  select * into v_lock from public.module_locks as l where l.module_id = any (p_modules) order by l.created_at limit 1;
  if v_lock.module_id is not null then
    perform private.fail('RY409', format('%s has locked the module: %s', v_lock.user_label, v_lock.reason),
      'Ask them, or unlock it on the module''s page. A plan may be made meanwhile.');
  end if;
end;
$$;
comment on function private.refuse_locked_modules(uuid[]) is 'Refuses to change what a member has locked.';

create function private.lock_module(p_module uuid, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'operator');
  v_lock public.module_locks;
begin
  insert into public.module_locks (module_id, org_id, reason, user_id, user_label)
  values (v_module.id, v_module.org_id, trim(p_reason), private.caller_id(), private.caller_label(v_module.org_id))
  on conflict do nothing returning * into v_lock;
  if v_lock.module_id is null then
    perform private.fail('RY409', 'The module is locked already.', 'Look at who locked it, and why.');
  end if;
  perform private.audit(v_module.org_id, 'module.locked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reason', v_lock.reason));
  perform private.ring_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return to_jsonb(v_lock);
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A lock needs a reason of 1 to 500 characters.', 'Say why nothing may be applied.');
end;
$$;
comment on function private.lock_module(uuid, text) is 'Body of public.lock_module.';
grant execute on function private.lock_module(uuid, text) to authenticated;

create function private.unlock_module(p_module uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'operator');
  v_lock public.module_locks;
begin
  delete from public.module_locks where module_id = p_module returning * into v_lock;
  if v_lock.module_id is null then
    perform private.fail('RY404', 'The module is not locked.', 'There is nothing to unlock.');
  end if;
  perform private.audit(v_module.org_id, 'module.unlocked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reason', v_lock.reason, 'locked_by', v_lock.user_label));
  perform private.ring_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('unlocked', true);
end;
$$;
comment on function private.unlock_module(uuid) is 'Body of public.unlock_module.';
grant execute on function private.unlock_module(uuid) to authenticated;

revoke execute on all functions in schema private from public;
