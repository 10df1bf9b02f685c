-- Terraform and OpenTofu with `cloud {}`: what the edge function `terraform` cannot read with other calls. A workspace
-- `a.b.c` is the module `a/b/c`, a tag is the name of a group on that path, a project is a group, and a run is a plan
-- with the apply that follows it, under the plan's id. Whatever a terminal does, it does with the calls of the page.

-- ## workspaces
-- A module as the terminals see it, with what the caller may do there.
create function private.terminal_workspace(p_module public.modules) returns jsonb language sql stable as $$
  select to_jsonb(p_module) - array['source', 'extra_files', 'hooks', 'contents'] || jsonb_build_object(
    'organization', (select o.slug from public.organizations as o where o.id = p_module.org_id),
    'has_code', p_module.source <> '{"files": {}}',
    'has_state', exists (select from private.states as s where s.module_id = p_module.id),
    'lock', (select jsonb_build_object('label', l.user_label, 'reason', l.reason) from public.module_locks as l
      where l.module_id = p_module.id),
    'run_id', (select case when j.type = 'PLAN' then j.id else j.plan_job_id end from private.live_jobs as q
      join public.provision_jobs as j on j.id = q.job_id and j.module_id = p_module.id
      where q.state_key = p_module.id and q.stage <> 'WAITING' limit 1),
    'verbs', array(select v.verb from private.verbs as v
      where private.is_allowed(v.verb, p_module.org_id, p_module.path)))
$$;

-- The first and the last id that begin with these digits: programs name a module or a group by no more than sixteen.
create function private.ids_from(p_digits text) returns uuid[] language sql immutable as $$
  select array[rpad(d, 32, '0'), rpad(d, 32, 'f')]::pg_catalog.uuid[]
  from (select substring(replace(p_digits, '-', '') from '^[0-9a-f]{1,32}$') as d) as s
$$;

create function private.terminal_workspaces(
  p_slug text, p_path text default null, p_module text default null, p_search text default '',
  p_tags text[] default '{}', p_group text default null, p_page integer default 1
) returns jsonb language plpgsql stable security definer set search_path = '' as $$
declare
  v_org public.organizations;
  v_found pg_catalog.uuid[];
  v_seen pg_catalog.text[];
  v_page integer := least(greatest(p_page, 1), 10000);
  v_module pg_catalog.uuid[] := private.ids_from(p_module);
  v_group pg_catalog.uuid[] := private.ids_from(p_group);
begin
  select o.* into v_org from public.organizations as o
  where o.id in (select private.my_org_ids()) and (o.slug = p_slug or p_slug is null
    and o.id in (select m.org_id from public.modules as m where m.id between v_module[1] and v_module[2]
      and m.deleted_at is null and private.may_see(m.org_id, m.path)
      union all select g.org_id from public.groups as g where g.id between v_group[1] and v_group[2]
      and private.may_see(g.org_id, g.path)));
  v_seen := private.need_seen(v_org.id);
  v_found := array(
    select m.id from public.modules as m
    where m.org_id = v_org.id and m.deleted_at is null and m.path = coalesce(p_path, m.path)
      and (p_module is null or m.id between v_module[1] and v_module[2])
      and position(lower(p_search) in replace(m.path, '/', '.')) > 0
      and string_to_array(m.group_path, '/') @> p_tags
      and (p_group is null or private.is_at_or_below(m.group_path, (select g.path from public.groups as g
        where g.id between v_group[1] and v_group[2] and g.org_id = v_org.id limit 1)))
      and (v_seen is null or private.is_seen(m.org_id, m.path, v_seen))
    order by m.path);
  return jsonb_build_object(
    'organization', jsonb_build_object('id', v_org.id, 'slug', v_org.slug, 'name', v_org.name),
    'groups', to_jsonb(array(select jsonb_build_object('id', g.id, 'path', g.path) from public.groups as g
      where g.org_id = v_org.id and p_path = '' and private.is_seen(g.org_id, g.path, v_seen) order by g.path)),
    'total', cardinality(v_found), 'workspaces', to_jsonb(array(
      select private.terminal_workspace(m) from public.modules as m
      where m.id = any (v_found[v_page * 100 - 99 : v_page * 100]) order by m.path)));
end;
$$;
comment on function private.terminal_workspaces is
  'An organisation and its modules as workspaces of a terminal, a hundred per page: by path, first digits of the id, '
  'words in the path, names of groups above, or a group; with the path "" its groups. Members.';

-- ## runs
-- The newest apply of a plan. "-id", so that no plan reads the primary key of all jobs from its end.
create function private.apply_of(p_plan bigint) returns public.provision_jobs language sql stable as $$
  select j from public.provision_jobs as j where j.plan_job_id = p_plan order by -j.id limit 1
$$;

