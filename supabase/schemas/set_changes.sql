-- Acts of people on sets: plan all below a group or check all for drift, review and apply, cancel the rest, retry what
-- failed; and what the sweep does with them.

create function private.start_set(p_org uuid, p_type public.job_type, p_path text, p_options jsonb default '{}')
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_key pg_catalog.text := p_options ->> 'idempotency_key';
  v_set public.job_sets;
  v_modules pg_catalog.uuid[];
begin
  perform private.need(case when p_type = 'DESTROY' then 'job.destroy' else private.verb_to_run(p_type) end, p_org,
    p_path);
  perform private.fail('RY422', 'A set plans, applies or destroys its modules, or checks them for drift.',
    'Send PLAN, DRIFT, APPLY or DESTROY.')
  where p_type is null or p_type not in ('PLAN', 'DRIFT', 'APPLY', 'DESTROY');
  perform private.refuse_unknown_keys(p_options, array['reason', 'labels', 'priority', 'pinned_worker_id',
    'idempotency_key']);
  perform private.check_job_options(p_org, p_type, null, p_options);
  perform private.need_target(p_org, p_path);
  perform pg_advisory_xact_lock(private.lock_key('set', p_org::pg_catalog.text));
  select * into v_set from public.job_sets where org_id = p_org and path = p_path and idempotency_key = v_key;
  if v_set.id is not null then return private.set_json(v_set); end if;
  perform private.refuse_second_set(p_org, p_type, p_path);
  insert into public.job_sets (org_id, type, path, options, idempotency_key, created_by, created_by_label)
  values (p_org, p_type, p_path, jsonb_build_object('priority', 150)
    || coalesce(private.caller_options(p_org, p_type, array[p_path], p_options), '{}') - 'idempotency_key', v_key,
    private.caller_id(), private.caller_label(p_org)) returning * into v_set;
  v_modules := array(select private.modules_below(p_org, p_path));
  perform private.fail('RY409', 'There is no module below this group.', 'Create one first, or choose another group.')
  where v_modules = '{}';
  perform private.add_members(v_set, v_modules);
  -- As many as fit well into the time of one request; the sweep places the rest.
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audited(to_jsonb(v_set), 'set.started', p_type || ' ' || coalesce(nullif(p_path, ''), 'all modules'),
    jsonb_build_object('modules', cardinality(v_modules)));
  return private.set_json(v_set);
end;
$$;
comment on function private.start_set is
  'Enqueues a PLAN, DRIFT, APPLY or DESTROY job for every module at or below a group ("" is all), as one thing with '
  'its progress, in the order of their dependencies; a DESTROY goes backwards. Idempotent by its key. Operators; '
  'admins to destroy.';

