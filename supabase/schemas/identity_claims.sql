-- The claims of a job, by which the tokens of its identities and the record of its change name it.

create table public.identity_subjects (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  template text not null,
  updated_at timestamptz not null default now(),
  -- Nothing in it is free text: a subject begins with the organisation and ends with the phase, and each part in
  -- between has the label of its claim. So no organisation writes another's subject, and no plan that of an apply.
  constraint identity_subjects_template_check check (length(template) <= 500 and template ~ (
    '^organization:\{organization(_id)?\}(:(group|project):\{group\}|:module:\{module\}|:module_id:\{module_id\}'
    || '|:workspace:\{workspace\}|:operation:\{operation\}|:trust:\{trust\})+:(run_)?phase:\{phase\}$')
    and template ~ '\{(module|module_id|workspace)\}')
);
comment on table public.identity_subjects is 'How the sub claim of an organisation''s tokens is made, if not as usual.';
comment on column public.identity_subjects.template is 'Text with names of claims in braces, such as {module}.';

-- The phase that a type of job has in its tokens. Null for jobs without a module.
create function private.identity_phase(p_type public.job_type) returns text language sql immutable as $$
  select case when p_type in ('APPLY', 'DESTROY') then 'apply'
    when p_type in ('PLAN', 'DRIFT', 'OUTPUT', 'STATE') then 'plan' end
$$;

-- The template of the sub claims of an organisation.
create function private.subject_template(p_org uuid) returns text language sql stable as $$
  select coalesce((select s.template from public.identity_subjects as s where s.org_id = p_org),
    'organization:{organization_id}:module:{module}:phase:{phase}')
$$;

-- Puts claims into the template; their values have neither braces nor colons.
create function private.subject_of(p_template text, p_claims jsonb) returns text language plpgsql immutable as $$
declare
  v_name pg_catalog.text;
begin
  foreach v_name in array array['organization', 'organization_id', 'group', 'module', 'module_id', 'phase', 'operation',
    'trust'] loop
    p_template := replace(p_template, '{' || v_name || '}', coalesce(p_claims ->> ('runyard_' || v_name), ''));
  end loop;
  return replace(p_template, '{workspace}', p_claims ->> 'terraform_workspace_name');
end;
$$;

-- The kind of a job's source: fork, pull_request, branch, upload or settings.
create function private.identity_trust(p_payload jsonb) returns text language sql immutable as $$
  select case when p_payload #> '{options,git,is_fork}' = 'true' then 'fork'
    when coalesce(p_payload #> '{options,git,pull_request}', p_payload #> '{options,git,queue}') is not null
    then 'pull_request'
    else case p_payload #>> '{module,source_kind}' when 'git' then 'branch' when 'upload' then 'upload'
      else 'settings' end end
$$;

-- The claims of a job without those of the audience and the clock. It repeats them under HCP Terraform's names, so that
-- trust policies written for those fit; workspaces have no slashes in their names.
create function private.identity_claims(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select c.claims || jsonb_build_object('sub', private.subject_of(private.subject_template(p_job.org_id), c.claims))
  from public.organizations as o cross join lateral (
    select private.identity_phase(p_job.type) as phase, replace(p_job.module_path, '/', '.') as workspace,
      private.identity_trust(p_job.payload) as trust
  ) as f cross join lateral (select jsonb_strip_nulls(jsonb_build_object(
    'runyard_organization', o.slug, 'runyard_organization_id', o.id, 'runyard_group', p_job.group_path,
    'runyard_module', p_job.module_path, 'runyard_module_id', p_job.module_id, 'runyard_phase', f.phase,
    'runyard_operation', lower(p_job.type::pg_catalog.text), 'runyard_trust', f.trust,
    'runyard_ref', case f.trust when 'branch' then p_job.payload #>> '{module,source,ref}'
      when 'pull_request' then 'pull/' || coalesce(p_job.payload #>> '{options,git,pull_request}',
        p_job.payload #>> '{options,git,queue}') end,
    'runyard_commit', coalesce(p_job.payload #>> '{options,git,commit}', p_job.payload #>> '{options,git,head_commit}',
      p_job.payload #>> '{module,source,commit}'),
    'runyard_job', p_job.id, 'runyard_attempt', p_job.attempt, 'runyard_plan_job', p_job.plan_job_id,
    'runyard_plan', (select 'sha256:' || a.sha256 from private.artifacts as a where a.job_id = p_job.plan_job_id
      and a.name = 'plan.tfplan' order by a.attempt desc limit 1),
    'runyard_runner', p_job.worker_name, 'runyard_approvals', p_job.approvals_received,
    'terraform_organization_id', o.id, 'terraform_organization_name', o.slug,
    'terraform_project_name', p_job.group_path, 'terraform_workspace_id', p_job.module_id,
    'terraform_workspace_name', f.workspace, 'terraform_full_workspace',
    format('organization:%s:project:%s:workspace:%s', o.slug, p_job.group_path, f.workspace),
    'terraform_run_id', 'run-' || p_job.id, 'terraform_run_phase', f.phase)) as claims) as c
  where o.id = p_job.org_id
$$;
