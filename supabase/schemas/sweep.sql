-- The sweep: what time does to runners and jobs. It can run twice at once, and be missed for an hour: it looks at the
-- clock, not at how often it ran. It waits for nobody: what it cannot lock at once is left to the next sweep. It has a
-- driver of its own, every 10 s: pg_cron, or the supervisor of the embedded stack. Last, Realtime: who may listen to
-- which topic, and which tables pages follow; guarded, so that it runs where there is none.

create table private.outages (
  began_at timestamptz primary key,
  ended_at timestamptz check (ended_at > began_at)
);
create unique index outages_open_idx on private.outages ((true)) where ended_at is null;
comment on table private.outages is
  'When nothing swept for two minutes or more: the database was down, or nothing could reach it. Kept for eight days.';
comment on column private.outages.began_at is 'When the last sweep before it ran.';
comment on column private.outages.ended_at is
  'When the first sweep ran again; null in the one row that is not an outage but the last sign of life.';

create unlogged table private.first_sweeps (
  server_started_at timestamptz primary key,
  swept_at timestamptz not null
);
comment on table private.first_sweeps is
  'The first sweep since the server started or crashed. UNLOGGED: a crash empties it together with the heartbeats, and '
  'one killed backend is a crash that leaves the server''s start time as it was.';
comment on column private.first_sweeps.server_started_at is 'The server''s start; an earlier one counts no more.';
comment on column private.first_sweeps.swept_at is 'When the first sweep after that, or after a crash, ran.';

-- Marks runners and instances OFFLINE that have sent no heartbeat for 60 s, and wakes those who may take their place.
create function private.sweep_workers(out v_count integer) language plpgsql as $$
declare
  v_worker pg_catalog.uuid;
begin
  v_count := 0;
  for v_worker in
    select w.id from public.workers as w
    where w.status <> 'OFFLINE' and w.removed_at is null
      and not exists (select from private.instance_liveness as i where i.worker_id = w.id and i.is_fresh)
    for no key update of w skip locked loop
    begin
      perform private.refresh_worker_status(v_worker);
      perform private.wake_lanes_of(v_worker);
      v_count := v_count + 1;
    exception when query_canceled or others then raise warning 'sweep of runner %: %', v_worker, sqlerrm;
    end;
  end loop;
  update public.worker_instances as i set status = 'OFFLINE', disconnected_at = now()
  where i.id in (
    select o.id from public.worker_instances as o join public.workers as w on w.id = o.worker_id
    where o.status <> 'OFFLINE' and not exists (select from private.instance_liveness as l where l.instance_id = o.id
      and l.is_fresh)
    for no key update of w, o skip locked);
end;
$$;

-- Ends the sessions whose token has expired. Their calls are refused already; this shows it on the runner's page.
create function private.sweep_sessions(out v_count integer) language plpgsql as $$
declare
  v_session pg_catalog.record;
begin
  v_count := 0;
  for v_session in
    select s.worker_id, s.instance_id, s.token_id from private.sessions as s
      join public.workers as w on w.id = s.worker_id
    where s.ended_at is null and s.expires_at <= now() order by w.id limit 500 for no key update of w, s skip locked
  loop
    begin
      perform private.end_sessions(v_session.worker_id, v_session.instance_id, v_session.token_id,
        'its token expired');
      perform private.refresh_worker_status(v_session.worker_id);
      v_count := v_count + 1;
    exception
      when query_canceled or others then raise warning 'sweep of sessions of runner %: %', v_session.worker_id, sqlerrm;
    end;
  end loop;
end;
$$;

