-- Job identities: who a job is in a cloud, without a stored key. Runyard signs a token for the attempt that holds the
-- lease, and a cloud that trusts the issuer exchanges it for a credential. An identity is attached to a path; of two
-- with the same name the nearest to the module counts. The claims are built here, behind the fence that every call of
-- a runner passes, and the edge function job-identity signs only what worker_identities returns. No row is a secret.

-- Whether settings have the fields that a kind of identity needs.
create function private.is_identity_complete(p_kind text, p_settings jsonb) returns boolean language sql immutable as $$
  select coalesce(case p_kind
    when 'aws' then p_settings ->> 'plan_role' ~ '^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$'
      and p_settings ->> 'apply_role' ~ '^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$'
    when 'gcp' then p_settings ->> 'provider'
      ~ '^projects/\d+/locations/global/workloadIdentityPools/[a-z0-9-]+/providers/[a-z0-9-]+$'
    when 'azure' then p_settings ?& array['tenant_id', 'plan_client_id', 'apply_client_id']
    when 'vault' then p_settings ->> 'address' ~ '^https?://' and p_settings ?& array['plan_role', 'apply_role']
    when 'kubernetes' then p_settings ->> 'server' ~ '^https?://'
    when 'custom' then p_settings = '{}' end, false)
$$;

create table public.job_identities (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null check (path = '' or private.is_path(path)),
  name text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  kind text not null check (kind in ('aws', 'gcp', 'azure', 'vault', 'kubernetes', 'custom')),
  audience text not null check (length(audience) between 1 and 500 and audience = trim(audience)),
  settings jsonb not null default '{}' check (octet_length(settings::text) <= 8192),
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (org_id, path, name),
  -- A provider reads one set of variables, so a job has one identity of each kind; custom ones are files of their own.
  constraint job_identities_one_of_kind check (
    case kind when 'custom' then name not in ('aws', 'gcp', 'azure', 'vault', 'kubernetes') else name = kind end),
  constraint job_identities_complete check (private.is_identity_complete(kind, settings))
);
comment on table public.job_identities is 'What jobs are in a cloud: audiences of tokens, and roles. No secrets.';
comment on column public.job_identities.name is 'Its kind; a custom one has a name of its own.';
comment on column public.job_identities.kind is 'aws, gcp, azure, vault, kubernetes, or custom for any other audience.';
comment on column public.job_identities.audience is 'The aud claim of its tokens.';
comment on column public.job_identities.settings is 'Fields of its kind, such as plan_role and apply_role.';

-- ## attaching
-- The audience that a provider's own documentation uses.
create function private.usual_audience(p_kind text, p_settings jsonb) returns text language sql immutable as $$
  select case p_kind when 'aws' then 'aws.workload.identity'
    when 'gcp' then '//iam.googleapis.com/' || (p_settings ->> 'provider')
    when 'azure' then 'api://AzureADTokenExchange'
    when 'vault' then p_settings ->> 'address' when 'kubernetes' then p_settings ->> 'server' end
$$;

