-- Rollouts: all outdated cloud-hosted runners get the newest release in waves: one, then a quarter, then the rest. A wave
-- begins when the one before has succeeded; a failure pauses the rollout, and a person decides. And scaling: the numbers that a planner
-- needs, and the book of what it decided.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.outdated_workers(p_org uuid)
returns setof public.workers
language sql stable
set search_path = ''
as $$
  select w.* from public.workers as w
  where w.org_id = p_org and w.type = 'cloud-hosted' and w.removed_at is null
    and private.is_version_less(w.version, private.latest_version())
    and not private.is_state_in_use(w.id)
$$;
comment on function private.outdated_workers(uuid) is
  'Cloud-hosted runners older than the newest stable release, without a job about them.';

create function private.update_one_worker(p_worker uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'admin');
  v_job public.provision_jobs;
begin
  perform private.need_cloud_hosted(v_worker);
  if not coalesce(private.is_version_less(v_worker.version, private.latest_version()), v_worker.version is null) then
    perform private.fail('RY409', format('"%s" already runs %s.', v_worker.name, v_worker.version), 'There is nothing newer.');
  end if;
  v_job := private.add_job(private.lifecycle_job(v_worker, 'UPDATE_WORKER', null), 'Update ' || v_worker.name);
  perform private.audit(v_worker.org_id, 'worker.update_queued', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('job', v_job.id, 'version', private.latest_version()));
  return to_jsonb(v_job);
end;
$$;
comment on function private.update_one_worker(uuid) is 'Body of public.update_one_worker.';
grant execute on function private.update_one_worker(uuid) to authenticated;
create function public.update_one_worker(p_worker uuid)
returns jsonb language sql set search_path = ''
as $$ select private.update_one_worker(p_worker) $$;
comment on function public.update_one_worker(uuid) is 'Queues an UPDATE_WORKER job for one cloud-hosted runner. Admins.';
grant execute on function public.update_one_worker(uuid) to authenticated;

create function private.plan_waves(p_workers uuid[])
returns jsonb
language sql immutable
set search_path = ''
as $$
  select jsonb_agg(w.ids order by w.n) from (
    select x.n, jsonb_agg(x.id order by x.i) as ids from (
      select u.id, u.i, case when u.i = 1 then 1 when u.i <= 1 + ceil((cardinality(p_workers) - 1) * 0.25) then 2 else 3 end as n
      from unnest(p_workers) with ordinality as u (id, i)
    ) as x group by x.n
  ) as w
$$;
comment on function private.plan_waves(uuid[]) is 'Runners in waves: the first, a quarter of the others, the rest.';

create function private.start_wave(p_rollout public.rollouts)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_job public.provision_jobs;
begin
  for v_worker in
    select w.* from public.workers as w
    where w.id in (select x::pg_catalog.uuid from jsonb_array_elements_text(p_rollout.waves -> (p_rollout.wave - 1)) as x)
      and w.removed_at is null and not private.is_state_in_use(w.id)
    order by w.id
  loop
    v_job := private.lifecycle_job(v_worker, 'UPDATE_WORKER', jsonb_build_object('version', p_rollout.version));
    v_job.rollout_id := p_rollout.id;
    v_job.created_by := p_rollout.created_by;
    perform private.add_job(v_job, format('Wave %s of the rollout of %s', p_rollout.wave, p_rollout.version));
  end loop;
end;
$$;
comment on function private.start_wave(public.rollouts) is 'Queues the jobs of a rollout''s present wave.';

