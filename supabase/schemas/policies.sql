-- Policies: sets of Rego rules, attached to a path, that every plan at or below it must pass. Sets add up: one at a
-- lower path never replaces or weakens one above it. The rules are a bundle, kept by its digest, and a job names the
-- bundles of the moment it was requested; a branch that is planned has no say in them. The runner evaluates; what a
-- verdict means is decided here: at the record, at the confirmation, and once more when a change begins.
-- A bundle with a command.json is a command instead of rules: the runner runs it, and reads what it leaves.

create table private.policy_bundles (
  org_id uuid not null references public.organizations (id) on delete cascade,
  sha256 text not null,
  files jsonb not null check (jsonb_typeof(files) = 'object' and octet_length(files::text) <= 1048576),
  used_at timestamptz not null default now(),
  primary key (org_id, sha256)
);
comment on table private.policy_bundles is 'Rules by the digest of their files. Never changed.';

create table public.policy_sets (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null check (path = '' or private.is_path(path)),
  name text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  level text not null check (level in ('advisory', 'overridable', 'mandatory')),
  bundle_sha256 text not null,
  source text not null default '' check (length(source) <= 500),
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (org_id, path, name),
  foreign key (org_id, bundle_sha256) references private.policy_bundles (org_id, sha256)
);
create index policy_sets_bundle_idx on public.policy_sets (org_id, bundle_sha256);
comment on table public.policy_sets is 'Sets of rules that plans at or below a path must pass.';
comment on column public.policy_sets.path is 'The group or module it is attached to; "" is the whole organisation.';
comment on column public.policy_sets.level is 'advisory is shown, overridable waits for one, mandatory refuses.';
comment on column public.policy_sets.source is 'Repository folder and commit that the rules were read from, as text.';

