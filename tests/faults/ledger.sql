-- The ledger: promises about an organisation's jobs, counted over the stored rows. Each count except `jobs`, `applies`
-- and `kept_aside` is 0, whatever was killed, cut off or restarted meanwhile. Fault tests end with it. It reads
-- whole logs as the owner of the database.
-- Parameters: organisation, start of the span.
with span as materialized (
  select %(org)s::uuid as org, %(since)s::timestamptz as since
), jobs as materialized (
  select j.* from public.provision_jobs as j, span where j.org_id = span.org and j.created_at >= span.since
), steps as materialized (
  select e.*, lag(e.to_status) over (partition by e.job_id, e.to_status is not null order by e.id) as before
  from public.job_events as e, span where e.org_id = span.org and e.at >= span.since
), ends as materialized (
  select distinct on (s.job_id) s.job_id, s.to_status from steps as s where s.to_status is not null
  order by s.job_id, s.id desc
), claims as materialized (
  select s.job_id, s.attempt, min(s.at) as at from steps as s where s.event = 'claimed' group by s.job_id, s.attempt
), work as (
  select
    count(*) as jobs,
    count(*) filter (where j.type in ('APPLY', 'DESTROY')) as applies,
    count(*) filter (where j.status in ('SUCCEEDED', 'FAILED', 'CANCELLED') and j.last_log_seq > 0 and (
      j.last_log_seq <> (select count(*) from public.job_log_chunks as c
        where c.log_day = j.log_day and c.job_id = j.id and c.attempt = j.attempt and c.seq <= j.last_log_seq)
      or exists (select from steps as e where e.job_id = j.id and e.event = 'log_mismatch'))) as log_gaps,
    -- An apply that succeeded, and whose state is neither stored nor kept aside.
    count(*) filter (where j.type = 'APPLY' and j.status = 'SUCCEEDED'
      and not exists (select from private.states as s where s.module_id = j.module_id)
      and not exists (select from private.kept_states as k where k.job_id = j.id)) as state_lost,
    count(*) filter (where j.status in ('FAILED', 'CANCELLED') and j.type in ('APPLY', 'DESTROY')
      and exists (select from public.job_log_chunks as c where c.log_day = j.log_day and c.job_id = j.id
        and c.attempt = j.attempt
        and (c.body like '%%Apply complete!%%' or c.body like '%%Destroy complete!%%'))) as called_failed,
    -- Failed for good because the runner lacked something.
    count(*) filter (where j.status = 'FAILED' and j.error ->> 'code' in ('disk', 'work_directory',
      'dispatcher', 'image', 'engine', 'memory', 'runner_disk', 'dispatch_failed')) as eaten
  from jobs as j
), records as (
  select
    -- A job that has events has a row.
    (select count(*) from ends as e
      where not exists (select from public.provision_jobs as j where j.id = e.job_id)) as lost,
    -- A change that began in more than one attempt without a person's decision to run it again.
    (select count(*) from (
      select s.job_id from steps as s where s.event = 'phase' and s.detail ->> 'phase' in ('APPLY', 'DESTROY')
        and not exists (select from steps as r where r.job_id = s.job_id and r.event = 'retried')
      group by s.job_id having count(distinct s.attempt) > 1) as twice) as double_applied,
    -- A job's events, replayed, give its status, and each continues where the one before it ended.
    (select count(*) from jobs as j left join ends as e on e.job_id = j.id
      where j.status is distinct from e.to_status)
    + (select count(*) from steps as s join jobs as j on j.id = s.job_id
      where s.to_status is not null and s.from_status is distinct from s.before) as unreplayable
), writes as (
  -- Writes of an attempt that were accepted after a later attempt of the same job was claimed.
  select
    (select count(*) from public.job_log_chunks as c join claims as l on l.job_id = c.job_id and l.attempt > c.attempt
      where not c.is_late and c.created_at > l.at and c.log_day >= (select since at time zone 'utc' from span)::date)
    + (select count(*) from private.state_versions as s join claims as l on l.job_id = s.job_id
        and l.attempt > s.attempt where s.created_at > l.at)
    + (select count(*) from steps as e join claims as l on l.job_id = e.job_id and l.attempt > e.attempt
      where e.at > l.at and e.actor_kind = 'worker' and e.event <> 'late_report') as zombie_accepted
), rest as (
  select
    (select count(*) from private.kept_states as k, span
      where k.org_id = span.org and k.stored_at is null and k.discarded_at is null) as kept_aside,
    (select count(*) from private.live_jobs as q cross join span
      left join private.heartbeats as h on h.instance_id = q.instance_id and h.session_id = q.session_id
      where q.org_id = span.org and q.stage = 'RUNNING'
        and greatest(q.lease_until, h.last_seen_at + private.lease()) + interval '30 seconds' < now()) as stuck
)
select to_jsonb(work) || to_jsonb(records) || to_jsonb(writes) || to_jsonb(rest) as ledger
from work, records, writes, rest
