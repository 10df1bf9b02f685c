-- Triggers: everything that starts jobs without a person, in one list. A module that follows a connected repository has
-- two, pushes and pull requests; a schedule is one. Each comes with its last event and what that led to for the module.

-- The last push to a branch, or the last pull request into it; where the branch is not known yet, into any.
create function private.last_delivery(p_connection uuid, p_branch text, p_kind text) returns public.git_deliveries
language sql stable as $$
  select d.* from public.git_deliveries as d
  left join public.pull_requests as r on r.connection_id = d.connection_id and r.number = d.pull_request
  where d.connection_id = p_connection and d.event in ('push', 'pull_request', 'poll')
    and (d.pull_request is not null) = (p_kind = 'pull_request')
    and coalesce(r.base, substr(d.ref, 12), p_branch) is not distinct from coalesce(p_branch, r.base, substr(d.ref, 12))
  order by d.id desc limit 1
$$;

-- The outcome of an event for one module. An event from before the module, or before its move, does not name it.
create function private.delivery_for_module(p_delivery public.git_deliveries, p_module public.modules) returns jsonb
language sql stable as $$
  select to_jsonb(d) || jsonb_build_object(
    'verdict', case when p_delivery.modules = '[]' then p_delivery.verdict else coalesce(e.verdict, 'NOTHING') end,
    'reason', case when p_delivery.modules = '[]' then p_delivery.reason
      else coalesce(e.reason, 'The repository had no module at this path then.') end,
    'job_number', (select private.job_number(m.job_id) from private.set_members as m
      where m.set_id = any (p_delivery.set_ids) and m.module_id = p_module.id and m.job_id is not null limit 1))
  from (select p_delivery.id, p_delivery.connection_id, p_delivery.event, p_delivery.action, p_delivery.ref,
    p_delivery.after_commit, p_delivery.pull_request, p_delivery.sender, p_delivery.received_at) as d
  left join jsonb_to_recordset(p_delivery.modules) as e (path text, verdict text, reason text)
    on e.path = p_module.path
  where p_delivery.id is not null
$$;

create function private.list_triggers(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_limit integer default 50, p_offset integer
  default 0
) returns jsonb language plpgsql stable security definer set search_path = '' as $$
declare
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_kinds pg_catalog.text[] := private.text_list(p_filters -> 'kind');
  v_answer pg_catalog.jsonb;
  v_seen pg_catalog.text[] := private.need_seen(p_org);
begin
  perform private.check_page(p_filters, array['kind'], 'path', array['path'], p_limit, p_offset);
  with found as materialized (
    select k.kind, m.path, m.id, m.created_at, c.id as connection_id from public.git_connections as c
    join public.modules as m on m.org_id = c.org_id and m.deleted_at is null and m.source_kind = 'git'
      and private.repository_key(m.source ->> 'url') = c.repository
    cross join unnest(array['push', 'pull_request']) as k (kind)
    where c.org_id = p_org and c.removed_at is null and private.is_seen(p_org, m.path, v_seen)
      and (v_pattern is null or m.path ilike v_pattern or c.repository ilike v_pattern)
    union all
    select 'schedule', s.path, s.id, s.created_at, null from public.schedules as s
    where s.org_id = p_org and private.is_seen(p_org, s.path, v_seen) and (v_pattern is null or s.path ilike v_pattern)
  ), shown as materialized (
    select f.*, coalesce(g.seen_branch, g.branch, m.source ->> 'ref') as branch from (
      select * from found as f where v_kinds = '{}' or f.kind = any (v_kinds)
      order by f.path, f.kind desc, f.created_at, f.id limit p_limit offset p_offset) as f
    left join public.modules as m on m.id = f.id left join public.module_git as g on g.module_id = f.id
  ), events as materialized (
    -- Modules of a repository mostly follow the same branch: each of its events is found once.
    select b.*, private.last_delivery(b.connection_id, b.branch, b.kind) as delivery from (
      select distinct s.connection_id, s.branch, s.kind from shown as s where s.kind <> 'schedule') as b
  )
  select jsonb_build_object('total', (select count(*) from found as f where v_kinds = '{}' or f.kind = any (v_kinds)),
    'rows', coalesce(jsonb_agg(case when s.kind = 'schedule' then private.schedule_json(c)
        || jsonb_build_object('job_number', (
          select case when count(*) = 1 then private.job_number(min(t.job_id)) end from private.set_members as t
          where t.set_id = c.last_set_id and t.job_id is not null))
      else private.module_repository(m) || jsonb_build_object('id', s.kind || ':' || m.id, 'module_id', m.id,
        'last', private.delivery_for_module(e.delivery, m)) end || jsonb_build_object('kind', s.kind)
      order by s.path, s.kind desc, s.created_at, s.id), '[]')) into v_answer
  from shown as s left join public.modules as m on m.id = s.id left join public.schedules as c on c.id = s.id
  left join events as e on e.connection_id = s.connection_id and e.kind = s.kind
    and e.branch is not distinct from s.branch;
  return v_answer;
end;
$$;
comment on function private.list_triggers is
  'A page of triggers {total, rows with their last event}, by path: pushes and pull requests '
  'for each module of a connected repository, and schedules; the search is in path and repository, filters {kind: '
  'push, pull_request, schedule}. Members.';
