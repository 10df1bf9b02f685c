-- Figures for the page of charts: how long jobs wait, how busy runners are, how jobs end, over an hour, a day or a
-- week, and where the waits are the longest. A percentile of hours is not one of the day: waits are counted by their
-- size, and the counts of closed hours are added up. The longest waits of the last day are read from its jobs.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.wait_points(p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval)
returns table (at timestamptz, jobs bigint, failed bigint, succeeded bigint, p50 double precision,
  p95 double precision, p99 double precision)
language plpgsql stable
set search_path = ''
as $$
declare
  v_open pg_catalog.timestamptz := case when p_step < interval '1 hour' then p_from
    else private.open_since(p_from) end;
begin
  return query
  with counted as materialized (
    select date_bin(p_step, c.hour, '2000-01-01') as bin, c.size, c.jobs, c.failed, c.succeeded from (
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
comment on function private.wait_points(uuid, timestamptz, timestamptz, interval) is
  'The jobs of an organisation that ended in each step of a span, and how long they had waited; all of them in the row '
  'without a time.';

create function private.load_points(p_org uuid, p_from timestamptz, p_to timestamptz, p_step interval)
returns table (at timestamptz, share double precision)
language plpgsql stable
set search_path = ''
as $$
declare
  -- Runners are counted by quarters of an hour, and closed hours are added up.
  v_step pg_catalog.interval := case when p_step < interval '15 minutes' then interval '15 minutes'
    else greatest(p_step, interval '1 hour') end;
  v_open pg_catalog.timestamptz := case when v_step < interval '1 hour' then p_from
    else private.open_since(p_from) end;
begin
  return query
  select date_bin(v_step, l.hour, '2000-01-01'), sum(l.busy)::double precision / nullif(sum(l.slots), 0) from (
    select * from private.load_hourly as h where h.org_id = p_org and h.hour >= p_from and h.hour < v_open
    union all
    select * from private.load_sums(p_org, v_open, p_to, v_step)
  ) as l group by 1;
end;
$$;
comment on function private.load_points(uuid, timestamptz, timestamptz, interval) is
  'Which share of its slots an organisation used, in steps of a quarter of an hour, an hour or more.';

create function private.busiest_parts(p_org uuid, p_from timestamptz, p_to timestamptz)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (
    with job as materialized (
      -- By bytes: they are sorted to be told apart, and a language's order costs twice as much as all the rest.
      select j.status, j.worker_id, j.worker_name collate pg_catalog."C" as worker_name,
        split_part(j.group_path, '/', 1) collate pg_catalog."C" as top,
        case when j.claimed_at >= j.queued_at then date_part('epoch', j.claimed_at - j.queued_at) end as wait,
        greatest(date_part('epoch', j.finished_at - j.claimed_at), 0) as busy
      from public.provision_jobs as j where j.org_id = p_org and j.finished_at >= p_from
    ), part as (
      select case grouping(j.top) when 1 then 'runner' else 'group' end as kind, j.worker_id as id,
        nullif(case grouping(j.top) when 1 then j.worker_name else j.top end, '') as name, count(*) as jobs,
        count(*) filter (where j.status = 'FAILED') as failed,
        count(*) filter (where j.status = 'SUCCEEDED') as succeeded, sum(j.busy) as busy,
        percentile_cont(0.95) within group (order by j.wait) filter (where j.wait is not null) as p95
      from job as j group by grouping sets ((j.worker_id, j.worker_name), (j.top))
    ), ranked as (
      select p.*, row_number() over (partition by p.kind order by p.p95 desc nulls last, p.name) as place,
        count(*) over (partition by p.kind) as parts
      from part as p where p.name is not null
    )
    select coalesce(jsonb_agg(jsonb_build_object('kind', r.kind, 'id', r.id, 'name', r.name, 'jobs', r.jobs,
      'failed', r.failed, 'succeeded', r.succeeded, 'p95', r.p95, 'of', r.parts,
      'busy', r.busy / date_part('epoch', p_to - p_from)) order by r.kind, r.place), '[]')
    from ranked as r where r.place <= 20);
end;
$$;
comment on function private.busiest_parts(uuid, timestamptz, timestamptz) is
  'The runners and top-level groups whose jobs waited longest since then, twenty of each.';

create function private.fleet_figures(p_org uuid, p_hours integer)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  -- Sixty to eighty-four points, however long the span.
  v_step pg_catalog.interval := case p_hours when 1 then interval '1 minute' when 24 then interval '20 minutes'
    when 168 then interval '2 hours' end;
  v_to pg_catalog.timestamptz := date_bin(v_step, now(), '2000-01-01') + v_step;
  v_from pg_catalog.timestamptz := v_to - make_interval(hours => p_hours);
begin
  perform private.need_role(p_org, 'viewer');
  if v_step is null then
    perform private.fail('RY422', 'Figures are for 1, 24 or 168 hours.');
  end if;
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
      -- Of the last day at most: who waits longest is asked about now.
      'parts', private.busiest_parts(p_org, greatest(v_from, v_to - interval '24 hours'), v_to)));
end;
$$;
comment on function private.fleet_figures(uuid, integer) is 'Body of public.fleet_figures.';
grant execute on function private.fleet_figures(uuid, integer) to authenticated;

revoke execute on all functions in schema private from public;