-- Does what the clock asks of a job; one that cannot be done stops no other.
create function private.sweep_job(p_part text, p_job private.live_jobs) returns boolean language plpgsql as $$
begin
  if not private.try_lock_job(p_job) then return false; end if;
  case p_part
    when 'lease' then
      perform private.lose_job(p_job.job_id, case when p_job.unlisted_at is null
        then 'No heartbeat for 60 s.' else 'The runner does not know of this attempt any more.' end);
    when 'pause' then perform private.make_ready(p_job.job_id);
    when 'update' then
      perform private.end_job(p_job.job_id, 'FAILED', 'failed', 'system', null, 'system',
        'The runner did not return.', jsonb_build_object('code', 'update_no_heartbeat',
        'message', 'The runner that was to update itself has not been online for 5 minutes.',
        'hint', 'Look at its log and start it again; its file of before ends in .previous.'));
  end case;
  return true;
exception when query_canceled or others then
  raise warning 'sweep of the % of job %: %', p_part, p_job.job_id, sqlerrm;
  return false;
end;
$$;

-- Requeues or flags jobs whose lease has run out.
create function private.sweep_leases() returns integer language sql as $$
  select count(*) filter (where private.sweep_job('lease', q.job))::integer from (
    select q as job from private.live_jobs as q
    left join private.heartbeats as h on h.instance_id = q.instance_id and h.session_id = q.session_id
    where q.stage = 'RUNNING' and (
      greatest(q.lease_until, h.last_seen_at + private.lease()) < now()
        or q.unlisted_at < now() - interval '30 seconds')
    order by q.state_key limit 500
  ) as q
$$;

-- Makes jobs ready whose pause is over.
create function private.sweep_backoff() returns integer language sql as $$
  select count(*) filter (where private.sweep_job('pause', q.job))::integer from (
    select q as job from private.live_jobs as q where q.stage = 'BACKOFF' and q.not_before_at <= now()
    order by q.not_before_at limit 500
  ) as q
$$;

-- Fails the update of a runner that was to update itself and went away, so that its rollout pauses.
create function private.sweep_updates() returns integer language sql as $$
  select count(*) filter (where private.sweep_job('update', q))::integer
  from public.provision_jobs as j join private.live_jobs as q on q.job_id = j.id
  where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.pinned_worker_id = j.target_worker_id
    and j.queued_at < now() - interval '5 minutes'
    and not exists (select from private.instance_liveness as i where i.worker_id = j.target_worker_id and i.is_fresh
      and i.name = coalesce(j.pinned_instance_name, i.name))
$$;

-- Gives jobs of less than the usual priority (100) that one when they have waited for ten minutes, so that they do not
-- starve behind people's jobs. One of each lane at a time: people's jobs must not wait behind a long queue of these.
create function private.sweep_aging(out v_count integer) language plpgsql as $$
declare
  v_live private.live_jobs;
  v_job public.provision_jobs;
  v_lane integer;
begin
  v_count := 0;
  for v_live in
    select q.* from private.lanes as l
    cross join lateral (
      select r.* from private.live_jobs as r where r.lane_id = l.id order by r.ready_seq limit 1
    ) as q
    where l.priority > 100 and not exists (
      select from private.live_jobs as a where a.aged_from = l.id and a.stage = 'READY') loop
    begin
      select * into v_job from public.provision_jobs as j where j.id = v_live.job_id;
      continue when v_job.queued_at > now() - interval '10 minutes' or not private.try_lock_job(v_live);
      v_job.priority := 100;
      v_lane := private.lane_of(v_job);
      -- It keeps its place: older than the jobs that became ready meanwhile.
      update private.live_jobs as q set priority = 100, lane_id = v_lane, aged_from = v_live.lane_id
      where q.job_id = v_live.job_id;
      perform private.wake_lane(v_lane, 1);
      v_count := v_count + 1;
    exception
      when query_canceled or others then raise warning 'sweep of the priority of job %: %', v_live.job_id, sqlerrm;
    end;
  end loop;
end;
$$;

-- Cancels jobs that were not approved in time.
create function private.sweep_approvals(out v_count integer) language plpgsql as $$
declare
  v_job bigint;
