-- Numbers that change too often to be rows, one call per organisation every few seconds; and statistics: queue wait,
-- utilisation, throughput and pass rate by the hour, and each runner's last day in quarters of an hour. Closed hours
-- are rolled up once, so a page reads a few rows per hour, however many jobs there were.

-- Slots in use of the organisation's own runners, how many runners and unfinished jobs there are, by status, how many
-- modules, and of the jobs that await approval how many each member cannot approve.
create function private.fleet_counts(p_org uuid, p_modules uuid[] default null, p_workers uuid[] default null)
returns jsonb language sql stable as $$
  select jsonb_build_object(
    'used', (
      select count(*) from private.live_jobs as q join private.instance_liveness as i on i.instance_id = q.instance_id
      join public.workers as w on w.id = i.worker_id
      where q.stage = 'RUNNING' and i.is_fresh and w.org_id = p_org and w.removed_at is null
        and (p_modules is null or q.job_id in (
          select j.id from public.provision_jobs as j where j.module_id = any (p_modules)))),
    'capacity', (
      select coalesce(sum(i.capacity), 0) from public.workers as w
        join private.instance_liveness as i on i.worker_id = w.id
      where w.org_id = p_org and w.removed_at is null and i.is_fresh and (p_workers is null or w.id = any (p_workers))),
    'workers', (
      select jsonb_build_object('total', count(*), 'ONLINE', count(*) filter (where w.status = 'ONLINE'),
        'DRAINING', count(*) filter (where w.status = 'DRAINING'), 'OFFLINE',
          count(*) filter (where w.status = 'OFFLINE'))
      from public.workers as w where (w.org_id = p_org or w.is_shared) and w.removed_at is null
        and (p_workers is null or w.is_shared or w.id = any (p_workers))),
    'modules', (
      select jsonb_build_object('total', count(*)) from public.modules as m where m.org_id = p_org
        and m.deleted_at is null and (p_modules is null or m.id = any (p_modules))),
    'jobs', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select j.status, count(*) as n from public.provision_jobs as j
        where j.org_id = p_org and j.status in ('AWAITING_APPROVAL', 'QUEUED', 'CLAIMED', 'PROCESSING',
          'NEEDS_ATTENTION') and (p_modules is null or j.module_id = any (p_modules)) group by j.status
      ) as c),
    'waits_for_others', (
      select coalesce(jsonb_object_agg(c.user_id, c.n), '{}') from (
        select o.user_id, count(*) as n from private.waits_for_others(p_org, p_modules) as o
        group by o.user_id) as c))
$$;

create function private.fleet_overview(p_org uuid, p_workers uuid[] default null) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_shown pg_catalog.uuid[] := p_workers;
  v_modules pg_catalog.uuid[] := private.need_modules(p_org);
  v_workers pg_catalog.uuid[] := private.seen_workers(p_org);
begin
  -- A page shows fifty runners, and a REST answer has a thousand rows: live numbers of more than that nobody reads.
  if v_shown is null then
    v_shown := array(select w.id from public.workers as w where (w.org_id = p_org or w.is_shared)
      and w.removed_at is null and (v_workers is null or w.is_shared or w.id = any (v_workers))
      order by w.created_at, w.id limit 1000);
  elsif cardinality(v_shown) > 1000 then
    perform private.fail('RY422', 'Live numbers are given for 1,000 runners at a time.', 'Name those that are shown.');
  end if;
  return jsonb_build_object('server_time', now(), 'counts', private.fleet_counts(p_org, v_modules, v_workers),
    'swept_seconds_ago', private.swept_seconds_ago(), 'workers', (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', w.id, 'status', l.status, 'last_seen_at', l.last_seen_at, 'used', l.used, 'capacity',
      coalesce(nullif(l.capacity, 0), w.capacity), 'instances', (
        select coalesce(jsonb_agg(jsonb_build_object('id', i.instance_id, 'name', i.name, 'last_seen_at',
          i.last_seen_at, 'used', i.used, 'capacity', i.capacity, 'is_online', i.is_fresh) order by i.name), '[]')
        from private.instance_liveness as i where i.worker_id = w.id)) order by w.created_at, w.id), '[]')
    from public.workers as w join private.worker_liveness as l on l.worker_id = w.id
    where w.id = any (v_shown) and (w.org_id = p_org or w.is_shared) and w.removed_at is null
      and (v_workers is null or w.is_shared or w.id = any (v_workers))));