create function private.update_outdated_workers(p_org uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_rollout public.rollouts;
  v_workers pg_catalog.uuid[];
begin
  perform private.need_role(p_org, 'admin');
  select array_agg(w.id order by w.status, w.name) into v_workers from private.outdated_workers(p_org) as w;
  if v_workers is null then
    perform private.fail('RY409', 'No cloud-hosted runner is outdated.', 'Self-hosted runners are updated where they run.');
  end if;
  insert into public.rollouts (org_id, version, waves, created_by)
  values (p_org, private.latest_version(), private.plan_waves(v_workers), private.caller_id()) returning * into v_rollout;
  perform private.start_wave(v_rollout);
  perform private.audit(p_org, 'rollout.started', 'rollout', v_rollout.id::pg_catalog.text, v_rollout.version,
    jsonb_build_object('runners', cardinality(v_workers)));
  return to_jsonb(v_rollout);
exception
  when unique_violation then
    perform private.fail('RY409', 'A rollout is under way already.', 'Wait for it, or abort it.');
end;
$$;
comment on function private.update_outdated_workers(uuid) is 'Body of public.update_outdated_workers.';
grant execute on function private.update_outdated_workers(uuid) to authenticated;
create function public.update_outdated_workers(p_org uuid)
returns jsonb language sql set search_path = ''
as $$ select private.update_outdated_workers(p_org) $$;
comment on function public.update_outdated_workers(uuid) is
  'Starts a rollout: one UPDATE_WORKER job per outdated cloud-hosted runner, in waves. Admins.';
grant execute on function public.update_outdated_workers(uuid) to authenticated;

create function private.advance_rollout(p_rollout uuid)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_rollout public.rollouts;
  v_failed bigint;
begin
  select * into v_rollout from public.rollouts where id = p_rollout for update;
  if v_rollout.status <> 'RUNNING' then
    return;
  end if;
  select max(j.id) into v_failed from public.provision_jobs as j
  where j.rollout_id = p_rollout and j.status in ('FAILED', 'CANCELLED', 'NEEDS_ATTENTION') and j.finished_at >= v_rollout.updated_at;
  if v_failed is not null then
    update public.rollouts set status = 'PAUSED', reason = format('Job %s did not succeed.', v_failed) where id = p_rollout;
    return;
  end if;
  if exists (select from public.provision_jobs as j where j.rollout_id = p_rollout
    and j.status in ('QUEUED', 'CLAIMED', 'PROCESSING', 'NEEDS_ATTENTION')) then
    return;
  end if;
  if v_rollout.wave >= jsonb_array_length(v_rollout.waves) then
    update public.rollouts set status = 'SUCCEEDED', finished_at = now(), reason = null where id = p_rollout;
    return;
  end if;
  update public.rollouts set wave = wave + 1 where id = p_rollout returning * into v_rollout;
  perform private.start_wave(v_rollout);
end;
$$;
comment on function private.advance_rollout(uuid) is 'Takes a rollout one step further: pause at a failure, the next wave, or done.';

create function private.set_rollout(p_rollout uuid, p_from public.rollout_status[], p_to public.rollout_status)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_rollout public.rollouts;
  v_job bigint;
begin
  select * into v_rollout from public.rollouts where id = p_rollout and org_id in (select private.my_org_ids());
  if v_rollout.id is null then
    perform private.fail('RY404', 'There is no such rollout.');
  end if;
  perform private.need_role(v_rollout.org_id, 'admin');
  if p_to = 'ABORTED' then
    for v_job in select j.id from public.provision_jobs as j where j.rollout_id = p_rollout
      and j.status = 'QUEUED' order by private.state_key(j) loop
      perform private.cancel_job(v_job, 'GRACEFUL', 'The rollout was aborted.');
    end loop;
  end if;
  update public.rollouts set status = p_to, reason = case when p_to = 'RUNNING' then null else 'By ' || private.caller_label() end,
    finished_at = case when p_to = 'ABORTED' then now() end
  where id = p_rollout and status = any (p_from) returning * into v_rollout;
  if not found then
    perform private.fail('RY409', 'The rollout is not in a state for that.', 'Look at it again.');
  end if;
  perform private.audit(v_rollout.org_id, 'rollout.' || lower(p_to::pg_catalog.text), 'rollout', p_rollout::pg_catalog.text,
    v_rollout.version);
  if p_to = 'RUNNING' then
    perform private.advance_rollout(p_rollout);
    select * into v_rollout from public.rollouts where id = p_rollout;
  end if;
  return to_jsonb(v_rollout);
end;
$$;
comment on function private.set_rollout(uuid, public.rollout_status[], public.rollout_status) is 'Pauses, resumes or aborts a rollout.';

create function private.pause_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{RUNNING}', 'PAUSED') $$;
comment on function private.pause_rollout(uuid) is 'Body of public.pause_rollout.';
grant execute on function private.pause_rollout(uuid) to authenticated;
create function public.pause_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.pause_rollout(p_rollout) $$;
comment on function public.pause_rollout(uuid) is 'Begins no further wave. Jobs that are queued go on. Admins.';
grant execute on function public.pause_rollout(uuid) to authenticated;

create function private.resume_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{PAUSED}', 'RUNNING') $$;
comment on function private.resume_rollout(uuid) is 'Body of public.resume_rollout.';
grant execute on function private.resume_rollout(uuid) to authenticated;
create function public.resume_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.resume_rollout(p_rollout) $$;
comment on function public.resume_rollout(uuid) is 'Goes on with a paused rollout; what failed stays as it is. Admins.';
grant execute on function public.resume_rollout(uuid) to authenticated;

create function private.abort_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{RUNNING,PAUSED}', 'ABORTED') $$;
comment on function private.abort_rollout(uuid) is 'Body of public.abort_rollout.';
grant execute on function private.abort_rollout(uuid) to authenticated;
create function public.abort_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.abort_rollout(p_rollout) $$;
comment on function public.abort_rollout(uuid) is
  'Ends a rollout and cancels its queued jobs. Runners that were updated stay updated. Admins.';
grant execute on function public.abort_rollout(uuid) to authenticated;

-- ---------------------------------------------------------------------------------------------- scaling

create function private.scaling_inputs()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'worker_id', w.id, 'org_id', w.org_id, 'name', w.name, 'region', w.region, 'cloud', w.cloud,
    'limits', jsonb_build_object('minimum', coalesce((w.scaling ->> 'min')::integer, 0), 'maximum',
      coalesce((w.scaling ->> 'max')::integer, 1),
      'jobs_per_task', coalesce((w.scaling ->> 'jobs_per_task')::integer, w.capacity), 'idle_seconds',
        coalesce((w.scaling ->> 'idle_seconds')::integer, 300)),
    'load', jsonb_build_object('desired', w.desired_count, 'connected', l.connected, 'waiting', (
        select count(*) from private.lane_workers as lw join private.live_jobs as q on q.lane_id = lw.lane_id and q.stage = 'READY'
        where lw.worker_id = w.id and not private.has_nearer(lw.lane_id, lw.distance)),
      'running', l.running, 'busy_tasks', l.busy, 'takes_jobs', not (w.is_disabled or w.is_draining)),
    'last', (select to_jsonb(d) from public.scaling_decisions as d where d.worker_id = w.id order by d.id desc limit 1)
  ) order by w.created_at, w.id), '[]')
  from public.workers as w
  cross join lateral (
    select count(*) filter (where i.is_fresh) as connected, coalesce(sum(i.used), 0) as running,
      count(*) filter (where i.is_fresh and i.used > 0) as busy
    from private.instance_liveness as i where i.worker_id = w.id
  ) as l
  where w.type = 'cloud-hosted' and w.removed_at is null and not w.cloud ? 'is_gone'
