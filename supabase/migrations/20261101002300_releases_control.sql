-- What people and the sweep do with rollouts, releases and the update policy. After the end of jobs, because a rollout
-- that is stopped ends its jobs.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- ----------------------------------------------------------------------------------------------- rollouts and releases

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
    for v_job in select j.id from public.provision_jobs as j join private.job_states as s on s.job_id = j.id
      where j.rollout_id = p_rollout and j.status = 'QUEUED' order by s.state_key loop
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
    begin
      if private.try_lock_job(v_job) then
        perform private.end_job(v_job.job_id, 'FAILED', 'failed', 'system', null, 'system',
          'The runner did not come back.', jsonb_build_object(
          'code', 'update_no_heartbeat', 'message',
            'The runner that was to update itself has not been online for 5 minutes.',
          'hint', 'Look at its log and start it again; its file of before ends in .previous.'));
        v_count := v_count + 1;
      end if;
    exception
      when others then raise warning 'sweep of the update of job %: %', v_job.job_id, sqlerrm;
    end;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_updates() is
  'Fails the update of a runner that was to update itself and is gone, so that its rollout pauses.';

create function private.stop_updates(p_version text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_rollout pg_catalog.uuid;
  v_job pg_catalog.record;
begin
  for v_rollout in select r.id from public.rollouts as r where r.version = p_version and r.status = 'RUNNING' loop
    perform private.advance_rollout(v_rollout);
  end loop;
  for v_job in select j.id, j.org_id, j.target_worker_id from public.provision_jobs as j
    where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.target_worker_id is not null
      and j.payload #>> '{lifecycle,version}' = p_version
    order by j.target_worker_id, j.id
  loop
    perform private.lock_state(v_job.org_id, v_job.target_worker_id);
    if exists (select from private.live_jobs as q where q.job_id = v_job.id and q.stage <> 'RUNNING' for update) then
      perform private.end_job(v_job.id, 'CANCELLED', 'cancelled', 'system', null, 'system',
        format('Release %s was withdrawn.', p_version));
    end if;
  end loop;
end;
$$;
comment on function private.stop_updates(text) is
  'Pauses the rollouts of a withdrawn release and cancels its updates that have not begun.';

create function private.withdraw_release(p_version text, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_release public.worker_releases;
begin
  update public.worker_releases set withdrawn_at = coalesce(withdrawn_at, now()),
    withdrawn_reason = coalesce(withdrawn_reason, p_reason)
  where version = p_version returning * into v_release;
  if v_release.id is null then
    perform private.fail('RY404', format('There is no release %s.', p_version));
  end if;
  perform private.stop_updates(p_version);
  perform private.audit(null, 'release.withdrawn', 'release', v_release.id::pg_catalog.text, p_version,
    jsonb_build_object('reason', p_reason));
  return to_jsonb(v_release);
end;
$$;
comment on function private.withdraw_release(text, text) is 'Body of public.withdraw_release.';
grant execute on function private.withdraw_release(text, text) to service_role;

-- ---------------------------------------------------------------------------------------------------------- the policy

create function private.policy_json(p_policy public.update_policies)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return to_jsonb(p_policy) || jsonb_build_object('begins_at', to_char(p_policy.begins_at, 'HH24:MI'), 'ends_at',
    to_char(p_policy.ends_at, 'HH24:MI'),
    'next_window', case when p_policy.mode = 'WINDOW' then private.next_window(p_policy) end, 'is_open',
      private.may_update(p_policy.org_id),
    'version', private.latest_version(), 'outdated', (select count(*) from private.outdated_workers(p_policy.org_id)));
end;
$$;
comment on function private.policy_json(public.update_policies) is
  'A policy as pages and commands show it: its next window, and how many runners it concerns.';

create function private.update_policy(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_policy public.update_policies;
begin
  perform private.need_role(p_org, 'viewer');
  select * into v_policy from public.update_policies where org_id = p_org;
  if v_policy.org_id is null then
    select p_org, 'OFF', '{6,0}', '02:00', '05:00', 'UTC', '', now() into v_policy;
  end if;
  return private.policy_json(v_policy);
end;
$$;
comment on function private.update_policy(uuid) is 'Body of public.update_policy.';
grant execute on function private.update_policy(uuid) to authenticated;

create function private.set_update_policy(p_org uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_policy public.update_policies;
begin
  perform private.need_role(p_org, 'admin');
  perform private.refuse_unknown_keys(p_spec, array['mode', 'days', 'begins_at', 'ends_at', 'zone']);
  select * into v_policy from public.update_policies where org_id = p_org;
  if v_policy.org_id is null then
    select p_org, 'OFF', '{6,0}', '02:00', '05:00', 'UTC', '', now() into v_policy;
  end if;
  v_policy := jsonb_populate_record(v_policy, coalesce(p_spec, '{}'));
  perform private.check_zone(v_policy.zone);
  insert into public.update_policies as p (org_id, mode, days, begins_at, ends_at, zone, updated_by_label)
  values (p_org, v_policy.mode, v_policy.days, v_policy.begins_at, v_policy.ends_at, v_policy.zone,
    private.caller_label(p_org))
  on conflict (org_id) do update set mode = excluded.mode, days = excluded.days, begins_at = excluded.begins_at,
    ends_at = excluded.ends_at,
    zone = excluded.zone, updated_by_label = excluded.updated_by_label
  returning * into v_policy;
  perform private.audit(p_org, 'organization.update_policy', 'organization', p_org::pg_catalog.text, null,
    coalesce(p_spec, '{}'));
  return private.policy_json(v_policy);
exception
  when check_violation or not_null_violation or invalid_text_representation or invalid_datetime_format
    or datetime_field_overflow
    or numeric_value_out_of_range or invalid_parameter_value then
    perform private.fail('RY422', 'The update policy is not valid.',
      'mode is OFF, WINDOW or NOW; days are 0 (Sunday) to 6; hours are like 02:00 and differ from each other.');
end;
$$;
comment on function private.set_update_policy(uuid, jsonb) is 'Body of public.set_update_policy.';
grant execute on function private.set_update_policy(uuid, jsonb) to authenticated;

create function private.sweep_update_policies()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_org pg_catalog.uuid;
  v_rollout public.rollouts;
  v_workers pg_catalog.uuid[];
  v_count integer := 0;
begin
  if not exists (select from public.update_policies as p where p.mode <> 'OFF') or not private.is_due('updates',
    interval '1 minute') then
    return 0;
  end if;
  for v_org in select p.org_id from public.update_policies as p where p.mode <> 'OFF'
    and private.may_update(p.org_id) loop
    -- One that a person paused or aborted is theirs; so is this version, then.
    select * into v_rollout from public.rollouts as r where r.org_id = v_org
      and (r.status in ('RUNNING', 'PAUSED') or r.status in ('ABORTED', 'FAILED')
        and r.version = private.latest_version())
    order by r.created_at desc limit 1;
    begin
      if v_rollout.status = 'RUNNING' and v_rollout.is_by_policy then
        perform private.advance_rollout(v_rollout.id);
      elsif v_rollout.id is null then
        select array_agg(w.id order by w.status, w.name) into v_workers from private.outdated_workers(v_org) as w;
        if v_workers is not null then
          perform private.start_rollout(v_org, v_workers, null, true);
          v_count := v_count + 1;
        end if;
      end if;
    exception
      when others then raise warning 'sweep of the update policy of organisation %: %', v_org, sqlerrm;
    end;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_update_policies() is
  'Starts rollouts, and goes on with them, where an organisation''s update policy allows it now. Returns how many it '
  'started.';

revoke execute on all functions in schema private from public;