create function private.attach_identity(p_org uuid, p_path text, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_kind pg_catalog.text := p_spec ->> 'kind';
  v_settings pg_catalog.jsonb := coalesce(p_spec -> 'settings', '{}');
  v_identity public.job_identities;
begin
  perform private.need('identity.manage', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.refuse_unknown_keys(p_spec, array['kind', 'name', 'audience', 'settings']);
  perform private.refuse_unknown_keys(v_settings, case v_kind
    when 'aws' then array['plan_role', 'apply_role', 'region']
    when 'gcp' then array['provider', 'plan_account', 'apply_account']
    when 'azure' then array['tenant_id', 'subscription_id', 'plan_client_id', 'apply_client_id']
    when 'vault' then array['address', 'namespace', 'mount', 'plan_role', 'apply_role']
    when 'kubernetes' then array['server', 'certificate_authority'] else '{}' end);
  perform private.fail('RY422', 'The settings of an identity are texts of one line.')
  where exists (select from jsonb_each(v_settings) as s where jsonb_typeof(s.value) <> 'string'
    or s.value #>> '{}' ~ '[[:cntrl:]]');
  insert into public.job_identities as i (org_id, path, name, kind, audience, settings, created_by)
  values (p_org, p_path, coalesce(p_spec ->> 'name', v_kind), v_kind,
    coalesce(p_spec ->> 'audience', private.usual_audience(v_kind, v_settings)), v_settings, private.caller_id())
  on conflict (org_id, path, name) do update set kind = excluded.kind, audience = excluded.audience,
    settings = excluded.settings
  returning * into v_identity;
  return private.audited(to_jsonb(v_identity), 'job_identity.attached',
    concat_ws(' ', v_identity.name, nullif(p_path, '')), p_spec);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'A field of the identity is missing or not valid.',
    'aws needs plan_role and apply_role (ARNs); gcp a provider; azure tenant_id, plan_client_id and apply_client_id; '
    'vault address, plan_role and apply_role; kubernetes a server; custom a name of lower-case letters, digits and '
    'hyphens, and an audience.');
end;
$$;
comment on function private.attach_identity is
  'Attaches one to a module or group, or changes the one of that name {kind, name, audience, settings}. Admins.';

-- An identity that the caller may do this with.
create function private.my_job_identity(p_job_identity uuid, p_verb text, out v_identity public.job_identities)
language plpgsql stable as $$
begin
  select * into v_identity from public.job_identities
  where id = p_job_identity and private.may_see(org_id, path);
  perform private.fail('RY404', 'There is no such identity of jobs.') where v_identity.id is null;
  perform private.need(p_verb, v_identity.org_id, v_identity.path);
end;
$$;

create function private.detach_identity(p_job_identity uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.my_job_identity(p_job_identity, 'identity.manage');
  with gone as (delete from public.job_identities where id = p_job_identity returning *)
  select private.audited(to_jsonb(g), 'job_identity.detached', concat_ws(' ', g.name, nullif(g.path, '')))
  from gone as g
$$;
comment on function private.detach_identity is 'Detaches an identity. Running jobs get no more tokens for it. Admins.';

create function private.set_identity_subject(p_org uuid, p_template text) returns jsonb
language plpgsql security definer set search_path = '' as $$
begin
  perform private.need('identity.manage', p_org);
  if p_template is null then
    delete from public.identity_subjects where org_id = p_org;
  else
    insert into public.identity_subjects (org_id, template) values (p_org, p_template)
    on conflict (org_id) do update set template = excluded.template, updated_at = now();
  end if;
  perform private.audit(p_org, 'job_identity.subject_set', 'organization', p_org::pg_catalog.text,
    coalesce(p_template, 'usual'));
  return jsonb_build_object('template', private.subject_template(p_org));
exception when check_violation then
  perform private.fail('RY422', 'That is not a subject of a token.',
    'It begins with organization:{organization_id} or organization:{organization} and ends with :phase:{phase} or '
    ':run_phase:{phase}. Between them are :module:{module}, :module_id:{module_id} or :workspace:{workspace}, and if '
    'you like :group:{group}, :project:{group}, :operation:{operation} and :trust:{trust}.');
end;
$$;
comment on function private.set_identity_subject is
  'Sets how the sub claim of the organisation''s tokens is made; null is the usual way. Admins.';

-- Ends what a removed group or module had at its path, its variables, identities and policy sets: a later one with the
-- same path must not inherit them.
create function private.forget_path() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  update public.variables set ended_at = now() where org_id = old.org_id and path = old.path and ended_at is null;
  delete from public.job_identities where org_id = old.org_id and path = old.path;
  delete from public.policy_sets where org_id = old.org_id and path = old.path;
  return null;
end;
$$;
create trigger forget_path after delete on public.groups for each row execute function private.forget_path();
create trigger forget_path after update of deleted_at on public.modules for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function private.forget_path();

-- ## what a job is given
-- A setting of HCP's dynamic credentials: the variable of one phase, else the one for both.
create function private.tfc_setting(p_env jsonb, p_provider text, p_phase text, p_name text) returns text
language sql immutable as $$
  select coalesce(p_env ->> format('TFC_%s_%s_%s', p_provider, p_phase, p_name),
    p_env ->> format('TFC_%s_RUN_%s', p_provider, p_name))
$$;

-- The identities that variables of HCP Terraform's dynamic credentials ask for, so that a workspace moves without a
-- change. Only admins set such variables.
create function private.variable_identities(p_org uuid, p_variables bigint[]) returns setof public.job_identities
language plpgsql stable as $$
declare
  v_env pg_catalog.jsonb;
  v_one pg_catalog.record;
begin
  select jsonb_object_agg(v.name, v.value #>> '{}') into v_env from public.variables as v
  where v.id = any (p_variables) and v.kind = 'env' and v.key_id is null and v.name ~ '^(TFC|ARM)_|^AWS_REGION$';
  for v_one in select k.kind, jsonb_strip_nulls(k.settings) as settings from (values
    ('aws', jsonb_build_object('plan_role', private.tfc_setting(v_env, 'AWS', 'PLAN', 'ROLE_ARN'), 'apply_role',
      private.tfc_setting(v_env, 'AWS', 'APPLY', 'ROLE_ARN'), 'region', v_env ->> 'AWS_REGION')),
    ('gcp', jsonb_build_object('provider', v_env ->> 'TFC_GCP_WORKLOAD_PROVIDER_NAME', 'plan_account',
      private.tfc_setting(v_env, 'GCP', 'PLAN', 'SERVICE_ACCOUNT_EMAIL'), 'apply_account',
      private.tfc_setting(v_env, 'GCP', 'APPLY', 'SERVICE_ACCOUNT_EMAIL'))),
    ('azure', jsonb_build_object('plan_client_id', private.tfc_setting(v_env, 'AZURE', 'PLAN', 'CLIENT_ID'),
      'apply_client_id', private.tfc_setting(v_env, 'AZURE', 'APPLY', 'CLIENT_ID'), 'tenant_id',
      v_env ->> 'ARM_TENANT_ID', 'subscription_id', v_env ->> 'ARM_SUBSCRIPTION_ID')),
    ('vault', jsonb_build_object('address', v_env ->> 'TFC_VAULT_ADDR', 'plan_role', private.tfc_setting(v_env, 'VAULT',
      'PLAN', 'ROLE'), 'apply_role', private.tfc_setting(v_env, 'VAULT', 'APPLY', 'ROLE'), 'namespace',
      v_env ->> 'TFC_VAULT_NAMESPACE', 'mount', v_env ->> 'TFC_VAULT_AUTH_PATH'))
  ) as k (kind, settings) where v_env ->> format('TFC_%s_PROVIDER_AUTH', upper(k.kind)) = 'true' loop
    perform private.fail('RY422', format('TFC_%s_PROVIDER_AUTH is set, but not all that belongs to it.',
      upper(v_one.kind)), 'docs/identity.md lists the variables; or attach an identity: runyard identities attach.')
    where not private.is_identity_complete(v_one.kind, v_one.settings);
    return next jsonb_populate_record(null::public.job_identities, jsonb_build_object('org_id', p_org, 'path', '',
      'name', v_one.kind, 'kind', v_one.kind, 'settings', v_one.settings, 'audience',
      coalesce(v_env ->> format('TFC_%s_WORKLOAD_IDENTITY_AUDIENCE', upper(v_one.kind)),
        private.usual_audience(v_one.kind, v_one.settings))));
  end loop;
end;
$$;

-- The identities of a module: of each name the nearest at or above its path, else that of its variables.
create function private.effective_identities(p_org uuid, p_path text, p_variables bigint[])
returns setof public.job_identities language sql stable as $$
  with attached as (
    select distinct on (i.name) i.* from public.job_identities as i
    where i.org_id = p_org and i.path = any (private.path_prefixes(p_path))
    order by i.name, length(i.path) desc)
  select * from attached
  union all
  select v.* from private.variable_identities(p_org, p_variables) as v where v.name not in (select a.name from attached
    as a)
$$;

-- ## what a cloud has to trust
-- The claims that subjects are made of, with wildcards for those in which the jobs of an identity differ.
create function private.trusted_claims(p_identity public.job_identities, p_module uuid, p_phase text) returns jsonb
language sql stable as $$
  select jsonb_build_object('runyard_organization_id', p_identity.org_id, 'runyard_module', m.path,
    'terraform_workspace_name', replace(m.path, '/', '.'), 'runyard_module_id', coalesce(
      p_module::pg_catalog.text, '*'), 'runyard_group', case when p_module is null then '*'
      else regexp_replace(m.path, '/?[^/]*$', '') end, 'runyard_phase', p_phase, 'runyard_operation', '*',
    'runyard_trust', '*')
  from (select case when p_module is not null then p_identity.path
    else ltrim(p_identity.path || '/*', '/') end as path) as m
$$;

-- The text to enter at the cloud for one phase: a trust policy for AWS, for others the claims to demand.
create function private.trust_document(p_identity public.job_identities, p_issuer text, p_phase text, p_subject text)
returns jsonb language sql immutable as $$
  select case when p_identity.kind = 'aws' then jsonb_build_object('Version', '2012-10-17', 'Statement',
      jsonb_build_array(jsonb_build_object('Effect', 'Allow', 'Principal', jsonb_build_object('Federated',
        format('arn:%s:iam::%s:oidc-provider/%s', split_part(f.role, ':', 2), split_part(f.role, ':', 5), f.issuer)),
        'Action', 'sts:AssumeRoleWithWebIdentity', 'Condition', jsonb_build_object(
          'StringEquals', jsonb_build_object(f.issuer || ':aud', p_identity.audience),
          'StringLike', jsonb_build_object(f.issuer || ':sub', p_subject)))))
    else jsonb_build_object('issuer', p_issuer, 'audience', p_identity.audience, 'subject', p_subject) end
  from (select p_identity.settings ->> (p_phase || '_role') as role, regexp_replace(p_issuer, '^https?://', '')
    as issuer) as f
$$;

create function private.identity_trust_policies(p_job_identity uuid, p_issuer text) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_identity public.job_identities := private.my_job_identity(p_job_identity, 'module.read');
  v_template pg_catalog.text := private.subject_template(v_identity.org_id);
  v_module pg_catalog.uuid := (select m.id from public.modules as m where m.org_id = v_identity.org_id
    and m.path = v_identity.path and m.deleted_at is null);
begin
  if v_template !~ '\{organization_id\}' then
    perform private.fail('RY409', 'The subject of tokens has the organisation''s short name, but not its id.',
      'In an installation that is set up again, another one may take that name, and a cloud would trust it. Set a '
      'subject that begins with organization:{organization_id}: "runyard identities subject" with "" for the usual '
      'one.');
  elsif v_module is null and v_identity.path <> '' and v_template !~ '\{(module|workspace)\}' then
    perform private.fail('RY409', 'The subject of tokens does not show which group a module is in.',
      'Attach the identity to a module, or set a subject with {module} or {workspace}: runyard identities subject.');
  end if;
  return (select jsonb_object_agg(f.phase, private.trust_document(v_identity, rtrim(p_issuer, '/'), f.phase,
      private.subject_of(v_template, private.trusted_claims(v_identity, v_module, f.phase))))
    from (values ('plan'), ('apply')) as f (phase));
end;
$$;
comment on function private.identity_trust_policies is
  'What the cloud of an identity has to trust, for each phase: tokens of this issuer, for this audience, whose subject '
  'has the organisation''s id, the module or group, and the phase. Members.';

-- Whether a job may have its module's identities. The code of a pull request is reviewed by nobody yet, also in the
-- merge queue: its plan has them where its repository allows that, and its apply, which somebody confirmed. A fork's
-- job never has.
create function private.may_have_identities(p_job public.provision_jobs) returns boolean language sql stable as $$
  select case private.identity_trust(p_job.payload) when 'fork' then false when 'pull_request' then case
      when p_job.type = 'PLAN' then exists (select from public.git_connections as c where c.org_id = p_job.org_id
        and c.id = (p_job.payload #>> '{options,git,connection_id}')::pg_catalog.uuid and c.removed_at is null
        and c.allows_identities)
      else p_job.payload #> '{options,git,queue}' is not null or private.is_applied_unmerged(p_job) end else true end
$$;

create function private.worker_identities(p_job bigint, p_attempt integer) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.fenced_job(private.this_runner(), p_job, p_attempt);
  -- A token lives as long as the lease, at most 15 minutes. During a change no other runner gets the job but by a
  -- person's decision, so the 15 minutes bridge a short outage of the project.
  v_left integer := floor(extract(epoch from private.lease_ends_at(v_live) - now()));
  v_seconds integer := case when v_live.has_touched and v_left > 0 then 900 else least(v_left, 900) end;
  v_job public.provision_jobs;
  v_identities public.job_identities[];
begin
  perform private.fail('RY410', format('The lease of attempt %s of job %s has run out.', p_attempt, p_job),
    'A token is for the attempt that holds its lease.') where v_live.stage <> 'RUNNING' or v_seconds <= 0;
  select * into v_job from public.provision_jobs where id = p_job;
  -- A reading of a repository acts on no module.
  if v_job.module_id is not null then
    v_identities := array(select i from private.effective_identities(v_job.org_id, v_job.module_path, (
      select g.variables from private.job_variables as g where g.job_id = p_job)) as i);
  end if;
  return (select jsonb_build_object('phase', private.identity_phase(v_job.type), 'seconds', v_seconds,
    'claims', private.identity_claims(v_job), 'identities', coalesce(jsonb_agg(jsonb_build_object('name', i.name,
      'kind', i.kind, 'audience', i.audience, 'settings', i.settings) order by i.name)
        filter (where m.may and i.kind is not null),
      '[]'),
    'withheld', coalesce(jsonb_agg(distinct i.kind) filter (where not m.may and i.kind is not null), '[]'))
    from (select private.may_have_identities(v_job) as may) as m left join unnest(v_identities) as i on true);
end;
$$;
comment on function private.worker_identities is
  'The identities of a running job, and the claims of its tokens: for the attempt that holds the lease alone, and for '
  'its own phase; and the kinds of those that are withheld, so that the runner keeps its machine''s credentials for '
  'them from the job, too. The edge function job-identity signs what this returns.';

create function private.preview_identities(p_module uuid, p_type public.job_type default 'PLAN') returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.read');
  v_job public.provision_jobs;
begin
  perform private.fail('RY422', 'That is not a job of a module.', 'Send PLAN, APPLY, DESTROY, DRIFT or OUTPUT.')
  where private.identity_phase(p_type) is null;
  v_job.org_id := v_module.org_id;
  v_job.type := p_type;
  v_job.module_id := v_module.id;
  v_job.module_path := v_module.path;
  v_job.group_path := v_module.group_path;
  v_job.payload := jsonb_build_object('module', jsonb_build_object('source_kind', v_module.source_kind, 'source',
    v_module.source));
  return jsonb_build_object('phase', private.identity_phase(p_type), 'claims', private.identity_claims(v_job) - array[
    'terraform_run_id'], 'identities', coalesce((
      select jsonb_agg(to_jsonb(i) order by i.name)
      from private.effective_identities(v_module.org_id, v_module.path, array(select r.id
        from private.ranked_variables(v_module.org_id, v_module.path, '{}') as r where r.place = 1)) as i
      where private.may_see(v_module.org_id, i.path)), '[]'));
end;
$$;
comment on function private.preview_identities is 'The identities of a module''s next job, with their claims. Members.';
