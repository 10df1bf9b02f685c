-- Runners ("workers" in SQL): the records, their connected processes, what they are assigned to, and their secrets.
-- `workers` and `worker_instances` are published to Realtime, so they change only when something that a person sees
-- changes. Heartbeats go to a narrow UNLOGGED table in `private`: 10,000 runners send 667 a second, and none of it is
-- news.
set lock_timeout = '5s';
set statement_timeout = '60s';

create type public.worker_type as enum ('cloud-hosted', 'self-hosted', 'shared');
comment on type public.worker_type is
  'cloud-hosted: deployed by Runyard · self-hosted: started by you · shared: offered to every organisation.';

create type public.worker_status as enum ('ONLINE', 'DRAINING', 'OFFLINE');
comment on type public.worker_status is
  'ONLINE: a heartbeat within 60 s · DRAINING: finishes, takes nothing new · OFFLINE: no heartbeat for 60 s.';

create type public.job_type as enum ('PLAN', 'APPLY', 'DESTROY', 'OUTPUT', 'DRIFT', 'DEPLOY_WORKER', 'UPDATE_WORKER',
  'REMOVE_WORKER',
  'VERIFY_IDENTITY');
comment on type public.job_type is
  'What a job does. The first five act on a module, the next three on a cloud-hosted runner, the last one tries a '
  'cloud identity.';

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
  accepted_job_types public.job_type[] not null default enum_range(null::public.job_type),
  is_choosy boolean not null generated always as (
    not accepted_job_types @> '{PLAN, APPLY, DESTROY, OUTPUT, DRIFT, DEPLOY_WORKER, UPDATE_WORKER, REMOVE_WORKER,
      VERIFY_IDENTITY}'::public.job_type[]) stored,
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
-- Only runners that leave some types out, so that asking for one costs the same with 5,000 others.
create index workers_choosy_idx on public.workers (org_id) where removed_at is null and is_choosy;
alter table public.workers enable row level security;
grant select on public.workers to authenticated, service_role;
comment on table public.workers is
  'Runners. Rows change when a status or a setting changes, never with a heartbeat. Removed ones stay.';
comment on column public.workers.is_shared is
  'Whether it belongs to no organisation and serves all. Set by the installation''s configuration only.';
comment on column public.workers.type is 'How it came to be.';
comment on column public.workers.region is 'The cloud region, for cloud-hosted runners.';
comment on column public.workers.status is 'ONLINE, DRAINING or OFFLINE, as derived from its instances'' heartbeats.';
comment on column public.workers.status_reason is 'Why it has that status, in words.';
comment on column public.workers.status_changed_at is 'Since when.';
comment on column public.workers.labels is 'What it offers, such as gpu=true. A job''s labels must all be among them.';
comment on column public.workers.capacity is 'How many jobs each of its instances runs at a time.';
comment on column public.workers.accepted_job_types is 'Which types of job it takes.';
comment on column public.workers.is_choosy is 'Whether it refuses some types of job; then the type counts in routing.';
comment on column public.workers.is_disabled is 'A disabled runner gets no new jobs.';
comment on column public.workers.is_draining is 'Told to finish what it has and take nothing new.';
comment on column public.workers.allow_multiple_instances is
  'Whether several processes may connect, each with a name of its own.';
comment on column public.workers.is_assigned_to_all_modules is
  'Serves every module of the organisation, with less precedence than an assignment to a path.';
comment on column public.workers.is_scaled_to_zero is 'Asleep on purpose: it is started again when a job needs it.';
comment on column public.workers.desired_count is 'How many tasks a cloud-hosted runner should have now.';
comment on column public.workers.scaling is 'Limits for scaling: {min, max, jobs_per_task, idle_seconds}.';
comment on column public.workers.cloud_identity_id is 'Where a cloud-hosted runner is deployed.';
comment on column public.workers.cloud is 'What was created in the cloud: names and ARNs, no secrets.';
comment on column public.workers.service_account_id is 'The service account that it may sign in with.';
comment on column public.workers.never_contacted is 'Whether it has never connected.';
comment on column public.workers.first_seen_at is 'When it connected first.';
create trigger touch before update on public.workers for each row execute function private.touch_updated_at();

