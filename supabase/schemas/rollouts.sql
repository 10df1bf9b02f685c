-- Control of rollouts and releases: pause, resume, abort, withdraw.

-- Pauses the rollouts of a withdrawn release and cancels its updates that have not begun.
create function private.stop_updates(p_version text) returns void language plpgsql as $$
declare
  v_rollout pg_catalog.uuid;
  v_job pg_catalog.record;
begin
  -- States before rollouts, as at the end of a job.
  perform private.lock_job_states(array(select j.id from public.provision_jobs as j where j.type = 'UPDATE_WORKER'
    and j.status = 'QUEUED' and j.payload #>> '{lifecycle,version}' = p_version));
  for v_rollout in select r.id from public.rollouts as r where r.version = p_version and r.status = 'RUNNING'
    order by r.id loop
    perform private.advance_rollout(v_rollout);
  end loop;
  for v_job in select j.id, j.org_id, j.target_worker_id from public.provision_jobs as j
    where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.target_worker_id is not null
      and j.payload #>> '{lifecycle,version}' = p_version
    order by j.target_worker_id, j.id loop
    perform private.lock_state(v_job.org_id, v_job.target_worker_id);
    if exists (select from private.live_jobs as q where q.job_id = v_job.id and q.stage <> 'RUNNING' for update) then
      perform private.end_job(v_job.id, 'CANCELLED', 'cancelled', 'system', null, 'system',
        format('Release %s was withdrawn.', p_version));
    end if;
  end loop;
end;
$$;

create function private.withdraw_release(p_version text, p_reason text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_release public.worker_releases;
begin
  update public.worker_releases set withdrawn_at = coalesce(withdrawn_at, now()),
    withdrawn_reason = coalesce(withdrawn_reason, p_reason)
  where version = p_version returning * into v_release;
  perform private.fail('RY404', format('There is no release %s.', p_version)) where v_release.id is null;
  perform private.stop_updates(p_version);
  return private.audited(to_jsonb(v_release), 'release.withdrawn', p_version, jsonb_build_object('reason', p_reason));
end;
$$;
comment on function private.withdraw_release is 'Withdraws a release: nothing is updated to it now. Service key only.';

-- Pauses, resumes or aborts a rollout.
create function private.set_rollout(p_rollout uuid, p_from public.rollout_status[], p_to public.rollout_status)
returns jsonb language plpgsql as $$
declare
  v_rollout public.rollouts;
  v_job bigint;
begin
  select * into v_rollout from public.rollouts where id = p_rollout
    and org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such rollout.') where v_rollout.id is null;
  perform private.need('release.roll_out', v_rollout.org_id);
  if p_to = 'ABORTED' then
    -- The states of all its jobs before its row, as at the end of a job: the first cancelled job takes the row.
    perform private.lock_job_states(array(select j.id from public.provision_jobs as j where j.rollout_id = p_rollout
      and j.status in ('QUEUED', 'CLAIMED', 'PROCESSING')));
    for v_job in select j.id from public.provision_jobs as j join private.job_states as s on s.job_id = j.id
      where j.rollout_id = p_rollout and j.status = 'QUEUED' order by s.state_key loop
      perform private.cancel_job(v_job, 'GRACEFUL', 'The rollout was aborted.');
    end loop;
  end if;
  update public.rollouts set status = p_to,
    reason = case when p_to = 'RUNNING' then null else 'By ' || private.caller_label(v_rollout.org_id) end,
    finished_at = case when p_to = 'ABORTED' then now() end
  where id = p_rollout and status = any (p_from) returning * into v_rollout;
  perform private.fail('RY409', 'The rollout is not in a state for that.', 'Look at it again.') where not found;
  perform private.audited(to_jsonb(v_rollout), 'rollout.' || lower(p_to::pg_catalog.text), v_rollout.version);
  if p_to = 'RUNNING' then
    perform private.advance_rollout(p_rollout);
    select * into v_rollout from public.rollouts where id = p_rollout;
  end if;
  return to_jsonb(v_rollout);
end;
$$;

create function private.pause_rollout(p_rollout uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.set_rollout(p_rollout, '{RUNNING}', 'PAUSED')
$$;
comment on function private.pause_rollout is 'Starts no further wave. Queued jobs continue. Admins.';

create function private.resume_rollout(p_rollout uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.set_rollout(p_rollout, '{PAUSED}', 'RUNNING')
$$;
comment on function private.resume_rollout is 'Goes on with a paused rollout; what failed stays as it is. Admins.';

create function private.abort_rollout(p_rollout uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.set_rollout(p_rollout, '{RUNNING,PAUSED}', 'ABORTED')
$$;
comment on function private.abort_rollout is 'Ends a rollout and cancels its queued jobs; updates made stay. Admins.';
