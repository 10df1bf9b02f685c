-- Updates. A cloud-hosted runner is updated by a job that another one runs. A self-hosted runner that was started with
-- the permission updates itself: the job is pinned to it, is given back when the process restarts, and ends when the
-- new version claims it again. Rollouts: all outdated runners that a job can update get the newest release in waves:
-- one, then a quarter, then the rest. A wave begins when the one before has succeeded; a failure pauses the rollout,
-- and a person decides.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.updates_itself(p_worker uuid, p_version text)
returns boolean
language sql stable
set search_path = ''
as $$
  select coalesce(bool_and(exists (
    select from public.worker_releases as r cross join jsonb_array_elements(r.artifacts) as a
    where r.version = p_version and a ->> 'name' = n.facts ->> 'self_update')), false)
  from public.worker_instances as n join private.instance_liveness as i on i.instance_id = n.id
  where n.worker_id = p_worker and i.is_fresh
$$;
comment on function private.updates_itself(uuid, text) is
  'Whether every live instance of a runner was started with the permission to update itself, and the release has its '
  'file.';

create function private.outdated_workers(p_org uuid)
returns setof public.workers
language sql stable
set search_path = ''
as $$
  select w.* from public.workers as w
  where w.org_id = p_org and w.removed_at is null and private.is_version_less(w.version, private.latest_version())
    and (w.type = 'cloud-hosted'
      or w.type = 'self-hosted' and not (w.is_draining or w.is_disabled)
        and private.updates_itself(w.id, private.latest_version()))
    and not private.is_state_in_use(w.id)
$$;
comment on function private.outdated_workers(uuid) is
  'Runners older than the newest stable release that a job can update, without a job about them.';

create function private.self_update_job(p_worker public.workers, p_version text, p_instance text)
returns public.provision_jobs
language plpgsql
set search_path = ''
as $$
declare
  v_job public.provision_jobs := private.lifecycle_job(p_worker, 'UPDATE_WORKER', null);
begin
  v_job.pinned_worker_id := p_worker.id;
  v_job.pinned_instance_name := p_instance;
  v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object(
    'worker', jsonb_build_object('id', p_worker.id, 'name', p_worker.name), 'version', p_version, 'is_own', true,
      'allow_downgrade',
    private.is_version_less(p_version, p_worker.version),
    'artifacts', (select r.artifacts from public.worker_releases as r where r.version = p_version)));
  return v_job;
end;
$$;
comment on function private.self_update_job(public.workers, text, text) is
  'The job by which an instance of a self-hosted runner updates itself, not yet written.';

create function private.update_jobs(p_worker public.workers, p_version text)
returns setof public.provision_jobs
language plpgsql
set search_path = ''
as $$
begin
  if p_worker.type = 'cloud-hosted' then
    return next private.lifecycle_job(p_worker, 'UPDATE_WORKER', jsonb_build_object('version', p_version));
    return;
  end if;
  return query select (private.self_update_job(p_worker, p_version, i.name)).* from private.instance_liveness as i
    where i.worker_id = p_worker.id and i.is_fresh order by i.name;
  if not found then
    -- It left after it was chosen. The job says so when nobody has taken it for a while.
    return next private.self_update_job(p_worker, p_version, null);
  end if;
end;
$$;
comment on function private.update_jobs(public.workers, text) is
  'The jobs that update a runner, not yet written: one, or one for each instance of a runner that updates itself.';

