-- The fleet by the page: what is wrong with which runner, how many there are of each kind, how far a rollout is, and
-- one change to many runners. After the releases, because the newest of them says who is out of date.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.runner_health(p_org uuid, p_workers uuid[])
returns table (worker_id uuid, health text[], reason text, updates_itself boolean)
language sql stable
set search_path = ''
as $$
  with newest as materialized (
    select l.version, array(
      select a ->> 'name' from public.worker_releases as r cross join jsonb_array_elements(r.artifacts) as a
      where r.version = l.version) as files
    from private.latest_version() as l (version)
  ), fleet as materialized (
    select w.id, w.version, w.status, w.status_reason, w.never_contacted from public.workers as w
    where (w.org_id = p_org or w.is_shared) and w.removed_at is null and (p_workers is null or w.id = any (p_workers))
  ), older as materialized (
    -- Version by version: a fleet has few of them, and to compare two is dear.
    select v.version from (select distinct f.version from fleet as f) as v
    cross join newest as n where private.is_version_less(v.version, n.version)
  ), said as (
    select f.id, f.status, t.reason, coalesce(t.updates_itself, false) as updates_itself, array_remove(array[
      case when f.status = 'OFFLINE' and f.never_contacted then 'never_contacted' end,
      case when f.status = 'OFFLINE' and f.status_reason like 'No heartbeat%' then 'out_of_contact' end,
      case when t.reason is not null then 'degraded' end,
      case when o.version is not null then 'outdated' end,
      case when t.is_open then 'not_isolated' end], null) as health
    from fleet as f cross join newest as n left join older as o on o.version = f.version
    -- Runner by runner, by its index: a page asks for fifty of thousands.
    cross join lateral (
      select bool_or(i.facts ->> 'isolation' = 'none') as is_open,
        bool_and(coalesce(i.facts ->> 'self_update' = any (n.files), false)) as updates_itself,
        max(coalesce(i.facts #>> '{degraded,reason}',
          case when i.engine_note like 'no engine%' then 'No engine was found on it.' end)) as reason
      from public.worker_instances as i where i.worker_id = f.id and i.status <> 'OFFLINE'
    ) as t
  )
  select s.id, case when s.health = '{}' and s.status <> 'OFFLINE' then '{healthy}' else s.health end, s.reason,
    s.updates_itself
  from said as s
$$;
comment on function private.runner_health(uuid, uuid[]) is
  'What is wrong with an organisation''s runners, or some of them: never_contacted, out_of_contact, degraded (and '
  'why), outdated, not_isolated; healthy where nothing is.';

create function private.runner_facets(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  with fleet as materialized (
    select w.id, w.is_shared, w.type, w.version, w.region, w.labels, w.is_draining or w.is_disabled as is_off, h.health,
      h.updates_itself
    from public.workers as w join private.runner_health(p_org, null) as h on h.worker_id = w.id
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
  into v_answer;
  return v_answer;
end;
$$;
comment on function private.runner_facets(uuid) is 'Body of public.runner_facets.';
grant execute on function private.runner_facets(uuid) to authenticated;

create function private.runner_processes(p_worker uuid)
returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object(
    'left_at', max(i.disconnected_at),
    'processes', coalesce(jsonb_agg(jsonb_build_object('id', i.id, 'name', i.name, 'hostname', i.hostname,
      'status', i.status, 'version', i.version, 'capacity', i.capacity, 'engines', i.engines,
      'engine_note', i.engine_note) order by i.name) filter (where i.status <> 'OFFLINE'), '[]'),
    'pulses', coalesce(jsonb_object_agg(i.id, jsonb_build_object('at', l.last_seen_at, 'used', l.used,
      'capacity', i.capacity)) filter (where i.status <> 'OFFLINE'), '{}'))
  from public.worker_instances as i join private.instance_liveness as l on l.instance_id = i.id
  where i.worker_id = p_worker
$$;
comment on function private.runner_processes(uuid) is
  'The connected processes of a runner, and apart from them what changes with every heartbeat.';

create function private.list_runners(p_org uuid, p_search text, p_filters jsonb, p_sort text, p_limit integer,
  p_offset integer)
returns jsonb
language plpgsql stable security definer
set search_path = ''
-- What is not asked for must not be in the plan.
set plan_cache_mode = force_custom_plan
as $$
declare
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_statuses pg_catalog.text[] := private.text_list(p_filters -> 'status');
  v_types pg_catalog.text[] := private.text_list(p_filters -> 'type');
  v_labels pg_catalog.text[] := private.text_list(p_filters -> 'label');
  v_versions pg_catalog.text[] := private.text_list(p_filters -> 'version');
  v_regions pg_catalog.text[] := private.text_list(p_filters -> 'region');
  v_health pg_catalog.text[] := private.text_list(p_filters -> 'health');
  v_ids pg_catalog.uuid[];
  v_answer pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  perform private.check_page(p_filters, array['id', 'status', 'type', 'label', 'version', 'region', 'health'], p_sort,
    array['name', '-name', 'status', 'newest'], p_limit, p_offset);
  if p_filters ? 'id' then
    v_ids := private.text_list(p_filters -> 'id')::pg_catalog.uuid[];
  end if;
  if v_health <> '{}' then
    v_ids := array(select h.worker_id from private.runner_health(p_org, v_ids) as h where h.health && v_health);
  end if;
  with found as materialized (
    select w.id, w.is_shared, lower(w.name) as name, w.status, w.created_at from public.workers as w
    where (w.org_id = p_org or w.is_shared) and w.removed_at is null and (v_ids is null or w.id = any (v_ids))
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
        'updates_itself', h.updates_itself) order by s.place), '[]')
      from shown as s join public.workers as w on w.id = s.id
      join private.worker_liveness as l on l.worker_id = s.id
      join private.runner_health(p_org, array(select s.id from shown as s)) as h on h.worker_id = s.id))
  into v_answer;
  return v_answer;
