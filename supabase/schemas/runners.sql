-- Runners ("workers" in SQL): the records, their connected processes and their assignments. `workers` and
-- `worker_instances` are published to Realtime, so they change only when something that a person sees changes.

create type public.worker_type as enum ('cloud-hosted', 'self-hosted', 'shared');
comment on type public.worker_type is 'cloud-hosted: by Runyard · self-hosted: by you · shared: for everybody.';

create type public.worker_status as enum ('ONLINE', 'DRAINING', 'OFFLINE');
comment on type public.worker_status is
  'ONLINE: a heartbeat within 60 s · DRAINING: finishes, takes nothing new · OFFLINE: no heartbeat for 60 s.';

create type public.job_type as enum ('PLAN', 'APPLY', 'DESTROY', 'OUTPUT', 'DRIFT', 'DEPLOY_WORKER', 'UPDATE_WORKER',
  'REMOVE_WORKER',
  'VERIFY_IDENTITY', 'RESOLVE', 'STATE', 'POLICY_TEST');
comment on type public.job_type is
  'What a job does. The first five act on a module, the next three on a cloud-hosted runner; VERIFY_IDENTITY tries a '
  'cloud identity, RESOLVE reads the branches of a connected repository, STATE moves, removes or imports resources of '
  'a module''s state, POLICY_TEST runs a policy set over plans that were made before.';

create table public.workers (
  id uuid primary key default gen_random_uuid(),
  org_id uuid references public.organizations (id) on delete cascade,
  is_shared boolean not null default false,
  name text not null check (name ~ '^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?$'),
  type public.worker_type not null default 'self-hosted',
  region text,
  status public.worker_status not null default 'OFFLINE',
  status_reason text not null default 'Never contacted',
  status_changed_at timestamptz not null default now(),
  version text,
  labels text[] not null default '{}' check (private.is_label_list(labels)),
  capacity integer not null default 1 check (capacity between 1 and 256),
  accepted_job_types public.job_type[],
  is_disabled boolean not null default false,
  is_draining boolean not null default false,
  drain_reason text,
  allow_multiple_instances boolean not null default false,
  is_assigned_to_all_modules boolean not null default false,
  is_scaled_to_zero boolean not null default false,
  desired_count integer not null default 1 check (desired_count between 0 and 1000),
  scaling jsonb not null default '{}',
  cloud_identity_id uuid,
  cloud jsonb not null default '{}',
  service_account_id uuid,
  never_contacted boolean not null default true,
  first_seen_at timestamptz,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz,
  check (is_shared = (org_id is null)),
  check (is_shared = (type = 'shared'))
);
create unique index workers_name_idx on public.workers (org_id, lower(name)) where removed_at is null
  and org_id is not null;
create unique index workers_shared_name_idx on public.workers (lower(name)) where removed_at is null and org_id is null;
create index workers_org_id_idx on public.workers (org_id, created_at desc);

-- For is_choosy_about_types.
create index workers_types_idx on public.workers (org_id) where removed_at is null and accepted_job_types is not null;
comment on table public.workers is 'Runners. A row changes with status or settings, not heartbeats. Removed ones stay.';
comment on column public.workers.is_shared is
  'Whether it belongs to no organisation and serves all. Set by the installation''s configuration only.';
comment on column public.workers.labels is 'What it offers, such as gpu=true. A job''s labels must all be among them.';
comment on column public.workers.capacity is 'How many jobs each of its instances runs at a time.';
comment on column public.workers.accepted_job_types is 'Types of job that it accepts; null: all, also later ones.';
comment on column public.workers.allow_multiple_instances is 'Whether several processes may connect, by name.';
comment on column public.workers.is_assigned_to_all_modules is
  'Serves every module of the organisation, with less precedence than an assignment to a path.';
