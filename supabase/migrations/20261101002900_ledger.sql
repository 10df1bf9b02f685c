-- The ledger: what was promised about jobs, counted over what is stored. Each count but those of what was looked at
-- is 0, whatever was killed, cut off or restarted meanwhile. Tests that break things close with it, and the demo's
-- "Break something" shows it; it reads whole logs, so nobody else is given it.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.ledger_of_records(p_org uuid, p_since timestamptz)
returns jsonb
language sql stable
set search_path = ''
as $$
  with steps as materialized (
    select e.job_id, e.id, e.event, e.attempt, e.from_status, e.to_status, e.detail,
      lag(e.to_status) over (partition by e.job_id, e.to_status is not null order by e.id) as before
    from public.job_events as e where e.org_id = p_org and e.at >= p_since
  ), ends as (
    select distinct on (s.job_id) s.job_id, s.to_status from steps as s where s.to_status is not null
    order by s.job_id, s.id desc
  )
  select jsonb_build_object(
    -- What has events has a row.
    'lost', (select count(*) from ends as e
      where not exists (select from public.provision_jobs as j where j.id = e.job_id)),
    -- A change that began in more than one attempt, and nobody had decided to run it again.
    'double_applied', (select count(*) from (
        select s.job_id from steps as s where s.event = 'phase' and s.detail ->> 'phase' in ('APPLY', 'DESTROY')
          and not exists (select from steps as r where r.job_id = s.job_id and r.event = 'retried')
        group by s.job_id having count(distinct s.attempt) > 1) as twice),
    -- A job's events, replayed, give its status, and each goes on from where the one before it ended.
    'unreplayable', (select count(*) from public.provision_jobs as j left join ends as e on e.job_id = j.id
        where j.org_id = p_org and j.created_at >= p_since and j.status is distinct from e.to_status)
      + (select count(*) from steps as s join public.provision_jobs as j on j.id = s.job_id and j.created_at >= p_since
        where s.to_status is not null and s.from_status is distinct from s.before))
$$;
comment on function private.ledger_of_records(uuid, timestamptz) is
  'Jobs that are lost, changes that were begun twice, and jobs whose events do not give their status.';

create function private.ledger_of_writes(p_org uuid, p_since timestamptz)
returns bigint
language sql stable
set search_path = ''
as $$
  with claims as materialized (
    select e.job_id, e.attempt, min(e.at) as at from public.job_events as e
    where e.org_id = p_org and e.at >= p_since and e.event = 'claimed' group by e.job_id, e.attempt
  )
  select
    (select count(*) from public.job_log_chunks as c join claims as l on l.job_id = c.job_id and l.attempt > c.attempt
      where c.org_id = p_org and c.created_at > l.at)
    + (select count(*) from private.state_versions as s join claims as l on l.job_id = s.job_id
        and l.attempt > s.attempt where s.created_at > l.at)
    + (select count(*) from public.job_events as e join claims as l on l.job_id = e.job_id and l.attempt > e.attempt
      where e.org_id = p_org and e.at > l.at and e.actor_kind = 'worker' and e.event <> 'late_report')
$$;
comment on function private.ledger_of_writes(uuid, timestamptz) is
  'Writes of an attempt that were taken after a later attempt of the same job was claimed.';

create function private.ledger_of_work(p_org uuid, p_since timestamptz)
returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object(
    'jobs', count(*),
    'applies', count(*) filter (where j.type in ('APPLY', 'DESTROY')),
    'log_gaps', count(*) filter (where j.status in ('SUCCEEDED', 'FAILED', 'CANCELLED') and j.last_log_seq > 0 and (
      j.last_log_seq <> (select count(*) from public.job_log_chunks as c
        where c.job_id = j.id and c.attempt = j.attempt and c.seq <= j.last_log_seq)
      or exists (select from public.job_events as e where e.job_id = j.id and e.event = 'log_mismatch'))),
    -- An apply that succeeded, and whose state is neither stored nor kept aside.
    'state_lost', count(*) filter (where j.type = 'APPLY' and j.status = 'SUCCEEDED'
      and not exists (select from private.states as s where s.module_id = j.module_id)
      and not exists (select from private.kept_states as k where k.job_id = j.id)),
    'called_failed', count(*) filter (where j.status in ('FAILED', 'CANCELLED') and j.type in ('APPLY', 'DESTROY')
      and exists (select from public.job_log_chunks as c where c.job_id = j.id and c.attempt = j.attempt
        and (c.body like '%Apply complete!%' or c.body like '%Destroy complete!%'))),
    -- Ended for good for want of something that the runner lacked.
    'eaten', count(*) filter (where j.status = 'FAILED' and j.error ->> 'code' in ('disk', 'work_directory',
      'dispatcher', 'image', 'engine', 'memory', 'runner_disk', 'dispatch_failed')))
  from public.provision_jobs as j where j.org_id = p_org and j.created_at >= p_since
$$;
comment on function private.ledger_of_work(uuid, timestamptz) is
  'Jobs looked at, and those with gaps in their log, without their state, called failed although they were done, or '
  'ended by what their runner lacked.';

create function private.ledger(p_org uuid, p_since timestamptz)
returns jsonb
language sql stable
set search_path = ''
as $$
  select private.ledger_of_work(p_org, p_since) || private.ledger_of_records(p_org, p_since) || jsonb_build_object(
    'zombie_accepted', private.ledger_of_writes(p_org, p_since),
    'kept_aside', (select count(*) from private.kept_states as k
      where k.org_id = p_org and k.stored_at is null and k.discarded_at is null),
    'stuck', (select count(*) from private.live_jobs as q
      left join private.heartbeats as h on h.instance_id = q.instance_id and h.session_id = q.session_id
      where q.org_id = p_org and q.stage = 'RUNNING'
        and greatest(q.lease_until, h.last_seen_at + interval '60 seconds') + interval '30 seconds' < now()))
$$;
comment on function private.ledger(uuid, timestamptz) is
  'What became of an organisation''s jobs since then: how many were looked at, and one count for each promise that is '
  '0 when it was kept. For the owner of the database only.';

revoke execute on all functions in schema private from public;
