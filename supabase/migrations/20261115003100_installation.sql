-- What the installation itself does, with the service key: releases, and shared runners from its configuration. No
-- organisation can reach these functions, so no organisation can change a shared runner.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.publish_release(p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_release public.worker_releases;
begin
  perform private.refuse_unknown_keys(p_spec, array['version', 'channel', 'notes', 'is_breaking', 'artifacts']);
  select * into v_release from public.worker_releases where version = p_spec ->> 'version';
  if v_release.id is not null then
    if (v_release.notes, v_release.channel, v_release.artifacts) is distinct from
      (coalesce(p_spec ->> 'notes', ''), coalesce(p_spec ->> 'channel', 'stable'), coalesce(p_spec -> 'artifacts', '[]')) then
      perform private.fail('RY409', format('Release %s is published already, with other content.', v_release.version),
        'Publish a new version.');
    end if;
    return to_jsonb(v_release);
  end if;
  insert into public.worker_releases (version, channel, notes, is_breaking, artifacts)
  values (p_spec ->> 'version', coalesce(p_spec ->> 'channel', 'stable'), coalesce(p_spec ->> 'notes', ''),
    coalesce((p_spec ->> 'is_breaking')::boolean, false),
    coalesce(p_spec -> 'artifacts', '[]')) returning * into v_release;
  perform private.audit(null, 'release.published', 'release', v_release.id::pg_catalog.text, v_release.version);
  return to_jsonb(v_release);
exception
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'The release is not valid.', 'It needs a version such as 1.4.0, and the channel stable or beta.');
end;
$$;
comment on function private.publish_release(jsonb) is 'Body of public.publish_release.';
grant execute on function private.publish_release(jsonb) to service_role;
create function public.publish_release(p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.publish_release(p_spec) $$;
comment on function public.publish_release(jsonb) is
  'Publishes a release {version, channel, notes, is_breaking, artifacts}; the same again is no error. Service key only.';
grant execute on function public.publish_release(jsonb) to service_role;

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
    where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.payload #>> '{lifecycle,version}' = p_version
    order by j.target_worker_id, j.id
  loop
    perform private.lock_state(v_job.org_id, v_job.target_worker_id);
    if exists (select from private.live_jobs as q where q.job_id = v_job.id and q.stage <> 'RUNNING' for update) then
      perform private.end_job(v_job.id, 'CANCELLED', 'cancelled', 'system', null, 'system', format('Release %s was withdrawn.', p_version));
    end if;
  end loop;
end;
$$;
comment on function private.stop_updates(text) is 'Pauses the rollouts of a withdrawn release and cancels its updates that have not begun.';

create function private.withdraw_release(p_version text, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_release public.worker_releases;
begin
  update public.worker_releases set withdrawn_at = coalesce(withdrawn_at, now()), withdrawn_reason = coalesce(withdrawn_reason, p_reason)
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
create function public.withdraw_release(p_version text, p_reason text)
returns jsonb language sql set search_path = ''
as $$ select private.withdraw_release(p_version, p_reason) $$;
comment on function public.withdraw_release(text, text) is 'Withdraws a release: no runner is updated to it any more. Service key only.';
grant execute on function public.withdraw_release(text, text) to service_role;

create function private.ensure_shared_worker(p_name text, p_token_hash text, p_token_hint text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.check_worker_options(null, private.runner_settings(p_options, array['assignments', 'service_account_id']));
  perform private.lock_routing(null, true);
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name)) and removed_at is null;
  if v_worker.id is null then
    v_worker := private.insert_worker(null, p_name, 'shared',
      coalesce(p_options, '{}') - array['service_account_id', 'is_assigned_to_all_modules']);
    perform private.record_worker_event(v_worker.id, 'registered', 'From the installation''s configuration');
    perform private.audit(null, 'worker.registered', 'worker', v_worker.id::pg_catalog.text, v_worker.name, coalesce(p_options, '{}'));
  else
    update public.workers set
      labels = case when p_options ? 'labels' then private.sorted_labels(private.text_list(p_options -> 'labels')) else labels end,
      capacity = coalesce((p_options ->> 'capacity')::integer, capacity),
      accepted_job_types = case when p_options ? 'accepted_job_types' then private.job_types(p_options -> 'accepted_job_types')
        else accepted_job_types end,
      allow_multiple_instances = coalesce((p_options ->> 'allow_multiple_instances')::boolean, allow_multiple_instances)
    where id = v_worker.id returning * into v_worker;
  end if;
  if p_token_hash is not null and not exists (select from private.worker_tokens where worker_id = v_worker.id and hash = p_token_hash
    and revoked_at is null) then
    update private.worker_tokens set expires_at = now() where worker_id = v_worker.id and revoked_at is null;
    perform private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  end if;
  perform private.reroute(null, v_worker.id);
  return to_jsonb(v_worker);
end;
$$;
comment on function private.ensure_shared_worker(text, text, text, jsonb) is 'Body of public.ensure_shared_worker.';
grant execute on function private.ensure_shared_worker(text, text, text, jsonb) to service_role;
create function public.ensure_shared_worker(p_name text, p_token_hash text, p_token_hint text, p_options jsonb default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.ensure_shared_worker(p_name, p_token_hash, p_token_hint, p_options) $$;
comment on function public.ensure_shared_worker(text, text, text, jsonb) is
  'Makes or changes a shared runner as the installation''s configuration says. A new token hash replaces the old one. Service key only.';
grant execute on function public.ensure_shared_worker(text, text, text, jsonb) to service_role;

create function private.remove_shared_worker(p_name text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.lock_routing(null, true);
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name)) and removed_at is null;
  if v_worker.id is null then
    perform private.fail('RY404', format('There is no shared runner "%s".', p_name));
  end if;
  perform private.retire_worker(v_worker.id, 'removed from the installation''s configuration');
  perform private.audit(null, 'worker.removed', 'worker', v_worker.id::pg_catalog.text, v_worker.name);
  return (select to_jsonb(w) from public.workers as w where w.id = v_worker.id);
end;
$$;
comment on function private.remove_shared_worker(text) is 'Body of public.remove_shared_worker.';
grant execute on function private.remove_shared_worker(text) to service_role;
create function public.remove_shared_worker(p_name text)
returns jsonb language sql set search_path = ''
as $$ select private.remove_shared_worker(p_name) $$;
comment on function public.remove_shared_worker(text) is
  'Removes a shared runner that left the installation''s configuration. Service key only.';
grant execute on function public.remove_shared_worker(text) to service_role;

revoke execute on all functions in schema private, public from public;
