-- Drift of modules: findings of checks, and what follows. A finding is known by its fingerprint: channels receive it,
-- and its group acts on it, once for as long as it lasts.

-- The action on drift of a module in this group: that of the nearest group with one.
create function private.drift_action(p_org uuid, p_group_path text) returns text language sql stable as $$
  select coalesce((
    select g.drift_action from public.groups as g where g.org_id = p_org and g.drift_action is not null
      and g.path = any (private.path_prefixes(p_group_path)) order by length(g.path) desc limit 1), 'tell')
$$;

-- Whether a plan that drift started may be applied automatically: it touches what has drifted, and destroys nothing.
create function private.repairs_drift(p_plan public.provision_jobs) returns boolean language plpgsql immutable as $$
begin
  return jsonb_typeof(p_plan.payload #> '{options,drift}') is not distinct from 'array'
    and jsonb_typeof(p_plan.plan_summary -> 'resources') is not distinct from 'array'
    and p_plan.plan_summary -> 'is_truncated' is null
    and private.plan_count(p_plan.plan_summary, '{replace,delete}') = 0
    and not exists (
      select from jsonb_array_elements(p_plan.plan_summary -> 'resources') as r
      where r ->> 'action' is distinct from 'read' and (coalesce(r ->> 'action', '') not in ('create', 'update')
        or not p_plan.payload #> '{options,drift}' ? coalesce(r ->> 'address', '')));
end;
$$;

-- Queues a job that follows from drift of a module. The caller has the lock of the module's state.
create function private.add_drift_job(
  p_cause public.provision_jobs, p_type public.job_type, p_options jsonb, p_reason text
) returns void language plpgsql as $$
declare
  v_job public.provision_jobs := p_cause;
  v_module public.modules := (select m from public.modules as m where m.id = p_cause.module_id);
begin
  v_job.type := p_type;
  v_job.payload := jsonb_set(p_cause.payload, '{options}', p_options) - 'policies';
  if p_type <> 'DRIFT' then
    v_job.payload := private.with_policies(v_job.payload, v_job.org_id, v_job.module_path);
  end if;
  v_job.approvals_required := case when p_type = 'APPLY' then v_module.approvals_required else 0 end;
  -- A module that a person has locked waits for a person.
  v_job.needs_confirmation := p_type = 'APPLY' and exists (
    select from public.module_locks as l where l.module_id = v_module.id);
  v_job.approval_deadline_at := case when v_job.approvals_required > 0 or v_job.needs_confirmation
    then now() + make_interval(secs => v_module.approval_timeout_seconds) end;
  v_job.plan_job_id := null;
  v_job.retry_of := null;
  v_job.idempotency_key := null;
  v_job.max_attempts := 3;
  v_job.priority := 150;
  v_job.message := p_reason;
  v_job.created_by := null;
  v_job.created_by_label := 'drift';
  perform private.add_job(v_job, p_reason);
end;
$$;

-- Does what the module's group chose for a finding: nothing but tell, plan and wait, plan and apply what is safe, or
-- take the infrastructure as it is into the state.
create function private.act_on_drift(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_action pg_catalog.text := private.drift_action(p_job.org_id, p_job.group_path);
  v_words pg_catalog.text := format('Drift found by job %s.', p_job.number);
begin
  if v_action = 'accept' then
    perform private.add_drift_job(p_job, 'APPLY', jsonb_build_object('refresh_only', true, 'rechecks_drift', true),
      v_words);
  elsif v_action in ('plan', 'apply') then
    perform private.add_drift_job(p_job, 'PLAN', jsonb_build_object('confirm', true, 'auto_apply', false,
      'rechecks_drift', true) || case when v_action = 'apply' then jsonb_build_object('drift', coalesce(
      jsonb_path_query_array(p_job.plan_summary, '$.resources[*].address'), '[]')) else '{}' end, v_words);
  end if;
end;
$$;

-- Notes or clears the drift of a job's module, by what the job found. Drift is something that is so of a module, not
-- only the result of a job: since when, in how many resources, and when it was last looked for. A drift check that
-- finds some notes it; a plan or a check of the whole module that finds nothing to do clears it. An apply does not:
-- only the next check shows whether it removed all drift.
create function private.note_drift(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_options pg_catalog.jsonb := coalesce(p_job.payload -> 'options', '{}');
  v_looks boolean := private.is_drift_check(p_job.type, p_job.payload);
  v_has_changes boolean := private.has_found_changes(p_job.type, p_job.payload, p_job.plan_summary);
  v_finding pg_catalog.text := coalesce(substring(p_job.plan_summary ->> 'fingerprint' from '^[0-9a-f]{64}$'),
    md5(coalesce(p_job.plan_summary ->> 'resources', '')));
  v_known pg_catalog.text := (select m.drift_finding from public.modules as m where m.id = p_job.module_id);
begin
  -- A look beside a held state, at a pull request, at some resources alone, with previewed values or at what a destroy
  -- would do proves nothing about the module.
  if v_options ?| array['inspects', 'preview'] or v_options #> '{git,pull_request}' is not null
    or v_options -> 'destroy' = 'true' or jsonb_typeof(p_job.plan_summary) is distinct from 'object' then
    return;
  end if;
  if v_looks and v_has_changes then
    -- A person's refresh-only plan knows no rules of the module: what it finds is no other finding.
    update public.modules set drift_since = coalesce(drift_since, now()), drift_checked_at = now(),
      drift_finding = case when p_job.type = 'DRIFT' then v_finding else coalesce(drift_finding, v_finding) end,
      drift_resources = private.plan_count(p_job.plan_summary, '{create,update,replace,delete}')
    where id = p_job.module_id;
    if p_job.type = 'DRIFT' and v_finding is distinct from v_known
      and coalesce(jsonb_array_length(nullif(v_options -> 'targets', 'null')), 0) = 0 then
      perform private.act_on_drift(p_job);
    end if;
  elsif not v_has_changes and coalesce(jsonb_array_length(nullif(v_options -> 'targets', 'null')), 0) = 0 then
    update public.modules set drift_since = null, drift_resources = null, drift_finding = null,
      drift_checked_at = case when v_looks or drift_since is not null then now() else drift_checked_at end
    where id = p_job.module_id and (v_looks or drift_since is not null);
  end if;
end;
$$;

create function private.drift_overview(p_org uuid, p_path text default '') returns jsonb
language sql stable security definer set search_path = '' as $$
  select (
    select coalesce(jsonb_agg(jsonb_build_object('path', g.group_path, 'modules', g.modules, 'resources', g.resources,
      'since', g.since, 'action', private.drift_action(p_org, g.group_path), 'told', array(
        select distinct r.channel || ' ' || r.address_hint
        from public.deliveries as d join public.notification_rules as r on r.id = d.rule_id
        where n.seen is null and d.org_id = p_org and d.event = 'module.drift' and d.status in ('DELIVERED', 'KEPT')
          and d.subject = any (g.subjects) and d.created_at >= g.since order by 1)) order by g.since, g.group_path),
      '[]')
    from (
      select m.group_path, count(*) as modules, sum(m.drift_resources) as resources, min(m.drift_since) as since,
        array_agg('module:' || m.id) as subjects
      from public.modules as m
      where m.org_id = p_org and m.drift_since is not null and m.deleted_at is null
        and (p_path = '' or m.path = p_path or starts_with(m.path, p_path || '/'))
        and (n.seen is null or private.is_seen(m.org_id, m.path, n.seen))
      group by m.group_path
    ) as g)
  from private.need_seen(p_org) as n (seen)
$$;
comment on function private.drift_overview is
  'The groups with drifted modules at or below a path: how many modules and resources, since when, what is done about '
  'it, and which channels know. Members.';