exception
  when invalid_text_representation then
    perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_runners(uuid, text, jsonb, text, integer, integer) is 'Body of public.list_runners.';
grant execute on function private.list_runners(uuid, text, jsonb, text, integer, integer) to authenticated;

create function private.rollout_progress(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_answer pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  with rollout as (
    select r.* from public.rollouts as r where r.org_id = p_org and r.status in ('RUNNING', 'PAUSED')
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
  into v_answer from rollout as r;
  return v_answer;
end;
$$;
comment on function private.rollout_progress(uuid) is 'Body of public.rollout_progress.';
grant execute on function private.rollout_progress(uuid) to authenticated;

create function private.change_runner(p_worker uuid, p_change text, p_options jsonb)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_labels pg_catalog.text[];
begin
  case p_change
    when 'drain' then perform private.drain_worker(p_worker, p_options ->> 'reason');
    when 'resume' then perform private.resume_worker(p_worker);
    when 'disable' then perform private.set_worker_disabled(p_worker, true);
    when 'enable' then perform private.set_worker_disabled(p_worker, false);
    when 'update' then perform private.update_one_worker(p_worker, null);
    else
      select array(select distinct l from unnest(w.labels || private.text_list(p_options -> 'labels')) as l order by l)
      into v_labels from public.workers as w where w.id = p_worker;
      perform private.update_worker(p_worker, jsonb_build_object('labels', v_labels));
  end case;
end;
$$;
comment on function private.change_runner(uuid, text, jsonb) is 'One of the changes that change_runners makes.';

create function private.change_runners(p_org uuid, p_workers uuid[], p_change text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_done integer := 0;
  v_refused pg_catalog.jsonb := '[]';
begin
  perform private.need_role(p_org, 'operator');
  perform private.refuse_unknown_keys(p_options, array['reason', 'labels']);
  if p_change is null or p_change <> all (array['drain', 'resume', 'disable', 'enable', 'update', 'label']) then
    perform private.fail('RY422', 'There is no such change of runners.',
      'Changes: drain, resume, disable, enable, update, label.');
  end if;
  if coalesce(cardinality(p_workers), 0) not between 1 and 200 then
    perform private.fail('RY422', 'One to 200 runners are changed at a time.');
  end if;
  for v_worker in
    select w.* from public.workers as w
    where w.id = any (p_workers) and w.org_id = p_org and w.removed_at is null order by w.id
  loop
    -- One that refuses keeps the others from nothing, and says why.
    begin
      perform private.change_runner(v_worker.id, p_change, p_options);
      v_done := v_done + 1;
    exception
      when sqlstate 'RY403' or sqlstate 'RY404' or sqlstate 'RY409' or sqlstate 'RY422' then
        v_refused := v_refused || jsonb_build_array(
          jsonb_build_object('id', v_worker.id, 'name', v_worker.name, 'why', sqlerrm));
    end;
  end loop;
  return jsonb_build_object('done', v_done, 'refused', v_refused);
end;
$$;
comment on function private.change_runners(uuid, uuid[], text, jsonb) is 'Body of public.change_runners.';
grant execute on function private.change_runners(uuid, uuid[], text, jsonb) to authenticated;

revoke execute on all functions in schema private from public;