comment on column public.workers.is_scaled_to_zero is 'Asleep on purpose: it is started again when a job needs it.';
comment on column public.workers.scaling is 'Limits for scaling: {min, max, jobs_per_task, idle_seconds}.';
comment on column public.workers.cloud is 'What was created in the cloud: names and ARNs, no secrets.';
-- The own runners that a guest sees: they serve something of what the guest sees, or everything.
create function private.my_workers() returns setof uuid
language plpgsql stable security definer set search_path = '' as $$
declare
  v_seen pg_catalog.text[] := array(select private.my_prefixes());
  v_orgs pg_catalog.uuid[] := array(select distinct split_part(s, ':', 1)::pg_catalog.uuid from unnest(v_seen) as s);
begin
  return query
  select w.id from public.workers as w where w.org_id = any (v_orgs) and w.is_assigned_to_all_modules
  union
  -- Each path once, and without a call for each: a guest may have fifty paths, and a fleet thousands of assignments.
  select a.worker_id from (
    select p.*, p.org_id || ':' || p.path as name from (
      select distinct x.org_id, x.path from public.worker_assignments as x where x.org_id = any (v_orgs)) as p
    offset 0) as p
  join public.worker_assignments as a on a.org_id = p.org_id and a.path = p.path
  where exists (select from unnest(v_seen) as s (above) where p.path = '' or p.name = s.above
    or starts_with(p.name, s.above || '/') or starts_with(s.above, p.name || '/'))
  union
  select m.pinned_worker_id from public.modules as m
  where m.pinned_worker_id is not null and m.org_id = any (v_orgs) and private.is_seen(m.org_id, m.path, v_seen);
end;
$$;

-- The same for one organisation; null for a member who sees every runner.
create function private.seen_workers(p_org uuid) returns uuid[] language plpgsql stable as $$
begin
  return case when private.seen(p_org) is not null then array(select private.my_workers()) end;
end;
$$;
create policy "Members see their runners and the shared ones" on public.workers
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids('module.read')))
    or id = any(array(select private.my_workers())));

alter table public.modules add constraint
  modules_pinned_worker_id_fkey foreign key (pinned_worker_id) references public.workers (id);

create table public.worker_instances (
  id uuid primary key default gen_random_uuid(),
  worker_id uuid not null references public.workers (id) on delete cascade,
  org_id uuid references public.organizations (id) on delete cascade,
  is_shared boolean not null default false,
  name text not null check (length(name) between 1 and 100),
  hostname text,
  facts jsonb not null default '{}',
  engines jsonb not null default '{}',
  version text,
  status public.worker_status not null default 'OFFLINE',
  capacity integer not null default 1,
  epoch integer not null default 0,
  boot_id uuid,
  engine_note text,
  last_error text,
  connected_at timestamptz,
  disconnected_at timestamptz,
  updated_at timestamptz not null default now(),
  unique (worker_id, name),
  check (is_shared = (org_id is null))
);
create index worker_instances_org_id_idx on public.worker_instances (org_id);
comment on table public.worker_instances is
  'Connected processes of a runner, one row per name; changes when one connects, leaves or has news.';
comment on column public.worker_instances.facts is 'What it said about its host: platform, cores, disk.';
comment on column public.worker_instances.capacity is 'How many jobs it runs at a time: what runner and process allow.';
comment on column public.worker_instances.epoch is 'Counts its sessions; a higher one has taken over from a lower one.';
comment on column public.worker_instances.engine_note is 'What it prepares: "tofu is being prepared, 40 %".';
comment on column public.worker_instances.last_error is
  'The last problem that it reported. None of a shared runner, which everybody sees: it may reveal another''s job.';

-- How many jobs an instance runs at a time: as many as its runner may, or fewer as the process reports; at least one.
create function private.slots_of(p_capacity integer, p_facts jsonb) returns integer language plpgsql immutable as $$
begin
  return least(p_capacity, greatest(1, coalesce((p_facts ->> 'capacity')::integer, p_capacity)));
end;
$$;