-- Why the caller cannot apply a finished plan that nobody has applied, in words; null where nothing is in the way.
create function private.apply_problem(p_plan public.provision_jobs) returns text language plpgsql stable as $$
declare
  v_hint pg_catalog.text;
begin
  perform private.need('job.apply', p_plan.org_id, p_plan.module_path);
  perform private.check_saved_plan(p_plan.org_id, 'APPLY', p_plan.module_id, p_plan.id);
  perform private.refuse_locked_modules(array[p_plan.module_id], p_plan.id);
  return null;
exception when others then
  if not starts_with(sqlstate, 'RY') then raise; end if;
  get stacked diagnostics v_hint = pg_exception_hint;
  return sqlerrm || ' ' || v_hint;
end;
$$;

-- A plan that the caller may read.
create function private.my_run(p_run bigint, out v_plan public.provision_jobs) language plpgsql stable as $$
begin
  select * into v_plan from public.provision_jobs
  where id = p_run and type = 'PLAN' and private.may_see(org_id, module_path);
  perform private.fail('RY404', 'There is no such run.', 'A run has the id of its plan.') where v_plan.id is null;
  perform private.need('job.read', v_plan.org_id, v_plan.module_path);
end;
$$;

-- The checks of a plan that it failed and that somebody may override, or has.
create function private.failed_checks(p_plan bigint) returns setof public.policy_checks language sql stable as $$
  select c from public.policy_checks as c join public.provision_jobs as j on j.id = c.job_id and j.attempt = c.attempt
  where j.id = p_plan and j.status = 'SUCCEEDED' and c.level = 'overridable' and c.verdict in ('failed', 'error')
$$;