end;
$$;
comment on function private.fleet_overview is
  'Counts of an organisation, live numbers of the runners named, 1,000 at most: status, last heartbeat, load per '
  'instance; and how long ago the last sweep was (null: none since a crash). Members.';

create table private.load_hourly (
  org_id uuid not null references public.organizations (id) on delete cascade,
  hour timestamptz not null,
  busy bigint not null,
  slots bigint not null,
  primary key (org_id, hour)
);
comment on table private.load_hourly is 'How busy the runners of each organisation were in closed hours.';

create table private.waits_hourly (
  org_id uuid not null references public.organizations (id) on delete cascade,
  hour timestamptz not null,
  size smallint not null,
  jobs bigint not null,
  failed bigint not null,
  succeeded bigint not null,
  primary key (org_id, hour, size)
);
comment on table private.waits_hourly is
  'How long the jobs that ended in closed hours had waited: counts, which can be added up, as percentiles cannot.';
comment on column private.waits_hourly.size is
  'The wait from queued to claimed, one of 200 sizes, each a tenth more than the one before; 0 where it is not known.';

create table private.rolled_hours (
  hour timestamptz primary key
);
comment on table private.rolled_hours is 'Hours that were rolled up; a missed one is made up for.';

-- Counts the waits of an organisation's jobs that ended in a span, per step and size.
create function private.wait_counts(p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval)
returns setof private.waits_hourly language sql stable as $$
  select j.org_id, date_bin(p_step, j.finished_at, '2000-01-01 00:00+00'),
    coalesce(case when j.claimed_at >= j.queued_at
      then width_bucket(ln(greatest(date_part('epoch', j.claimed_at - j.queued_at), 0.01)),
        ln(0.01::double precision), ln(1e6::double precision), 200) end, 0)::smallint,
    count(*), count(*) filter (where j.status = 'FAILED'), count(*) filter (where j.status = 'SUCCEEDED')
  from public.provision_jobs as j
  where j.org_id = p_org and j.finished_at >= p_from and j.finished_at < p_to
  group by 1, 2, 3
$$;

-- The seconds that a size of private.waits_hourly means.
create function private.wait_seconds(p_size smallint) returns double precision language sql immutable as $$
  -- The middle of the size: at most a twentieth off.
  select 0.01 * 1e8::double precision ^ ((p_size - 0.5) / 200)
$$;

-- The load of an organisation's runners, or of all, in a span, in numbers per step.
create function private.load_sums(p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval)
returns setof private.load_hourly language sql stable as $$
  select w.org_id, date_bin(p_step, t.at, '2000-01-01 00:00+00'), sum(t.busy)::bigint, sum(t.slots)::bigint
  from (
    select k.worker_id, k.at, k.busy, k.slots from private.worker_ticks as k where k.at >= p_from and k.at < p_to
    union all
    -- The quarter that is under way, or the last one of a process that has ended.
    select h.worker_id, h.tick_at, h.tick_busy, h.tick_slots from private.heartbeats as h
    where h.tick_at >= p_from and h.tick_at < p_to and h.tick_heartbeats > 0
  ) as t
  join public.workers as w on w.id = t.worker_id
  where w.org_id is not null and (p_org is null or w.org_id = p_org)
  group by 1, 2
$$;

-- From when on a span is not rolled up yet, and is counted from what happened in it.
create function private.open_since(p_from timestamptz) returns timestamptz language sql stable as $$
  select greatest(p_from, max(r.hour) + interval '1 hour') from private.rolled_hours as r
$$;

-- Rolls up the closed hours of the last day that were not rolled up yet.
create function private.roll_up(out v_count integer) language plpgsql as $$
declare
  v_hour pg_catalog.timestamptz;