-- Tells a runner's instances how many jobs it may run now.
create function private.refresh_slots(p_worker uuid) returns void language sql as $$
  update public.worker_instances as i set capacity = private.slots_of(w.capacity, i.facts) from public.workers as w
  where w.id = p_worker and i.worker_id = p_worker and i.capacity <> private.slots_of(w.capacity, i.facts)
$$;
create policy "Members see instances of their runners and of shared ones" on public.worker_instances
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids('module.read'))));

create table public.worker_assignments (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  worker_id uuid not null references public.workers (id) on delete cascade,
  path text not null check (path = '' or private.is_path(path)),
  created_by uuid,
  created_at timestamptz not null default now(),
  unique (worker_id, path)
);
create index worker_assignments_org_id_idx on public.worker_assignments (org_id, path);
comment on table public.worker_assignments is 'This runner may run jobs at or below this path.';

alter table public.workers add constraint workers_service_account_id_fkey
  foreign key (service_account_id) references public.service_accounts (id);

create index workers_service_account_id_idx on public.workers (service_account_id) where service_account_id is not null;

alter table public.workers add constraint
  workers_cloud_identity_id_fkey foreign key (cloud_identity_id) references public.cloud_identities (id);

create index workers_cloud_identity_id_idx on public.workers (cloud_identity_id) where cloud_identity_id is not null;

create table public.worker_events (
  id bigint generated always as identity primary key,
  org_id uuid references public.organizations (id) on delete cascade,
  is_shared boolean not null default false,
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_name text,
  at timestamptz not null default now(),
  event text not null,
  reason text
);
create index worker_events_worker_id_idx on public.worker_events (worker_id, id desc);
create index worker_events_org_id_idx on public.worker_events (org_id, at desc, id desc);
create policy "Members see events of their runners and of shared ones" on public.worker_events
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids('module.read'))));
comment on table public.worker_events is 'What happened to runners: connected, offline, settings changed. Append only.';

create function private.record_worker_event(
  p_worker uuid, p_event text, p_reason text default null, p_instance text default null
) returns void language sql as $$
  insert into public.worker_events (org_id, is_shared, worker_id, instance_name, event, reason)
  select w.org_id, w.is_shared, w.id, p_instance, p_event, p_reason from public.workers as w where w.id = p_worker
$$;

-- Finds a runner that the caller may change, with the routing lock and its row held. Shared runners are refused.
create function private.lock_worker(p_worker uuid, p_verb text, out v_worker public.workers) language plpgsql as $$
begin
  select * into v_worker from public.workers where id = p_worker and removed_at is null
    and (is_shared or org_id in (select private.my_org_ids('module.read')));
  perform private.fail('RY404', 'There is no such runner.', 'It may have been removed.') where v_worker.id is null;
  perform private.fail('RY403', 'A shared runner belongs to the installation; no organisation can change it.',
    'Ask the administrator of this installation.') where v_worker.is_shared;
  perform private.need(p_verb, v_worker.org_id);
  perform private.lock_routing(v_worker.org_id, true);
  -- A runner that was removed from the cloud only waits for the sweep that retires its record.
  select * into v_worker from public.workers where id = p_worker and removed_at is null and not cloud ? 'is_gone'
  for no key update;
  perform private.fail('RY404', 'There is no such runner.', 'It was removed in this moment.') where v_worker.id is null;
end;
$$;

-- Refuses an assignment to nothing, or outside of the runner's service account.
create function private.check_assignment_path(p_org uuid, p_path text, p_account uuid) returns void
language sql stable as $$
  select private.need_target(p_org, p_path);
  select private.fail('RY422', format('The runner''s service account serves only %s.', a.path),
    'A service account must be in the same group as the modules, or above them.')
  from public.service_accounts as a where a.id = p_account and not private.is_at_or_below(p_path, a.path)
$$;

-- The options without some of them; anything but an object is left as it is, for check_worker_options to refuse.
create function private.runner_settings(p_options jsonb, p_without text[]) returns jsonb language sql immutable as $$
  select case jsonb_typeof(p_options) when 'object' then p_options - p_without when 'null' then '{}'
    else coalesce(p_options, '{}') end