begin
  v_count := 0;
  for v_job in
    select j.id from public.provision_jobs as j
    where j.status = 'AWAITING_APPROVAL' and j.approval_deadline_at <= now()
      order by j.id limit 500 for no key update skip locked loop
    begin
      perform private.end_job(v_job, 'CANCELLED', 'approval_expired', 'system', null, 'system',
        'Nobody approved it in time.');
      v_count := v_count + 1;
    exception when query_canceled or others then raise warning 'sweep of the approval of job %: %', v_job, sqlerrm;
    end;
  end loop;
end;
$$;

-- The days that have a log partition, the oldest first.
create function private.log_days() returns setof date language sql stable as $$
  select to_date(right(c.relname, 8), 'YYYYMMDD')
  from pg_catalog.pg_inherits as i join pg_catalog.pg_class as c on c.oid = i.inhrelid
  where i.inhparent = 'public.job_log_chunks'::pg_catalog.regclass and c.relname ~ '_[0-9]{8}$' order by 1
$$;

-- Drops log partitions that nobody keeps, a week of days at a time: each costs locks until the transaction ends.
create function private.drop_old_log_partitions(out v_count integer) language plpgsql as $$
declare
  v_day pg_catalog.date;
  v_oldest pg_catalog.date := private.utc_day() - coalesce((
    select max(o.log_retention_days) from public.organizations as o), 30);
begin
  v_count := 0;
  delete from private.job_log_chunks_rest where log_day < v_oldest;
  for v_day in select d from private.log_days() as d where d < v_oldest loop
    begin
      execute format('drop table private.%I', private.log_partition_name(v_day));
      v_count := v_count + 1;
    exception
      -- Somebody reads logs, such as a backup: their days go with the next housekeeping.
      when lock_not_available then exit;
      when query_canceled or others then raise warning 'sweep, logs of %: %', v_day, sqlerrm;
    end;
    exit when v_count = 7;
  end loop;
end;
$$;

create table private.log_retention (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  kept_from date not null
);
comment on table private.log_retention is 'How far each organisation''s old logs were deleted: no day is read twice.';
comment on column private.log_retention.kept_from is 'Nothing of the days before is left.';

-- Deletes log chunks that are older than their own organisation's retention.
create function private.delete_old_logs(out v_count integer) language plpgsql as $$
declare
  v_day pg_catalog.date;
  v_orgs pg_catalog.uuid[];
  v_deleted integer;
begin
  v_count := 0;
  -- Whole days go by dropping their partition; this is for organisations that keep logs for less long than another. A
  -- part at a time, so that a sweep stays short.
  for v_day in
    select d from private.log_days() as d union select c.log_day from private.job_log_chunks_rest as c order by 1 loop
    v_orgs := array(
      select o.id from public.organizations as o left join private.log_retention as r on r.org_id = o.id
      where v_day < private.utc_day() - o.log_retention_days and v_day >= coalesce(r.kept_from, v_day));
    continue when v_orgs = '{}';
    delete from public.job_log_chunks as c
    where (c.log_day, c.job_id, c.attempt, c.seq) in (
      select l.log_day, l.job_id, l.attempt, l.seq from public.job_log_chunks as l
      where l.log_day = v_day and l.org_id = any (v_orgs) limit 20000 - v_count);
    get diagnostics v_deleted = row_count;
    v_count := v_count + v_deleted;
    exit when v_count = 20000;
    insert into private.log_retention as r (org_id, kept_from) select o, v_day + 1 from unnest(v_orgs) as o
    on conflict (org_id) do update set kept_from = excluded.kept_from;
    exit when clock_timestamp() > now() + interval '2 seconds';
  end loop;
end;
$$;

-- Ends sessions that were silent for a week, and forgets processes that ended a week ago when another came after them.
create function private.forget_instances(out v_count integer) language plpgsql as $$
declare
  v_silent pg_catalog.record;
