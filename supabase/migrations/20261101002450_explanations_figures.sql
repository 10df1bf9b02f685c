-- Figures for the page of charts: how long jobs wait, how busy runners are, how jobs end, over an hour, a day or a
-- week, and where the waits are the longest. Counted from the jobs: a percentile of hours is not one of the day.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.ended_jobs(p_org uuid, p_from timestamptz)
returns table (finished_at timestamptz, is_failed boolean, is_succeeded boolean, wait double precision,
  busy double precision, worker_id uuid, worker_name text, group_path text)
language sql stable
set search_path = ''
as $$
  select j.finished_at, j.status = 'FAILED', j.status = 'SUCCEEDED',
    case when j.claimed_at >= j.queued_at then extract(epoch from j.claimed_at - j.queued_at)::double precision end,
    greatest(extract(epoch from j.finished_at - j.claimed_at), 0)::double precision, j.worker_id, j.worker_name,
    split_part(coalesce(j.group_path, ''), '/', 1)
  from public.provision_jobs as j where j.org_id = p_org and j.finished_at >= p_from
$$;
comment on function private.ended_jobs(uuid, timestamptz) is
  'The jobs of an organisation that ended since then, with their waits and how long they held a slot, in seconds.';

create function private.fleet_figures(p_org uuid, p_hours integer)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_hours integer := case when p_hours in (1, 24, 168) then p_hours end;
  -- Sixty to eighty-four points, however long the span.
  v_step pg_catalog.interval := case p_hours when 1 then interval '1 minute' when 24 then interval '20 minutes'
    else interval '2 hours' end;
  v_to pg_catalog.timestamptz;
  v_from pg_catalog.timestamptz;
  v_answer pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  if v_hours is null then
    perform private.fail('RY422', 'Figures are for 1, 24 or 168 hours.');
  end if;
  v_to := date_bin(v_step, now(), '2000-01-01') + v_step;
  v_from := v_to - make_interval(hours => v_hours);
  with job as materialized (
    select * from private.ended_jobs(p_org, v_from)
  ), point as (
    select date_bin(v_step, j.finished_at, '2000-01-01') as at, count(*) as jobs,
      count(*) filter (where j.is_failed) as failed, count(*) filter (where j.is_succeeded) as succeeded,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by j.wait) filter (where j.wait is not null) as waits
    from job as j group by 1
  ), load as (
    select date_bin(greatest(v_step, interval '15 minutes'), t.at, '2000-01-01') as at,
      sum(t.busy)::double precision / nullif(sum(t.slots), 0) as share
    from (
      select k.at, k.busy, k.slots from private.worker_ticks as k join public.workers as w on w.id = k.worker_id
      where w.org_id = p_org and k.at >= v_from
      union all
      select h.tick_at, h.tick_busy, h.tick_slots from private.heartbeats as h
      join public.workers as w on w.id = h.worker_id where w.org_id = p_org and h.tick_at >= v_from and h.tick_beats > 0
    ) as t group by 1
  ), whole as (
    select count(*) as jobs, count(*) filter (where j.is_failed) as failed,
      count(*) filter (where j.is_succeeded) as succeeded,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by j.wait) filter (where j.wait is not null) as waits
    from job as j
  ), part as (
    select g.kind, g.id, g.name, count(*) as jobs, count(*) filter (where j.is_failed) as failed,
      count(*) filter (where j.is_succeeded) as succeeded, sum(j.busy) as busy,
      percentile_cont(0.95) within group (order by j.wait) filter (where j.wait is not null) as p95
    from job as j cross join lateral (
      values ('runner', j.worker_id::pg_catalog.text, j.worker_name), ('group', null, nullif(j.group_path, ''))
    ) as g (kind, id, name)
    -- Of the last day at most: who waits longest is asked about now.
    where g.name is not null and j.finished_at >= v_to - interval '24 hours' group by g.kind, g.id, g.name
  ), ranked as (
    select p.*, row_number() over (partition by p.kind order by p.p95 desc nulls last, p.name) as place,
      count(*) over (partition by p.kind) as parts
    from part as p
  )
  select jsonb_build_object('hours', v_hours, 'from', v_from, 'to', v_to, 'now', private.fleet_counts(p_org),
    'whole', (select jsonb_build_object('jobs', w.jobs, 'failed', w.failed, 'succeeded', w.succeeded, 'p50', w.waits[1],
      'p95', w.waits[2], 'p99', w.waits[3]) from whole as w),
    'points', (
      select jsonb_agg(jsonb_build_object('at', x.at, 'jobs', coalesce(p.jobs, 0), 'failed', coalesce(p.failed, 0),
        'succeeded', coalesce(p.succeeded, 0), 'p50', p.waits[1], 'p95', p.waits[2], 'p99', p.waits[3],
        'share', l.share) order by x.at)
      from generate_series(v_from, v_to - v_step, v_step) as x (at) left join point as p on p.at = x.at
      left join load as l on l.at = x.at),
    'parts', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', r.kind, 'id', r.id, 'name', r.name, 'jobs', r.jobs,
        'failed', r.failed, 'succeeded', r.succeeded, 'p95', r.p95, 'of', r.parts,
        'busy', r.busy / extract(epoch from least(v_to - v_from, interval '24 hours'))) order by r.kind, r.place), '[]')
      from ranked as r where r.place <= 20))
  into v_answer;
  return v_answer;
end;
$$;
comment on function private.fleet_figures(uuid, integer) is 'Body of public.fleet_figures.';
grant execute on function private.fleet_figures(uuid, integer) to authenticated;

revoke execute on all functions in schema private from public;
