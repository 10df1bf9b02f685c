-- Figures of the installation as a whole, for a monitoring system: counts and times, no names and no organisations.
-- After the sweep, whose clock says how far behind it is.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.recent_waits()
returns jsonb
language sql stable
set search_path = ''
as $$
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
comment on function private.recent_waits() is
  'How long the jobs that ended within the last five minutes had waited, in seconds.';

create function private.installation_metrics()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
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
    'sweep_lag_seconds', (
      select extract(epoch from now() - max(c.ran_at)) from private.clocks as c where c.name = 'swept'),
    'deliveries', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select d.status, count(*) as n from public.deliveries as d group by d.status) as c),
    'organizations', (select count(*) from public.organizations))
$$;
comment on function private.installation_metrics() is 'Body of public.installation_metrics.';
grant execute on function private.installation_metrics() to service_role;

revoke execute on all functions in schema private from public;