$$;
comment on function private.scaling_inputs() is 'Body of public.scaling_inputs.';
grant execute on function private.scaling_inputs() to service_role;
create function public.scaling_inputs()
returns jsonb language sql stable set search_path = ''
as $$ select private.scaling_inputs() $$;
comment on function public.scaling_inputs() is
  'What a planner needs to decide how many tasks each cloud-hosted runner should have. Service key only.';
grant execute on function public.scaling_inputs() to service_role;

create function private.record_scaling_decision(p_worker uuid, p_to_count integer, p_reason text, p_detail jsonb, p_dry_run boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_decision public.scaling_decisions;
begin
  select * into v_worker from public.workers where id = p_worker and type = 'cloud-hosted' and removed_at is null;
  if v_worker.id is null or p_to_count is null or p_to_count not between 0 and 1000 then
    perform private.fail('RY422', 'A decision needs a cloud-hosted runner and a count from 0 to 1,000.');
  end if;
  insert into public.scaling_decisions (org_id, worker_id, from_count, to_count, reason, detail, dry_run)
  values (v_worker.org_id, p_worker, v_worker.desired_count, p_to_count, p_reason, coalesce(p_detail, '{}'),
    coalesce(p_dry_run, false)) returning * into v_decision;
  if not v_decision.dry_run then
    update public.workers set desired_count = p_to_count, is_scaled_to_zero = p_to_count = 0 where id = p_worker;
    perform private.refresh_worker_status(p_worker);
  end if;
  perform private.ring_org(v_worker.org_id, 'scaling_decisions', v_decision.id::pg_catalog.text);
  return to_jsonb(v_decision);
end;
$$;
comment on function private.record_scaling_decision(uuid, integer, text, jsonb, boolean) is 'Body of public.record_scaling_decision.';
grant execute on function private.record_scaling_decision(uuid, integer, text, jsonb, boolean) to service_role;
create function public.record_scaling_decision(p_worker uuid, p_to_count integer, p_reason text, p_detail jsonb default '{}',
  p_dry_run boolean default false)
returns jsonb language sql set search_path = ''
as $$ select private.record_scaling_decision(p_worker, p_to_count, p_reason, p_detail, p_dry_run) $$;
comment on function public.record_scaling_decision(uuid, integer, text, jsonb, boolean) is
  'Writes down a scaling decision and, unless it is a rehearsal, the new count. Service key only.';
grant execute on function public.record_scaling_decision(uuid, integer, text, jsonb, boolean) to service_role;

revoke execute on all functions in schema private, public from public;
