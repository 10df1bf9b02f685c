-- Promotion between environments: production depends on staging, and is applied only with the commit that staging was
-- last applied with. It is a condition of the dependency, checked wherever a plan is about to be applied. Where nobody
-- names a commit, production is planned at the promoted one; a push is planned at its own commit, and its apply waits
-- until that commit was applied in staging.

-- Refuses a promotion between modules that do not come from one repository.
create function private.check_promotion_edge(p_consumer public.modules, p_producer public.modules, p_wanted jsonb)
returns void
language plpgsql stable set search_path = '' as $$
begin
  if jsonb_typeof(coalesce(p_wanted, 'false')) not in ('boolean', 'null') then
    perform private.fail('RY422', 'is_promotion is true or false.');
  end if;
  if p_wanted = 'true' and (p_consumer.source_kind <> 'git' or p_producer.source_kind <> 'git'
    or private.repository_key(p_consumer.source ->> 'url') <> private.repository_key(p_producer.source ->> 'url')) then
    perform private.fail('RY409', format('"%s" and "%s" do not come from one git repository.', p_consumer.path,
      p_producer.path), 'A commit is promoted between modules of the same repository.');
  end if;
end;
$$;

-- Why a module may not be applied with a commit, or null.
create function private.promotion_problem(p_module uuid, p_commit text) returns text
language plpgsql stable set search_path = '' as $$
begin
  return (select format('Waits for %s: %s.', p.path, case when g.applied_commit is null then 'nothing was applied there'
      when p_commit is null then 'the commit of this one is not known'
      else format('commit %s was not applied there, which has %s', left(p_commit, 7), left(g.applied_commit, 7)) end)
    from public.module_dependencies as d join public.modules as p on p.id = d.producer_id
    left join public.module_git as g on g.module_id = d.producer_id
    where d.consumer_id = p_module and d.is_promotion and (g.applied_commit = p_commit) is not true
    order by p.path limit 1);
end;
$$;

-- The commit at which a module is planned and applied where nobody names another one; {} for one without a promotion.
create function private.promoted_source(p_module uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (select case when count(distinct g.applied_commit) = 1 then jsonb_build_object('commit',
      min(g.applied_commit)) else '{}' end
    from public.module_dependencies as d join public.module_git as g on g.module_id = d.producer_id
    where d.consumer_id = p_module and d.is_promotion);
end;
$$;

-- Why a plan may not be applied: its commit was not applied where it should have been. Null for one that may, and for
-- a plan that destroys.
create function private.plan_promotion_problem(p_plan public.provision_jobs) returns text
language plpgsql stable set search_path = '' as $$
begin
  return case when p_plan.payload #> '{options,destroy}' is distinct from 'true' then private.promotion_problem(
    p_plan.module_id, coalesce(p_plan.result ->> 'commit', p_plan.payload #>> '{module,source,commit}')) end;
end;
$$;

-- Refuses to apply a plan of a commit that was not applied where it should have been.
create function private.check_promotion(p_plan bigint) returns void
language plpgsql stable set search_path = '' as $$
declare
  v_problem pg_catalog.text := (select private.plan_promotion_problem(j) from public.provision_jobs as j
    where j.id = p_plan);
begin
  if v_problem is not null then
    perform private.fail('RY409', format('%s', v_problem), 'Apply that module with the same commit first.');
  end if;
end;
$$;

-- Refuses applies without a plan of modules whose commit was not applied where it should have been.
create function private.refuse_unpromoted(p_modules uuid[]) returns void
language plpgsql stable set search_path = '' as $$
begin
  perform private.fail('RY409', format('%s', p.problem), 'Apply that module first.')
  from unnest(p_modules) as m (id)
  cross join lateral (select private.promotion_problem(m.id, private.promoted_source(m.id) ->> 'commit') as problem)
    as p
  where p.problem is not null limit 1;
end;
$$;

-- Queues applies that only waited for a commit to be applied in this job's module, of modules with auto-apply.
create function private.promote(p_job public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_next public.provision_jobs;
begin
  for v_next in
    select j.* from public.module_dependencies as d
    join public.modules as m on m.id = d.consumer_id and m.auto_apply and m.deleted_at is null
    join public.provision_jobs as j on j.module_id = m.id and j.org_id = m.org_id and j.status = 'AWAITING_APPROVAL'
      and j.type = 'APPLY' and j.approvals_required = 0
    join public.provision_jobs as p on p.id = j.plan_job_id and p.planned_serial = private.state_serial(m.id)
    where d.producer_id = p_job.module_id and d.is_promotion and private.plan_promotion_problem(p) is null
      and not exists (select from public.module_locks as l where l.module_id = m.id) order by j.module_id
  loop
    continue when not private.try_lock_state(v_next.org_id, v_next.module_id);
    update public.provision_jobs set status = 'QUEUED', queued_at = now()
    where id = v_next.id and status = 'AWAITING_APPROVAL' returning * into v_next;
    continue when not found;
    perform private.record_job_event(v_next, 'confirmed', 'AWAITING_APPROVAL', 'QUEUED', 'system', null, 'promotion',
      format('Its commit was applied by job %s of %s.', p_job.number, p_job.module_path));
    perform private.queue_jobs(v_next.org_id, array[v_next.id]);
  end loop;
end;
$$;
