-- The answers to pages. Lists of runners, jobs and modules come a page at a time, with search, order and true counts:
-- REST cuts a table at a thousand rows. The list of events reads two indexes by time, no further than one page; a
-- search that finds little stops after a bound and marks its answer.

-- Refuses a page that nobody could turn to.
create function private.check_page(
  p_filters jsonb, p_known text[], p_sort text, p_sorts text[], p_limit integer, p_offset integer
) returns void language sql immutable as $$
  select private.refuse_unknown_keys(p_filters, p_known);
  select private.fail('RY422', 'There is no such order.', format('Orders: %s.', array_to_string(p_sorts, ', ')))
  where p_sort is null or p_sort <> all (p_sorts);
  select private.fail('RY422', 'A page has 1 to 200 rows and begins at 0 to 1,000,000.')
  where coalesce(p_limit, 0) not between 1 and 200 or coalesce(p_offset, -1) not between 0 and 1000000
$$;

-- The pattern of what somebody typed into a search box; null for nothing.
create function private.search_pattern(p_search text) returns text language sql immutable as $$
  select '%' || regexp_replace(nullif(trim(left(p_search, 200)), ''), '([\\%_])', '\\\1', 'g') || '%'
$$;

-- ## jobs
-- Running jobs first, then those that need somebody, then the queue, then what is over.
create function private.job_rank(p_status public.job_status) returns integer language sql immutable as $$
  select case when p_status in ('CLAIMED', 'PROCESSING') then 1 when p_status in ('NEEDS_ATTENTION',
    'AWAITING_APPROVAL') then 2
    when p_status = 'QUEUED' then 3 else 4 end
$$;

-- Counts the jobs of these types in an organisation, by status; of those that ended, 10,000 of each status at
-- most: there may be years of jobs. From the index alone: their rows are wide.
create function private.job_counts(p_org uuid, p_types public.job_type[]) returns jsonb
language plpgsql stable set search_path = '' set enable_seqscan = off as $$
begin
  return (select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
    select s.status, least(count(*), s.most) as n
    from (select s, case when s in ('SUCCEEDED', 'FAILED', 'CANCELLED') then 10000 end
      from unnest(enum_range(null::public.job_status)) as s) as s (status, most)
    cross join unnest(p_types) as t (type)
    cross join lateral (
      select from public.provision_jobs as k where k.org_id = p_org and k.status = s.status and k.type = t.type
        and not k.is_followed order by -k.id limit s.most
    ) as j group by s.status, s.most) as c);
end;
$$;

-- Jobs of a module or a runner, those of a set whose plans have changes, and those that a search finds.
-- By the indexes of modules and runners, also when a tenth of all jobs is found: the rows are wide.
create function private.jobs_about(
  p_org uuid, p_pattern text, p_search text, p_module uuid, p_worker uuid, p_set uuid, p_types text[], p_seen uuid[]
) returns table (id bigint, status public.job_status)
language plpgsql stable set search_path = '' set plan_cache_mode = force_custom_plan set enable_seqscan = off as $$
declare
  -- A search is part of a module's path, of a runner's name, or a job's number: few, and their jobs by an index.
  v_modules pg_catalog.uuid[] := case when p_pattern is null
    and num_nulls(p_module, p_worker, p_set) = 3 then p_seen when p_pattern is null then array[p_module] else array(
    select m.id from public.modules as m where m.org_id = p_org and m.path ilike p_pattern) end;
  v_workers pg_catalog.uuid[] := case when p_pattern is null then array[p_worker] else array(
    select w.id from public.workers as w where (w.org_id = p_org or w.is_shared) and w.name ilike p_pattern) end;
  v_number bigint := substring(p_search from '^\s*#?(\d{1,18})\s*$')::bigint;
  v_changed bigint[] := array(
    select m.job_id from private.set_members as m where m.set_id = p_set
      and (select p.plan_summary -> 'has_changes' from public.provision_jobs as p where p.id = m.job_id) = 'true');
begin
  return query select j.id, j.status from public.provision_jobs as j
  where j.org_id = p_org and (j.module_id = any (v_modules) or j.worker_id = any (v_workers) or j.number = v_number
      or j.id = any (v_changed) or j.plan_job_id = any (v_changed))
    and (p_seen is null or j.module_id = any (p_seen))
    and (p_set is null or j.id = any (v_changed) or j.plan_job_id = any (v_changed))
    and (p_module is null or j.module_id = p_module) and (p_worker is null or j.worker_id = p_worker)
    -- A run is one; a runner's list has a plan of its own only where another runner has the apply.
    and (not j.is_followed or p_worker is not null and not exists (
      select from public.provision_jobs as a where a.plan_job_id = j.id and a.worker_id = p_worker))
    and (p_types = '{}' or j.type::pg_catalog.text = any (p_types));
end;
$$;

-- A filter that is not set must not be in the plan: without it, the pages of the queue come from one index alone.
create function private.list_jobs(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'active', p_limit integer
  default 50, p_offset integer default 0, p_before bigint default null
) returns jsonb
language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  v_all public.job_status[] := enum_range(null::public.job_status);
  v_statuses public.job_status[];
  v_types pg_catalog.text[] := private.text_list(p_filters -> 'type');
  v_listed public.job_type[];
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_before bigint := coalesce(p_before, 9223372036854775807);
  v_counts pg_catalog.jsonb;
  v_shown bigint[];
  v_rows pg_catalog.jsonb;
  v_member pg_catalog.uuid;
  v_hidden bigint[] := '{}';
  v_found bigint[];
  v_others pg_catalog.jsonb;
  v_seen pg_catalog.uuid[] := private.need_modules(p_org);