create function private.need_updatable(p_worker public.workers, p_version text)
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.refuse_second_lifecycle_job(p_worker.id);
  if not exists (select from public.worker_releases as r where r.version = p_version and r.withdrawn_at is null) then
    perform private.fail('RY404', format('There is no release %s, or it was withdrawn.', coalesce(p_version, 'yet')),
      'Choose a release that is listed in the notes.');
  end if;
  if p_worker.type = 'cloud-hosted' then
    return;
  end if;
  if p_worker.type <> 'self-hosted' or not private.updates_itself(p_worker.id, p_version) then
    perform private.fail('RY422', format('"%s" does not update itself to %s.', p_worker.name, p_version),
      'Update it where it runs. Or start it, from its one file, with the setting Update.Enabled; the release needs a '
      'file for its platform.');
  elsif p_worker.is_draining or p_worker.is_disabled then
    perform private.fail('RY409', format('"%s" takes no jobs, and its update is one.', p_worker.name),
      'Let it take jobs again first.');
  end if;
end;
$$;
comment on function private.need_updatable(public.workers, text) is
  'Refuses to queue an update that no job can carry out.';

create function private.update_one_worker(p_worker uuid, p_version text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'admin');
  v_version pg_catalog.text := coalesce(p_version, private.latest_version());
  v_new public.provision_jobs;
  v_job public.provision_jobs;
  v_first public.provision_jobs;
begin
  perform private.need_updatable(v_worker, v_version);
  -- An older version is given only to whoever names it.
  if v_worker.version = v_version or p_version is null and private.is_version_less(v_version, v_worker.version) then
    perform private.fail('RY409', format('"%s" already runs %s.', v_worker.name, v_worker.version),
      'There is nothing newer.');
  end if;
  for v_new in select * from private.update_jobs(v_worker, v_version) loop
    v_job := private.add_job(v_new, format('Update %s to %s', v_worker.name, v_version));
    v_first := coalesce(v_first, v_job);
  end loop;
  perform private.audit(v_worker.org_id, 'worker.update_queued', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('job', v_first.id, 'version', v_version));
  return to_jsonb(v_first);
end;
$$;
comment on function private.update_one_worker(uuid, text) is 'Body of public.update_one_worker.';
grant execute on function private.update_one_worker(uuid, text) to authenticated;

create function private.sweep_updates()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_job private.live_jobs;
  v_count integer := 0;
begin
  for v_job in
    select q.* from public.provision_jobs as j join private.live_jobs as q on q.job_id = j.id
    where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.pinned_worker_id = j.target_worker_id
      and j.queued_at < now() - interval '5 minutes'
      and not exists (select from private.instance_liveness as i where i.worker_id = j.target_worker_id and i.is_fresh
        and i.name = coalesce(j.pinned_instance_name, i.name))
  loop
    if private.try_lock_job(v_job) then
      perform private.end_job(v_job.job_id, 'FAILED', 'failed', 'system', null, 'system',
        'The runner did not come back.', jsonb_build_object(
        'code', 'update_no_heartbeat', 'message',
          'The runner that was to update itself has not been online for 5 minutes.',
        'hint', 'Look at its log and start it again; its file of before ends in .previous.'));
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_updates() is
  'Fails the update of a runner that was to update itself and is gone, so that its rollout pauses.';

