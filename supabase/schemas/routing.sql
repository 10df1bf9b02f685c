-- Routing: which runner may take which job, and which comes first. A *lane* is a class of jobs with the same routing
-- needs: organisation, priority, nearest assigned path, labels, pin, type. lane_workers stores which runners may serve
-- a lane, and how near they are; it changes with runners, assignments and labels, never when a runner comes or goes. So
-- a claim costs the same with 10 runners or 5,000, and with 100,000 jobs ahead that this runner may not take.
-- Availability is read at claim time, once per lane, not once per job.

create table private.lanes (
  id integer generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  priority smallint not null,
  scope text not null,
  labels text[] not null,
  job_type public.job_type,
  pinned_worker_id uuid,
  pinned_instance_name text,
  excluded_worker_id uuid,
  engine public.engine,
  engine_version text,
  cloud text,
  created_at timestamptz not null default now(),
  unique nulls not distinct (org_id, scope, labels, priority, job_type, pinned_worker_id, pinned_instance_name,
    excluded_worker_id,
    engine, engine_version, cloud)
);
comment on table private.lanes is 'Classes of jobs with the same routing needs.';
comment on column private.lanes.scope is 'The nearest path at or above its modules with an assignment; "": none.';
comment on column private.lanes.job_type is 'The type of job, where some runner is choosy about types; else null.';
comment on column private.lanes.excluded_worker_id is
  'A runner that must not: the one that the job itself updates or removes. Pinned to it all the same: it updates '
  'itself, and nobody else can.';
comment on column private.lanes.engine_version is 'What the module requires of the engine''s version.';
comment on column private.lanes.cloud is 'The cloud that its jobs act in: jobs about runners and cloud identities.';

create table private.lane_workers (
  worker_id uuid not null references public.workers (id) on delete cascade,
  lane_id integer not null references private.lanes (id) on delete cascade,
  distance smallint not null,
  instance_name text,
  primary key (worker_id, lane_id)
);
create index lane_workers_lane_id_idx on private.lane_workers (lane_id, distance, worker_id);
comment on table private.lane_workers is
  'Which runners may serve which lane, and how near they are. Rebuilt when runners, labels or assignments change.';
comment on column private.lane_workers.distance is 'Levels between lane and assignment; 100: all modules; 200: shared.';

create view private.ready_lanes as
select
  l.id,
  l.org_id,
  l.scope,
  l.job_type
from private.lanes as l
-- One entry of the index for each lane, which the order asks for. As "exists", or without it, an empty lane may be
-- planned as a look at every ready job of the others.
cross join lateral (
  select q.job_id from private.live_jobs as q where q.lane_id = l.id order by q.ready_seq limit 1
) as ready;
comment on view private.ready_lanes is 'Lanes that have a job which may be taken.';

create view private.lane_instances as
select
  lw.lane_id,
  lw.worker_id,
  lw.distance,
  i.instance_id,
  i.offer,
  i.is_fresh,
  lw.instance_name is null or i.name = lw.instance_name as is_named,
  not w.is_disabled and not w.never_contacted as is_in_use,
  not w.is_disabled and not w.is_draining and i.is_fresh and not i.is_draining
    and (lw.instance_name is null or i.name = lw.instance_name) as is_willing,
  i.capacity - i.used as free
from private.lane_workers as lw
inner join public.workers as w on w.id = lw.worker_id and w.removed_at is null
inner join private.instance_liveness as i on i.worker_id = lw.worker_id;
comment on view private.lane_instances is
  'The processes of the runners that may serve a lane, as they are now, for the claim and the explanation.';
comment on column private.lane_instances.is_named is 'Whether it is called what the lane asks for.';
comment on column private.lane_instances.is_in_use is 'Whether its runner is enabled and was seen at all.';
comment on column private.lane_instances.is_willing is
  'Whether it would take a job if it had a slot: it is online, enabled, not draining, and called as the lane asks.';