begin
  -- A killed process sends no end, and never returns where each has its own name, as in a cluster.
  for v_silent in
    select s.worker_id, s.instance_id from private.sessions as s join public.workers as w on w.id = s.worker_id
    where s.ended_at is null and s.renewed_at < now() - interval '7 days' and not exists (
      select from private.heartbeats as h where h.instance_id = s.instance_id
        and h.last_seen_at > now() - interval '7 days')
    order by s.worker_id limit 500 for no key update of w skip locked loop
    perform private.end_sessions(v_silent.worker_id, v_silent.instance_id, null, 'it was silent for a week');
  end loop;
  -- The last one of a runner stays: it is what its page can tell.
  delete from public.worker_instances as i where i.id in (
    select o.id from public.worker_instances as o
    where o.status = 'OFFLINE' and o.disconnected_at < now() - interval '7 days'
      and exists (select from public.worker_instances as n where n.worker_id = o.worker_id
        and n.connected_at > o.connected_at)
      and not exists (select from private.sessions as s where s.instance_id = o.id and s.ended_at is null)
    limit 500 for update skip locked);
  get diagnostics v_count = row_count;
end;
$$;

-- Removes lanes that have no job; they are created again when needed.
create function private.forget_lanes(out v_count integer) language plpgsql as $$
declare
  v_org pg_catalog.uuid;
  v_deleted integer;
begin
  v_count := 0;
  -- Every claim asks each lane of its runner for jobs, and pins, labels and priorities that nobody uses any more leave
  -- some behind. With the routing lock alone, so that nobody is about to put a job into one of them.
  for v_org in
    select distinct l.org_id from private.lanes as l where l.created_at < now() - interval '1 day'
      and not exists (select from private.live_jobs as q where q.lane_id = l.id)
        order by 1 limit 100 loop
    if private.try_lock_routing(v_org, true) then
      delete from private.lanes as l where l.org_id = v_org and l.created_at < now() - interval '1 day'
        and not exists (select from private.live_jobs as q where q.lane_id = l.id);
      get diagnostics v_deleted = row_count;
      v_count := v_count + v_deleted;
    end if;
  end loop;
end;
$$;

-- Removes temporary modules whose jobs have ended and that have no state, and the group that was made for them.
create function private.remove_temporary_modules(out v_count integer) language plpgsql as $$
declare
  v_module public.modules;
begin
  v_count := 0;
  -- A minute: it is created first, and its job is requested next.
  for v_module in select m.* from public.modules as m where m.is_temporary and m.deleted_at is null
    and m.updated_at < now() - interval '1 minute' limit 100 loop
    continue when not private.try_lock_state(v_module.org_id, v_module.id)
      or exists (select from private.live_jobs as q where q.state_key = v_module.id)
      or exists (select from public.provision_jobs as j where j.module_id = v_module.id
        and j.status = 'AWAITING_APPROVAL')
      or exists (select from private.states as s where s.module_id = v_module.id)
      or exists (select from private.kept_states as k where k.module_id = v_module.id)
      or exists (select from public.module_dependencies as d where d.producer_id = v_module.id);
    update public.modules set deleted_at = now() where id = v_module.id;
    delete from public.module_dependencies where consumer_id = v_module.id;
    delete from public.groups as g where g.id = v_module.group_id and g.description = '' and g.hooks = '{}'
      and not exists (select from public.variables as v where v.org_id = g.org_id and v.path = g.path
        and v.ended_at is null)
      and not exists (select from public.modules as m where m.group_id = g.id and m.deleted_at is null)
      and not exists (select from public.groups as c where c.org_id = g.org_id and starts_with(c.path, g.path || '/'))
      and not exists (select from public.worker_assignments as a where a.org_id = g.org_id and a.path = g.path);
    perform private.audited(to_jsonb(v_module), 'module.deleted', v_module.path,
      jsonb_build_object('reason', 'temporary'));
    v_count := v_count + 1;
  end loop;
end;
$$;

