-- The sweep: what time does to runners and jobs. Any beat may run it, and pg_cron where it is installed; one at a time.
-- It can be run twice at once, and it can be missed for an hour: it looks at the clock, not at how often it ran.
-- After a crash the beats are gone (UNLOGGED): nobody is called dead before the server has been up for 60 s.
-- It may run inside of a beat, which already holds rows of its runner. So it waits for nobody: what it cannot lock at once is
-- left to the next sweep.
set lock_timeout = '5s';
set statement_timeout = '60s';

create unlogged table private.clocks (
  name text primary key,
  ran_at timestamptz not null
);
alter table private.clocks enable row level security;
comment on table private.clocks is 'When periodic work last ran. UNLOGGED: after a crash it just runs again.';
comment on column private.clocks.name is 'What.';
comment on column private.clocks.ran_at is 'When it last ran.';

create function private.is_due(p_name text, p_every interval)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  if exists (select from private.clocks as c where c.name = p_name and c.ran_at > now() - p_every)
    or not pg_try_advisory_xact_lock(hashtextextended('runyard:clock:' || p_name, 0)) then
    return false;
  end if;
  insert into private.clocks as c (name, ran_at) values (p_name, now())
  on conflict (name) do update set ran_at = excluded.ran_at where c.ran_at <= now() - p_every;
  return found;
end;
$$;
comment on function private.is_due(text, interval) is
  'Whether something is due again; if so, it is noted as run. Never waits for whoever is at it.';

create function private.is_past_grace()
returns boolean
language sql stable
set search_path = ''
as $$
  select pg_postmaster_start_time() < now() - interval '60 seconds'
$$;
comment on function private.is_past_grace() is 'Whether the server has been up long enough for every living runner to have beaten.';

create function private.try_lock_state(p_org uuid, p_state uuid)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  return pg_try_advisory_xact_lock_shared(private.lock_key('routing', null))
    and pg_try_advisory_xact_lock_shared(private.lock_key('routing', p_org))
    and pg_try_advisory_xact_lock(private.lock_key('state', p_state));
end;
$$;
comment on function private.try_lock_state(uuid, uuid) is 'The same locks as lock_state, if they can be had at once.';

create function private.try_lock_job(p_job private.live_jobs)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  -- The row is asked again behind the lock: meanwhile it may have been given back, taken by another or displaced.
  return private.try_lock_state(p_job.org_id, p_job.state_key) and exists (
    select from private.live_jobs as q
    where q.job_id = p_job.job_id and q.stage = p_job.stage and q.attempt = p_job.attempt for update skip locked);
end;
$$;
comment on function private.try_lock_job(private.live_jobs) is
  'Locks a job and the queue of its state, if that can be had at once and the job still stands where it stood when it was looked at.';

create function private.sweep_workers()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_worker pg_catalog.uuid;
  v_count integer := 0;
begin
  for v_worker in
    select w.id from public.workers as w
    where w.status <> 'OFFLINE' and w.removed_at is null
      and not exists (select from private.instance_liveness as i where i.worker_id = w.id and i.is_fresh)
    for no key update of w skip locked
  loop
    perform private.refresh_worker_status(v_worker);
    perform private.ring_lane(lw.lane_id) from private.lane_workers as lw
    where lw.worker_id = v_worker and exists (select from private.live_jobs as j where j.lane_id = lw.lane_id and j.stage = 'READY');
    v_count := v_count + 1;
  end loop;
  update public.worker_instances as i set status = 'OFFLINE', disconnected_at = now()
  where i.id in (
    select o.id from public.worker_instances as o join public.workers as w on w.id = o.worker_id
    where o.status <> 'OFFLINE' and not exists (select from private.instance_liveness as l where l.instance_id = o.id and l.is_fresh)
    for no key update of w, o skip locked);
  return v_count;