$$;

-- Refuses a runner, as it would now be, that serves anything outside of its service account, or has no account.
create function private.check_account_scope(p_worker public.workers) returns void language sql stable as $$
  -- The runner's row has waited for a removal of the account.
  select private.fail('RY404', 'There is no such service account.', 'It was removed in this moment.')
  from public.service_accounts as s where s.id = p_worker.service_account_id and s.removed_at is not null;
  select private.fail('RY422', format('The service account %s serves only %s, but the runner serves %s.', s.name,
    s.path, o.paths), 'Assign the runner to paths below it only, or choose an account of the whole organisation.')
  from public.service_accounts as s cross join lateral (
    select case when p_worker.is_assigned_to_all_modules then 'all modules'
      else string_agg(coalesce(nullif(a.path, ''), 'all modules'), ', ' order by a.path) end as paths
    from public.worker_assignments as a
    where a.worker_id = p_worker.id and not private.is_at_or_below(a.path, s.path)) as o
  where s.id = p_worker.service_account_id and s.path <> '' and o.paths is not null
$$;

-- A JSON list of job types; null for all of them.
create function private.job_types(p_value jsonb) returns public.job_type[] language plpgsql stable as $$
begin
  perform private.fail('RY422', 'A runner must take at least one type of job.', 'Disable it, if it should take none.')
  where p_value = '[]';
  return (select nullif(array_agg(distinct t::public.job_type), enum_range(null::public.job_type))
    from jsonb_array_elements_text(nullif(p_value, 'null')) as t);
exception when invalid_text_representation or invalid_parameter_value then
  perform private.fail('RY422', 'There is no such type of job.',
    format('Types: %s.', array_to_string(enum_range(null::public.job_type), ', ')));
end;
$$;

create function private.insert_worker(p_org uuid, p_name text, p_type public.worker_type, p_options jsonb)
returns public.workers language plpgsql as $$
declare
  v_worker public.workers;
begin
  insert into public.workers (
    org_id, is_shared, name, type, region, labels, capacity, accepted_job_types, allow_multiple_instances,
    is_assigned_to_all_modules, service_account_id, scaling, created_by
  ) values (
    p_org, p_org is null, trim(p_name), p_type, p_options ->> 'region',
      private.sorted_labels(private.text_list(p_options -> 'labels')),
    coalesce((p_options ->> 'capacity')::integer, 1), private.job_types(p_options -> 'accepted_job_types'),
    coalesce((p_options ->> 'allow_multiple_instances')::boolean, false),
    coalesce((p_options ->> 'is_assigned_to_all_modules')::boolean, false),
    (p_options ->> 'service_account_id')::pg_catalog.uuid, coalesce(p_options -> 'scaling', '{}'), private.caller_id()
  ) returning * into v_worker;
  perform private.check_account_scope(v_worker);
  return v_worker;
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a runner called "%s".', trim(p_name)),
      'Choose another name, or remove the other one.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'The name or a setting of the runner is not valid.',
      'A name has 1 to 63 letters, digits, dots, spaces, hyphens or underscores; capacity is 1 to 256.');
end;
$$;

create function private.path_runners(p_org uuid, p_path text) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org, p_path);
  with serving as (
    select w.id, w.name, w.status, w.is_shared, w.is_disabled, (
      select a.path from public.worker_assignments as a
      where a.worker_id = w.id and a.path = any (private.path_prefixes(coalesce(p_path, '')))
      order by length(a.path) desc limit 1) as path, w.is_assigned_to_all_modules
    from public.workers as w join public.organizations as o on o.id = p_org
    where w.removed_at is null and (w.org_id = p_org or w.is_shared and o.shared_runners <> 'NEVER')
  ), ordered as (
    select s.*, row_number() over (order by s.is_shared, length(s.path) desc nulls last, lower(s.name)) as place
    from serving as s where s.is_shared or s.path is not null or s.is_assigned_to_all_modules)
  select jsonb_build_object('total', count(*), 'rows', coalesce(
    jsonb_agg(to_jsonb(s) order by s.place) filter (where s.place <= 200), '[]')) from ordered as s