-- A plan and its apply as a terminal sees them.
create function private.run_row(p_plan public.provision_jobs, p_is_whole boolean) returns jsonb
language sql stable as $$
  select jsonb_build_object('id', p_plan.id, 'number', p_plan.number, 'module_id', p_plan.module_id,
    'status', p_plan.status, 'apply_status', a.status, 'apply_id', a.id, 'is_confirmation',
    coalesce(a.status = 'AWAITING_APPROVAL' and a.approvals_required = 0, false), 'message', p_plan.message,
    'created_at', p_plan.created_at, 'summary', p_plan.plan_summary, 'options', p_plan.payload -> 'options',
    'has_changes', coalesce(p_plan.plan_summary -> 'has_changes' = 'true', false),
    'checks', case when a.id is null then (
      select jsonb_agg(jsonb_build_object('name', c.name, 'text', coalesce(c.messages #>> '{0,text}', c.verdict),
        'overridden_by', c.overridden_label, 'reason', c.override_reason) order by c.name)
      from private.failed_checks(p_plan.id) as c) end,
    'problem', case when p_is_whole and p_plan.status = 'SUCCEEDED' and a.id is null
      then private.apply_problem(p_plan) end,
    'discarded_at', d.discarded_at, 'is_discardable', d.discarded_at is null
      and coalesce(a.status = 'AWAITING_APPROVAL', private.is_discardable(p_plan)),
    'may_discard', private.is_allowed('job.approve', p_plan.org_id, p_plan.module_path),
    'may_apply', private.is_allowed('job.apply', p_plan.org_id, p_plan.module_path),
    'may_cancel', private.is_allowed('job.cancel', p_plan.org_id, p_plan.module_path))
  from (select (private.apply_of(p_plan.id)).*) as a, private.discarded_at(p_plan.id) as d (discarded_at)
$$;

create function private.terminal_run(p_run bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.run_row(private.my_run(p_run), true)
$$;
comment on function private.terminal_run is 'A plan and its apply as a terminal''s run, and its obstacles. Members.';

create function private.terminal_runs(p_module uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select to_jsonb(array(select private.run_row(j, false) from public.provision_jobs as j
    where j.module_id = m.id and j.type = 'PLAN' order by j.id desc limit 20))
  from private.my_module(p_module, 'job.read') as m
$$;
comment on function private.terminal_runs is 'The newest 20 runs of a module, as a terminal sees them. Members.';

-- ## logs
-- The approvals that an apply still needs, and the page where they are given.
create function private.needs_approvals(p_count integer, p_url text) returns text language sql immutable as $$
  select format('Needs %s more %s: open %s', p_count, case p_count when 1 then 'approval' else 'approvals' end, p_url)
$$;

-- The lines before an apply's log: three lines that the programs leave out, and what it waits for. It only grows, so
-- that a reader can continue where it was: approvals end with an override, their events stay.
create function private.apply_words(p_job public.provision_jobs, p_url text) returns text language sql stable as $$
  select format(E'Run %s\n%s\n\n', p_job.number, p_url)
    || case when exists (select from private.failed_checks(p_job.plan_job_id) as c
        where c.overridden_at is null or c.overridden_at > p_job.created_at)
      then format(E'Needs an override of a policy check: open %s\n', p_url) else '' end
    || case when p_job.approvals_required > 0 then private.needs_approvals(p_job.approvals_required, p_url) || E'\n'
      when p_job.needs_confirmation then format(E'Needs a confirmation: open %s\n', p_url) else '' end
    || coalesce((
      select string_agg(case e.event when 'rejected' then format('Rejected by %s. %s', e.actor_label, e.reason)
        when 'check_overridden' then format('Overridden by %s. %s', e.actor_label, e.reason)
        when 'approval' then format('Approved by %s. %s', e.actor_label,
          private.needs_approvals(p_job.approvals_required - e.place::pg_catalog.int4, p_url))
        else format('Approved by %s.', e.actor_label) end || E'\n', '' order by e.id)
      from (select r.*, row_number() over (partition by r.override, r.event = 'approval' order by r.id) as place
        from (select v.*, count(*) filter (where v.event = 'check_overridden') over (order by v.id) as override
          from public.job_events as v where v.job_id = p_job.id
            and v.event in ('rejected', 'check_overridden', 'approval', 'approved', 'confirmed')) as r) as e), '')
$$;

-- The lines after a plan's log: what an apply of it needs, or why there can be none.
create function private.plan_words(p_plan public.provision_jobs) returns text language sql stable as $$
  select case when p_plan.status <> 'SUCCEEDED' or p_plan.plan_summary -> 'has_changes' is distinct from 'true' then ''
    when p.problem like '%waits for an override%' then ''
    when p.problem is not null then format(E'\nThis plan cannot be applied here. %s\n', p.problem)
    when m.approvals_required > 0 then format(E'\nAn apply of this plan needs %s %s.\n', m.approvals_required,
      case m.approvals_required when 1 then 'approval' else 'approvals' end)
    else '' end
  from public.modules as m
  cross join lateral (select case when (private.apply_of(p_plan.id)).id is null
    then private.apply_problem(p_plan) end as problem) as p
  where m.id = p_plan.module_id
$$;

create function private.terminal_log(p_run bigint, p_is_apply boolean, p_url text, p_offset bigint, p_limit integer)
returns text language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  v_job public.provision_jobs := private.my_run(p_run);
  -- Each organisation counts its own jobs: the address names it.
  v_url pg_catalog.text := format('%s/o/%s/jobs/%s', p_url,
    (select o.slug from public.organizations as o where o.id = v_job.org_id), v_job.number);
  v_is_over boolean;
  v_from bigint := least(p_offset, 1000000000000);
  v_answer pg_catalog.text;
begin
  if p_is_apply then v_job := private.apply_of(p_run); end if;
  v_is_over := v_job.status in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'NEEDS_ATTENTION');
  v_answer := (
    with part as (
      select 0 as place, 0 as seq, case when v_job.id is null then '\x' else '\x02'::pg_catalog.bytea
        || convert_to(case when p_is_apply then private.apply_words(v_job, v_url)
          else format(E'Run %s: %s\n\n', v_job.number, v_url) end, 'UTF8') end as body
      union all
      select c.attempt, c.seq, convert_to(c.body, 'UTF8') from public.job_log_chunks as c
      where c.job_id = v_job.id and not c.is_late
        and c.log_day between v_job.created_at::pg_catalog.date and v_job.log_day
      union all
      select 2147483647, 0, convert_to(case when p_is_apply then '' else private.plan_words(v_job) end, 'UTF8')
        || '\x03'::pg_catalog.bytea where v_is_over and not (p_is_apply and private.discarded_at(p_run) is not null)
    ), placed as (
      select p.*, sum(octet_length(p.body)) over (order by p.place, p.seq) - octet_length(p.body) as start
      from part as p
    )
    select translate(encode(coalesce(string_agg(substring(p.body
      from greatest(v_from - p.start, 0)::integer + 1 for greatest(p_limit - greatest(p.start - v_from, 0), 0)
      ::integer), '' order by p.place, p.seq), case when not v_is_over then '\x'::pg_catalog.bytea end), 'base64'),
      chr(10), '')
    from placed as p where p.start < v_from + p_limit and p.start + octet_length(p.body) > v_from);
  -- The programs end as after a success where a run that was to be applied is discarded: this error ends them.
  perform private.fail('RY409', 'The run was discarded.', 'Nothing was changed. Plan again.')
  where v_answer is null and p_is_apply and private.discarded_at(p_run) is not null;
  return v_answer;
end;
$$;
comment on function private.terminal_log is
  'A piece of the log of a run''s plan or apply, in base64: STX, what it waits for, what the runner wrote, and ETX '
  'once it is over; null after that. Members.';
