-- What pages say about a module's state without its text: resources and outputs, an older version made the newest
-- again, and the answer to "is it safe to break the engine's lock?".
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.terraform_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean, id text)
language sql immutable
set search_path = ''
as $$
  select concat_ws('.', r.resource ->> 'module', case when r.resource ->> 'mode' = 'data' then 'data' end,
    r.resource ->> 'type', r.resource ->> 'name') || case jsonb_typeof(i.instance -> 'index_key')
      when 'number' then format('[%s]', i.instance ->> 'index_key')
      when 'string' then format('[%s]', i.instance -> 'index_key') else '' end,
    r.resource ->> 'type', r.resource ->> 'mode' is distinct from 'data',
    case when not coalesce(i.instance -> 'sensitive_attributes', '[]') @> '[[{"type": "get_attr", "value": "id"}]]'
      then i.instance #>> '{attributes,id}' end
  from jsonb_array_elements(case when jsonb_typeof(p_state -> 'resources') = 'array' then p_state -> 'resources'
    else '[]' end) as r (resource)
  cross join jsonb_array_elements(case when jsonb_typeof(r.resource -> 'instances') = 'array'
    then r.resource -> 'instances' else '[]' end) as i (instance)
$$;
comment on function private.terraform_resources(jsonb) is 'The resources in a state of OpenTofu or Terraform.';

create function private.pulumi_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean, id text)
language sql immutable
set search_path = ''
as $$
  select r.resource ->> 'urn', r.resource ->> 'type', r.resource ->> 'type' not like 'pulumi:%',
    case when jsonb_typeof(r.resource -> 'id') = 'string' then r.resource ->> 'id' end
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
    -- Whatever is not plainly said to be open is kept back.
    select t.key, t.value -> 'value' as value, coalesce(t.value -> 'sensitive', 'false') <> 'false' as is_secret
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

create function private.state_resources(p_module uuid, p_search text)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'viewer');
  v_row private.states;
  v_state pg_catalog.jsonb;
  v_search pg_catalog.text := lower(coalesce(p_search, ''));
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
      'found', (select count(*) from found where is_managed and position(v_search in lower(address)) > 0),
      'resources', (select coalesce(jsonb_agg(jsonb_build_object('address', f.address, 'type', f.type,
          'id', left(f.id, 200)) order by f.address), '[]')
        from (select * from found where is_managed and position(v_search in lower(address)) > 0
          order by address limit 500) as f),
      'types', (select coalesce(jsonb_object_agg(t.type, t.number), '{}')
        from (select type, count(*) as number from found where is_managed and type is not null
          group by type) as t),
      'outputs', private.state_outputs(v_state)));
end;
$$;
comment on function private.state_resources(uuid, text) is 'Body of public.state_resources.';
grant execute on function private.state_resources(uuid, text) to authenticated;

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
  v_module := private.my_module(p_module, 'admin');
  if exists (select from private.state_locks as l where l.module_id = p_module)
    or private.has_writer(p_module) then
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
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('serial', v_serial + 1);
end;
$$;
comment on function private.roll_back_state(uuid, bigint) is 'Body of public.roll_back_state.';
grant execute on function private.roll_back_state(uuid, bigint) to authenticated;

-- ------------------------------------------------------------------------------------------------ is it safe to break?

create function private.evidence(p_weighs text, p_text text, p_at timestamptz)
returns jsonb
language sql immutable
set search_path = ''
as $$
  select jsonb_build_object('weighs', p_weighs, 'text', p_text, 'at', p_at)
$$;
comment on function private.evidence(text, text, timestamptz) is
  'One line about a lock: whether it speaks for breaking it, against it, or leaves it unclear; and since when.';

create function private.attempt_evidence(p_attempt integer, p_live private.live_jobs, p_job public.provision_jobs)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return case
    when p_live.stage = 'RUNNING' and p_live.attempt = p_attempt then private.evidence('against',
      format('Job %s is running on %s and writes this state.', p_job.id, p_job.worker_name), p_job.started_at)
    when p_live.job_id is null then private.evidence('for',
      format('Job %s has ended: %s.', p_job.id, p_job.status), p_job.finished_at)
    when p_live.stage = 'HELD' and p_job.error ->> 'code' = 'engine_killed' then private.evidence('unclear',
      format('The engine of job %s was killed: nothing writes any more, and the state may lack what it made.',
        p_job.id), p_job.updated_at)
    when p_live.stage = 'HELD' and p_live.instance_id is null then private.evidence('for',
      format('Attempt %s was released by a person: what it still writes is kept aside.', p_attempt), null)
    when p_live.stage = 'HELD' then private.evidence('unclear',
      format('Nobody knows how far job %s got.', p_job.id), p_job.updated_at)
    else private.evidence('for', format('Attempt %s has lost the job; it can no longer write.', p_attempt),
      null) end;