begin
  perform private.check_page(p_filters, array['status', 'type', 'module_id', 'worker_id', 'changed_in', 'needs'],
    p_sort, array['active', 'newest'], p_limit, p_offset);
  v_statuses := coalesce(nullif(private.text_list(p_filters -> 'status')::public.job_status[], '{}'), v_all);
  v_listed := array(select t from unnest(enum_range(null::public.job_type)) as t
    where v_types = '{}' or t::pg_catalog.text = any (v_types));
  v_member := p_filters ->> 'needs';
  if v_member is not null then
    v_hidden := array(select o.job_id from private.waits_for_others(p_org, v_seen) as o
      where o.user_id = v_member);
    -- Nothing needs a member who may only read.
    v_statuses := array(select s from unnest(v_statuses) as s
      where private.may_anywhere('job.approve', p_org, v_member));
  end if;
  if v_pattern is null and v_seen is null
    and num_nulls(p_filters ->> 'module_id', p_filters ->> 'worker_id', p_filters ->> 'changed_in') = 3 then
    v_counts := private.job_counts(p_org, v_listed);
    -- Status by status and type by type: each is a stretch of that index, in order.
    v_shown := array(
      select j.id from (
        select s as status, case when p_sort = 'active' then private.job_rank(s) end as place
        from unnest(v_statuses) as s offset 0) as s cross join unnest(v_listed) as t (type)
      cross join lateral (
        select k.id from public.provision_jobs as k
        where k.org_id = p_org and k.status = s.status and k.type = t.type and -k.id > -v_before and not k.is_followed
          and k.id <> all (v_hidden)
        order by -k.id limit p_offset + p_limit
      ) as j
      order by s.place, j.id desc limit p_limit offset p_offset);
  else
    with about as materialized (
      select a.id, a.status from private.jobs_about(p_org, v_pattern, p_search,
        (p_filters ->> 'module_id')::pg_catalog.uuid, (p_filters ->> 'worker_id')::pg_catalog.uuid,
        (p_filters ->> 'changed_in')::pg_catalog.uuid, v_types, v_seen) as a
    )
    select (select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (select a.status, count(*) as n from about as a
      group by a.status) as c), array(
        -- A status is ranked once, not with each of its jobs: a search may find a hundred thousand.
        select a.id from about as a
        join (select r.status, case when p_sort = 'active' then private.job_rank(r.status) end as place
          from unnest(v_statuses) as r (status) offset 0) as r on r.status = a.status
        where a.id < v_before and a.id <> all (v_hidden)
        order by r.place, a.id desc limit p_limit offset p_offset),
      array(select a.id from about as a where a.status = 'AWAITING_APPROVAL')
    into v_counts, v_shown, v_found;
  end if;
  select coalesce(jsonb_object_agg(c.user_id, c.n), '{}') into v_others from (
    select o.user_id, count(*) as n from private.waits_for_others(p_org, v_seen) as o
    where o.type = any (v_listed) and (v_found is null or o.job_id = any (v_found)) group by o.user_id) as c;
  select coalesce(jsonb_agg(to_jsonb(j) - array['payload', 'result', 'late_report'] || jsonb_build_object(
    'target_name', coalesce((select w.name from public.workers as w where w.id = j.target_worker_id),
      (select c.repository from public.git_connections as c where c.id = j.target_connection_id)),
    -- The plan of a run whose apply is listed: how it ended, and how much it changes.
    'plan', (select jsonb_build_object('status', p.status, 'worker_name', p.worker_name, 'started_at', p.started_at,
      'finished_at', p.finished_at, 'plan_summary', p.plan_summary - array['resources', 'outputs'])
      from public.provision_jobs as p where p.id = j.plan_job_id and p.number = j.number)) order by s.place), '[]')
  into v_rows
  from unnest(v_shown) with ordinality as s (id, place) join public.provision_jobs as j on j.id = s.id;
  return jsonb_build_object('counts', v_counts, 'waits_for_others', v_others, 'rows', v_rows, 'total', (
    select coalesce(sum(c.value::bigint), 0) from jsonb_each_text(v_counts) as c
      where c.key::public.job_status = any (v_statuses))
    - case when 'AWAITING_APPROVAL' = any (v_statuses)
      then coalesce((v_others ->> v_member::pg_catalog.text)::bigint, 0) else 0 end);
exception when invalid_text_representation then
  perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_jobs is
  'A page of runs {total, counts by status, waits_for_others, rows}, running ones first or newest first: a plan that '
  'an apply follows is listed as that apply, with its plan; filters {status, type, module_id, worker_id, '
  'changed_in: a set whose plans have changes, needs: a member, without the approvals that this member cannot give}; '
  'a runner''s are all its jobs. waits_for_others counts such approvals by member.'
  ' Without a search, 10,000 of each final status are counted at most. Members.';

create function private.job_by_number(p_org uuid, p_number bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org);
  select coalesce(jsonb_agg(to_jsonb(j) order by j.id), '[]') from public.provision_jobs as j
  where j.org_id = p_org and j.number = p_number and private.sees_job(j)
$$;
comment on function private.job_by_number is
  'The jobs of a run, by its number in the organisation: the plan and the apply that follows it, or the only one; '
  'none where there is no such number. Members.';

