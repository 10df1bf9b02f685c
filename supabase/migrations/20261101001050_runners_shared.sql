-- Shared runners: they come from the installation's file, belong to no organisation, and are changed by its
-- administrator alone.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.shared_orgs(p_worker uuid)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return (select coalesce(jsonb_agg(o.slug order by o.slug), '[]')
    from private.shared_worker_orgs as s join public.organizations as o on o.id = s.org_id
    where s.worker_id = p_worker);
end;
$$;
comment on function private.shared_orgs(uuid) is
  'The organisations that a shared runner works for, by their short names; none for everybody.';

create function private.set_shared_orgs(p_worker uuid, p_slugs text[])
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.fail('RY404', format('There is no organisation "%s".', s), 'Write its short name, as in its address.')
  from unnest(p_slugs) as s where not exists (select from public.organizations as o where o.slug = s);
  delete from private.shared_worker_orgs where worker_id = p_worker;
  insert into private.shared_worker_orgs (worker_id, org_id)
  select p_worker, o.id from public.organizations as o where o.slug = any (p_slugs);
end;
$$;
comment on function private.set_shared_orgs(uuid, text[]) is
  'Says for whom a shared runner works; nobody named is everybody. The caller holds the routing lock alone.';

create function private.ensure_shared_worker(p_name text, p_token_hash text, p_token_hint text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_before pg_catalog.jsonb;
begin
  perform private.check_worker_options(null, private.runner_settings(p_options,
    array['assignments', 'service_account_id', 'organizations']));
  perform private.lock_routing(null, true);
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null;
  if v_worker.id is null then
    v_worker := private.insert_worker(null, p_name, 'shared',
      coalesce(p_options, '{}') - array['service_account_id', 'is_assigned_to_all_modules', 'organizations']);
    perform private.record_worker_event(v_worker.id, 'registered', 'From the installation''s configuration');
    perform private.audit(null, 'worker.registered', 'worker', v_worker.id::pg_catalog.text, v_worker.name,
      coalesce(p_options, '{}'));
  else
    update public.workers set
      labels = case when p_options ? 'labels' then private.sorted_labels(private.text_list(p_options -> 'labels'))
        else labels end,
      capacity = coalesce((p_options ->> 'capacity')::integer, capacity),
      accepted_job_types = case when p_options ? 'accepted_job_types'
        then private.job_types(p_options -> 'accepted_job_types')
        else accepted_job_types end,
      allow_multiple_instances = coalesce((p_options ->> 'allow_multiple_instances')::boolean, allow_multiple_instances)
    where id = v_worker.id returning * into v_worker;
  end if;
  if p_token_hash is not null and not exists (select from private.worker_tokens where worker_id = v_worker.id
    and hash = p_token_hash
    and revoked_at is null) then
    update private.worker_tokens set expires_at = now() where worker_id = v_worker.id and revoked_at is null;
    perform private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  end if;
  v_before := private.shared_orgs(v_worker.id);
  perform private.set_shared_orgs(v_worker.id, private.text_list(p_options -> 'organizations'));
  perform private.reroute(null, v_worker.id);
  return to_jsonb(v_worker) || jsonb_build_object('organizations', private.shared_orgs(v_worker.id),
    'organizations_before', v_before);
end;
$$;
comment on function private.ensure_shared_worker(text, text, text, jsonb) is 'Body of public.ensure_shared_worker.';
grant execute on function private.ensure_shared_worker(text, text, text, jsonb) to service_role;

create function private.remove_shared_worker(p_name text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  perform private.lock_routing(null, true);
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null;
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

create function private.set_shared_worker(p_name text, p_action text, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  if p_action is null or p_action not in ('drain', 'resume', 'disable', 'enable', 'end_sessions') then
    perform private.fail('RY422', 'A shared runner can drain, resume, disable, enable or end_sessions.');
  end if;
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null
  for no key update;
  if v_worker.id is null then
    perform private.fail('RY404', format('There is no shared runner "%s".', p_name));
  end if;
  update public.workers set
    is_disabled = case p_action when 'disable' then true when 'enable' then false else is_disabled end,
    is_draining = case p_action when 'drain' then true when 'resume' then false else is_draining end,
    drain_reason = case p_action when 'drain' then coalesce(nullif(trim(p_reason), ''), 'Told to drain') when 'resume'
      then null
      else drain_reason end
  where id = v_worker.id;
  if p_action = 'end_sessions' then
    perform private.end_sessions(v_worker.id, null, null, coalesce(nullif(trim(p_reason), ''),
      'ended by the administrator'));
  end if;
  perform private.refresh_worker_status(v_worker.id);
  perform private.record_worker_event(v_worker.id, p_action, p_reason);
  perform private.audit(null, 'worker.' || p_action, 'worker', v_worker.id::pg_catalog.text, v_worker.name,
    jsonb_build_object('reason', p_reason));
  perform private.ring_worker(v_worker.id);
  return (select to_jsonb(w) from public.workers as w where w.id = v_worker.id);
end;
$$;
comment on function private.set_shared_worker(text, text, text) is 'Body of public.set_shared_worker.';
grant execute on function private.set_shared_worker(text, text, text) to service_role;

revoke execute on all functions in schema private from public;