-- Removes the rows of one kind that are past their time, or makes log partitions ahead: each is a part of the sweep, so
-- that one that fails stops no other.
create function private.remove_old_rows(p_part text, out v_count integer) language plpgsql as $$
begin
  case p_part
    when 'log_days' then
      perform private.ensure_log_partition(private.utc_day() + d) from generate_series(0, 2) as d;
    when 'old_artifacts' then
      -- Each may have 32 MiB.
      delete from private.artifacts as a where (a.job_id, a.attempt, a.name) in (
        select o.job_id, o.attempt, o.name from private.artifacts as o where o.expires_at < now()
        order by o.expires_at limit 200);
    when 'old_bundles' then
      -- No job that names an older one waits any more.
      delete from private.policy_bundles as b where b.used_at < now() - interval '90 days' and not exists (
        select from public.policy_sets as s where s.org_id = b.org_id and s.bundle_sha256 = b.sha256);
    when 'old_values' then
      -- Plans expire after the same time; names and versions stay as long as jobs do.
      update public.variables set value = null where ended_at < now() - interval '30 days' and value is not null;
    when 'old_states' then
      -- Stored by a person: the text is among the versions of the state.
      update private.kept_states set body = '' where stored_at < now() - interval '90 days' and body <> '';
    when 'old_runner_events' then
      -- The oldest have the lowest numbers.
      delete from public.worker_events as e using (
        select o.id, o.at from public.worker_events as o order by o.id limit 5000) as o
      where e.id = o.id and o.at < now() - interval '400 days';
    when 'old_audit_events' then
      delete from public.audit_events as e using (
        select o.id, o.at from public.audit_events as o order by o.id limit 5000) as o
      where e.id = o.id and o.at < now() - interval '730 days';
    when 'old_cron_runs' then
      -- pg_cron, where there is one, keeps every run of the sweep's schedule.
      if to_regclass('cron.job_run_details') is not null then
        execute $sql$
          delete from cron.job_run_details as d where d.runid in (
            select r.runid from cron.job_run_details as r
            where r.jobid in (select j.jobid from cron.job as j where j.jobname = 'runyard-sweep')
            order by r.runid limit 5000) and coalesce(d.end_time, d.start_time) < now() - interval '7 days'
        $sql$;
      end if;
    else
      execute (select format('delete from %s where %I < now() - interval %L', o.rows, o.at, o.kept) from (values
        ('old_sessions', 'private.sessions', 'ended_at', '7 days'),
        ('old_limits', 'private.rate_limits', 'window_started_at', '1 day'),
        ('old_wake_ups', 'private.wake_ups', 'sent_at', '1 hour'),
        ('old_ticks', 'private.worker_ticks', 'at', '31 days'),
        ('old_uploads', 'private.uploads', 'created_at', '1 hour'),
        ('old_variables', 'public.variables', 'ended_at', '430 days'),
        ('old_sets', 'public.job_sets', 'finished_at', '90 days'),
        ('old_deliveries', 'public.deliveries', 'finished_at', '30 days'),
        ('old_git_deliveries', 'public.git_deliveries', 'received_at', '30 days'),
        ('old_authors', 'private.git_authors', 'seen_at', '400 days')) as o (part, rows, at, kept)
        where o.part = p_part);
  end case;
  get diagnostics v_count = row_count;
end;
$$;

-- ## history
create table private.slimmed_history (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  slimmed_until timestamptz not null
);
comment on table private.slimmed_history is 'How far each organisation''s old jobs were slimmed: no job is read twice.';
comment on column private.slimmed_history.slimmed_until is 'Jobs that ended before it have no payload any more.';

-- Removes payload, steps, plan and result of jobs that ended 90 days ago, a thousand at a time: they are most of a row.
create function private.slim_old_jobs() returns integer language plpgsql as $$
declare
  v_jobs bigint[] := array(
    select j.id from public.organizations as o
    left join private.slimmed_history as h on h.org_id = o.id
    cross join lateral (
      select k.id from public.provision_jobs as k
      where k.org_id = o.id and k.finished_at >= coalesce(h.slimmed_until, '-infinity')
        and k.finished_at < now() - interval '90 days' and k.slimmed_at is null
      order by k.finished_at limit 1000
    ) as j limit 1000);