end;
$$;
comment on function private.attempt_evidence(integer, private.live_jobs, public.provision_jobs) is
  'What the job that holds a lock says for or against opening it.';

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
  v_found := v_found || private.attempt_evidence(v_lock.attempt, v_live, v_job);
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

-- ------------------------------------------------------------------------------------------- outputs for other modules
-- Outputs of one module for the jobs of another, by grant. What a job runs reads them with its own token
-- (TF_TOKEN_<host>, terraform_remote_state), and gets the outputs alone: resources and their attributes stay with their
-- module.

create table public.output_grants (
  module_id uuid not null references public.modules (id) on delete cascade,
  reader_id uuid not null references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  created_by uuid,
  created_at timestamptz not null default now(),
  primary key (module_id, reader_id),
  check (module_id <> reader_id)
);
create index output_grants_reader_id_idx on public.output_grants (reader_id);
create index output_grants_org_id_idx on public.output_grants (org_id);
alter table public.output_grants enable row level security;
grant select on public.output_grants to authenticated, service_role;

create policy "Members see their organisation's grants of outputs" on public.output_grants
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.output_grants is 'Which module''s jobs may read the outputs of which other module.';
comment on column public.output_grants.module_id is 'The module whose outputs are read.';
comment on column public.output_grants.reader_id is 'The module whose jobs may read them.';

create function private.grant_outputs(p_module uuid, p_reader uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_reader public.modules := private.my_module(p_reader, 'admin');
begin
  if v_module.org_id <> v_reader.org_id then
    perform private.fail('RY404', 'There is no such module.', 'Both must belong to one organisation.');
  end if;
  if p_module = p_reader then
    perform private.fail('RY422', 'A module reads its own state without a grant.', 'Name another module.');
  end if;
  insert into public.output_grants (module_id, reader_id, org_id, created_by)
  values (p_module, p_reader, v_module.org_id, private.caller_id()) on conflict do nothing;
  perform private.audit(v_module.org_id, 'module.outputs_granted', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reader', v_reader.path));
  return jsonb_build_object('module', v_module.path, 'reader', v_reader.path);
end;
$$;
comment on function private.grant_outputs(uuid, uuid) is 'Body of public.grant_outputs.';
grant execute on function private.grant_outputs(uuid, uuid) to authenticated;

create function private.revoke_outputs(p_module uuid, p_reader uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_reader pg_catalog.text := (select m.path from public.modules as m where m.id = p_reader
    and m.org_id = v_module.org_id);
begin
  delete from public.output_grants where module_id = p_module and reader_id = p_reader;
  if not found then
    perform private.fail('RY404', 'There is no such grant.', 'Look at the module''s grants again.');
  end if;
  perform private.audit(v_module.org_id, 'module.outputs_revoked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reader', v_reader));
  return jsonb_build_object('module', v_module.path, 'reader', v_reader);
end;
$$;
comment on function private.revoke_outputs(uuid, uuid) is 'Body of public.revoke_outputs.';
grant execute on function private.revoke_outputs(uuid, uuid) to authenticated;

create function private.worker_outputs_get(p_job bigint, p_attempt integer, p_org text, p_path text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_reader pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_module pg_catalog.uuid;
  v_state pg_catalog.jsonb;
begin
  -- One refusal for missing and for not granted: a job learns nothing about what else there is.
  select m.id into v_module from public.modules as r
  join public.organizations as o on o.id = r.org_id and o.slug = p_org
  join public.modules as m on m.org_id = r.org_id and m.path = p_path and m.deleted_at is null
  where r.id = v_reader and (m.id = v_reader or exists (
    select from public.output_grants as g where g.module_id = m.id and g.reader_id = v_reader));
  if v_module is null then
    perform private.fail('RY403', format('This job may not read the outputs of "%s".', p_path),
      format('An admin grants it: runyard modules grant %s --to %s.', p_path,
        (select r.path from public.modules as r where r.id = v_reader)));
  end if;
  select s.body::pg_catalog.jsonb into v_state from private.states as s where s.module_id = v_module;
  if v_state ? 'encrypted_data' then
    perform private.fail('RY422', format('The state of "%s" is encrypted by its engine.', p_path),
      'Only that module''s own jobs can read it.');
  end if;
  return jsonb_build_object('id', v_module, 'path', p_path, 'exists', v_state is not null, 'state', jsonb_build_object(
    'version', 4, 'terraform_version', coalesce(v_state ->> 'terraform_version', '1.0.0'),
    'serial', coalesce((v_state ->> 'serial')::bigint, 0), 'lineage', coalesce(v_state ->> 'lineage', ''),
    'outputs', coalesce(v_state -> 'outputs', '{}'), 'resources', '[]'::pg_catalog.jsonb));
end;
$$;
comment on function private.worker_outputs_get(bigint, integer, text, text) is 'Body of public.worker_outputs_get.';
grant execute on function private.worker_outputs_get(bigint, integer, text, text) to worker, executor, engine;

revoke execute on all functions in schema private from public;