$$;
comment on function private.path_runners is
  'The runners that serve the modules of a path, in the order they are tried, each with the assignment that counts: '
  '200 at most, and how many there are. Members.';

-- Returns why a runner cannot claim jobs when all of its fresh instances report that they lack something. Else null.
create function private.degraded_words(p_worker uuid) returns text language sql stable as $$
  select 'Degraded: ' || left(min(i.facts #>> '{degraded,reason}'), 300)
  from public.worker_instances as i join private.instance_liveness as l on l.instance_id = i.id and l.is_fresh
  where i.worker_id = p_worker having bool_and(coalesce(jsonb_typeof(i.facts -> 'degraded') = 'object', false))
$$;

-- Writes a runner's status where it has changed, with an event. Nothing is written otherwise.
create function private.refresh_worker_status(p_worker uuid) returns void language plpgsql as $$
declare
  v_worker public.workers;
  v_new pg_catalog.record;
begin
  select * into v_worker from public.workers where id = p_worker for no key update;
  select * into v_new from private.derive_worker_status(p_worker);
  -- The reason why a runner went offline stays as it was then; asleep, starting and without a credential are about now.
  if v_worker.status = v_new.status and (v_worker.status_reason = v_new.reason or v_new.status = 'OFFLINE'
    and v_worker.status_reason !~ '^(Starting|Scaled to zero|No usable)'
      and v_new.reason !~ '^(Starting|Scaled to zero|No usable)') then
    return;
  end if;
  update public.workers set
    status = v_new.status, status_reason = v_new.reason,
    status_changed_at = case when status = v_new.status then status_changed_at else now() end,
    never_contacted = never_contacted and v_new.status = 'OFFLINE',
    first_seen_at = case when v_new.status = 'OFFLINE' then first_seen_at else coalesce(first_seen_at, now()) end,
    -- A task that is being stopped still sends heartbeats, as draining: that is not waking up.
    is_scaled_to_zero = is_scaled_to_zero and (v_new.status = 'OFFLINE' or desired_count = 0)
  where id = p_worker;
  if v_worker.status <> v_new.status then
    perform private.record_worker_event(p_worker, lower(v_new.status::pg_catalog.text), v_new.reason);
  end if;
end;
$$;

create function private.derive_worker_status(p_worker uuid) returns table (status public.worker_status, reason text)
language sql stable as $$
  select
    l.status,
    case
      when l.fresh > 0 and w.is_draining then coalesce(w.drain_reason, 'Drain requested')
      when l.fresh > 0 and l.willing = 0 then 'The runner is shutting down'
      when l.fresh > 0 then case when w.is_disabled then 'Disabled: gets no new jobs' else
        coalesce(private.degraded_words(w.id), 'Ready') end
      when w.is_scaled_to_zero then 'Scaled to zero: starts when a job needs it'
      when p.is_starting then 'Starting'
      when not p.has_credential then 'No usable token or service account'
      when w.never_contacted then 'Never contacted'
      else coalesce((
        select 'Stopped: ' || s.end_reason from private.sessions as s
        where s.worker_id = w.id and s.ended_at > w.status_changed_at - interval '1 minute'
          and not exists (select from private.sessions as o where o.worker_id = w.id and o.ended_at is null)
        order by s.ended_at desc limit 1
      ), 'No heartbeat for 60 s')
    end
  from public.workers as w
  join private.worker_liveness as l on l.worker_id = w.id
  join private.worker_prospects as p on p.worker_id = w.id
  where w.id = p_worker
$$;

-- The newest stable release that was not withdrawn.
create function private.latest_version() returns text language plpgsql stable as $$
begin
  return (
    select r.version from public.worker_releases as r where r.channel = 'stable' and r.withdrawn_at is null
    order by private.version_key(r.version) collate "C" desc limit 1);
end;
$$;