create function private.cancel_set(p_set uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.cancel');
begin
  perform private.fail('RY409', 'Nothing of this set waits or runs.', 'Finished jobs cannot be cancelled.')
  where not private.is_set_open(p_set);
  perform private.lock_set(p_set);
  -- Cancelled again, it takes with it what was retried since.
  update public.job_sets set cancelled_at = now(), cancelled_by_label = private.caller_label(v_set.org_id)
  where id = p_set returning * into v_set;
  perform private.cancel_waiting(v_set, 500);
  perform private.settle_set(p_set);
  perform private.audited(to_jsonb(v_set), 'set.cancelled', v_set.type || ' ' || v_set.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.cancel_set is 'Cancels what waits of a set; what runs, finishes. Operators.';

-- The failed jobs of a set that may be retried, as many as one call accepts.
create function private.failed_jobs(p_set uuid) returns table (job_id bigint, module_id uuid) language sql stable as $$
  select j.id, j.module_id from private.set_members as m
  cross join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j
  join public.modules as o on o.id = j.module_id and o.deleted_at is null
  where m.set_id = p_set and j.status = 'FAILED' order by j.module_id limit 500
$$;

create function private.retry_set(p_set uuid) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.plan');
  v_modules pg_catalog.uuid[];
  v_job bigint;
  v_refusal pg_catalog.text;
  v_hint pg_catalog.text;
  v_retried integer := 0;
  v_left_out integer;
begin
  perform private.my_set(p_set, private.verb_to_run(v_set.type));
  -- Another retry of the set comes after this one; and states come before rows, as in the retry of one job.
  perform pg_advisory_xact_lock(private.lock_key('set', v_set.org_id::pg_catalog.text));
  v_modules := array(select f.module_id from private.failed_jobs(p_set) as f);
  perform private.lock_states(v_set.org_id, v_modules);
  for v_job in select f.job_id from private.failed_jobs(p_set) as f where f.module_id = any (v_modules) loop
    begin
      perform private.retry_job(v_job, 'Retry of what failed in a set.');
      v_retried := v_retried + 1;
    exception when others then
      if sqlstate not like 'RY%' then raise; end if;
      get stacked diagnostics v_hint = pg_exception_hint;
      v_refusal := sqlerrm;
    end;
  end loop;
  perform private.lock_set(p_set);
  update private.set_members set left_out = null where set_id = p_set and left_out <> 'cancelled' and job_id is null
    and because_of is null;
  get diagnostics v_left_out = row_count;
  perform private.settle_set(p_set);
  if v_retried + v_left_out = 0 and v_refusal is null then
    perform private.fail('RY409', 'No job of this set failed.',
      'A job that needs attention is resolved on its own page.');
  elsif v_retried + v_left_out = 0 then
    perform private.fail('RY409', format('No job of this set can be retried: %s', v_refusal), v_hint);
  end if;
  update public.job_sets set finished_at = null, cancelled_at = null, cancelled_by_label = null where id = p_set
    returning * into v_set;
  perform private.audited(to_jsonb(v_set), 'set.retried', v_set.type || ' ' || v_set.path,
    jsonb_build_object('jobs', v_retried + v_left_out));
  return private.set_json(v_set);
end;
$$;
comment on function private.retry_set is 'Retries what failed of a set; retries take its place. Operators.';

-- ## reviews
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
language sql stable as $$
  with recursive place (id, step) as (
    select m.module_id, 1 from private.set_members as m where m.set_id = p_set.id and m.waits_for = '{}'
    union
    select unnest(m.awaited_by), p.step + 1 from place as p cross join lateral (
      select * from private.set_members as m where m.set_id = p_set.id and m.module_id = p.id offset 0) as m
  ), step as materialized (
    select p.id, max(p.step) as step from place as p group by p.id
  )
  select m.module_id, coalesce(j.module_path, o.path), s.step, j.id, j.number, j.status, coalesce(j.plan_summary,
      (select p.plan_summary from public.provision_jobs as p where p.id = j.plan_job_id)),
    coalesce(j.payload #> '{options,preview}' = 'true', false), coalesce(m.left_out, j.error ->> 'message', w.problem),
    coalesce(a.id, j.id), a.number, a.status,
    case when w.problem is not null then null when coalesce(a.status, j.status) = 'AWAITING_APPROVAL' then 'approve'
      when p_set.type = 'PLAN' and j.status = 'SUCCEEDED' and private.is_applied_next(j.payload, j.plan_summary)
        and coalesce(a.status, 'FAILED') in ('FAILED', 'CANCELLED')
        and j.planned_serial = private.state_serial(m.module_id) then 'apply' end
  from private.set_members as m
  join step as s on s.id = m.module_id
  left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
  left join public.modules as o on o.id = m.module_id
  left join lateral (select a.id, a.number, a.status from public.provision_jobs as a where a.plan_job_id = j.id
    order by -a.id limit 1) as a on p_set.type = 'PLAN'
  left join lateral (select private.plan_promotion_problem(j) as problem) as w
    on j.type = 'PLAN' and private.is_applied_next(j.payload, j.plan_summary)
  where m.set_id = p_set.id
$$;

create function private.set_review(p_org uuid, p_set uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.read');
begin
  perform private.fail('RY404', 'There is no such set.') where v_set.org_id <> p_org;
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

-- Starts an ordered set that applies these reviewed plans of another set.
create function private.apply_plans(
  p_plans public.job_sets, p_modules uuid[], p_jobs bigint[], out v_set public.job_sets
) language plpgsql as $$
begin
  perform private.refuse_second_set(p_plans.org_id, 'APPLY', p_plans.path);
  insert into public.job_sets (org_id, type, path, options, created_by, created_by_label)
  values (p_plans.org_id, 'APPLY', p_plans.path, jsonb_build_object('priority', 150, 'reason',
    'Reviewed with its set.'), private.caller_id(), private.caller_label(p_plans.org_id)) returning * into v_set;
  perform private.add_members(v_set, p_modules);
  update private.set_members as m set plan_job_id = p.job_id
  from unnest(p_modules, p_jobs) as p (module_id, job_id) where m.set_id = v_set.id and m.module_id = p.module_id;
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audited(to_jsonb(v_set), 'set.started', 'APPLY ' || coalesce(nullif(v_set.path, ''), 'all modules'),
    jsonb_build_object('modules', cardinality(p_modules), 'plans', p_plans.id));
end;
$$;

create function private.confirm_set(p_set uuid, p_modules uuid[] default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.apply');
  v_row pg_catalog.record;
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
      perform private.need('job.apply', v_set.org_id, v_row.module_path);
      v_modules := v_modules || v_row.module_id;
      v_plans := v_plans || v_row.job_id;
      continue;
    end if;
    begin
      perform private.approve_job(v_row.awaited_id, 'approve');
      v_approved := v_approved + 1;
    exception when others then
      if sqlstate not like 'RY%' then raise; end if;
      v_refusals := v_refusals || jsonb_build_object('module_path', v_row.module_path, 'message', sqlerrm);
    end;
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

-- Cancels what waits of a cancelled set, so many jobs at most, and closes one that is done; one that fails costs nobody
-- else theirs. Returns how many jobs it looked at.
create function private.try_close(p_set public.job_sets, p_limit integer) returns integer language plpgsql as $$
declare
  v_count integer := 0;
begin
  if p_set.cancelled_at is not null then v_count := private.cancel_waiting(p_set, least(p_limit, 200)); end if;
  perform private.settle_set(p_set.id) where p_set.is_ordered and private.try_lock_set(p_set.id);
  if not private.is_set_open(p_set.id) then
    update public.job_sets set finished_at = now() where id = p_set.id and finished_at is null;
  end if;
  return v_count;
exception when others then
  raise warning 'sweep of set %: %', p_set.id, sqlerrm;
  return 0;
end;
$$;

-- Places jobs of sets, a batch for each organisation; cancels what waits of cancelled ones; closes what is done.
create function private.sweep_sets(out v_count integer) language plpgsql as $$
declare
  v_set public.job_sets;
  v_used pg_catalog.jsonb := '{}';
  v_left integer;
begin
  v_count := 0;
  -- Fifty for each organisation, two hundred in all: people's own jobs are enqueued between two sweeps, and come first
  -- by their priority as well. In any order, so that each has its turn.
  for v_set in select o.* from (
    select distinct on (s.org_id, s.type, s.options, s.created_by, s.created_by_label) s.* from public.job_sets as s
    where s.finished_at is null and s.cancelled_at is null and coalesce(s.starts_at <= now(), true)
      and exists (select from private.placeable_members as m where m.set_id = s.id offset 0)
    order by s.org_id, s.type, s.options, s.created_by, s.created_by_label, s.created_at) as o order by random() loop
    v_left := least(50 - coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0), 200 - v_count);
    continue when v_left <= 0;
    v_left := private.try_place(v_set, v_left);
    v_count := v_count + v_left;
    v_used := v_used || jsonb_build_object(v_set.org_id::pg_catalog.text,
      coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0) + v_left);
  end loop;
  -- Each job that is checked may leave an advisory lock until the end, of which a server has not many.
  v_left := 500;
  for v_set in select * from public.job_sets as s where s.finished_at is null order by random() limit 1000 loop
    v_left := v_left - private.try_close(v_set, v_left);
  end loop;
end;
$$;
