-- A plan of what is on somebody's disk: the folder comes as an archive, becomes a file of the plan's job, and is the
-- job's source. Such a plan is read only; its apply is the module's to allow.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table private.uploads (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  module_id uuid not null references public.modules (id) on delete cascade,
  body bytea not null check (octet_length(body) between 1 and 26214400),
  sha256 text not null,
  created_by uuid,
  created_at timestamptz not null default now()
);
create index uploads_org_id_idx on private.uploads (org_id, created_at);
create index uploads_module_id_idx on private.uploads (module_id);
alter table private.uploads enable row level security;
comment on table private.uploads is 'Folders that were sent to be planned, until a job takes them or an hour is over.';
comment on column private.uploads.body is 'A tar archive, packed; at most 25 MiB.';
comment on column private.uploads.sha256 is 'SHA-256 of the archive (hex).';

create function private.upload_source(p_module uuid, p_body_base64 text, p_sha256 text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'operator');
  v_body pg_catalog.bytea;
  v_id pg_catalog.uuid;
begin
  v_body := decode(p_body_base64, 'base64');
  if encode(sha256(v_body), 'hex') <> lower(coalesce(p_sha256, '')) then
    perform private.fail('RY422', 'The upload is not what its SHA-256 says.', 'Send it again.');
  end if;
  delete from private.uploads where org_id = v_module.org_id and created_at < now() - interval '1 hour';
  if (select count(*) from private.uploads where org_id = v_module.org_id) >= 20 then
    perform private.fail('RY429', 'Twenty uploads wait for their jobs already.', 'Try again in a few minutes.');
  end if;
  insert into private.uploads (org_id, module_id, body, sha256, created_by)
  values (v_module.org_id, p_module, v_body, lower(p_sha256), private.caller_id()) returning id into v_id;
  return jsonb_build_object('id', v_id, 'bytes', octet_length(v_body), 'sha256', lower(p_sha256));
exception
  when check_violation or not_null_violation or invalid_parameter_value then
    perform private.fail('RY422', 'The upload is empty, too large, or not base64.', 'At most 25 MiB, packed.');
end;
$$;
comment on function private.upload_source(uuid, text, text) is 'Body of public.upload_source.';
grant execute on function private.upload_source(uuid, text, text) to authenticated;

create function private.check_upload(p_org uuid, p_type public.job_type, p_module uuid, p_upload uuid)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if p_type <> 'PLAN' then
    perform private.fail('RY422', 'A folder that was uploaded can only be planned.',
      'Plan it; apply that plan where the module allows it (can_apply_uploads).');
  end if;
  if not exists (select from private.uploads as u where u.id = p_upload and u.org_id = p_org
    and u.module_id = p_module) then
    perform private.fail('RY404', 'There is no such upload for this module.',
      'Uploads wait for an hour: send it again.');
  end if;
end;
$$;
comment on function private.check_upload(uuid, public.job_type, uuid, uuid) is
  'Refuses an upload of another module, and to do more than plan it.';

create function private.check_variables(p_variables jsonb, p_plan text)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if p_plan is not null then
    perform private.fail('RY422', 'A saved plan has its variables already.', 'Plan again with the new values.');
  end if;
  if jsonb_typeof(p_variables) <> 'object' or exists (
    select from jsonb_object_keys(p_variables) as k where k !~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$') then
    perform private.fail('RY422', 'Variables are an object of names and values.', 'Write {"region": "eu-west-1"}.');
  end if;
end;
$$;
comment on function private.check_variables(jsonb, text) is
  'Refuses variables of one job that are no names and values.';

create function private.uploaded_source(p_upload uuid)
returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object('source_kind', 'upload', 'source',
    jsonb_build_object('sha256', u.sha256, 'bytes', octet_length(u.body)))
  from private.uploads as u where u.id = p_upload
$$;
comment on function private.uploaded_source(uuid) is
  'What a job takes from an upload in place of the module''s own source.';

create function private.take_upload(p_job bigint, p_upload uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  with taken as (delete from private.uploads where id = p_upload returning body, sha256)
  insert into private.artifacts (job_id, attempt, name, body, sha256)
  select p_job, 0, 'source', t.body, t.sha256 from taken as t;
end;
$$;
comment on function private.take_upload(bigint, uuid) is
  'Makes an upload a file of the job that plans it.';

create function private.check_upload_apply(p_plan bigint)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.fail('RY403', format('Plan %s is of a folder on somebody''s disk; that may not be applied to %s.',
      j.id, m.path),
    'Push the change and plan the module; or set can_apply_uploads on the module, which admins may.')
  from public.provision_jobs as j join public.modules as m on m.id = j.module_id
  where j.id = p_plan and j.payload #>> '{module,source_kind}' = 'upload' and not m.can_apply_uploads;
end;
$$;
comment on function private.check_upload_apply(bigint) is
  'Refuses to apply the plan of an upload where the module does not allow it.';

revoke execute on all functions in schema private from public;