end;
$$;
comment on function private.sweep_workers() is
  'Marks runners and instances OFFLINE that have not beaten for 60 s, and wakes those who may take their place.';

create function private.sweep_leases()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_job private.live_jobs;
  v_count integer := 0;
begin
  for v_job in
    select q.* from private.live_jobs as q
    left join private.heartbeats as h on h.instance_id = q.instance_id and h.session_id = q.session_id
    where q.stage = 'RUNNING' and (
      greatest(q.lease_until, h.last_seen_at + interval '60 seconds') < now() or q.unlisted_at < now() - interval '30 seconds')
    order by q.state_key limit 500
  loop
    if private.try_lock_job(v_job) then
      perform private.lose_job(v_job.job_id, case when v_job.unlisted_at is null
        then 'The runner did not beat for 60 s.' else 'The runner does not know of this attempt any more.' end);
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_leases() is 'Requeues or flags jobs whose lease has run out.';

create function private.sweep_backoff()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_job private.live_jobs;
  v_count integer := 0;
begin
  for v_job in select * from private.live_jobs as q where q.stage = 'BACKOFF'
    and q.not_before_at <= now() order by q.not_before_at limit 500 loop
    if private.try_lock_job(v_job) then
      perform private.make_ready(v_job.job_id);
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_backoff() is 'Makes jobs ready whose pause is over.';

create function private.sweep_approvals()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_job bigint;
  v_count integer := 0;
begin
  for v_job in
    select j.id from public.provision_jobs as j
    where j.status = 'AWAITING_APPROVAL' and j.approval_deadline_at <= now() order by j.id limit 500 for no key update skip locked
  loop
    perform private.end_job(v_job, 'CANCELLED', 'approval_expired', 'system', null, 'system', 'Nobody approved it in time.');
    v_count := v_count + 1;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_approvals() is 'Cancels jobs that were not approved in time.';

create function private.sweep()
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_done pg_catalog.jsonb := '{}';
begin
  if not pg_try_advisory_xact_lock(private.lock_key('sweep', null)) then
    return jsonb_build_object('skipped', 'Another sweep is running.');
  end if;
  v_done := jsonb_build_object('removed', private.sweep_removals());
  if private.is_past_grace() then
    v_done := v_done || jsonb_build_object('lost', private.sweep_leases(), 'unheard', private.sweep_updates());
  end if;
  v_done := v_done || jsonb_build_object('ready', private.sweep_backoff(), 'expired', private.sweep_approvals());
  if private.is_past_grace() then
    v_done := v_done || jsonb_build_object('offline', private.sweep_workers());
  end if;
  if private.is_due('housekeeping', interval '5 minutes') then
    v_done := v_done || private.housekeeping();
  end if;
  return v_done;
end;
$$;
comment on function private.sweep() is 'Body of public.sweep.';
grant execute on function private.sweep() to service_role;
create function public.sweep()
returns jsonb language sql set search_path = ''
as $$ select private.sweep() $$;
comment on function public.sweep() is
  'What time does: runners go offline, leases end, pauses end, approvals expire, old things are removed. Harmless to run twice or not at all. Service key only.';
grant execute on function public.sweep() to service_role;

create function private.sweep_if_due()
returns void
language plpgsql
set search_path = '' set lock_timeout = '100ms'
as $$
begin
  if not private.is_due('sweep', interval '5 seconds') then
    return;
  end if;
  begin
    perform private.sweep();
  exception
    -- A beat must not fail because of somebody else's job, nor because there was too much of it for the time that a call has.
    when query_canceled or others then raise warning 'sweep: %', sqlerrm;
  end;
end;
$$;
comment on function private.sweep_if_due() is 'Runs the sweep from a beat, every 5 s at most. A failing sweep does not fail the beat.';

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    execute $cron$ select cron.schedule('runyard-sweep', '10 seconds', 'select private.sweep()') $cron$;
  end if;
end;
$$;

revoke execute on all functions in schema private, public from public;
