-- What pages list: runners, jobs and modules, a page at a time, with search, order and true counts. A table that REST
-- cuts at a thousand rows is no list: what is beyond would not exist for the reader.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.check_page(p_filters jsonb, p_known text[], p_sort text, p_sorts text[], p_limit integer,
  p_offset integer)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  perform private.refuse_unknown_keys(p_filters, p_known);
  if p_sort is null or p_sort <> all (p_sorts) then
    perform private.fail('RY422', 'There is no such order.', format('Orders: %s.', array_to_string(p_sorts, ', ')));
  end if;
  if coalesce(p_limit, 0) not between 1 and 200 or coalesce(p_offset, -1) not between 0 and 1000000 then
    perform private.fail('RY422', 'A page has 1 to 200 rows and begins at 0 to 1,000,000.');
  end if;
end;
$$;
comment on function private.check_page(jsonb, text[], text, text[], integer, integer) is
  'Refuses a page that nobody could turn to.';

create function private.search_pattern(p_search text)
returns text
language sql immutable
set search_path = ''
as $$
  select '%' || regexp_replace(nullif(trim(left(p_search, 200)), ''), '([\\%_])', '\\\1', 'g') || '%'
$$;
comment on function private.search_pattern(text) is
  'The pattern of what somebody typed into a search box; null for nothing.';

-- ---------------------------------------------------------------------------------------------- jobs

create function private.job_rank(p_status public.job_status)
returns integer
language sql immutable
set search_path = ''
as $$
  select case when p_status in ('CLAIMED', 'PROCESSING') then 1 when p_status in ('NEEDS_ATTENTION',
    'AWAITING_APPROVAL') then 2
    when p_status = 'QUEUED' then 3 else 4 end
$$;
comment on function private.job_rank(public.job_status) is
  'Running jobs first, then those that need somebody, then the queue, then what is over.';

create function private.job_counts(p_org uuid, p_types text[])
returns jsonb
language plpgsql stable
set search_path = ''
-- From the index alone: there may be years of jobs, and their rows are wide.
set enable_seqscan = off
as $$
begin
  if p_types = '{}' then
    return (select coalesce(jsonb_object_agg(c.status, c.n), '{}')
      from (select j.status, count(*) as n from public.provision_jobs as j where j.org_id = p_org
        group by j.status) as c);
  end if;
  return (select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
    select j.status, count(*) as n from public.provision_jobs as j
    where j.org_id = p_org and j.type::pg_catalog.text = any (p_types) group by j.status) as c);
end;
$$;
comment on function private.job_counts(uuid, text[]) is
  'How many jobs of an organisation there are, by status; of some types, where they are named.';

create function private.jobs_about(p_org uuid, p_pattern text, p_search text, p_module uuid, p_worker uuid,
  p_types text[])
returns table (id bigint, status public.job_status)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_custom_plan
-- By the indexes of modules and runners, also when a tenth of all jobs is found: the rows are wide.
set enable_seqscan = off
as $$
declare
  -- What somebody types is part of a module's path or of a runner's name, or a job's number: few of those, and their
  -- jobs by an index.
  v_modules pg_catalog.uuid[] := case when p_pattern is null then array[p_module] else array(
    select m.id from public.modules as m where m.org_id = p_org and m.path ilike p_pattern) end;
  v_workers pg_catalog.uuid[] := case when p_pattern is null then array[p_worker] else array(
    select w.id from public.workers as w where (w.org_id = p_org or w.is_shared) and w.name ilike p_pattern) end;
  v_number bigint := substring(p_search from '^\s*#?(\d{1,18})\s*$')::bigint;
begin
  return query select j.id, j.status from public.provision_jobs as j
  where j.org_id = p_org and (j.module_id = any (v_modules) or j.worker_id = any (v_workers) or j.id = v_number)
    and (p_module is null or j.module_id = p_module) and (p_worker is null or j.worker_id = p_worker)
    and (p_types = '{}' or j.type::pg_catalog.text = any (p_types));
end;
$$;
comment on function private.jobs_about(uuid, text, text, uuid, uuid, text[]) is
  'Jobs of a module or a runner, and those that a search finds.';