begin
  v_count := 0;
  for v_hour in
    select h from generate_series(date_bin('1 hour', now(), '2000-01-01 00:00+00') - interval '24 hours',
      date_bin('1 hour', now(), '2000-01-01 00:00+00') - interval '1 hour', interval '1 hour') as h
    where not exists (select from private.rolled_hours as r where r.hour = h) loop
    -- Organisation by organisation, by its index: the sweep runs this, however many jobs there are.
    insert into private.waits_hourly select s.* from public.organizations as o
    cross join lateral private.wait_counts(o.id, v_hour, v_hour + interval '1 hour', '1 hour') as s
      on conflict (org_id, hour, size) do nothing;
    insert into private.load_hourly
    select s.* from private.load_sums(null, v_hour, v_hour + interval '1 hour', '1 hour') as s
    on conflict (org_id, hour) do nothing;
    insert into private.rolled_hours (hour) values (v_hour) on conflict do nothing;
    v_count := v_count + 1;
  end loop;
  delete from private.load_hourly where hour < now() - interval '8 days';
  delete from private.waits_hourly where hour < now() - interval '8 days';
  delete from private.outages where ended_at < now() - interval '8 days';
  delete from private.rolled_hours where hour < now() - interval '2 days';
end;
$$;

create function private.worker_history(p_worker uuid, p_hours integer default 24) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.fail('RY404', 'There is no such runner.') where not exists (select from public.workers
    where id = p_worker and (is_shared or org_id in (select private.my_org_ids('module.read'))
      or id in (select private.my_workers())));
  select coalesce(jsonb_agg(jsonb_build_object('at', t.at, 'heartbeats', t.heartbeats, 'load',
    t.busy::double precision / nullif(t.slots, 0), 'status', case when t.draining * 2 > t.heartbeats then 'DRAINING'
      else 'ONLINE' end) order by t.at), '[]')
  from (
    select k.at, sum(k.heartbeats) as heartbeats, sum(k.busy) as busy, sum(k.slots) as slots,
      sum(k.draining) as draining
    from (
      select k.at, k.heartbeats, k.busy, k.slots, k.draining from private.worker_ticks as k
      where k.worker_id = p_worker
      union all
      select h.tick_at, h.tick_heartbeats, h.tick_busy, h.tick_slots, h.tick_draining
      from public.worker_instances as i join private.heartbeats as h on h.instance_id = i.id
      where i.worker_id = p_worker and h.tick_heartbeats > 0
    ) as k
    where k.at > date_bin('15 minutes', now(), '2000-01-01 00:00+00')
      - make_interval(hours => least(greatest(coalesce(p_hours, 24), 1), 168))
    group by k.at
  ) as t
$$;
comment on function private.worker_history is
  'A runner''s quarters of an hour [{at, heartbeats, status, load}]; one that is missing had no heartbeat. Members.';

-- ## the page of charts
-- Figures for the page of charts: how long jobs wait, how busy runners are, how jobs end, over an hour, a day or a
-- week, and where the waits are the longest. A percentile of hours is not one of the day: waits are counted by their
-- size, and the counts of closed hours are added up. The longest waits of the last day are read from its jobs.
-- The jobs of an organisation that ended in each step, and how long they had waited; a row without a time has all.
create function private.wait_points(
  p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval
) returns table (
  at timestamptz, jobs bigint, failed bigint, succeeded bigint, p50 double precision, p95 double precision, p99 double
  precision
)
language plpgsql stable as $$
declare
  v_open pg_catalog.timestamptz := case when p_step < interval '1 hour' then p_from
    else private.open_since(p_from) end;