create table public.policy_checks (
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  set_id uuid not null,
  org_id uuid not null references public.organizations (id) on delete cascade,
  attempt integer not null,
  path text not null,
  name text not null,
  level text not null,
  bundle_sha256 text not null,
  verdict text not null check (verdict in ('passed', 'warned', 'failed', 'error')),
  messages jsonb not null default '[]',
  cost jsonb check (jsonb_path_exists(cost, '$ ? (@.monthly_before.type() == "number"
    && @.monthly_after.type() == "number" && @.monthly_delta.type() == "number")')),
  overridden_by uuid,
  overridden_label text,
  override_reason text check (length(override_reason) between 1 and 500),
  overridden_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (job_id, set_id)
);
create index policy_checks_org_id_idx on public.policy_checks (org_id, created_at desc);
comment on table public.policy_checks is 'What each policy set found in a plan, and who overrode it.';
comment on column public.policy_checks.level is 'The level of the set when the job was requested.';
comment on column public.policy_checks.overridden_by is 'Who overrode it: a member, null for a service account.';
comment on column public.policy_checks.verdict is 'passed, warned, failed, or error: could not run, counts as failed.';
comment on column public.policy_checks.messages is 'What it found, [{rule, kind, text, resource, hint}].';
comment on column public.policy_checks.cost is 'Costs, {monthly_before, monthly_after, monthly_delta}.';

-- ## attaching
-- Refuses a command.json that names no command.
create function private.check_command(p_text text) returns void language plpgsql immutable as $$
declare
  v_command pg_catalog.jsonb;
begin
  begin
    v_command := p_text::pg_catalog.jsonb;
  exception when invalid_text_representation or untranslatable_character then
    v_command := null;
  end;
  perform private.fail('RY422', 'command.json does not name a command.',
    'Write {"argv": ["trivy", "config", "{plan}"], "network": false}; the network may be left out.')
  where jsonb_path_exists(v_command, '$ ? (@.type() == "object" && @.argv.type() == "array" && @.argv[0] != ""
    && !exists(@.argv[*] ? (@.type() != "string")) && (!exists(@.network) || @.network.type() == "boolean")
    && !exists(@.keyvalue() ? (@.key != "argv" && @.key != "network")))') is distinct from true;
end;
$$;

-- Refuses files that are neither a set of Rego and data, nor a command and what it needs.
create function private.check_policy_files(p_files jsonb) returns void language plpgsql immutable as $$
declare
  v_is_command boolean := jsonb_typeof(p_files) = 'object' and p_files ? 'command.json';
begin
  perform private.fail('RY422',
    'A policy set is an object of file names and texts, with at least one .rego file or a command.json.',
    'Names of rules and data end with .rego, .json or .yaml; at most 1 MiB in all. Tests (_test.rego) do not count.')
  where jsonb_typeof(p_files) is distinct from 'object' or octet_length(p_files::pg_catalog.text) > 1048576
    or exists (select from jsonb_each(p_files) as f where jsonb_typeof(f.value) <> 'string' or length(f.key) > 200
      or f.key !~ '^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$'
      or not v_is_command and f.key !~ '\.(rego|json|ya?ml)$')
    or v_is_command = exists (select from jsonb_object_keys(p_files) as f where f ~ '\.rego$'
      and f !~ '_test\.rego$');
  if v_is_command then perform private.check_command(p_files ->> 'command.json'); end if;
end;
$$;

-- The rules that a specification names, {sha256, source}: files, or those that a job tested; null for none.
create function private.named_rules(p_org uuid, p_spec jsonb) returns jsonb language plpgsql as $$
declare
  v_test public.provision_jobs;
  v_sha256 pg_catalog.text;
begin
  if p_spec ? 'files' then
    perform private.check_policy_files(p_spec -> 'files');
    insert into private.policy_bundles as b (org_id, sha256, files)
    values (p_org, private.value_digest(p_spec -> 'files'), p_spec -> 'files')
    on conflict (org_id, sha256) do update set used_at = now() returning b.sha256 into v_sha256;
    return jsonb_build_object('sha256', v_sha256, 'source', coalesce(p_spec ->> 'source', ''));
  elsif p_spec ? 'test' then
    v_test := private.seen_job((p_spec ->> 'test')::bigint);
    perform private.fail('RY409', format('Job %s has no rules to attach.', v_test.number), 'Attach a folder.')
    where v_test.org_id <> p_org or not v_test.payload ? 'policy_test';
    return v_test.payload -> 'policy_test';
  end if;
  return null;
end;
$$;

create function private.attach_policy(p_org uuid, p_path text, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.policy_sets;
  v_rules pg_catalog.jsonb;
begin
  perform private.need('policy.write', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.refuse_unknown_keys(p_spec, array['name', 'level', 'files', 'source', 'test']);
  v_rules := private.named_rules(p_org, p_spec);
  insert into public.policy_sets as s (org_id, path, name, level, bundle_sha256, source, created_by)
  -- Without rules the set keeps those that it has.
  values (p_org, p_path, p_spec ->> 'name', p_spec ->> 'level', coalesce(v_rules ->> 'sha256', (
      select o.bundle_sha256 from public.policy_sets as o
      where o.org_id = p_org and o.path = p_path and o.name = p_spec ->> 'name')),
    coalesce(v_rules ->> 'source', ''), private.caller_id())
  on conflict (org_id, path, name) do update set level = excluded.level, bundle_sha256 = excluded.bundle_sha256,
    source = coalesce(v_rules ->> 'source', s.source)
  returning * into v_set;
  return private.audited(to_jsonb(v_set), 'policy.attached', concat_ws(' ', v_set.name, nullif(p_path, '')),
    jsonb_build_object('level', v_set.level, 'sha256', v_set.bundle_sha256, 'source', v_set.source));
exception when check_violation or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
  perform private.fail('RY422', 'A policy set needs a name, a level and its files.',
    'The name has lower-case letters, digits and hyphens; the level is advisory, overridable or mandatory.');
end;
$$;
comment on function private.attach_policy is
  'Attaches a policy set to a module or group, or changes the one of that name there: {name, level, files, source}, or '
  'with the rules that a job tested: {name, level, test}. The files are rules, or a command.json with what it needs. '
  'Admins.';

-- A policy set that the caller may do this with.
create function private.my_policy(p_policy uuid, p_verb text, out v_set public.policy_sets)
language plpgsql stable as $$
begin
  select * into v_set from public.policy_sets where id = p_policy and private.may_see(org_id, path);
  perform private.fail('RY404', 'There is no such policy set.') where v_set.id is null;
  perform private.need(p_verb, v_set.org_id, v_set.path);
end;
$$;

create function private.detach_policy(p_policy uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.my_policy(p_policy, 'policy.write');
  with gone as (delete from public.policy_sets where id = p_policy returning *)
  select private.audited(to_jsonb(g), 'policy.detached', concat_ws(' ', g.name, nullif(g.path, '')),
    jsonb_build_object('level', g.level)) from gone as g
$$;
comment on function private.detach_policy is 'Detaches a policy set. Plans requested before keep its check. Admins.';

create function private.policy_files(p_policy uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select (select b.files from private.policy_bundles as b where b.org_id = s.org_id and b.sha256 = s.bundle_sha256)
  from private.my_policy(p_policy, 'module.read') as s
$$;
comment on function private.policy_files is 'The files of a policy set, {name: text}. Members.';

-- ## what a job is checked with
-- The sets of a module: every one at or above its path.
create function private.effective_policies(p_org uuid, p_path text) returns setof public.policy_sets
language sql stable as $$
  select s.* from public.policy_sets as s where s.org_id = p_org and s.path = any (private.path_prefixes(p_path))
$$;

-- The payload of a job that plans, with the sets that it is checked with; as it is where none applies.
create function private.with_policies(p_payload jsonb, p_org uuid, p_path text) returns jsonb language sql stable as $$
  select coalesce((select jsonb_set(p_payload, '{policies}', jsonb_agg(jsonb_build_object('id', s.id, 'name', s.name,
      'path', s.path, 'level', s.level, 'sha256', s.bundle_sha256) order by length(s.path), s.name))
    from private.effective_policies(p_org, p_path) as s having count(*) > 0), p_payload - 'policies')
$$;

create function private.named_policies(p_job public.provision_jobs)
returns table (id uuid, name text, path text, level text, sha256 text) language sql stable as $$
  select * from jsonb_to_recordset(p_job.payload -> 'policies') as p (id pg_catalog.uuid, name pg_catalog.text,
    path pg_catalog.text, level pg_catalog.text, sha256 pg_catalog.text)
$$;

-- Why the checks of a plan keep it from being applied; null where nothing does. A set without a verdict, such as from a
-- runner that knows no policies, has not passed.
create function private.check_problem(p_plan bigint) returns text language sql stable as $$
  select case when c.job_id is null then format('Policy set "%s" has not checked this plan.', p.name)
    else format(case p.level when 'mandatory' then 'Policy set "%s" refuses this plan: %s'
      else 'Policy set "%s" waits for an override: %s' end, p.name, coalesce(c.messages #>> '{0,text}', c.verdict)) end
  from public.provision_jobs as j cross join lateral private.named_policies(j) as p
  left join public.policy_checks as c on c.job_id = j.id and c.set_id = p.id and c.attempt = j.attempt
  where j.id = p_plan and p.level <> 'advisory' and (c.job_id is null or c.verdict in ('failed', 'error')
    and (c.overridden_at is null or p.level = 'mandatory'))
  order by p.level = 'overridable', length(p.path), p.name limit 1
$$;

-- The same, or the mandatory set that was attached or changed since the plan was requested.
create function private.policy_problem(p_plan bigint) returns text language sql stable as $$
  select coalesce(private.check_problem(p_plan), (
    select format('Policy set "%s" has changed since this plan.', s.name) from public.provision_jobs as j
    cross join lateral private.effective_policies(j.org_id, j.module_path) as s
    where j.id = p_plan and s.level = 'mandatory' and not exists (select from private.named_policies(j) as p
      where p.id = s.id and p.level = s.level and p.sha256 = s.bundle_sha256)
    order by length(s.path), s.name limit 1))
$$;

-- Whether a job that was checked ends here: a mandatory set refuses it, or nobody could override before it applies.
create function private.is_refused(p_job bigint) returns boolean language sql stable as $$
  select coalesce(private.check_problem(p_job) not like '%waits for an override%' or j.type <> 'PLAN'
    and private.check_problem(p_job) is not null, false) from public.provision_jobs as j where j.id = p_job
$$;

-- Refuses to apply a plan that its policy sets, or a newer mandatory one, do not let pass.
create function private.check_policies(p_plan bigint) returns void language sql stable as $$
  select private.fail('RY409', format('%s', p.problem), case when p.problem like '%waits for an override%'
    then 'Somebody with policy.override overrides the check with a reason; or change the code, and plan again.'
    else 'Change the code or the rule, and plan again.' end)
  from private.policy_problem(p_plan) as p (problem) where p.problem is not null
$$;

-- The last fence: no change begins whose checks do not let it pass, whatever the runner knows of policies.
create function private.refuse_unchecked() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_problem pg_catalog.text := (select private.check_problem(coalesce(j.plan_job_id, j.id))
    from public.provision_jobs as j where j.id = new.job_id and j.type in ('APPLY', 'DESTROY'));
begin
  if v_problem is not null then
    perform private.fail('RY409', format('%s', v_problem), 'Plan first. Then apply that plan.');
  end if;
  return new;
end;
$$;
create trigger refuse_unchecked before update of has_touched on private.live_jobs for each row
  when (new.has_touched and not old.has_touched) execute function private.refuse_unchecked();

-- ## the runner's calls
-- The facts about a run that rules may read beside its plan; the time of one that has ended is that of its end.
create function private.policy_input(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'organization', jsonb_build_object('name', o.slug),
    'module', jsonb_build_object('path', p_job.module_path, 'labels', m.labels, 'auto_apply', m.auto_apply),
    'group', jsonb_build_object('path', p_job.group_path),
    'job', jsonb_build_object('id', p_job.number, 'type', p_job.type, 'phase', 'plan', 'drift', false, 'is_destroy',
      p_job.type = 'DESTROY' or coalesce(p_job.payload #> '{options,destroy}' = 'true', false)),
    'git', jsonb_build_object('ref', p_job.payload #> '{module,source,ref}', 'sha', coalesce(g.git -> 'commit',
      g.git -> 'head_commit', p_job.payload #> '{module,source,commit}'), 'pull_request', g.git -> 'pull_request',
      'fork', coalesce(g.git -> 'is_fork', 'false'), 'author', g.git -> 'author'),
    'requested_by', jsonb_build_object('label', p_job.created_by_label, 'role', (select b.role
      from public.memberships as b where b.org_id = p_job.org_id and b.user_id = p_job.created_by)),
    'approvals', '[]'::pg_catalog.jsonb, 'now_ns',
    floor(extract(epoch from coalesce(p_job.finished_at, now())) * 1000000)::pg_catalog.int8 * 1000)
    || coalesce((select jsonb_build_object('cost', c.cost) from public.policy_checks as c where c.job_id = p_job.id
      and c.attempt = p_job.attempt and c.cost is not null order by length(c.path), c.name limit 1), '{}')
  from public.organizations as o cross join (select p_job.payload #> '{options,git}' as git) as g
  left join public.modules as m on m.id = p_job.module_id
  where o.id = p_job.org_id
$$;

create function private.worker_policies(p_job bigint, p_attempt integer) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.fenced_job(private.this_runner(), p_job, p_attempt);
  select jsonb_build_object('run', private.policy_input(j), 'sets', (
    select coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'name', p.name, 'path', p.path, 'level', p.level,
      'files', b.files) order by length(p.path), p.name), '[]') from private.named_policies(j) as p
    join private.policy_bundles as b on b.org_id = j.org_id and b.sha256 = p.sha256))
  from public.provision_jobs as j where j.id = p_job
$$;
comment on function private.worker_policies is
  'The policy sets that a running job''s plan must pass, with files, and the facts about the run for their rules.';

create function private.worker_record_checks(p_job bigint, p_attempt integer, p_checks jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
begin
  if jsonb_typeof(p_checks) is distinct from 'array' or octet_length(p_checks::pg_catalog.text) > 1048576
    or jsonb_path_exists(p_checks, 'strict $[*] ? (@.type() != "object" || @.messages.type() != "array")',
      silent => true) then
    perform private.fail('RY422', 'Checks are a list of at most 1 MiB.',
      'Send [{"id": "…", "verdict": "passed", "messages": []}].');
  end if;
  insert into public.policy_checks as c (job_id, set_id, org_id, attempt, path, name, level, bundle_sha256, verdict,
    messages, cost)
  select j.id, p.id, j.org_id, p_attempt, p.path, p.name, p.level, p.sha256, f.verdict, coalesce(f.messages, '[]'),
    f.cost
  from public.provision_jobs as j cross join lateral private.named_policies(j) as p
  join jsonb_to_recordset(p_checks) as f (id pg_catalog.uuid, verdict pg_catalog.text,
    messages pg_catalog.jsonb, cost pg_catalog.jsonb) on f.id = p.id
  where j.id = v_live.job_id
  on conflict (job_id, set_id) do update set attempt = excluded.attempt, verdict = excluded.verdict,
    messages = excluded.messages, cost = excluded.cost, overridden_by = null, overridden_label = null,
    override_reason = null, overridden_at = null;
  return jsonb_build_object('problem', private.check_problem(p_job), 'is_refused', private.is_refused(p_job));
exception when check_violation or not_null_violation or invalid_text_representation or cardinality_violation then
  perform private.fail('RY422', 'A check has the id of its set and a verdict.',
    'The verdict is passed, warned, failed or error.');
end;
$$;
comment on function private.worker_record_checks is
  'Records what the policy sets of a job found in its plan, and answers whether it is refused. A job that applies '
  'without a saved plan is refused where one waits for an override, too.';