begin
  with slimmed as (
    update public.provision_jobs as j set slimmed_at = now(), payload = '{}', steps = '[]', plan_summary = null,
      result = null, late_report = null
    where j.id = any (v_jobs) returning j.org_id, j.finished_at
  )
  insert into private.slimmed_history as h (org_id, slimmed_until)
  select s.org_id, max(s.finished_at) from slimmed as s group by s.org_id
  on conflict (org_id) do update set slimmed_until = excluded.slimmed_until;
  return cardinality(v_jobs);
end;
$$;

-- Deletes jobs that ended 400 days ago, a thousand at a time. One that has a state which nobody has decided about
-- stays. Readings of repositories are deleted after a day: polls are many, and their deliveries stay.
create function private.delete_old_jobs() returns integer language sql as $$
  select private.delete_jobs(array(
    select j.id from public.organizations as o
    cross join lateral (
      select k.id from public.provision_jobs as k
      where k.org_id = o.id and k.finished_at < now() - interval '400 days' and not exists (
        select from private.kept_states as s
        where s.job_id = k.id and s.stored_at is null and s.discarded_at is null)
      order by k.finished_at limit 1000
    ) as j limit 1000))
  + private.delete_jobs(array(
    select j.id from public.provision_jobs as j where j.target_connection_id is not null
      and j.finished_at < now() - interval '1 day' limit 1000))
$$;

-- Deletes the jobs of removed organisations, some at a time, and then the organisation with all that is left of it.
create function private.delete_organizations(out v_count integer) language plpgsql as $$
begin
  v_count := private.delete_jobs(array(
    select j.id from public.organizations as o
    cross join lateral (select k.id from public.provision_jobs as k where k.org_id = o.id order by k.id limit 1000) as j
    where o.deleted_at is not null limit 1000));
  delete from public.organizations as o where o.deleted_at is not null and not exists (
    select from public.provision_jobs as j where j.org_id = o.id);
end;
$$;

-- ## the parts, and their drivers
-- The parts of the sweep that are due, in their order. Leases come first: whatever else takes long, a lost job is
-- found. Housekeeping is due every five minutes; the drop of log days comes last, because it locks all logs. None while
-- another sweep is at a part.
create function private.begin_sweep() returns text[] language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(private.lock_key('sweep')) then return '{}'; end if;
  -- The first sweep begins the grace, in which every living runner has the time to send a heartbeat.
  insert into private.first_sweeps as f (server_started_at, swept_at) values (pg_postmaster_start_time(), now())
  -- A clock that was set back must not prolong it.
  on conflict (server_started_at) do update set swept_at = now() where f.swept_at > now();
  delete from private.first_sweeps as f where f.server_started_at <> pg_postmaster_start_time();
  return case when private.grace_began_at() < now() - private.lease() then array['lost', 'unheard', 'offline']
      else '{}' end
    || array['ready', 'aged', 'expired', 'ended', 'removed', 'swept', 'scheduled', 'polled', 'placed', 'promoted',
      'rollouts', 'woken']
    || array(
      select p.name from unnest(array['log_days', 'old_sessions', 'old_limits', 'old_wake_ups', 'old_ticks',
        'old_artifacts', 'old_bundles', 'old_uploads', 'old_values', 'old_variables', 'old_sets', 'old_deliveries',
        'old_git_deliveries', 'old_authors', 'old_states', 'old_runner_events', 'old_audit_events', 'old_cron_runs',
        'deleted_log_chunks', 'slimmed_jobs', 'deleted_jobs', 'deleted_organizations', 'rolled_hours',
        'forgotten_instances', 'removed_modules', 'forgotten_lanes', 'dropped_log_days']) with ordinality as p (name, n)
      where private.is_due(p.name, case p.name when 'deleted_log_chunks' then interval '30 minutes'
        else interval '5 minutes' end)
      order by p.n);