-- The rules that do not change by the minute, for some lanes or all, and for one runner or all: the runners that a lane
-- reaches, how near each is and, where it may not serve, why. A runner without a row is not assigned, or the lane is
-- pinned to another one. The claim and the explanation both use it. Planned for its arguments: it fits one runner into
-- thousands of lanes, and thousands of runners into hundreds.
create function private.lane_fit(p_lanes integer[], p_worker uuid)
returns table (lane_id integer, worker_id uuid, distance smallint, instance_name text, reason text)
language plpgsql stable set search_path = '' set plan_cache_mode = force_custom_plan as $$
begin
  return query
  with lane as materialized (
    select l.*, private.path_prefixes(l.scope) as prefixes from private.lanes as l
    where p_lanes is null or l.id = any (p_lanes)
  ), everywhere as materialized (
    select w.id, w.org_id, case when w.is_shared then 200 else 100 end as levels from public.workers as w
    where (w.is_assigned_to_all_modules or w.is_shared) and w.removed_at is null
      and (p_worker is null or w.id = p_worker) and (w.org_id is null or w.org_id in (select l.org_id from lane as l))
  ), way as (
    select l.id as lane, a.worker_id as runner,
      case p.path when '' then 100 else cardinality(l.prefixes) - p.place end as levels
    from lane as l cross join lateral unnest(l.prefixes) with ordinality as p (path, place)
    -- "offset 0" forces the index, whatever the statistics.
    cross join lateral (
      select a.worker_id from public.worker_assignments as a
      where a.org_id = l.org_id and a.path = p.path and (p_worker is null or a.worker_id = p_worker) offset 0
    ) as a
    union all
    select l.id, w.id, w.levels from lane as l join everywhere as w on w.org_id is null or w.org_id = l.org_id
    union all
    select l.id, l.pinned_worker_id, 0 from lane as l where l.pinned_worker_id = l.excluded_worker_id
  ), reach as (
    select y.lane, y.runner, min(y.levels)::smallint as levels from way as y group by y.lane, y.runner
  )
  select l.id, w.id, r.levels, l.pinned_instance_name, case
    when l.pinned_worker_id = l.excluded_worker_id then null
    else coalesce(case when w.is_shared then (
        select f.reason from private.shared_refusals as f where f.worker_id = w.id and f.org_id = l.org_id) end,
      case
        when l.excluded_worker_id = w.id then 'IS_TARGET'
        when w.accepted_job_types is not null and coalesce(l.job_type <> all (w.accepted_job_types), true)
          then 'TYPE_REFUSED'
        when not w.labels @> l.labels then 'LABELS_MISSING'
      end)
  end
  from reach as r join lane as l on l.id = r.lane
  join public.workers as w on w.id = r.runner and w.removed_at is null
  where (p_worker is null or w.id = p_worker) and (l.pinned_worker_id is null or l.pinned_worker_id = w.id);
end;
$$;

-- ## lanes
-- Whether some runner of the organisation, or a shared one, refuses some types; only then is the type part of the lane.
create function private.is_choosy_about_types(p_org uuid) returns boolean language plpgsql stable as $$
begin
  return exists (select from public.workers as w
      where w.org_id = p_org and w.removed_at is null and w.accepted_job_types is not null)
    or exists (select from public.workers as w
      where w.org_id is null and w.removed_at is null and w.accepted_job_types is not null);
end;
$$;

-- The nearest path at or above a module's that some runner is assigned to; "" for none, and for no module.
create function private.nearest_scope(p_org uuid, p_path text) returns text language plpgsql stable as $$
declare
  v_prefixes pg_catalog.text[] := private.path_prefixes(coalesce(p_path, ''));
  v_scope pg_catalog.text;
begin
  select a.path into v_scope from public.worker_assignments as a
  where a.org_id = p_org and a.path = any (v_prefixes) order by length(a.path) desc limit 1;
  return coalesce(v_scope, '');
end;
$$;