create function private.list_jobs(
  p_org uuid, p_search text, p_filters jsonb, p_sort text, p_limit integer, p_offset integer, p_before bigint
)
returns jsonb
language plpgsql stable security definer
set search_path = ''
-- What is not asked for must not be in the plan: with it, the pages of the queue come from one index alone.
set plan_cache_mode = force_custom_plan
as $$
declare
  v_all public.job_status[] := enum_range(null::public.job_status);
  v_statuses public.job_status[];
  v_types pg_catalog.text[] := private.text_list(p_filters -> 'type');
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_before bigint := coalesce(p_before, 9223372036854775807);
  v_counts pg_catalog.jsonb;
  v_shown bigint[];
  v_rows pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  perform private.check_page(p_filters, array['status', 'type', 'module_id', 'worker_id'], p_sort,
    array['active', 'newest'], p_limit, p_offset);
  v_statuses := coalesce(nullif(private.text_list(p_filters -> 'status')::public.job_status[], '{}'), v_all);
  if v_pattern is null and num_nulls(p_filters ->> 'module_id', p_filters ->> 'worker_id') = 2 then
    v_counts := private.job_counts(p_org, v_types);
    -- Status by status: each is a stretch of that index, in order.
    v_shown := array(
      select j.id from unnest(v_statuses) as s (status)
      cross join lateral (
        select k.id, k.status from public.provision_jobs as k
        where k.org_id = p_org and k.status = s.status and k.id < v_before
          and (v_types = '{}' or k.type::pg_catalog.text = any (v_types))
        order by k.id desc limit p_offset + p_limit
      ) as j
      order by case when p_sort = 'active' then private.job_rank(j.status) end, j.id desc
        limit p_limit offset p_offset);
  else
    with about as materialized (
      select a.id, a.status from private.jobs_about(p_org, v_pattern, p_search,
        (p_filters ->> 'module_id')::pg_catalog.uuid, (p_filters ->> 'worker_id')::pg_catalog.uuid, v_types) as a
    )
    select (select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (select a.status, count(*) as n from about as a
      group by a.status) as c), array(
        -- A status is ranked once, not with each of its jobs: a search may find a hundred thousand.
        select a.id from about as a
        join (select r.status, private.job_rank(r.status) as place from unnest(v_statuses) as r (status) offset 0) as r
          on r.status = a.status
        where a.id < v_before order by case when p_sort = 'active' then r.place end, a.id desc
          limit p_limit offset p_offset)
    into v_counts, v_shown;
  end if;
  select coalesce(jsonb_agg(to_jsonb(j) - array['payload', 'result', 'late_report'] || jsonb_build_object(
    'target_name', (select w.name from public.workers as w where w.id = j.target_worker_id)) order by s.place), '[]')
  into v_rows
  from unnest(v_shown) with ordinality as s (id, place) join public.provision_jobs as j on j.id = s.id;
  return jsonb_build_object('counts', v_counts, 'rows', v_rows, 'total', (
    select coalesce(sum(c.value::bigint), 0) from jsonb_each_text(v_counts) as c
      where c.key::public.job_status = any (v_statuses)));
exception
  when invalid_text_representation then
    perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_jobs(uuid, text, jsonb, text, integer, integer, bigint) is 'Body of public.list_jobs.';
grant execute on function private.list_jobs(uuid, text, jsonb, text, integer, integer, bigint) to authenticated;

-- ---------------------------------------------------------------------------------------------- modules

create function private.list_modules(p_org uuid, p_search text, p_filters jsonb, p_sort text, p_limit integer,
  p_offset integer)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_group pg_catalog.text := p_filters ->> 'group_path';
  v_answer pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  perform private.check_page(p_filters, array['group_path', 'in_group', 'drift'], p_sort,
    array['path', '-path', 'newest'], p_limit, p_offset);
  with found as materialized (
    select m.id, m.path, m.group_path, m.created_at from public.modules as m
    where m.org_id = p_org and m.deleted_at is null and (v_pattern is null or m.path ilike v_pattern)
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
      and d.deleted_at is null),
    'counts', (select coalesce(jsonb_object_agg(c.group_path, c.n), '{}')
      from (select f.group_path, count(*) as n from found as f group by f.group_path order by f.group_path
        limit 1000) as c),
    'rows', (select coalesce(jsonb_agg(to_jsonb(m) - array['source', 'inputs', 'env', 'extra_files', 'hooks']
      || jsonb_build_object('last_job', (
        select jsonb_build_object('id', j.id, 'type', j.type, 'status', j.status, 'finished_at', j.finished_at)
        from public.provision_jobs as j where j.module_id = m.id order by j.id desc limit 1)) order by s.place), '[]')
      from shown as s join public.modules as m on m.id = s.id)) into v_answer;
  return v_answer;
end;
$$;
comment on function private.list_modules(uuid, text, jsonb, text, integer, integer) is 'Body of public.list_modules.';
grant execute on function private.list_modules(uuid, text, jsonb, text, integer, integer) to authenticated;

revoke execute on all functions in schema private from public;