begin
  return query
  with counted as materialized (
    select date_bin(p_step, c.hour, '2000-01-01 00:00+00') as bin, c.size, c.jobs, c.failed, c.succeeded from (
      select * from private.waits_hourly as h where h.org_id = p_org and h.hour >= p_from and h.hour < v_open
      union all
      select * from private.wait_counts(p_org, v_open, p_to, p_step)
    ) as c
  ), summed as (
    -- Each step, and in the row without one the whole.
    select c.bin, c.size, sum(c.jobs) as jobs, sum(c.failed) as failed, sum(c.succeeded) as succeeded
    from counted as c group by grouping sets ((c.bin, c.size), (c.size))
  ), running as (
    select s.*, sum(s.jobs) filter (where s.size > 0) over (partition by s.bin order by s.size) as upto,
      sum(s.jobs) filter (where s.size > 0) over (partition by s.bin) as known
    from summed as s
  )
  select r.bin, sum(r.jobs)::bigint, sum(r.failed)::bigint, sum(r.succeeded)::bigint,
    private.wait_seconds(min(r.size) filter (where r.upto >= 0.5 * r.known)),
    private.wait_seconds(min(r.size) filter (where r.upto >= 0.95 * r.known)),
    private.wait_seconds(min(r.size) filter (where r.upto >= 0.99 * r.known))
  from running as r group by r.bin;
end;
$$;

-- The share of its slots that an organisation used, in steps of a quarter of an hour, an hour or more.
create function private.load_points(p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval)
returns table (at timestamptz, share double precision) language plpgsql stable as $$
declare
  -- Runners are counted by quarters of an hour, and closed hours are added up.
  v_step pg_catalog.interval := case when p_step < interval '15 minutes' then interval '15 minutes'
    else greatest(p_step, interval '1 hour') end;
  v_open pg_catalog.timestamptz := case when v_step < interval '1 hour' then p_from
    else private.open_since(p_from) end;
begin
  return query
  select date_bin(v_step, l.hour, '2000-01-01 00:00+00'), sum(l.busy)::double precision / nullif(sum(l.slots), 0) from (
    select * from private.load_hourly as h where h.org_id = p_org and h.hour >= p_from and h.hour < v_open
    union all
    select * from private.load_sums(p_org, v_open, p_to, v_step)
  ) as l group by 1;
end;
$$;

create function private.fleet_stats(p_org uuid, p_hours integer default 24) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_to pg_catalog.timestamptz := date_bin('1 hour', now(), '2000-01-01 00:00+00') + interval '1 hour';
  v_from pg_catalog.timestamptz := v_to - make_interval(hours => least(greatest(coalesce(p_hours, 24), 1), 168));
begin
  perform private.need('module.read', p_org);
  return (
    select jsonb_build_object(
      'queue_wait', jsonb_agg(jsonb_build_object('hour', x.hour, 'p50', s.p50, 'p95', s.p95) order by x.hour),
      'throughput', jsonb_agg(jsonb_build_object('hour', x.hour, 'jobs', coalesce(s.jobs, 0)) order by x.hour),
      'pass_rate', jsonb_agg(jsonb_build_object('hour', x.hour, 'succeeded', coalesce(s.succeeded, 0), 'failed',
        coalesce(s.failed, 0), 'share', s.succeeded::double precision / nullif(s.succeeded + s.failed, 0))
          order by x.hour),
      'utilisation', jsonb_agg(jsonb_build_object('hour', x.hour, 'share', u.share) order by x.hour),
      'now', private.fleet_counts(p_org))
    from generate_series(v_from, v_to - interval '1 hour', interval '1 hour') as x (hour)
    left join private.wait_points(p_org, v_from, v_to, '1 hour') as s on s.at = x.hour
    left join private.load_points(p_org, v_from, v_to, '1 hour') as u on u.at = x.hour);
end;
$$;
comment on function private.fleet_stats is
  'Queue wait (p50, p95), throughput, pass rate and utilisation per hour, this one last, and what runs now. Members.';