-- The requirements of a job on its runner: its lane, without a number.
create function private.lane_needs(p_job public.provision_jobs, out v_needs private.lanes) language plpgsql stable as $$
begin
  v_needs.org_id := p_job.org_id;
  v_needs.priority := p_job.priority;
  v_needs.scope := private.nearest_scope(p_job.org_id, p_job.module_path);
  v_needs.labels := p_job.labels;
  v_needs.job_type := case when private.is_choosy_about_types(p_job.org_id) then p_job.type end;
  v_needs.pinned_worker_id := p_job.pinned_worker_id;
  v_needs.pinned_instance_name := p_job.pinned_instance_name;
  if p_job.target_worker_id is not null then
    -- The runner that a job is about, where it could take the job itself: being pinned to it, or serving everything.
    v_needs.excluded_worker_id := (
      select w.id from public.workers as w where w.id = p_job.target_worker_id and (w.id = p_job.pinned_worker_id
        or w.is_assigned_to_all_modules or exists (
          select from public.worker_assignments as a where a.worker_id = w.id and a.path = '')));
  end if;
  v_needs.engine := p_job.payload #>> '{module,engine}';
  v_needs.engine_version := nullif(trim(p_job.payload #>> '{module,engine_version}'), '');
  -- A runner that updates itself needs no rights in a cloud.
  if v_needs.excluded_worker_id is null or v_needs.excluded_worker_id is distinct from p_job.pinned_worker_id then
    v_needs.cloud := p_job.payload #>> '{lifecycle,identity,provider}';
  end if;
end;
$$;

-- Creates these lanes, with the runners that may serve them, in one join: fitted one by one, the lanes of 200 groups
-- took seconds with 5,000 runners.
create function private.make_lanes(p_needs private.lanes[]) returns void language plpgsql as $$
declare
  v_made integer[];
begin
  with made as (
    insert into private.lanes as l (
      org_id, priority, scope, labels, job_type, pinned_worker_id, pinned_instance_name, excluded_worker_id, engine,
      engine_version, cloud)
    select n.org_id, n.priority, n.scope, n.labels, n.job_type, n.pinned_worker_id, n.pinned_instance_name,
      n.excluded_worker_id, n.engine, n.engine_version, n.cloud
    -- In one order everywhere, so that two who create the same lanes never wait for each other.
    from unnest(p_needs) as n order by n.org_id, n.scope, n.labels, n.priority, n.job_type, n.pinned_worker_id
    on conflict do nothing returning l.id
  )
  select array_agg(m.id) into v_made from made as m;
  if v_made is not null then
    insert into private.lane_workers (worker_id, lane_id, distance, instance_name)
    select f.worker_id, f.lane_id, f.distance, f.instance_name
    -- A pinned lane is for that runner alone; each update of a runner makes one.
    from private.lane_fit(v_made, case when cardinality(p_needs) = 1 then p_needs[1].pinned_worker_id end) as f
    where f.reason is null;
  end if;
end;
$$;

-- The lanes for these needs, in their order; created where a need is the first of its kind.
create function private.lanes_for(p_needs private.lanes[], out v_lanes integer[]) language plpgsql as $$
begin
  -- Twice at most: a lane that somebody else creates at the same moment exists when the insert has waited for it.
  for n in 1 .. 2 loop
    v_lanes := array(
      select (
        select l.id from private.lanes as l
        where l.org_id = n.org_id and l.scope = n.scope and l.labels = n.labels and l.priority = n.priority
          and l.job_type is not distinct from n.job_type
          and l.pinned_worker_id is not distinct from n.pinned_worker_id
          and l.pinned_instance_name is not distinct from n.pinned_instance_name
          and l.excluded_worker_id is not distinct from n.excluded_worker_id
          and l.engine is not distinct from n.engine and l.engine_version is not distinct from n.engine_version
          and l.cloud is not distinct from n.cloud
      ) from unnest(p_needs) with ordinality as n order by n.ordinality);
    exit when array_position(v_lanes, null) is null;
    perform private.make_lanes(array(
      select p_needs[i] from generate_subscripts(p_needs, 1) as i where v_lanes[i] is null));
  end loop;
end;
$$;

create function private.lane_of(p_job public.provision_jobs) returns integer language plpgsql as $$
begin
  return (private.lanes_for(array[private.lane_needs(p_job)]))[1];
end;
$$;

-- The runners that a lane looks at first: of the nearest ones some from a random place on, so that it does not ring the
-- same ones for every job, then in order. So many that it finds a few idle ones among many that are busy.
create function private.first_choices(p_lane integer, p_count integer) returns table (worker_id uuid, distance smallint)
language plpgsql volatile as $$
declare
  v_from pg_catalog.uuid := gen_random_uuid();
  v_nearest smallint := (select min(lw.distance) from private.lane_workers as lw where lw.lane_id = p_lane);
begin
  return query
  (select lw.worker_id, lw.distance from private.lane_workers as lw
  join public.workers as w on w.id = lw.worker_id and w.status = 'ONLINE'
  where lw.lane_id = p_lane and lw.distance = v_nearest and lw.worker_id >= v_from order by lw.worker_id limit p_count)
  union all
  (select lw.worker_id, lw.distance from private.lane_workers as lw
  join public.workers as w on w.id = lw.worker_id and w.status = 'ONLINE'
  where lw.lane_id = p_lane and not (lw.distance = v_nearest and lw.worker_id >= v_from)
  order by lw.distance, lw.worker_id limit p_count);
end;
$$;

-- Whether a version meets one part of a requirement, such as >=1.10 or ~> 1.10; null when either cannot be read.
create function private.is_requirement_met(p_version text, p_part text) returns boolean language plpgsql immutable as $$
declare
  v_match pg_catalog.text[] := regexp_match(trim(p_part), '^(~>|==|>=|<=|!=|>|<|=)?\s*v?([0-9][0-9A-Za-z.+-]*)$');
  v_have pg_catalog.text := private.version_key(p_version);
  v_want pg_catalog.text := private.version_key(v_match[2]);
  v_parts pg_catalog.text[] := string_to_array(v_match[2], '.');
begin
  return case v_match[1]
    when '>=' then v_have collate "C" >= v_want
    when '<=' then v_have collate "C" <= v_want
    when '>' then v_have collate "C" > v_want
    when '<' then v_have collate "C" < v_want
    when '!=' then v_have <> v_want
    -- ~> 1.10 lets the last part that is written grow, and no other.
    when '~>' then v_have collate "C" >= v_want and (cardinality(v_parts) = 1
      or starts_with(v_have, left(v_want, 10 * (least(cardinality(v_parts), 3) - 1))))
    else v_have = v_want end;
end;
$$;

-- Whether an engine's version is one that a module accepts: the same rules as the runner's own check.
create function private.meets_requirement(p_version text, p_required text) returns boolean language sql immutable as $$
  -- A constraint that cannot be read here is left to the runner, which refuses it and explains why.
  select coalesce(bool_and(coalesce(private.is_requirement_met(p_version, r.part), true)), true)
  from regexp_split_to_table(coalesce(nullif(trim(p_required), ''), '>=0'), ',') as r (part)
$$;

-- Names what an instance lacks now to run a lane's jobs: null for nothing, else cloud_missing, engine_preparing,
-- engine_missing, engine_version or degraded.
create function private.shortfall(p_lane private.lanes, p_offer private.offer) returns text
language plpgsql immutable as $$
begin
  -- Rights in a cloud count once they were reported; an engine counts as present while nothing was reported.
  if p_lane.cloud is not null and not coalesce(p_offer.clouds ? p_lane.cloud, false) then
    return 'cloud_missing';
  end if;
  if p_lane.engine is not null and jsonb_typeof(p_offer.engines) = 'object' then
    if not p_offer.engines ? p_lane.engine::pg_catalog.text then
      return case when starts_with(p_offer.engine_note, p_lane.engine || ' is being prepared') then 'engine_preparing'
        else 'engine_missing' end;
    end if;
    if p_lane.engine_version is not null then
      -- In two steps: a query even when nothing is required would be most of a claim's cost for each runner.
      -- One version, or a list of the installed ones.
      if not exists (select from jsonb_array_elements_text('[]'::pg_catalog.jsonb
        || (p_offer.engines -> p_lane.engine::pg_catalog.text)) as v
        where private.meets_requirement(v, p_lane.engine_version)) then
        return 'engine_version';
      end if;
    end if;
  end if;
  return case when p_offer.is_degraded then 'degraded' end;
end;
$$;

-- Rings the processes that would be given a lane's jobs now: slots enough for so many jobs (100 at most), or for those
-- that are ready (20 at most: who becomes full rings on), and one process more. Nobody waits for a ring: each heartbeat
-- is answered with "there is work".
create function private.wake_lane(p_lane integer, p_jobs integer default null) returns void language plpgsql as $$
declare
  v_jobs integer := least(100, coalesce(p_jobs, (
    select count(*) from (
      select from private.live_jobs as q where q.lane_id = p_lane limit 20) as q)));
  v_lane private.lanes;
  v_nearest smallint;
  v_idle pg_catalog.record;
begin
  select * into v_lane from private.lanes as l where l.id = p_lane;
  for v_idle in
    select i.worker_id, i.instance_id, i.distance, i.free from private.first_choices(p_lane, 20 + v_jobs) as a
    -- "offset 0": one after the other, and no further than the loop goes.
    cross join lateral (
      select * from private.lane_instances as i where i.lane_id = p_lane and i.worker_id = a.worker_id offset 0
    ) as i
    where i.is_willing and i.free > 0 and private.shortfall(v_lane, i.offer) is null loop
    -- One that is farther away would be refused.
    exit when v_idle.distance > v_nearest;
    perform private.wake('worker:' || v_idle.worker_id, 'wake', jsonb_build_object('instance', v_idle.instance_id));
    exit when v_jobs < 1;
    v_nearest := v_idle.distance;
    v_jobs := v_jobs - v_idle.free;
  end loop;
end;
$$;

-- Rings for what a runner left in lanes when it had no slot for more: the others may have been full when it came.
create function private.ring_on(p_lanes integer[]) returns void language plpgsql as $$
begin
  perform private.wake_lane(l.id) from private.ready_lanes as l
  where l.id = any (p_lanes) and private.may_wake('lane:' || l.id, interval '50 milliseconds') limit 3;
end;
$$;

-- Wakes the runners of a runner's lanes that have a ready job: after it came, or for those who may take its place.
create function private.wake_lanes_of(p_worker uuid) returns void language plpgsql as $$
begin
  -- Each holds a lock until the commit, and a shared runner is in the lanes of everybody.
  perform private.wake_lane(l.id) from private.lane_workers as lw join private.ready_lanes as l on l.id = lw.lane_id
  where lw.worker_id = p_worker and private.may_wake('lane:' || l.id, interval '50 milliseconds') limit 100;
end;
$$;

-- In a wrong lane is a job when types count now or no longer, when nobody is assigned to the lane's path any more, when
-- the runner is assigned nearer than that, or when the job is about the runner.
-- Ready jobs that may be in the wrong lane after a change of a runner; those that share their next lane together.
create function private.misplaced_jobs(p_org uuid, p_worker uuid) returns table (first_job bigint, jobs bigint[])
language sql stable as $$
  with lane as materialized (
    select l.id, l.scope, (l.job_type is null) = private.is_choosy_about_types(l.org_id) as is_of_another_kind,
      l.scope <> '' and not exists (
        select from public.worker_assignments as a where a.org_id = l.org_id and a.path = l.scope) as is_abandoned
    from private.ready_lanes as l where p_org is null or l.org_id = p_org
  ), misplaced as (
    select q.job_id, case when l.is_abandoned then private.nearest_scope(j.org_id, j.module_path)
      else l.scope end as scope
    from lane as l
    join private.live_jobs as q on q.lane_id = l.id
    join public.provision_jobs as j on j.id = q.job_id
    where l.is_of_another_kind or l.is_abandoned
    union all
    select q.job_id, a.path from lane as l
    join public.worker_assignments as a on a.worker_id = p_worker and length(a.path) > length(l.scope)
      and starts_with(a.path, l.scope)
    join private.live_jobs as q on q.lane_id = l.id
    join public.provision_jobs as j on j.id = q.job_id
      and (j.module_path = a.path or starts_with(j.module_path, a.path || '/'))
    union all
    select q.job_id, '' from public.provision_jobs as j join private.live_jobs as q on q.job_id = j.id
      and q.stage = 'READY'
    where j.target_worker_id = p_worker and j.status = 'QUEUED'
  ), nearest as (
    select m.job_id, (array_agg(m.scope order by length(m.scope) desc))[1] as scope from misplaced as m
      group by m.job_id
  )
  select min(j.id), array_agg(j.id)
  from nearest as n
  join public.provision_jobs as j on j.id = n.job_id
  join private.live_jobs as q on q.job_id = n.job_id
  group by q.lane_id, j.type, j.target_worker_id, n.scope
$$;

-- After a change of a runner or its assignments: its lanes, and the ready jobs that belong to another one now. The
-- caller holds the routing lock alone.
create function private.reroute(p_org uuid, p_worker uuid) returns void language plpgsql as $$
begin
  delete from private.lane_workers as lw where lw.worker_id = p_worker;
  insert into private.lane_workers (worker_id, lane_id, distance, instance_name)
  select f.worker_id, f.lane_id, f.distance, f.instance_name from private.lane_fit(null, p_worker) as f
    where f.reason is null;
  -- Once for all that share the answer: registering a runner must stay quick when 100,000 jobs wait for it.
  with moved as materialized (
    select row_number() over () as place, m.jobs, private.lane_needs(j) as needs
    from private.misplaced_jobs(p_org, p_worker) as m join public.provision_jobs as j on j.id = m.first_job
  ), found as materialized (
    select private.lanes_for(array_agg(m.needs order by m.place)) as lanes from moved as m
  )
  update private.live_jobs as q set lane_id = f.lanes[m.place]
  from found as f cross join moved as m cross join lateral unnest(m.jobs) as j (id)
  where q.job_id = j.id and q.stage = 'READY' and q.lane_id <> f.lanes[m.place];
  perform private.wake_lanes_of(p_worker);
end;
$$;

-- ## next in state
-- Next in state: of the jobs that act on one state, one at a time is ready or runs; the others wait behind it. A call
-- that changes a state's queue holds the state's lock, and makes the most urgent waiting job the next one.
-- Puts a job at the end of its lane and wakes the runners of that lane.
create function private.make_ready(p_job bigint) returns void language plpgsql as $$
declare
  v_job public.provision_jobs;
  v_lane integer;
begin
  select * into v_job from public.provision_jobs as j where j.id = p_job;
  v_lane := private.lane_of(v_job);
  update private.live_jobs as q
  set stage = 'READY', lane_id = v_lane, ready_seq = nextval('private.ready_seq'), not_before_at = null
  where q.job_id = p_job and q.stage in ('WAITING', 'BACKOFF');
  if found then perform private.wake_lane(v_lane, 1); end if;
end;
$$;

-- Makes the most urgent waiting job of a state, whose lock the caller holds, its next one, if it has none.
create function private.refresh_next(p_state uuid) returns void language plpgsql as $$
declare
  v_next pg_catalog.record;
  v_current bigint;
begin
  select q.job_id, q.priority, q.not_before_at into v_next from private.live_jobs as q
  where q.state_key = p_state and q.stage = 'WAITING' order by q.priority, q.job_id limit 1;
  if v_next.job_id is null or exists (select from private.locked_states as l where l.state_key = p_state) then
    return;
  end if;
  select q.job_id into v_current from private.live_jobs as q where q.state_key = p_state and q.stage <> 'WAITING';
  if v_current is not null then
    -- Somebody more urgent takes the place of one that has not begun; one that runs is never displaced.
    update private.live_jobs as q set stage = 'WAITING', lane_id = null
    where q.job_id = v_current and q.stage in ('READY', 'BACKOFF') and q.priority > v_next.priority;
    if not found then return; end if;
  end if;
  if v_next.not_before_at > now() then
    update private.live_jobs as q set stage = 'BACKOFF' where q.job_id = v_next.job_id;
  else
    perform private.make_ready(v_next.job_id);
  end if;
end;
$$;

create view private.job_states as
select
  j.id as job_id,
  j.org_id,
  j.type,
  j.status,
  j.priority,
  j.attempt,
  j.labels,
  j.pinned_worker_id,
  j.pinned_instance_name,
  j.target_worker_id,
  j.module_path,
  j.group_path,
  j.payload,
  -- A look at a state whose last job needs attention must be able to run while that job holds the state.
  case when j.payload #>> '{options,inspects}' is not null then md5('inspect:' || j.module_id)::uuid
    else coalesce(j.module_id, j.target_worker_id, j.target_identity_id, j.target_connection_id,
      md5('survey:' || j.id)::uuid)
  end as state_key
from public.provision_jobs as j;
comment on view private.job_states is 'What its state''s queue and its lane need to know about a job.';
comment on column private.job_states.payload is 'Engine and cloud are in it.';

-- Locks a job and the queue of its state, if it can at once and the job's row has not changed since it was read.
create function private.try_lock_job(p_job private.live_jobs) returns boolean language plpgsql as $$
begin
  -- The row is read again behind the lock: meanwhile it may have been given back, taken by another or displaced.
  return private.try_lock_state(p_job.org_id, p_job.state_key) and exists (
    select from private.live_jobs as q
    where q.job_id = p_job.job_id and q.stage = p_job.stage and q.attempt = p_job.attempt for update skip locked);
end;
$$;

-- Refuses to queue a job that would wait for ever for a runner that was removed.
create function private.need_pinned_runner(p_worker uuid) returns void language sql stable as $$
  select private.fail('RY409', format('The runner that it is pinned to, "%s", was removed.', w.name),
    'Nothing could run it. Enqueue a new job; a module that is pinned to it must be pinned to another one, or to none.')
  from public.workers as w where w.id = p_worker and w.removed_at is not null
$$;

-- ## shared runners
-- Shared runners: they belong to no organisation, are managed with the installation's service key, and serve the
-- organisations that the installation and the organisation itself allow.

create table private.shared_worker_orgs (
  worker_id uuid not null references public.workers (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  primary key (worker_id, org_id)
);
create index shared_worker_orgs_org_id_idx on private.shared_worker_orgs (org_id);
comment on table private.shared_worker_orgs is
  'For whom a shared runner works, where the installation''s file limits it; one without a row works for everybody.';

create view private.shared_refusals as
select
  w.id as worker_id,
  o.id as org_id,
  case
    when o.shared_runners = 'NEVER' then 'SHARED_REFUSED'
    when exists (select from private.shared_worker_orgs as s where s.worker_id = w.id) and not exists (
      select from private.shared_worker_orgs as s where s.worker_id = w.id and s.org_id = o.id
    ) then 'SHARED_ELSEWHERE'
  end as reason
from public.workers as w cross join public.organizations as o
where w.is_shared;
comment on view private.shared_refusals is
  'Why a shared runner does not work for an organisation. Jobs and the scaling of runners both go by it.';
comment on column private.shared_refusals.reason is
  'The organisation wants none, or the installation''s file keeps the runner for others; null: it works for it.';

create function private.set_shared_runners(p_org uuid, p_use public.shared_use) returns jsonb
language sql security definer set search_path = '' as $$
  select private.need('runner.manage', p_org);
  select private.fail('RY422', 'Shared runners are used NEVER, when NONE_FITS, or when NONE_AVAILABLE.')
  where p_use is null;
  select private.lock_routing(p_org, true);
  update public.organizations set shared_runners = p_use where id = p_org;
  delete from private.lane_workers as lw using private.lanes as l, public.workers as w
  where l.id = lw.lane_id and l.org_id = p_org and w.id = lw.worker_id and w.is_shared;
  insert into private.lane_workers (worker_id, lane_id, distance, instance_name)
  select f.worker_id, f.lane_id, f.distance, f.instance_name
  from private.lane_fit(array(select l.id from private.lanes as l where l.org_id = p_org), null) as f
  where f.reason is null and f.distance = 200
  on conflict do nothing;
  select private.audit(p_org, 'organization.shared_runners', 'organization', p_org::pg_catalog.text, null,
    jsonb_build_object('use', p_use));
  select jsonb_build_object('shared_runners', p_use)
$$;
comment on function private.set_shared_runners is
  'When shared runners may take jobs: NEVER, NONE_FITS (no own runner is set up for it) or NONE_AVAILABLE. Admins.';

-- Shared runners: they come from the installation's file, belong to no organisation, and are changed by its
-- administrator alone.
-- The organisations that a shared runner works for, by their short names; none for everybody.
create function private.shared_orgs(p_worker uuid) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(o.slug order by o.slug), '[]')
    from private.shared_worker_orgs as s join public.organizations as o on o.id = s.org_id
    where s.worker_id = p_worker
$$;

-- A shared runner by its name, with its row held.
create function private.need_shared_worker(p_name text, out v_worker public.workers) language plpgsql as $$
begin
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null
  for no key update;
  if v_worker.id is null then
    perform private.fail('RY404', format('There is no shared runner "%s".', left(p_name, 200)));
  end if;
end;
$$;