create policy "Members see their runners and the shared ones" on public.workers
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids())));

-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
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
alter table public.worker_instances enable row level security;
grant select on public.worker_instances to authenticated, service_role;
comment on table public.worker_instances is
  'Connected processes of a runner, one row per instance name. Changes when the process connects, leaves or reports '
  'something new.';
comment on column public.worker_instances.org_id is 'The organisation; null for an instance of a shared runner.';
comment on column public.worker_instances.is_shared is 'Whether the runner is a shared one.';
comment on column public.worker_instances.hostname is 'The machine it runs on.';
comment on column public.worker_instances.facts is 'What it said about its host: platform, cores, disk.';
comment on column public.worker_instances.engines is 'Engines it found, with their versions.';
comment on column public.worker_instances.capacity is
  'How many jobs it runs at a time: the least of what the runner may and the process offers.';
comment on column public.worker_instances.epoch is 'Counts its sessions; a higher one has taken over from a lower one.';
comment on column public.worker_instances.boot_id is 'Identifies the process across reconnects.';
comment on column public.worker_instances.engine_note is
  'What is being prepared, such as "tofu is being prepared, 40 %".';
comment on column public.worker_instances.last_error is
  'The last problem that it reported. None of a shared runner, which everybody sees: it may tell of another''s job.';
comment on column public.worker_instances.connected_at is 'When its session began.';
comment on column public.worker_instances.disconnected_at is 'When its last session ended.';
create function private.slots_of(p_capacity integer, p_facts jsonb)
returns integer
language plpgsql immutable
set search_path = ''
as $$
begin
  return least(p_capacity, greatest(1, coalesce((p_facts ->> 'capacity')::integer, p_capacity)));
end;
$$;
comment on function private.slots_of(integer, jsonb) is
  'How many jobs an instance runs at a time: as many as its runner may, or fewer where the process says so; at least '
  'one.';

create function private.refresh_slots(p_worker uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update public.worker_instances as i set capacity = private.slots_of(w.capacity, i.facts) from public.workers as w
  where w.id = p_worker and i.worker_id = p_worker and i.capacity <> private.slots_of(w.capacity, i.facts);
end;
$$;
comment on function private.refresh_slots(uuid) is 'Tells a runner''s instances how many jobs it may run now.';

create trigger touch before update on public.worker_instances for each row execute function private.touch_updated_at();

create policy "Members see instances of their runners and of shared ones" on public.worker_instances
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids())));

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
alter table public.worker_assignments enable row level security;
grant select on public.worker_assignments to authenticated, service_role;
comment on table public.worker_assignments is 'This runner may run jobs at or below this path.';
comment on column public.worker_assignments.path is 'A module''s path, a group''s path, or "" for all modules.';
create trigger wake after insert or update
  or delete on public.worker_assignments for each row execute function private.wake_for_row();

create policy "Members see their organisation's assignments" on public.worker_assignments
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));

-- ------------------------------------------------------------------------------------------------ secrets and sessions

