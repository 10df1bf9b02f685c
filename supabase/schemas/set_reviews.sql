-- Reviews: all plans of a set on one page, in the steps of their order. A member applies all of them or some: the saved
-- plans become one ordered set of applies, each of exactly the plan that was reviewed. Jobs of a set that wait for
-- approval are approved in the same act. An apply of a plan continues the set of plans: its previews and what waited
-- for it are planned for real.

-- The members of a set with their step, their plan or other job, the apply of that plan, and what may be decided:
-- approve (a job waits for somebody) or apply (a saved plan can be applied).
create function private.review_rows(p_set public.job_sets) returns table (
  module_id uuid, module_path text, step integer, job_id bigint, job_number bigint, status public.job_status,
  summary jsonb, is_preview boolean, message text, awaited_id bigint, apply_number bigint,
  apply_status public.job_status, decision text)
language sql stable set search_path = '' as $$
  with recursive place (id, step) as (
    select m.module_id, 1 from private.set_members as m where m.set_id = p_set.id
    union
    select e.after_id, p.step + 1 from place as p join private.set_edges as e on e.set_id = p_set.id
      and e.before_id = p.id
  ), step as materialized (
    select p.id, max(p.step) as step from place as p group by p.id
  )
  select m.module_id, coalesce(j.module_path, o.path), s.step, j.id, j.number, j.status, coalesce(j.plan_summary,
      (select p.plan_summary from public.provision_jobs as p where p.id = j.plan_job_id)),
    coalesce(j.payload #> '{options,preview}' = 'true', false), coalesce(m.left_out, j.error ->> 'message', w.problem),
    coalesce(a.id, j.id), a.number, a.status,
    case when w.problem is not null then null when coalesce(a.status, j.status) = 'AWAITING_APPROVAL' then 'approve'
      when p_set.type = 'PLAN' and j.status = 'SUCCEEDED' and private.is_applied_next(j)
        and coalesce(a.status, 'FAILED') in ('FAILED', 'CANCELLED')
        and j.planned_serial = private.state_serial(m.module_id) then 'apply' end
  from private.set_members as m
  join step as s on s.id = m.module_id
  left join public.provision_jobs as j on j.id = m.job_id
  left join public.modules as o on o.id = m.module_id
  left join lateral (select a.id, a.number, a.status from public.provision_jobs as a where a.plan_job_id = j.id
    order by a.id desc limit 1) as a on p_set.type = 'PLAN'
  left join lateral (select private.plan_promotion_problem(j) as problem) as w
    on j.type = 'PLAN' and private.is_applied_next(j)
  where m.set_id = p_set.id
$$;

create function private.set_review(p_org uuid, p_set uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.read');
begin
  if v_set.org_id <> p_org then
    perform private.fail('RY404', 'There is no such set.');
  end if;
  return private.set_json(v_set) || jsonb_build_object('rows', (
    select coalesce(jsonb_agg(jsonb_build_object('module_id', r.module_id, 'module_path', r.module_path, 'step', r.step,
      'job_number', r.job_number, 'status', r.status, 'is_preview', r.is_preview, 'message', left(r.message, 500),
      'counts', (select jsonb_object_agg(n, private.plan_count(r.summary, array[n]))
        from unnest('{create,update,replace,delete}'::pg_catalog.text[]) as n),
      'has_changes', r.summary -> 'has_changes' = 'true', 'apply_number', r.apply_number,
      'apply_status', r.apply_status, 'decision', r.decision) order by r.step, r.module_path), '[]')
    from private.review_rows(v_set) as r));
end;
$$;
comment on function private.set_review is
  'All jobs of a set by the steps of their order: what each plan changes, whether it is a preview, what each module '
  'waits for, the apply of the plan, and what may be decided: approve or apply. Members.';
grant execute on function private.set_review to authenticated;

-- Approves a job of a set; where it cannot be approved, returns why, and costs the others nothing.
create function private.try_approve(p_job bigint) returns text
language plpgsql set search_path = '' as $$
begin
  perform private.approve_job(p_job, 'approve');
  return null;
exception
  when others then
    if sqlstate not like 'RY%' then
      raise;
    end if;
    return sqlerrm;
end;
$$;

-- Starts an ordered set that applies these reviewed plans of another set.
create function private.apply_plans(p_plans public.job_sets, p_modules uuid[], p_jobs bigint[]) returns public.job_sets
language plpgsql set search_path = '' as $$
declare
  v_set public.job_sets;
begin
  perform private.refuse_second_set(p_plans.org_id, 'APPLY', p_plans.path);
  insert into public.job_sets (org_id, type, path, options, created_by, created_by_label)
  values (p_plans.org_id, 'APPLY', p_plans.path, jsonb_build_object('priority', 150, 'reason',
    'Reviewed with its set.'), private.caller_id(), private.caller_label(p_plans.org_id)) returning * into v_set;
  perform private.add_members(v_set, p_modules);
  update private.set_members as m set plan_job_id = p.job_id
  from unnest(p_modules, p_jobs) as p (module_id, job_id) where m.set_id = v_set.id and m.module_id = p.module_id;
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audit(v_set.org_id, 'set.started', 'set', v_set.id::pg_catalog.text, 'APPLY '
    || coalesce(nullif(v_set.path, ''), 'all modules'), jsonb_build_object('modules', cardinality(p_modules), 'plans',
      p_plans.id));
  return v_set;
end;
$$;

create function private.confirm_set(p_set uuid, p_modules uuid[] default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.run');
  v_row pg_catalog.record;
  v_refusal pg_catalog.text;
  v_refusals pg_catalog.jsonb := '[]';
  v_approved integer := 0;
  v_modules pg_catalog.uuid[] := '{}';
  v_plans bigint[] := '{}';
  v_applies public.job_sets;
begin
  perform pg_advisory_xact_lock(private.lock_key('set', v_set.org_id::pg_catalog.text));
  -- States before rows, as for a decision about one job.
  perform private.lock_module_states(v_set.org_id, array(select r.module_id from private.review_rows(v_set) as r
    where r.decision is not null and (p_modules is null or r.module_id = any (p_modules))));
  for v_row in select r.* from private.review_rows(v_set) as r
    where r.decision is not null and (p_modules is null or r.module_id = any (p_modules)) order by r.step, r.module_id
  loop
    if v_row.decision = 'apply' then
      v_modules := v_modules || v_row.module_id;
      v_plans := v_plans || v_row.job_id;
      continue;
    end if;
    v_refusal := private.try_approve(v_row.awaited_id);
    v_approved := v_approved + (v_refusal is null)::integer;
    v_refusals := v_refusals || case when v_refusal is null then '[]' else jsonb_build_array(jsonb_build_object(
      'module_path', v_row.module_path, 'message', v_refusal)) end;
  end loop;
  if v_modules <> '{}' then
    v_applies := private.apply_plans(v_set, v_modules, v_plans);
  elsif v_approved = 0 then
    perform private.fail('RY409', format('%s', coalesce(v_refusals #>> '{0,message}',
        'No chosen plan of this set can be applied.')),
      'Look at the review again: a plan without changes, a preview and an applied plan cannot be applied.');
  end if;
  return jsonb_build_object('approved', v_approved, 'applying', cardinality(v_modules), 'refused', v_refusals,
    'set_id', v_applies.id);
end;
$$;
comment on function private.confirm_set is
  'Decides about jobs of a set, all or those of some modules: approves what waits for it, and applies saved plans as '
  'one ordered set, each exactly as it was reviewed. Operators.';
grant execute on function private.confirm_set to authenticated;

-- Previews of a set that the apply of a module makes out of date: those of its outputs, and those of these previews.
create function private.outdated_previews(p_set uuid, p_applied uuid) returns setof public.provision_jobs
language sql stable set search_path = '' as $$
  with recursive preview as materialized (
    select e.before_id, e.after_id, j.id as job_id from private.set_edges as e
    join private.set_members as m on m.set_id = e.set_id and m.module_id = e.after_id
    join public.provision_jobs as j on j.id = m.job_id and j.payload #> '{options,preview}' = 'true'
    where e.set_id = p_set
  ), again (id, job_id) as (
    select p.after_id, p.job_id from preview as p where p.before_id = p_applied
    union
    select p.after_id, p.job_id from again as a join preview as p on p.before_id = a.id
  )
  select j.* from again as a join public.provision_jobs as j on j.id = a.job_id order by j.module_id
$$;

-- Continues the set of a plan that was just applied: previews that used the plan, and what waited for the apply, are
-- planned for real. The caller has the lock of the job's state.
create function private.follow_apply(p_job public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_set public.job_sets;
  v_preview public.provision_jobs;
begin
  select s.* into v_set from private.set_members as m join public.job_sets as s on s.id = m.set_id
  where m.job_id = p_job.plan_job_id and s.cancelled_at is null and s.options #> '{git,pull_request}' is null
    and exists (select from private.set_edges as e where e.set_id = m.set_id and e.before_id = m.module_id);
  if v_set.id is null then
    return;
  end if;
  perform private.lock_set(v_set.id);
  for v_preview in select * from private.outdated_previews(v_set.id, p_job.module_id) loop
    update private.set_members set job_id = null where set_id = v_set.id and module_id = v_preview.module_id;
    if v_preview.status = 'QUEUED' then
      perform private.try_cancel(v_preview, 'system', 'system', 'The module is planned with what was applied.');
    end if;
  end loop;
  perform private.settle_set(v_set.id);
  update public.job_sets as s set finished_at = null where s.id = v_set.id and s.finished_at is not null
    and exists (select from private.placeable_members as m where m.set_id = s.id);
  perform private.place_members(v_set, 200, false, v_set.id);
end;
$$;
