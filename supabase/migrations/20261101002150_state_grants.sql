-- Outputs of one module for the jobs of another, by grant. What a job runs reads them with its own token
-- (TF_TOKEN_<host>,
-- terraform_remote_state), and gets the outputs alone: resources and their attributes stay with their module.
set lock_timeout = '5s';
set statement_timeout = '60s';

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