end;
$$;

-- Notes that the sweep has done leases, pauses and sessions; one in which any of them failed is one that has not run.
create function private.note_swept(p_is_whole boolean) returns boolean language plpgsql as $$
declare
  v_last pg_catalog.timestamptz := (select o.began_at from private.outages as o where o.ended_at is null);
begin
  if p_is_whole then
    -- Twice a minute, in a table that a crash does not empty; after a gap, the outage.
    if coalesce(v_last <= now() - interval '2 minutes', true) then
      update private.outages set ended_at = now() where ended_at is null;
      insert into private.outages (began_at) values (now());
    elsif v_last <= now() - interval '30 seconds' then
      update private.outages set began_at = now() where ended_at is null;
    end if;
    insert into private.clocks (name, ran_at) values ('swept', now())
    on conflict (name) do update set ran_at = excluded.ran_at;
  end if;
  return p_is_whole;
end;
$$;

-- One part of the sweep; its count, named like the part, is added to what was done before. A part that fails or takes
-- too long must not keep the others from running: it is undone alone, and the next sweep, or housekeeping, tries again.
create function private.sweep_part(p_name text, p_done jsonb) returns jsonb
language plpgsql set search_path = '' set lock_timeout = '100ms' as $$
declare
  v_count pg_catalog.jsonb;
begin
  if not pg_try_advisory_xact_lock(private.lock_key('sweep')) then
    return p_done || jsonb_build_object('skipped', 'Another sweep is running.');
  end if;
  v_count := case p_name
    when 'lost' then to_jsonb(private.sweep_leases())
    when 'unheard' then to_jsonb(private.sweep_updates())
    when 'offline' then to_jsonb(private.sweep_workers())
    when 'ready' then to_jsonb(private.sweep_backoff())
    when 'aged' then to_jsonb(private.sweep_aging())
    when 'expired' then to_jsonb(private.sweep_approvals())
    when 'ended' then to_jsonb(private.sweep_sessions())
    when 'removed' then to_jsonb(private.sweep_removals())
    when 'swept' then to_jsonb(private.note_swept(not p_done ?| array['failed', 'skipped']))
    when 'scheduled' then to_jsonb(private.sweep_schedules())
    when 'polled' then to_jsonb(private.sweep_git())
    when 'placed' then to_jsonb(private.sweep_sets())
    when 'promoted' then to_jsonb(private.promote())
    when 'rollouts' then to_jsonb(private.sweep_update_policies())
    when 'woken' then to_jsonb(private.wake_notifier())
    when 'deleted_log_chunks' then to_jsonb(private.delete_old_logs())
    when 'slimmed_jobs' then to_jsonb(private.slim_old_jobs())
    when 'deleted_jobs' then to_jsonb(private.delete_old_jobs())
    when 'deleted_organizations' then to_jsonb(private.delete_organizations())
    when 'rolled_hours' then to_jsonb(private.roll_up())
    when 'forgotten_instances' then to_jsonb(private.forget_instances())
    when 'removed_modules' then to_jsonb(private.remove_temporary_modules())
    when 'forgotten_lanes' then to_jsonb(private.forget_lanes())
    when 'dropped_log_days' then to_jsonb(private.drop_old_log_partitions())
    else to_jsonb(private.remove_old_rows(p_name)) end;
  -- A full batch: there is more, which the next sweep removes.
  if jsonb_typeof(v_count) = 'number' and v_count::integer >= 1000 then
    delete from private.clocks as c where c.name = p_name;
  end if;
  return p_done || jsonb_build_object(p_name, v_count);
exception when query_canceled or others then
  raise warning 'sweep, %: %', p_name, sqlerrm;
  return p_done || jsonb_build_object('failed', format('%s: %s', p_name, sqlerrm));
