-- Shared runners: they belong to no organisation, are managed with the installation's service key, and serve the
-- organisations that the installation and the organisation itself allow.

create table private.shared_worker_orgs (
  worker_id uuid not null references public.workers (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  primary key (worker_id, org_id)
);
create index shared_worker_orgs_org_id_idx on private.shared_worker_orgs (org_id);
alter table private.shared_worker_orgs enable row level security;
comment on table private.shared_worker_orgs is
  'For whom a shared runner works, where the installation''s file limits it; one without a row works for everybody.';

-- ## rules
create view private.shared_refusals as
select
  w.id as worker_id,
  o.id as org_id,
  case
    when o.shared_runners = 'NEVER' then 'SHARED_REFUSED'
    when exists (select from private.shared_worker_orgs as s where s.worker_id = w.id) and not exists (
      select from private.shared_worker_orgs as s where s.worker_id = w.id and s.org_id = o.id
    ) then 'SHARED_ELSEWHERE'
  end as reason
from public.workers as w cross join public.organizations as o
where w.is_shared;
comment on view private.shared_refusals is
  'Why a shared runner does not work for an organisation. Jobs and the scaling of runners both go by it.';
comment on column private.shared_refusals.reason is
  'The organisation wants none, or the installation''s file keeps the runner for others; null: it works for it.';

-- ## shared runners
create function private.set_shared_runners(p_org uuid, p_use public.shared_use) returns jsonb
language plpgsql security definer set search_path = '' as $$
begin
  perform private.need('runner.manage', p_org);
  if p_use is null then
    perform private.fail('RY422', 'Shared runners are used NEVER, when NONE_FITS, or when NONE_AVAILABLE.');
  end if;
  perform private.lock_routing(p_org, true);
  update public.organizations set shared_runners = p_use where id = p_org;
  delete from private.lane_workers as lw using private.lanes as l, public.workers as w
  where l.id = lw.lane_id and l.org_id = p_org and w.id = lw.worker_id and w.is_shared;
  insert into private.lane_workers (worker_id, lane_id, distance, instance_name)
  select f.worker_id, f.lane_id, f.distance, f.instance_name
  from private.lane_fit(array(select l.id from private.lanes as l where l.org_id = p_org), null) as f
  where f.reason is null and f.distance = 200
  on conflict do nothing;
  perform private.audit(p_org, 'organization.shared_runners', 'organization', p_org::pg_catalog.text, null,
    jsonb_build_object('use', p_use));
  return jsonb_build_object('shared_runners', p_use);
end;
$$;
comment on function private.set_shared_runners is
  'When shared runners may take the organisation''s jobs: NEVER, NONE_FITS (no own runner is set up for it) or '
  'NONE_AVAILABLE. Admins.';
grant execute on function private.set_shared_runners to authenticated;

-- ## shared runners

-- Shared runners: they come from the installation's file, belong to no organisation, and are changed by its
-- administrator alone.
-- The organisations that a shared runner works for, by their short names; none for everybody.
create function private.shared_orgs(p_worker uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return (select coalesce(jsonb_agg(o.slug order by o.slug), '[]')
    from private.shared_worker_orgs as s join public.organizations as o on o.id = s.org_id
    where s.worker_id = p_worker);
end;
$$;

-- Says for whom a shared runner works; nobody named is everybody. The caller holds the routing lock alone.
create function private.set_shared_orgs(p_worker uuid, p_slugs text[]) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.fail('RY404', format('There is no organisation "%s".', s), 'Write its short name, as in its address.')
  from unnest(p_slugs) as s where not exists (select from public.organizations as o where o.slug = s);
  delete from private.shared_worker_orgs where worker_id = p_worker;
  insert into private.shared_worker_orgs (worker_id, org_id)
  select p_worker, o.id from public.organizations as o where o.slug = any (p_slugs);
end;
$$;

-- A shared runner by its name, with its row held.
create function private.need_shared_worker(p_name text) returns public.workers
language plpgsql set search_path = '' as $$
declare
  v_worker public.workers;
begin
  select * into v_worker from public.workers where is_shared and lower(name) = lower(trim(p_name))
    and removed_at is null
  for no key update;
  if v_worker.id is null then
    perform private.fail('RY404', format('There is no shared runner "%s".', left(p_name, 200)));
  end if;
  return v_worker;
end;
$$;

create function private.ensure_shared_worker(
  p_name text, p_token_hash text, p_token_hint text, p_options jsonb default '{}'
) returns jsonb
language plpgsql security definer set search_path = '' as $$
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
    perform private.refresh_slots(v_worker.id);
  end if;
  if p_token_hash is not null and not exists (select from private.live_tokens as t
    where t.worker_id = v_worker.id and t.hash = p_token_hash) then
    perform private.expire_tokens(v_worker.id, now());
    perform private.add_token(v_worker.id, p_token_hash, p_token_hint, null);
  end if;
  v_before := private.shared_orgs(v_worker.id);
  perform private.set_shared_orgs(v_worker.id, private.text_list(p_options -> 'organizations'));
  perform private.reroute(null, v_worker.id);
  return to_jsonb(v_worker) || jsonb_build_object('organizations', private.shared_orgs(v_worker.id),
    'organizations_before', v_before);
end;
$$;
comment on function private.ensure_shared_worker is
  'Makes or changes a shared runner as the installation''s configuration says. A new token hash replaces the old one. '
  'Service key only.';
grant execute on function private.ensure_shared_worker to service_role;

create function private.remove_shared_worker(p_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
begin
  perform private.lock_routing(null, true);
  v_worker := private.need_shared_worker(p_name);
  perform private.retire_worker(v_worker.id, 'removed from the installation''s configuration');
  perform private.audit(null, 'worker.removed', 'worker', v_worker.id::pg_catalog.text, v_worker.name);
  return (select to_jsonb(w) from public.workers as w where w.id = v_worker.id);
end;
$$;
comment on function private.remove_shared_worker is
  'Removes a shared runner that left the installation''s configuration. Service key only.';
grant execute on function private.remove_shared_worker to service_role;

create function private.set_shared_worker(p_name text, p_action text, p_reason text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_done pg_catalog.text := case p_action when 'drain' then 'drained' when 'resume' then 'resumed'
    when 'disable' then 'disabled' when 'enable' then 'enabled' when 'end_sessions' then 'sessions_ended' end;
begin
  if v_done is null then
    perform private.fail('RY422', 'A shared runner can drain, resume, disable, enable or end_sessions.');
  end if;
  v_worker := private.need_shared_worker(p_name);
  if p_action = 'end_sessions' then
    perform private.end_sessions(v_worker.id, null, null, coalesce(nullif(trim(p_reason), ''),
      'ended by the administrator'));
  end if;
  return private.set_worker_flags(v_worker, v_done, p_reason);
end;
$$;
comment on function private.set_shared_worker is
  'Drains, resumes, disables or enables a shared runner, or ends its sessions. Service key only.';
grant execute on function private.set_shared_worker to service_role;