create function private.plan_waves(p_workers uuid[])
returns jsonb
language sql immutable
set search_path = ''
as $$
  select jsonb_agg(w.ids order by w.n) from (
    select x.n, jsonb_agg(x.id order by x.i) as ids from (
      select u.id, u.i, case when u.i = 1 then 1 when u.i <= 1 + ceil((cardinality(p_workers) - 1) * 0.25) then 2
        else 3 end as n
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
  v_job public.provision_jobs;
begin
  for v_job in
    select u.* from public.workers as w cross join lateral private.update_jobs(w, p_rollout.version) as u
    where w.id in (select x::pg_catalog.uuid
      from jsonb_array_elements_text(p_rollout.waves -> (p_rollout.wave - 1)) as x)
      and w.removed_at is null and not private.is_state_in_use(w.id)
    order by w.id
  loop
    v_job.rollout_id := p_rollout.id;
    v_job.created_by := p_rollout.created_by;
    perform private.add_job(v_job, format('Wave %s of the rollout of %s', p_rollout.wave, p_rollout.version));
  end loop;
end;
$$;
comment on function private.start_wave(public.rollouts) is 'Queues the jobs of a rollout''s present wave.';

create function private.start_rollout(p_org uuid, p_workers uuid[], p_by uuid, p_is_by_policy boolean)
returns public.rollouts
language plpgsql
set search_path = ''
as $$
declare
  v_rollout public.rollouts;
begin
  insert into public.rollouts (org_id, version, waves, created_by, is_by_policy)
  values (p_org, private.latest_version(), private.plan_waves(p_workers), p_by, p_is_by_policy) returning *
    into v_rollout;
  perform private.start_wave(v_rollout);
  return v_rollout;
end;
$$;
comment on function private.start_rollout(uuid, uuid[], uuid, boolean) is
  'Starts a rollout of the newest release to these runners.';

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
    perform private.fail('RY409', 'No runner is outdated that a job could update.',
      'Self-hosted runners without that permission are updated where they run.');
  end if;
  v_rollout := private.start_rollout(p_org, v_workers, private.caller_id(), false);
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
  if exists (select from public.worker_releases as r where r.version = v_rollout.version
    and r.withdrawn_at is not null) then
    update public.rollouts set status = 'PAUSED', reason = format('Release %s was withdrawn.', version)
      where id = p_rollout;
    return;
  end if;
  select max(j.id) into v_failed from public.provision_jobs as j
  where j.rollout_id = p_rollout and j.status in ('FAILED', 'CANCELLED', 'NEEDS_ATTENTION')
    and j.finished_at >= v_rollout.updated_at;
  if v_failed is not null then
    update public.rollouts set status = 'PAUSED', reason = format('Job %s did not succeed.', v_failed)
      where id = p_rollout;
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
  -- What the policy started goes on when the policy allows it again.
  if v_rollout.is_by_policy and not private.may_update(v_rollout.org_id) then
    return;
  end if;
  update public.rollouts set wave = wave + 1 where id = p_rollout returning * into v_rollout;
  perform private.start_wave(v_rollout);
end;
$$;
comment on function private.advance_rollout(uuid) is
  'Takes a rollout one step further: pause at a failure or when the release was withdrawn, the next wave, or done.';

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
  update public.rollouts set status = p_to,
    reason = case when p_to = 'RUNNING' then null else 'By ' || private.caller_label(v_rollout.org_id) end,
    finished_at = case when p_to = 'ABORTED' then now() end
  where id = p_rollout and status = any (p_from) returning * into v_rollout;
  if not found then
    perform private.fail('RY409', 'The rollout is not in a state for that.', 'Look at it again.');
  end if;
  perform private.audit(v_rollout.org_id, 'rollout.' || lower(p_to::pg_catalog.text), 'rollout',
    p_rollout::pg_catalog.text,
    v_rollout.version);
  if p_to = 'RUNNING' then
    perform private.advance_rollout(p_rollout);
    select * into v_rollout from public.rollouts where id = p_rollout;
  end if;
  return to_jsonb(v_rollout);
end;
$$;
comment on function private.set_rollout(uuid, public.rollout_status[], public.rollout_status) is
  'Pauses, resumes or aborts a rollout.';

create function private.pause_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{RUNNING}', 'PAUSED') $$;
comment on function private.pause_rollout(uuid) is 'Body of public.pause_rollout.';
grant execute on function private.pause_rollout(uuid) to authenticated;

create function private.resume_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{PAUSED}', 'RUNNING') $$;
comment on function private.resume_rollout(uuid) is 'Body of public.resume_rollout.';
grant execute on function private.resume_rollout(uuid) to authenticated;

create function private.abort_rollout(p_rollout uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_rollout(p_rollout, '{RUNNING,PAUSED}', 'ABORTED') $$;
comment on function private.abort_rollout(uuid) is 'Body of public.abort_rollout.';
grant execute on function private.abort_rollout(uuid) to authenticated;

revoke execute on all functions in schema private from public;