-- Events in a span that a chart cannot show: outages, and releases with how many runners have them.
create function private.figure_marks(p_org uuid, p_from timestamptz, p_to timestamptz) returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(to_jsonb(m) order by m.at desc), '[]') from (
    select 'outage' as kind, o.began_at as at, o.ended_at as until, null as version, null as updated, null as runners
    from private.outages as o where o.ended_at > p_from
    union all
    select 'release', r.published_at, null, r.version, w.updated, w.runners
    from public.worker_releases as r cross join lateral (
      -- By version: a fleet has thousands of runners and a few versions.
      select coalesce(sum(v.runners) filter (where private.version_key(v.version) >= private.version_key(r.version)),
        0) as updated, coalesce(sum(v.runners), 0) as runners
      from (select f.version, count(*) as runners from public.workers as f where f.org_id = p_org
        and f.removed_at is null group by f.version) as v
    ) as w
    where r.published_at >= p_from and r.published_at < p_to and r.withdrawn_at is null
    order by 2 desc limit 10
  ) as m
$$;

create function private.fleet_figures(p_org uuid, p_hours integer default 24) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  -- Sixty to eighty-four points, however long the span.
  v_step pg_catalog.interval := case p_hours when 1 then interval '1 minute' when 24 then interval '20 minutes'
    when 168 then interval '2 hours' end;
  v_to pg_catalog.timestamptz := date_bin(v_step, now(), '2000-01-01 00:00+00') + v_step;
  v_from pg_catalog.timestamptz := v_to - make_interval(hours => p_hours);
begin
  perform private.need('module.read', p_org);
  perform private.fail('RY422', 'Figures are for 1, 24 or 168 hours.') where v_step is null;
  return (
    with point as materialized (
      select * from private.wait_points(p_org, v_from, v_to, v_step)
    )
    select jsonb_build_object('hours', p_hours, 'from', v_from, 'to', v_to, 'now', private.fleet_counts(p_org),
      'whole', coalesce((select to_jsonb(p) - 'at' from point as p where p.at is null),
        '{"jobs": 0, "failed": 0, "succeeded": 0, "p50": null, "p95": null, "p99": null}'),
      'points', (
        select jsonb_agg(jsonb_build_object('at', x.at, 'jobs', coalesce(p.jobs, 0), 'failed', coalesce(p.failed, 0),
          'succeeded', coalesce(p.succeeded, 0), 'p50', p.p50, 'p95', p.p95, 'p99', p.p99, 'share', l.share)
            order by x.at)
        from generate_series(v_from, v_to - v_step, v_step) as x (at) left join point as p on p.at = x.at
        left join private.load_points(p_org, v_from, v_to, v_step) as l on l.at = x.at),
      'marks', private.figure_marks(p_org, v_from, v_to)));
end;
$$;
comment on function private.fleet_figures is
  'Waits (p50, p95, p99), utilisation, throughput and pass rate over 1, 24 or 168 hours: points of a chart, the '
  'whole, and the releases and outages of that time. Members.';

-- Figures of the installation as a whole, for a monitoring system: counts and times, no names and no organisations.
-- The waits of the jobs that ended within the last five minutes, in seconds.
create function private.recent_waits() returns jsonb language sql stable as $$
  -- Organisation by organisation, by its index: jobs that ended lately were claimed lately.
  select jsonb_build_object('count', count(*), 'sum', coalesce(sum(w.seconds), 0),
    'p50', percentile_cont(0.5) within group (order by w.seconds),
    'p95', percentile_cont(0.95) within group (order by w.seconds),
    'p99', percentile_cont(0.99) within group (order by w.seconds))
  from public.organizations as o
  cross join lateral (
    select extract(epoch from j.claimed_at - j.queued_at)::double precision as seconds from public.provision_jobs as j
    where j.org_id = o.id and j.finished_at > now() - interval '5 minutes' and j.claimed_at >= j.queued_at
  ) as w
$$;