-- The approvers of a job that its requester may not approve: 'others', or nobody ('alone': a reason will do); '' where
-- nothing keeps the requester from it.
create function private.own_approval(p_job public.provision_jobs) returns text language plpgsql stable as $$
begin
  if p_job.status <> 'AWAITING_APPROVAL' or p_job.approvals_required = 0
    or (select o.can_approve_own_jobs from public.organizations as o where o.id = p_job.org_id) then
    return '';
  end if;
  return case when (select bool_and(private.is_only_approver(p_job.org_id, p_job.module_path, r.user_id))
    from private.requesters(p_job) as r (user_id)) then 'alone' else 'others' end;
end;
$$;

-- The events of a job and of the plan that it applies, and the other jobs that their facts name.
create function private.job_history(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'events', to_jsonb(array(select e from public.job_events as e where e.job_id in (p_job.id, p_job.plan_job_id)
      order by e.id limit 500)),
    'comments', to_jsonb(array(select c from public.job_comments as c
      where c.job_id in (p_job.id, p_job.plan_job_id) order by c.id limit 200)),
    'approvals', to_jsonb(array(select a from public.approvals as a where a.job_id = p_job.id order by a.created_at)),
    'checks', to_jsonb(array(select c from public.policy_checks as c
      where c.job_id in (p_job.id, p_job.plan_job_id) order by length(c.path), c.name)),
    'numbers', (select coalesce(jsonb_object_agg(o.id, o.number), '{}') from public.provision_jobs as o
      where o.org_id = p_job.org_id and o.id in (p_job.plan_job_id, p_job.retry_of,
        substring(p_job.payload #>> '{options,inspects}' from '^[0-9]{1,18}$')::bigint)),
    -- A check is requested of a job that needs attention, which its events say; few have one.
    'checked_by', case when exists (
      select from public.job_events as e where e.job_id = p_job.id and e.to_status = 'NEEDS_ATTENTION') then (
      select c.number from public.provision_jobs as c where c.module_id = p_job.module_id and c.id > p_job.id
        and c.payload #>> '{options,inspects}' = p_job.id::pg_catalog.text order by c.id desc limit 1) end)
$$;

create function private.job_page(p_org uuid, p_number bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs;
  v_has_module boolean;
begin
  perform private.need_seen(p_org);
  select * into v_job from public.provision_jobs as j where j.org_id = p_org and j.number = p_number
    and private.sees_job(j)
  order by j.id desc limit 1;
  if v_job.id is null then return null; end if;
  v_has_module := exists (select from public.modules as m where m.id = v_job.module_id and m.deleted_at is null);
  return private.job_history(v_job) || jsonb_build_object(
    'job', to_jsonb(v_job),
    'plan', (select to_jsonb(p) from public.provision_jobs as p where p.id = v_job.plan_job_id),
    'own_approval', private.own_approval(v_job),
    'approvers', case when v_job.status = 'AWAITING_APPROVAL' then
      regexp_replace(private.holders('job.approve', p_org, v_job.module_path), ' ha(s|ve) it\.$', '') end,
    'requesters', (select coalesce(jsonb_agg(r.user_id), '[]') from private.requesters(v_job) as r (user_id)),
    'variables', private.given_variables(v_job.id),
    'state', case when v_has_module then private.state_info(v_job.module_id) end,
    'kept', case when v_has_module and v_job.type in ('APPLY', 'DESTROY') then private.kept_states(v_job.id) end,
    'why', case when v_job.status = 'QUEUED'
      then private.explain_queue(v_job.id) || jsonb_build_object('checked_at', now()) end,
    'target', (select w.name from public.workers as w where w.id = v_job.target_worker_id),
    'policy_test', case when v_job.type = 'POLICY_TEST' then private.found_in_plans(v_job) end,
    'record', case when v_job.finished_at is not null then private.record_status(v_job.id) end,
    -- A process that connected later under the same name may have other engines.
    'instance', (select jsonb_build_object('engines', i.engines, 'isolation', i.facts ->> 'isolation')
      from public.worker_instances as i where i.id = v_job.instance_id and i.connected_at <= v_job.claimed_at));
end;
$$;
comment on function private.job_page is
  'All that a run''s page shows, by its number in the organisation: the newest job, its plan, events, approvals, '
  'comments, state and lock, and while it is queued why it waits; null where there is no such number. Members.';

create function private.runner_page(p_org uuid, p_worker uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_seen pg_catalog.text[] := private.need_seen(p_org);
  v_workers pg_catalog.uuid[] := private.seen_workers(p_org);
begin
  select * into v_worker from public.workers as w where w.id = p_worker and (w.is_shared or w.org_id = p_org
    and (v_workers is null or w.id = any (v_workers)));
  perform private.fail('RY404', 'There is no such runner.') where v_worker.id is null;
  return jsonb_build_object(
    'instances', to_jsonb(array(
      select case when v_seen is null then to_jsonb(i) else to_jsonb(i) - 'last_error' end
      from public.worker_instances as i where i.worker_id = p_worker order by i.updated_at desc limit 50)),
    'events', to_jsonb(array(select e from public.worker_events as e where e.worker_id = p_worker and v_seen is null
      order by e.id desc limit 12)),
    'registered', (select to_jsonb(e) from public.worker_events as e
      where e.worker_id = p_worker and v_seen is null and e.event = 'registered' order by e.id limit 1),
    'service_account', (select a.name from public.service_accounts as a
      where a.id = v_worker.service_account_id and a.org_id = p_org and v_seen is null),
    'assignments', (select coalesce(jsonb_agg(jsonb_build_object('path', a.path,
        'is_module', not exists (select from public.groups as g where g.org_id = p_org and g.path = a.path)
          and exists (select from public.modules as m where m.org_id = p_org and m.path = a.path
            and m.deleted_at is null),
        'modules', (select count(*) from public.modules as m where m.org_id = p_org and m.deleted_at is null
          and starts_with(m.path, a.path || '/'))) order by a.path), '[]')
      from public.worker_assignments as a where a.worker_id = p_worker and a.org_id = p_org
        and private.is_seen(p_org, a.path, v_seen)),
    'decisions', to_jsonb(array(select d from public.scaling_decisions as d
      where d.worker_id = p_worker and d.org_id = p_org and v_seen is null order by d.id desc limit 10)),
    'history', private.worker_history(p_worker));
end;
$$;
comment on function private.runner_page is
  'What a runner''s page shows beside its row and its jobs: processes, events, who registered it, what it serves, '
  'scaling decisions, and its last day. Members.';

-- ## modules
-- The runners that may serve a module: assigned to it or above it, to all modules, shared, or pinned.
create function private.module_runners(p_module public.modules) returns jsonb language sql stable as $$
  with assigned as (
    select a.* from public.worker_assignments as a where a.org_id = p_module.org_id
      and a.path = any (private.path_prefixes(p_module.path)) limit 500
  )
  select jsonb_build_object(
    'assignments', to_jsonb(array(select to_jsonb(a) from assigned as a)),
    'workers', to_jsonb(array(
      select w from public.workers as w where w.removed_at is null and (w.is_shared or w.org_id = p_module.org_id
        and (w.is_assigned_to_all_modules or w.id = p_module.pinned_worker_id
          or w.id in (select a.worker_id from assigned as a))) order by w.name limit 200)))
$$;

-- The newest jobs of a module without their large parts, the status of the last one that changed something or looked
-- for drift, and the job that found the drift.
create function private.module_history(p_module public.modules) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'history', to_jsonb(array(select to_jsonb(j) - array['payload', 'late_report'] || jsonb_build_object(
        -- The progress of an apply is counted by its resources.
        'plan_summary', case when j.finished_at is null then j.plan_summary else j.plan_summary - 'resources' end,
        'source_kind', j.payload #>> '{module,source_kind}')
      from public.provision_jobs as j where j.module_id = p_module.id and not j.is_followed
      order by j.id desc limit 30)),
    'last_change', (select j.status from public.provision_jobs as j
      where j.module_id = p_module.id and j.type in ('APPLY', 'DESTROY', 'DRIFT') order by j.id desc limit 1),
    -- A look beside a held state tells nothing about the module.
    'drift', case when p_module.drift_since is not null then (
      select jsonb_build_object('id', j.id, 'number', j.number, 'plan_summary', j.plan_summary)
      from public.provision_jobs as j where j.module_id = p_module.id and j.status = 'SUCCEEDED'
        and (j.type = 'DRIFT' or j.payload #> '{options,refresh_only}' = 'true')
        and j.payload #> '{options,inspects}' is null order by j.id desc limit 1) end)
$$;

create function private.module_page(p_org uuid, p_module uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.read');
begin
  perform private.fail('RY404', 'There is no such module.', 'It may have been removed.') where v_module.org_id <> p_org;
  return private.module_runners(v_module) || private.module_history(v_module) || jsonb_build_object(
    'module', to_jsonb(v_module),
    'state', private.state_info(p_module),
    'resources', private.state_resources(p_module),
    'lock', (select to_jsonb(l) from public.module_locks as l where l.module_id = p_module),
    'evidence', private.lock_evidence(p_module),
    'readers', to_jsonb(array(
      select jsonb_build_object('id', m.id, 'path', private.shown_path(p_org, m.path), 'since', g.created_at)
      from public.output_grants as g join public.modules as m on m.id = g.reader_id and m.deleted_at is null
      where g.module_id = p_module order by m.path)),
    'dependencies', private.list_dependencies(p_org, v_module.path),
    'repository', private.module_repository(v_module));
end;
$$;
comment on function private.module_page is
  'All that a module''s page shows: its row, the runners that may serve it, state, resources, locks, readers of its '
  'outputs, dependencies, repository and newest jobs. Members.';

create function private.list_modules(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'path', p_limit integer
  default 50, p_offset integer default 0
) returns jsonb language plpgsql stable security definer set search_path = '' as $$
declare
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_group pg_catalog.text := p_filters ->> 'group_path';
  v_answer pg_catalog.jsonb;
  v_seen pg_catalog.text[] := private.need_seen(p_org);
begin
  perform private.check_page(p_filters, array['group_path', 'in_group', 'drift'], p_sort,
    array['path', '-path', 'newest'], p_limit, p_offset);
  with found as materialized (
    select m.id, m.path, m.group_path, m.created_at from public.modules as m
    where m.org_id = p_org and m.deleted_at is null and (v_pattern is null or m.path ilike v_pattern)
      and (v_seen is null or private.is_seen(p_org, m.path, v_seen))
      and (v_group is null or m.group_path = v_group or starts_with(m.group_path, v_group || '/'))
      and (not coalesce(p_filters ? 'in_group', false) or m.group_path = p_filters ->> 'in_group')
      and (p_filters -> 'drift' is distinct from 'true' or m.drift_since is not null)
  ), shown as (
    select f.id, row_number() over () as place from (
      select f.id from found as f order by case when p_sort = 'path' then f.path end, case when p_sort = '-path'
        then f.path end desc, case when p_sort = 'newest' then f.created_at end desc, f.id
          limit p_limit offset p_offset) as f
  )
  select jsonb_build_object(
    'total', (select count(*) from found),
    'drifted', (select count(*) from public.modules as d where d.org_id = p_org and d.drift_since is not null
      and d.deleted_at is null and (v_seen is null or private.is_seen(p_org, d.path, v_seen))),
    'counts', (select coalesce(jsonb_object_agg(c.group_path, c.n), '{}')
      from (select f.group_path, count(*) as n from found as f group by f.group_path order by f.group_path
        limit 1000) as c),
    'rows', (select coalesce(jsonb_agg(to_jsonb(m) - array['source', 'extra_files', 'hooks']
      || jsonb_build_object('last_job', (
        select jsonb_build_object('id', j.id, 'number', j.number, 'type', j.type, 'status', j.status,
          'finished_at', j.finished_at)
        from public.provision_jobs as j where j.module_id = m.id and j.type in ('APPLY', 'DESTROY', 'DRIFT')
        order by j.id desc limit 1)) order by s.place), '[]')
      from shown as s join public.modules as m on m.id = s.id)) into v_answer;
  return v_answer;
end;
$$;
comment on function private.list_modules is
  'A page of modules {total, drifted, counts by group, rows with their last apply, destroy or drift check}: search, '
  'filters {group_path, in_group, drift}, order path, -path, newest. Members.';

-- ## runners
-- The fleet by the page: what is wrong with which runner, how many there are of each kind, how far a rollout is, and
-- one change to many runners. After the releases, because the newest of them says who is out of date.
-- Runners with a free slot that take nothing, though a job has waited 2 minutes that the claim's rules would give them.
create function private.idle_workers(p_org uuid, p_workers uuid[]) returns setof uuid
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan as $$
begin
  return query
  with old as materialized (
    -- The first of each lane is enough; and mostly there is none.
    select l.id as lane_id from private.lanes as l
    cross join lateral (
      select q.job_id from private.live_jobs as q where q.lane_id = l.id
      order by q.ready_seq limit 1
    ) as head
    join public.provision_jobs as j on j.id = head.job_id and j.queued_at < now() - interval '2 minutes'
    where l.org_id = p_org and private.current_maintenance(p_org) is null
  ), idle as materialized (
    -- Runner by runner, by its index: a page asks for fifty of thousands.
    select w.id as worker_id, i.name, i.offer from public.workers as w
    cross join lateral (
      select i.name, i.offer, i.connected_at from private.instance_liveness as i
      where i.worker_id = w.id and i.is_fresh and not i.is_draining and i.used < i.capacity offset 0
    ) as i
    where exists (select from old) and (w.org_id = p_org or w.is_shared) and w.removed_at is null
      and (p_workers is null or w.id = any (p_workers)) and not w.is_disabled and not w.is_draining
      -- A runner that has just connected, or has just claimed a job, is about to claim the next one.
      and not coalesce(i.connected_at > now() - interval '2 minutes', false)
      and not exists (
        select from (select j.claimed_at from public.provision_jobs as j where j.worker_id = w.id
          order by j.id desc limit 1) as last where last.claimed_at > now() - interval '2 minutes')
  ), near as materialized (
    -- Thousands of runners share a few distances and offers: each is compared with its lane once.
    select d.lane_id, d.distance
    from (select distinct lw.lane_id, lw.distance from old as o join private.lane_workers as lw using (lane_id)) as d
    where d.distance = 0 or not exists (
      select from private.preferred_runners as p where p.lane_id = d.lane_id and p.distance < d.distance offset 0)
  ), offer as materialized (
    select o.offer, row_number() over () as number from (select distinct i.offer from idle as i) as o
  ), alike as (
    select n.lane_id, f.number, array_agg(i.worker_id) as workers
    from near as n join private.lane_workers as lw on lw.lane_id = n.lane_id and lw.distance = n.distance
    join idle as i on i.worker_id = lw.worker_id and (lw.instance_name is null or lw.instance_name = i.name)
    join offer as f on f.offer = i.offer
    group by n.lane_id, f.number
  )
  select distinct w.id from alike as a join offer as f on f.number = a.number
  join private.lanes as l on l.id = a.lane_id
  cross join lateral unnest(a.workers) as w (id)
  where private.shortfall(l, f.offer) is null;
end;
$$;

-- The problems of an organisation's runners, or of some of them: never_contacted, out_of_contact, degraded (and why),
-- clock_off (by how many seconds), takes_no_jobs, outdated, not_isolated; healthy where nothing is.
create function private.runner_health(p_org uuid, p_workers uuid[])
returns table (worker_id uuid, health text[], reason text, updates_itself boolean, clock_off integer)
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan as $$
begin
  return query
  with newest as materialized (
    select l.version, private.release_files(l.version) as files from private.latest_version() as l (version)
  ), fleet as materialized (
    select w.id, w.version, w.status, w.status_reason, w.never_contacted from public.workers as w
    where (w.org_id = p_org or w.is_shared) and w.removed_at is null and (p_workers is null or w.id = any (p_workers))
  ), older as materialized (
    -- Version by version: a fleet has few of them, and to compare two is expensive.
    select v.version from (select distinct f.version from fleet as f) as v
    cross join newest as n where private.is_version_less(v.version, n.version)
  ), idle as materialized (
    select i.id from private.idle_workers(p_org, p_workers) as i (id)
  ), said as (
    select f.id, f.status, t.reason, coalesce(t.updates_itself, false) as updates_itself, t.clock_off,
      array_remove(array[
      case when f.status = 'OFFLINE' and f.never_contacted then 'never_contacted' end,
      case when f.status = 'OFFLINE' and f.status_reason like 'No heartbeat%' then 'out_of_contact' end,
      case when t.reason is not null then 'degraded' end,
      case when t.clock_off <> 0 then 'clock_off' end,
      case when i.id is not null then 'takes_no_jobs' end,
      case when o.version is not null then 'outdated' end,
      case when t.is_open then 'not_isolated' end], null) as health
    from fleet as f cross join newest as n left join older as o on o.version = f.version
    left join idle as i on i.id = f.id
    -- Runner by runner, by its index: a page asks for fifty of thousands.
    cross join lateral (
      select bool_or(i.facts ->> 'isolation' in ('none', 'off')) as is_open,
        bool_and(coalesce(i.facts ->> 'self_update' = any (n.files), false)) as updates_itself,
        -- A runner that dispatches needs no engine of its own: its jobs use the image's.
        max(coalesce(i.facts #>> '{degraded,reason}', case when i.engine_note like 'no engine%'
          and coalesce(i.facts ->> 'dispatcher', 'local') = 'local' then 'No engine was found on it.' end)) as reason,
        -- The farthest from zero; an order of its own would sort once for each of thousands of runners.
        case when max((i.facts ->> 'clock_off')::integer) >= -min((i.facts ->> 'clock_off')::integer)
          then max((i.facts ->> 'clock_off')::integer) else min((i.facts ->> 'clock_off')::integer) end as clock_off
      from public.worker_instances as i where i.worker_id = f.id and i.status <> 'OFFLINE'
    ) as t
  )
  select s.id, case when s.health = '{}' and s.status <> 'OFFLINE' then '{healthy}' else s.health end, s.reason,
    s.updates_itself, s.clock_off
  from said as s;
end;
$$;

create function private.runner_facets(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org);
  with fleet as materialized (
    select w.id, w.is_shared, w.type, w.version, w.region, w.labels, w.is_draining or w.is_disabled as is_off, h.health,
      h.updates_itself
    from private.seen_workers(p_org) as n (seen) cross join lateral private.runner_health(p_org, case
      when n.seen is not null then n.seen || array(select s.id from public.workers as s where s.is_shared) end) as h
    join public.workers as w on w.id = h.worker_id
  ), value as (
    select 'version' as name, f.version as value from fleet as f
    union all
    select 'region', f.region from fleet as f
    union all
    select 'label', l from fleet as f cross join unnest(f.labels) as l
    union all
    select 'health', h from fleet as f cross join unnest(f.health) as h
  ), counted as (
    select v.name, v.value, count(*) as n,
      row_number() over (partition by v.name order by count(*) desc, v.value) as place
    from value as v where v.value is not null group by v.name, v.value
  )
  select jsonb_build_object('latest', private.latest_version(), 'counts', (
      select coalesce(jsonb_object_agg(c.name, c.counts), '{}') from (
        select c.name, jsonb_object_agg(c.value, c.n) as counts from counted as c where c.place <= 100 group by c.name
      ) as c),
    'updated_by_job', (
      select count(*) from fleet as f where not f.is_shared and 'outdated' = any (f.health)
        and (f.type = 'cloud-hosted' or f.updates_itself and not f.is_off)),
    'outdated', (select count(*) from fleet as f where not f.is_shared and 'outdated' = any (f.health)))
$$;
comment on function private.runner_facets is
  'How many runners each label, version, region and health has, 100 of each; the newest release, how many runners are '
  'older, and how many of those a job can update. Members.';

-- The connected processes of a runner, and apart from them what changes with every heartbeat.
create function private.runner_processes(p_worker uuid) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'left_at', max(i.disconnected_at),
    'processes', coalesce(jsonb_agg(jsonb_build_object('id', i.id, 'name', i.name, 'hostname', i.hostname,
      'status', i.status, 'version', i.version, 'capacity', i.capacity,
      'engines', coalesce((l.offer).engines, '{}'), 'engine_note', (l.offer).engine_note) order by i.name)
      filter (where i.status <> 'OFFLINE'), '[]'),
    'pulses', coalesce(jsonb_object_agg(i.id, jsonb_build_object('at', l.last_seen_at, 'used', l.used,
      'capacity', i.capacity)) filter (where i.status <> 'OFFLINE'), '{}'))
  from public.worker_instances as i join private.instance_liveness as l on l.instance_id = i.id
  where i.worker_id = p_worker
$$;

-- A filter that is not set must not be in the plan.
create function private.list_runners(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'name', p_limit integer
  default 50, p_offset integer default 0
) returns jsonb
language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_statuses pg_catalog.text[] := private.text_list(p_filters -> 'status');
  v_types pg_catalog.text[] := private.text_list(p_filters -> 'type');
  v_labels pg_catalog.text[] := private.text_list(p_filters -> 'label');
  v_versions pg_catalog.text[] := private.text_list(p_filters -> 'version');
  v_regions pg_catalog.text[] := private.text_list(p_filters -> 'region');
  v_health pg_catalog.text[] := private.text_list(p_filters -> 'health');
  v_ids pg_catalog.uuid[];
  v_workers pg_catalog.uuid[];
  v_answer pg_catalog.jsonb;
begin
  perform private.need_seen(p_org);
  v_workers := private.seen_workers(p_org);
  perform private.check_page(p_filters, array['id', 'status', 'type', 'label', 'version', 'region', 'health'], p_sort,
    array['name', '-name', 'status', 'newest'], p_limit, p_offset);
  if p_filters ? 'id' then v_ids := private.text_list(p_filters -> 'id')::pg_catalog.uuid[]; end if;
  if v_health <> '{}' then
    v_ids := array(select h.worker_id from private.runner_health(p_org, v_ids) as h where h.health && v_health);
  end if;
  with found as materialized (
    select w.id, w.is_shared, lower(w.name) as name, w.status, w.created_at from public.workers as w
    where (w.org_id = p_org or w.is_shared) and w.removed_at is null and (v_ids is null or w.id = any (v_ids))
      and (v_workers is null or w.is_shared or w.id = any (v_workers))
      and (v_pattern is null or w.name ilike v_pattern or array_to_string(w.labels, ' ') ilike v_pattern)
      and w.labels @> v_labels
      and (v_versions = '{}' or w.version = any (v_versions))
      and (v_regions = '{}' or w.region = any (v_regions))
      and (v_types = '{}' or w.type::pg_catalog.text = any (v_types))
  ), kept as (
    select f.* from found as f where v_statuses = '{}' or f.status::pg_catalog.text = any (v_statuses)
  ), shown as materialized (
    select k.id, row_number() over () as place from (
      select k.id from kept as k order by case when p_sort = 'status' then k.status end,
        case when p_sort = 'name' then k.is_shared end, case when p_sort in ('name', 'status') then k.name end,
        case when p_sort = '-name' then k.name end desc, case when p_sort = 'newest' then k.created_at end desc, k.id
      limit p_limit offset p_offset) as k
  )
  select jsonb_build_object(
    'total', (select count(*) from kept),
    'counts', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}')
      from (select f.status, count(*) as n from found as f group by f.status) as c),
    'rows', (
      select coalesce(jsonb_agg(to_jsonb(w) || private.runner_processes(w.id) || jsonb_build_object(
        'last_seen_at', l.last_seen_at, 'used', l.used, 'slots', coalesce(nullif(l.capacity, 0), w.capacity),
        'instances', l.fresh, 'live_status', l.status, 'health', h.health, 'health_reason', h.reason,
        'updates_itself', h.updates_itself, 'clock_off', h.clock_off) order by s.place), '[]')
      from shown as s join public.workers as w on w.id = s.id
      join private.worker_liveness as l on l.worker_id = s.id
      join private.runner_health(p_org, array(select s.id from shown as s)) as h on h.worker_id = s.id))
  into v_answer;
  return v_answer;
exception when invalid_text_representation then
  perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_runners is
  'A page of runners {total, counts by status, rows with load, health and processes}: search, filters as lists {id, '
  'status, type, label, version, region, health}, order name, -name, status, newest. Members.';

create function private.rollout_progress(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org);
  with rollout as (
    select r.* from public.rollouts as r
    where r.org_id = p_org and r.status in ('RUNNING', 'PAUSED') and private.seen(p_org) is null
  ), latest as (
    select distinct on (j.target_worker_id) j.target_worker_id::pg_catalog.text as worker_id, j.status
    from rollout as r join public.provision_jobs as j on j.rollout_id = r.id
    order by j.target_worker_id, j.id desc
  )
  select jsonb_build_object('id', r.id, 'version', r.version, 'status', r.status, 'wave', r.wave, 'reason', r.reason,
    'waves', (
      select coalesce(jsonb_agg(jsonb_build_object('runners', w.runners, 'done', w.done, 'failed', w.failed)
        order by w.place), '[]')
      from (
        select x.place, count(*) as runners, count(*) filter (where l.status = 'SUCCEEDED') as done,
          count(*) filter (where l.status in ('FAILED', 'CANCELLED', 'NEEDS_ATTENTION')) as failed
        from jsonb_array_elements(r.waves) with ordinality as x (wave, place)
        cross join jsonb_array_elements_text(x.wave) as m (worker_id)
        left join latest as l on l.worker_id = m.worker_id group by x.place
      ) as w))
  from rollout as r
$$;
comment on function private.rollout_progress is
  'The rollout that is under way, with how many runners of each wave are done or failed; null when none is. Members.';

-- Events of jobs that are meant, newest first, among the newest p_most of that time.
create function private.job_events_about(
  p_org uuid, p_pattern text, p_filters jsonb, p_workers uuid[], p_since timestamptz, p_until timestamptz, p_most
  integer, p_seen uuid[]
) returns table (
  kind text, id bigint, at timestamptz, event text, reason text, actor text, worker_id uuid, job_id bigint, attempt
  integer, to_status public.job_status
)
language sql stable as $$
  -- A phase has no reason; which one it is says more than nothing. Only those who choose the event get them.
  select 'job', e.id, e.at, e.event, coalesce(e.reason, case e.event when 'phase' then e.detail ->> 'phase' end),
    e.actor_label, case when e.actor_kind = 'worker' then e.actor_id
    else (e.detail ->> 'worker_id')::pg_catalog.uuid end, e.job_id, e.attempt, e.to_status
  from (
    select * from public.job_events as j where j.org_id = p_org and j.at >= p_since and j.at < p_until
      and (p_filters ? 'event' or j.event <> 'phase')
      and (p_filters ->> 'job' is null or j.job_id = any (array(
        select k.id from public.provision_jobs as k where k.org_id = p_org
          and k.number = (p_filters ->> 'job')::bigint)))
      and (p_seen is null or j.job_id in (select k.id from public.provision_jobs as k where k.module_id = any (p_seen)))
    order by j.at desc, j.id desc limit p_most
  ) as e
  where (p_filters -> 'event' is null or e.event = any (private.text_list(p_filters -> 'event')))
    and (p_filters ->> 'worker_id' is null or e.actor_id = (p_filters ->> 'worker_id')::pg_catalog.uuid
      or e.detail ->> 'worker_id' = p_filters ->> 'worker_id')
    and (p_pattern is null or e.event ilike p_pattern or e.reason ilike p_pattern or e.actor_label ilike p_pattern
      or e.actor_id = any (p_workers))
$$;

-- Events of runners that are meant, newest first, among the newest p_most of that time.
create function private.runner_events_about(
  p_org uuid, p_pattern text, p_filters jsonb, p_workers uuid[], p_since timestamptz, p_until timestamptz, p_most
  integer
) returns table (
  kind text, id bigint, at timestamptz, event text, reason text, actor text, worker_id uuid, job_id bigint, attempt
  integer, to_status public.job_status
)
language sql stable as $$
  select 'runner', e.id, e.at, e.event, e.reason, e.instance_name, e.worker_id, null::bigint, null::integer,
    null::public.job_status
  from (
    select * from public.worker_events as w where w.org_id = p_org and w.at >= p_since and w.at < p_until
      and (p_filters ->> 'worker_id' is null or w.worker_id = (p_filters ->> 'worker_id')::pg_catalog.uuid)
    order by w.at desc, w.id desc limit p_most
  ) as e
  where p_filters ->> 'job' is null
    and (p_filters -> 'event' is null or e.event = any (private.text_list(p_filters -> 'event')))
    and (p_pattern is null or e.event ilike p_pattern or e.reason ilike p_pattern or e.instance_name ilike p_pattern
      or e.worker_id = any (p_workers))
$$;

-- A filter that is not set must not be in the plan.
create function private.list_events(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_limit integer default 50, p_offset integer
  default 0
) returns jsonb
language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  -- Without a filter, the page itself; else so many rows are searched.
  v_most integer := 50000;
  v_kinds pg_catalog.text[] := private.text_list(p_filters -> 'kind');
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_since pg_catalog.timestamptz;
  v_until pg_catalog.timestamptz;
  v_workers pg_catalog.uuid[];
  v_rows pg_catalog.jsonb;
  v_seen pg_catalog.uuid[] := private.need_modules(p_org);
begin
  perform private.check_page(p_filters, array['kind', 'event', 'worker_id', 'job', 'since', 'until'], 'newest',
    array['newest'], p_limit, p_offset);
  perform private.fail('RY422', 'Events are turned over up to the ten thousandth.',
    'Choose an earlier end of the time, and begin again.') where p_offset > 10000;
  v_since := coalesce((p_filters ->> 'since')::pg_catalog.timestamptz, '-infinity');
  v_until := coalesce((p_filters ->> 'until')::pg_catalog.timestamptz, 'infinity');
  -- Without an event, PostgreSQL 15 evaluates no filter.
  perform (p_filters ->> 'worker_id')::pg_catalog.uuid, (p_filters ->> 'job')::bigint;
  v_workers := case when v_pattern is not null then array(
    select w.id from public.workers as w where w.org_id = p_org and w.name ilike v_pattern) end;
  if v_pattern is null and not coalesce(p_filters ?| array['event', 'worker_id'], false) then
    v_most := p_offset + p_limit + 1;
  end if;
  with found as (
    (select * from private.job_events_about(p_org, v_pattern, p_filters, v_workers, v_since, v_until, v_most,
        v_seen) as j
      where v_kinds = '{}' or 'job' = any (v_kinds) limit p_offset + p_limit + 1)
    union all
    (select * from private.runner_events_about(p_org, v_pattern, p_filters, v_workers, v_since, v_until, v_most) as r
      where v_seen is null and (v_kinds = '{}' or 'runner' = any (v_kinds)) limit p_offset + p_limit + 1)
  ), shown as (
    select f.* from found as f order by f.at desc, f.kind, f.id desc limit p_limit + 1 offset p_offset
  )
  select coalesce(jsonb_agg(to_jsonb(s) || jsonb_build_object(
      'worker_name', (select w.name from public.workers as w where w.id = s.worker_id), 'module_path',
      j.module_path, 'job_number', j.number)
    order by s.at desc, s.kind, s.id desc), '[]') into v_rows
  from shown as s left join public.provision_jobs as j on j.id = s.job_id;
  return jsonb_build_object('rows', v_rows - p_limit, 'has_more', jsonb_array_length(v_rows) > p_limit);
exception when invalid_text_representation or invalid_datetime_format or datetime_field_overflow
  or numeric_value_out_of_range then
  perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_events is
  'Events of runners and jobs {rows, has_more}, newest first; the search is in event, reason, who, instance and '
  'runner, among the newest 50,000 of each kind; filters {kind: job or runner, event, worker_id, job (a number), '
  'since, until}. Members.';