create table private.worker_tokens (
  id uuid primary key default gen_random_uuid(),
  worker_id uuid not null references public.workers (id) on delete cascade,
  hash text not null check (private.is_bcrypt_hash(hash)),
  hint text not null check (length(hint) = 4),
  created_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index worker_tokens_worker_id_idx on private.worker_tokens (worker_id, created_at desc);
alter table private.worker_tokens enable row level security;
comment on table private.worker_tokens is
  'Hashes of runners'' tokens. Two may be live at a time, so that rotation overlaps.';
comment on column private.worker_tokens.hash is 'bcrypt hash; the token is shown once and never stored.';
comment on column private.worker_tokens.hint is 'Its last four characters.';
comment on column private.worker_tokens.expires_at is 'After this it opens no session.';
comment on column private.worker_tokens.last_used_at is 'When it last opened a session.';
comment on column private.worker_tokens.revoked_at is 'When it was revoked; its sessions ended then.';

create view private.live_tokens as
select
  t.id,
  t.worker_id,
  t.hash,
  t.created_at
from private.worker_tokens as t
where t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
comment on view private.live_tokens is 'Tokens that open sessions: neither revoked nor expired.';
comment on column private.live_tokens.hash is 'bcrypt hash of the token.';

create table private.sessions (
  id uuid primary key default gen_random_uuid(),
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_id uuid not null references public.worker_instances (id) on delete cascade,
  token_id uuid references private.worker_tokens (id) on delete cascade,
  service_account_id uuid,
  account_version integer,
  epoch integer not null,
  boot_id uuid not null,
  opened_at timestamptz not null default now(),
  renewed_at timestamptz not null default now(),
  expires_at timestamptz,
  ended_at timestamptz,
  end_reason text
);
create unique index sessions_live_idx on private.sessions (instance_id) where ended_at is null;
create index sessions_worker_id_idx on private.sessions (worker_id) where ended_at is null;
create index sessions_token_id_idx on private.sessions (token_id) where ended_at is null;
create index sessions_expires_at_idx on private.sessions (expires_at) where ended_at is null and expires_at is not null;
create index sessions_ended_at_idx on private.sessions (ended_at) where ended_at is not null;
alter table private.sessions enable row level security;
comment on table private.sessions is
  'One life of an instance. Every call of a runner is checked against this row, so ending it is immediate.';
comment on column private.sessions.id is 'The session''s id: the sid of the runner''s token.';
comment on column private.sessions.token_id is 'The token that opened it.';
comment on column private.sessions.service_account_id is 'The service account that opened it.';
comment on column private.sessions.account_version is
  'Which version of that account''s credentials opened it; it is renewed under no other.';
comment on column private.sessions.epoch is 'The instance''s epoch; the highest one is the rightful one.';
comment on column private.sessions.boot_id is 'The process that opened it.';
comment on column private.sessions.renewed_at is 'When its token was last renewed.';
comment on column private.sessions.expires_at is
  'When the token that opened it ends; rotating that token brings it nearer.';
comment on column private.sessions.end_reason is 'Why, in words that the runner prints.';

create unlogged table private.heartbeats (
  instance_id uuid primary key,
  session_id uuid not null,
  worker_id uuid not null,
  last_seen_at timestamptz not null,
  is_draining boolean not null default false,
  tick_at timestamptz not null,
  tick_heartbeats integer not null default 0,
  tick_busy integer not null default 0,
  tick_slots integer not null default 0,
  tick_draining integer not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.2);
alter table private.heartbeats enable row level security;
comment on table private.heartbeats is
  'Last heartbeat of each instance. UNLOGGED and unpublished: one costs 50 bytes of WAL and no message. Empty after a '
  'crash.';
comment on column private.heartbeats.last_seen_at is 'The server''s time of the last heartbeat.';
comment on column private.heartbeats.is_draining is 'Whether the process said that it is draining.';
comment on column private.heartbeats.tick_at is 'Start of the quarter of an hour that the counters below are for.';
comment on column private.heartbeats.tick_heartbeats is 'Heartbeats in that quarter.';
comment on column private.heartbeats.tick_busy is 'Sum over those heartbeats of the jobs that were running.';
comment on column private.heartbeats.tick_slots is 'Sum over those heartbeats of the slots.';
comment on column private.heartbeats.tick_draining is 'Those of them that were sent while draining.';

create table public.cloud_identities (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (length(name) between 1 and 100),
  provider text not null default 'aws' check (provider = 'aws'),
  account_id text not null check (account_id ~ '^\d{12}$'),
  role_arn text not null check (length(role_arn) <= 2048 and role_arn ~ '^arn:aws[a-z-]*:iam::\d{12}:role/.+$'),
  external_id text not null unique default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  regions text[] not null
    check (cardinality(regions) between 1 and 50 and length(array_to_string(regions, '')) <= 2000),
  network jsonb not null default '{"create_vpc": true}'
    check (jsonb_typeof(network) = 'object' and octet_length(network::text) <= 16384),
  verified_at timestamptz,
  verification_error text,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz
);
create unique index cloud_identities_name_idx on public.cloud_identities (org_id, lower(name)) where removed_at is null;
alter table public.cloud_identities enable row level security;
grant select on public.cloud_identities to authenticated, service_role;

create policy "Members see their organisation's cloud identities" on public.cloud_identities
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.cloud_identities is
  'Where cloud-hosted runners are deployed: a role to assume, and regions. No secrets.';
comment on column public.cloud_identities.role_arn is 'The role that the deploying runner assumes.';
comment on column public.cloud_identities.external_id is
  'The external id that the role''s trust policy must demand. Always made here, never taken.';
comment on column public.cloud_identities.regions is 'Regions that may be used.';
comment on column public.cloud_identities.network is 'Where tasks run: {subnets, security_groups, create_vpc}.';
comment on column public.cloud_identities.verified_at is 'When assuming the role last worked.';
comment on column public.cloud_identities.verification_error is 'Why it last did not.';
create trigger touch before update on public.cloud_identities for each row execute function private.touch_updated_at();
create trigger wake after insert or update on public.cloud_identities
  for each row execute function private.wake_for_row();

-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.workers add constraint
  workers_service_account_id_fkey foreign key (service_account_id)
    references public.service_accounts (id);
-- squawk-ignore require-concurrent-index-creation
create index workers_service_account_id_idx on public.workers (service_account_id) where service_account_id is not null;
-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.workers add constraint
  workers_cloud_identity_id_fkey foreign key (cloud_identity_id) references public.cloud_identities (id);
-- squawk-ignore require-concurrent-index-creation
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
alter table public.worker_events enable row level security;
grant select on public.worker_events to authenticated, service_role;

create policy "Members see events of their runners and of shared ones" on public.worker_events
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids())));
comment on table public.worker_events is
  'What happened to runners: connected, offline, draining, settings changed. Append only.';