end;
$$;

-- All parts in one transaction, for a driver that can only call a function. Locks are held until its end.
create function private.sweep() returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_parts pg_catalog.text[] := private.begin_sweep();
  v_part pg_catalog.text;
  v_done pg_catalog.jsonb := '{}';
begin
  if v_parts = '{}' then return jsonb_build_object('skipped', 'Another sweep is running.'); end if;
  foreach v_part in array v_parts loop
    v_done := private.sweep_part(v_part, v_done);
  end loop;
  return v_done;
end;
$$;
comment on function private.sweep is
  'What time does: runners go offline, leases end, pauses end, approvals expire, old things are removed. Harmless to '
  'run twice or not at all. Service key only.';

-- The sweep of pg_cron and of the embedded stack: it commits after each part, so that nobody waits for locks of a part
-- that is over. A procedure that commits cannot set its search path: every name in it is qualified.
create procedure private.sweep_in_parts(inout p_done jsonb default '{}') language plpgsql as $$
declare
  v_parts pg_catalog.text[] := private.begin_sweep();
  v_part pg_catalog.text;
begin
  commit;
  foreach v_part in array v_parts loop
    p_done := private.sweep_part(v_part, p_done);
    commit;
  end loop;
end;
$$;
comment on procedure private.sweep_in_parts is
  'As private.sweep, and commits after each part. For the owner of the database; outside of a transaction.';

-- The sweep's driver. Where pg_cron cannot be created, the embedded stack's supervisor sweeps, or another scheduler
-- with the service key; no call of a runner does, so that a slow part costs no heartbeat.
do $$
begin
  if exists (select from pg_catalog.pg_available_extensions where name = 'pg_cron') then
    create extension if not exists pg_cron;
  end if;
exception when others then raise notice 'pg_cron cannot be created here (%); another driver must sweep.', sqlerrm;
end;
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    execute $cron$ select cron.schedule('runyard-sweep', '10 seconds', 'call private.sweep_in_parts()') $cron$;
  end if;
end;
$$;

-- Whether the caller may join a private topic: members org:<id>, runners worker:<own id>.
create function private.may_hear(p_topic text) returns boolean
language plpgsql stable security definer set search_path = '' as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if v_claims ->> 'role' = 'authenticated' then
    return p_topic in (select 'org:' || o from private.my_org_ids() as o);
  end if;
  return v_claims ->> 'role' = 'worker' and exists (
    select from private.sessions as s join public.workers as w on w.id = s.worker_id
    where s.id = (v_claims ->> 'sid')::pg_catalog.uuid and s.ended_at is null and w.removed_at is null
      and (s.expires_at is null or s.expires_at > now())
      and p_topic = 'worker:' || w.id
  );
end;
$$;

do $$
begin
  drop policy if exists "Members hear their organisations" on realtime.messages;
  create policy "Members hear their organisations" on realtime.messages
    for select to authenticated using (extension = 'broadcast' and (select private.may_hear(realtime.topic())));
  drop policy if exists "Runners hear their own doorbells" on realtime.messages;
  create policy "Runners hear their own doorbells" on realtime.messages
    for select to worker using (extension = 'broadcast' and (select private.may_hear(realtime.topic())));
exception
  when undefined_table or invalid_schema_name then raise notice 'There is no Realtime here; pages and runners poll.';
end;
$$;

do $$
declare
  v_table pg_catalog.text;
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
  foreach v_table in array array['workers', 'worker_instances', 'provision_jobs', 'worker_releases', 'rollouts'] loop
    if not exists (
      select from pg_catalog.pg_publication_tables where pubname = 'supabase_realtime' and schemaname = 'public'
        and tablename = v_table
    ) then
      execute format('alter publication supabase_realtime add table public.%I', v_table);
    end if;
  end loop;
end;
$$;
notify pgrst, 'reload schema';