create function private.installation_metrics() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object(
    'jobs', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select j.status, sum(j.n) as n from public.organizations as o
        cross join lateral (
          select p.status, count(*) as n from public.provision_jobs as p
          where p.org_id = o.id
            and p.status in ('AWAITING_APPROVAL', 'QUEUED', 'CLAIMED', 'PROCESSING', 'NEEDS_ATTENTION')
          group by p.status
        ) as j group by j.status
      ) as c),
    'oldest_queued_seconds', (
      select coalesce(max(extract(epoch from now() - q.queued_at)), 0) from public.organizations as o
      cross join lateral (
        select p.queued_at from public.provision_jobs as p where p.org_id = o.id and p.status = 'QUEUED'
        order by p.id limit 1
      ) as q),
    'waits', private.recent_waits(),
    'runners', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select w.status, count(*) as n from public.workers as w where w.removed_at is null group by w.status) as c),
    'slots', (select coalesce(sum(i.capacity), 0) from private.instance_liveness as i where i.is_fresh),
    'slots_used', (select count(*) from private.live_jobs as l where l.stage = 'RUNNING'),
    'sweep_lag_seconds', private.swept_seconds_ago(),
    'deliveries', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select d.status, count(*) as n from (
          (select p.status from public.deliveries as p where p.status = 'PENDING' limit 10000)
          union all
          select r.status from (select * from public.deliveries as l order by l.id desc limit 10000) as r
          where r.status <> 'PENDING'
        ) as d group by d.status) as c),
    'organizations', (select count(*) from public.organizations))
$$;
comment on function private.installation_metrics is
  'Figures of the installation: jobs by status, waits, runners by status, slots, how far behind the sweep is. The '
  'metrics function calls it.';

-- ## health
-- Is the installation well? For its operator: what keeps vacuum back, whether the sweep comes by, what pages follow.
create function private.open_transactions() returns jsonb
language sql stable security definer set search_path = '' as $$
  -- While one is open, vacuum cannot remove what claims leave in their index, and each claim steps over all of it. One
  -- of another database does not hinder it.
  select coalesce(jsonb_agg(to_jsonb(a) order by a.seconds desc), '[]') from (
    select a.pid, a.usename as role, a.application_name as application, a.state,
      round(extract(epoch from now() - a.xact_start))::integer as seconds
    from pg_catalog.pg_stat_activity as a
    where a.xact_start is not null and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
      and a.datname = current_database()
    order by a.xact_start limit 5
  ) as a
$$;
comment on function private.open_transactions is
  'The five oldest open transactions {pid, role, application, state, seconds}: they slow claims. Service key only.';

-- Why PostgreSQL cannot write, in its own words; null if it can. Rows that do not fit into memory are
-- written to the disk, and leave nothing there.
create function private.write_fault() returns text
language plpgsql stable set search_path = '' set work_mem = '64kB' as $$
begin
  perform count(*) from generate_series(1, 10000);
  return case when current_setting('default_transaction_read_only') = 'on' then 'the database is read-only' end;
exception when others then return sqlerrm;
end;
$$;

create function private.installation_health() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object(
    'postgres', current_setting('server_version'),
    'bytes', pg_database_size(current_database()),
    'connections', (select count(*) from pg_catalog.pg_stat_activity as a where a.datname = current_database()),
    'most_connections', current_setting('max_connections')::integer,
    'oldest_transaction_seconds', coalesce((private.open_transactions() #>> '{0,seconds}')::integer, 0),
    'swept_seconds_ago', private.swept_seconds_ago(), 'write_fault', private.write_fault(),
    'published', coalesce((select jsonb_agg(t.tablename order by t.tablename) from pg_catalog.pg_publication_tables as t
      where t.pubname = 'supabase_realtime' and t.schemaname = 'public'), '[]'),
    'extensions', (select jsonb_agg(e.extname order by e.extname) from pg_catalog.pg_extension as e),
    'organizations', (select count(*) from public.organizations),
    'unfinished_jobs', (select count(*) from private.live_jobs),
    'runners_online', (select count(*) from public.workers as w where w.removed_at is null and w.status = 'ONLINE'))
$$;
comment on function private.installation_health is
  'What the database says of itself: connections, the oldest transaction, the last sweep, what keeps it from writing, '
  'what is published and installed. Service key only.';

-- Seconds since the last sweep that was whole; null when there was none since the server's last crash.
create function private.swept_seconds_ago() returns integer language sql stable as $$
  select extract(epoch from now() - c.ran_at)::integer from private.clocks as c where c.name = 'swept'
$$;
