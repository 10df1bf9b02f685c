-- Back-tests: rules run over plans that were made before, to see what they would have refused before they are attached.
-- Each plan leaves a redacted JSON, without sensitive and unknown values, among the artifacts of its job, and the sweep
-- removes it with these after 30 days. A test is a job of its own. Its list of plans is made when a runner begins, and
-- each verdict is kept as it comes: after a lost runner the next attempt does the rest.

create table private.policy_test_plans (
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  plan_id bigint not null references public.provision_jobs (id) on delete cascade,
  verdict text check (verdict in ('passed', 'warned', 'failed', 'error', 'unclear', 'missing')),
  messages jsonb not null default '[]',
  primary key (job_id, plan_id)
);
create index policy_test_plans_plan_id_idx on private.policy_test_plans (plan_id);
comment on table private.policy_test_plans is 'The plans of each test of policies, and what the rules found in them.';
comment on column private.policy_test_plans.job_id is 'The test.';
comment on column private.policy_test_plans.plan_id is 'The job whose plan it is.';
comment on column private.policy_test_plans.verdict is
  'As of a check; unclear: the redacted plan lacks what the set reads; missing: not kept. Null: not tested yet.';

create function private.test_policy(p_org uuid, p_path text, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_days integer := case when p_spec ->> 'days' ~ '^[0-9]{1,2}$' then (p_spec ->> 'days')::integer
    when p_spec ->> 'days' is null then 30 end;
  v_rules pg_catalog.jsonb;
  v_job public.provision_jobs;
begin
  perform private.need('policy.write', p_org, p_path);
  perform private.need('job.read', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.refuse_unknown_keys(p_spec, array['name', 'days', 'files', 'source']);
  if coalesce(v_days, 0) not between 1 and 30 then
    perform private.fail('RY422', 'Rules are tested over the plans of 1 to 30 days.',
      'Redacted plans are kept for 30 days.');
  elsif not coalesce(p_spec ? 'files', false) or length(p_spec ->> 'name') > 63
    or length(p_spec ->> 'source') > 500 then
    perform private.fail('RY422', 'A test needs the files of a policy set.', 'Send {"files": {"rules.rego": "…"}}.');
  end if;
  v_rules := private.named_rules(p_org, p_spec) || jsonb_build_object('name', coalesce(p_spec ->> 'name', ''));
  -- Somebody looks at the page and waits for it.
  v_job := private.new_job(p_org, 'POLICY_TEST', 90);
  v_job.module_path := nullif(p_path, '');
  v_job.group_path := nullif(p_path, '');
  v_job.payload := jsonb_build_object('policy_test', v_rules || jsonb_build_object('path', p_path, 'days', v_days));
  v_job := private.add_job(v_job, 'To see what the rules would have refused.');
  perform private.audit(p_org, 'job.enqueued', 'job', v_job.number::pg_catalog.text,
    rtrim('POLICY_TEST ' || p_path), jsonb_build_object('sha256', v_rules ->> 'sha256'));
  return jsonb_build_object('id', v_job.id, 'number', v_job.number, 'type', v_job.type, 'status', v_job.status,
    'module_path', v_job.module_path);
end;
$$;
comment on function private.test_policy is
  'Runs rules on a runner over the plans of the last days, at most 30, at and below a path: {name, files, source, '
  'days}. Changes nothing; policy_test shows the result. Admins.';

-- Lists the plans of a test, the newest 1,000. Plans with values that nobody applies, and those that only look, are
-- left out; so is what was applied from a saved plan, which is listed itself.
create function private.list_test_plans(p_job public.provision_jobs) returns void language sql as $$
  insert into private.policy_test_plans (job_id, plan_id)
  select p_job.id, j.id from public.provision_jobs as j
  where j.org_id = p_job.org_id and j.finished_at > p_job.created_at
      - make_interval(days => (p_job.payload #>> '{policy_test,days}')::integer)
    and j.type in ('PLAN', 'APPLY', 'DESTROY') and j.plan_job_id is null and j.id < p_job.id
    and private.is_at_or_below(j.module_path, p_job.payload #>> '{policy_test,path}')
    and not coalesce(j.payload #> '{options,refresh_only}' = 'true', false)
    and not coalesce(j.payload -> 'options' ?| array['preview', 'inspects'], false)
    and (j.status = 'SUCCEEDED' or exists (select from private.artifacts as a
      where a.job_id = j.id and a.name = 'redacted-plan.json.gz'))
  order by j.id desc limit 1000
$$;

-- The redacted plan that a job left last.
create function private.redacted_plan(p_job bigint) returns bytea language sql stable as $$
  select a.body from private.artifacts as a where a.job_id = p_job and a.name = 'redacted-plan.json.gz'
  order by a.attempt desc limit 1
$$;

-- The next plans of a test: at most 20, and about 8 MiB.
create function private.next_test_plans(p_test bigint) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('plan', n.plan_id, 'number', j.number, 'run', private.policy_input(j),
    'body_base64', translate(encode(n.body, 'base64'), chr(10), '')) order by n.place), '[]')
  from (
    select t.plan_id, b.body, row_number() over w as place, sum(octet_length(b.body)) over w as bytes
    from private.policy_test_plans as t cross join lateral private.redacted_plan(t.plan_id) as b (body)
    where t.job_id = p_test and t.verdict is null window w as (order by t.plan_id desc)
  ) as n
  join public.provision_jobs as j on j.id = n.plan_id
  where n.place = 1 or n.place <= 20 and n.bytes <= 8388608
$$;

create function private.worker_policy_test(p_job bigint, p_attempt integer, p_found jsonb default '[]') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
  v_test public.provision_jobs := (select j from public.provision_jobs as j where j.id = v_live.job_id);
begin
  if v_test.type <> 'POLICY_TEST' or jsonb_typeof(p_found) is distinct from 'array'
    or octet_length(p_found::pg_catalog.text) > 16777216
    or jsonb_path_exists(p_found, 'strict $[*] ? (@.messages.type() != "array")', silent => true) then
    perform private.fail('RY422', 'A test of policies reports a list of at most 16 MiB.',
      'Send [{"plan": 1, "verdict": "passed", "messages": []}].');
  end if;
  if not exists (select from private.policy_test_plans as t where t.job_id = p_job) then
    perform private.list_test_plans(v_test);
  end if;
  update private.policy_test_plans as t set verdict = f.verdict, messages = coalesce(f.messages, '[]')
  from jsonb_to_recordset(p_found) as f (plan pg_catalog.int8, verdict pg_catalog.text,
    messages pg_catalog.jsonb)
  where t.job_id = p_job and t.plan_id = f.plan and t.verdict is null;
  update private.policy_test_plans as t set verdict = 'missing'
  where t.job_id = p_job and t.verdict is null and private.redacted_plan(t.plan_id) is null;
  return (select jsonb_build_object('total', count(*), 'done', count(t.verdict), 'plans',
      private.next_test_plans(p_job), 'files', case when p_found = '[]' then (select b.files
        from private.policy_bundles as b where b.org_id = v_test.org_id
        and b.sha256 = v_test.payload #>> '{policy_test,sha256}') end)
    from private.policy_test_plans as t where t.job_id = p_job);
exception when check_violation or invalid_text_representation then
  perform private.fail('RY422', 'A verdict is passed, warned, failed, error, unclear or missing.',
    'Send one of these, with the plan that it is about.');
end;
$$;
comment on function private.worker_policy_test is
  'Records what a test of policies found in plans, [{plan, verdict, messages}], and answers the next plans, redacted, '
  'with the facts about their runs; the files of the set with the first ones.';

-- The findings of a test so far. It has the path of its plans: everybody who sees it sees them.
create function private.found_in_plans(p_test public.provision_jobs) returns jsonb language sql stable as $$
  with tested as materialized (
    select t.verdict, t.messages, j.id, j.number, j.module_path, j.finished_at, coalesce(a.status, case
      when j.type <> 'PLAN' then j.status end) as outcome
    from private.policy_test_plans as t join public.provision_jobs as j on j.id = t.plan_id
    left join lateral (select n.status from public.provision_jobs as n where n.plan_job_id = j.id
      order by n.id desc limit 1) as a on true
    where t.job_id = p_test.id
  ), found as (
    select t.*, m ->> 'rule' as rule, m ->> 'kind' as kind, m ->> 'resource' as resource, m ->> 'text' as text,
      row_number() over (partition by m ->> 'kind', m ->> 'rule' order by t.id desc) as place
    from tested as t cross join lateral jsonb_array_elements(t.messages) as m
  ), rules as (
    select f.kind, f.rule, count(distinct f.id) as plans, count(distinct f.module_path) as modules,
      jsonb_agg(jsonb_build_object('number', f.number, 'module_path', f.module_path, 'resource', f.resource, 'text',
        f.text, 'finished_at', f.finished_at, 'outcome', f.outcome) order by f.place)
        filter (where f.place <= 50) as items
    from found as f group by f.kind, f.rule
  )
  select p_test.payload -> 'policy_test' || jsonb_build_object('status', p_test.status, 'number', p_test.number,
    'total', count(*), 'done', count(t.verdict), 'modules', count(distinct t.module_path),
    'passed', count(*) filter (where t.verdict in ('passed', 'warned')),
    'warned', count(*) filter (where t.verdict = 'warned'),
    'refused', count(*) filter (where t.verdict = 'failed'),
    'applied', count(*) filter (where t.verdict = 'failed' and t.outcome = 'SUCCEEDED'),
    'unclear', count(*) filter (where t.verdict in ('unclear', 'error')),
    'missing', count(*) filter (where t.verdict = 'missing'),
    'rules', (select coalesce(jsonb_agg(r order by r.kind, r.plans desc, r.rule), '[]') from rules as r))
  from tested as t
$$;

create function private.policy_test(p_job bigint) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_test public.provision_jobs := private.seen_job(p_job);
begin
  perform private.fail('RY404', format('Job %s has tested no policies.', v_test.number), 'Test the rules again.')
  where v_test.type <> 'POLICY_TEST';
  return private.found_in_plans(v_test);
end;
$$;
comment on function private.policy_test is
  'What a test of policies found so far: how many plans would have been refused, how many could not be judged, and the '
  'newest findings of each rule with job, module, resource, and what became of the plan; for those who see the plans. '
  'Members.';