comment on column public.worker_events.is_shared is 'Whether the runner is a shared one.';
comment on column public.worker_events.instance_name is 'The instance, where it concerns one.';

create table private.worker_ticks (
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_id uuid not null,
  at timestamptz not null,
  heartbeats integer not null,
  busy integer not null,
  slots integer not null,
  draining integer not null,
  primary key (worker_id, at, instance_id)
);
create index worker_ticks_at_idx on private.worker_ticks (at);
alter table private.worker_ticks enable row level security;
comment on table private.worker_ticks is
  'A runner''s quarters of an hour: how many heartbeats it sent, and how busy it was. The strip on its page.';
comment on column private.worker_ticks.heartbeats is 'Heartbeats in it; 60 when nothing was missed.';
comment on column private.worker_ticks.busy is 'Sum over the heartbeats of running jobs.';
comment on column private.worker_ticks.slots is 'Sum over the heartbeats of slots.';
comment on column private.worker_ticks.draining is 'Heartbeats sent while draining.';

create function private.record_worker_event(p_worker uuid, p_event text, p_reason text default null,
  p_instance text default null)
returns void
language sql
set search_path = ''
as $$
  insert into public.worker_events (org_id, is_shared, worker_id, instance_name, event, reason)
  select w.org_id, w.is_shared, w.id, p_instance, p_event, p_reason from public.workers as w where w.id = p_worker
$$;
comment on function private.record_worker_event(uuid, text, text, text) is 'Writes one event of a runner.';

revoke execute on all functions in schema private from public;
