-- Identities that are not people, and what the fleet is made of: service accounts, cloud identities, releases, rollouts
-- and scaling decisions. Nothing here is a secret: a service account's secret is a hash in `private`, a cloud identity is
-- a role to assume, with an external id that is meant to be told to the other side.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table public.service_accounts (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?$'),
  path text not null default '' check (path = '' or private.is_path(path)),
  description text not null default '' check (length(description) <= 2000),
  client_id text not null unique default 'rysa_' || replace(gen_random_uuid()::text, '-', ''),
  issuer text check (issuer ~ '^https?://'),
  audience text,
  bound_claims jsonb not null default '{}' check (jsonb_typeof(bound_claims) = 'object'),
  has_secret boolean not null default false,
  secret_hint text,
  is_disabled boolean not null default false,
  last_used_at timestamptz,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz,
  check (issuer is null or audience is not null)
);
create unique index service_accounts_name_idx on public.service_accounts (org_id, lower(name)) where removed_at is null;
alter table public.service_accounts enable row level security;
grant select on public.service_accounts to authenticated, service_role;
create policy "Members see their organisation's service accounts" on public.service_accounts
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.service_accounts is 'Identities for runners and pipelines: trust in an OIDC issuer, or a client id with a secret.';
comment on column public.service_accounts.id is 'The service account''s id.';
comment on column public.service_accounts.org_id is 'The organisation.';
comment on column public.service_accounts.name is 'The name, unique in the organisation.';
comment on column public.service_accounts.path is
  'The group it belongs to; it serves runners and modules at or below. "" is the whole organisation.';
comment on column public.service_accounts.description is 'What it is for.';
comment on column public.service_accounts.client_id is 'The public half of its credentials.';
comment on column public.service_accounts.issuer is 'The OIDC issuer that it trusts.';
comment on column public.service_accounts.audience is 'The audience that tokens of that issuer must have.';
comment on column public.service_accounts.bound_claims is 'Claims that such a token must have, by name.';
comment on column public.service_accounts.has_secret is 'Whether it also has a client secret.';
comment on column public.service_accounts.secret_hint is 'The last four characters of that secret.';
comment on column public.service_accounts.is_disabled is 'A disabled one opens no session.';
comment on column public.service_accounts.last_used_at is 'When it last opened a session.';
comment on column public.service_accounts.created_by is 'The member who made it.';
comment on column public.service_accounts.created_at is 'When it was made.';
comment on column public.service_accounts.updated_at is 'When it last changed.';
comment on column public.service_accounts.removed_at is 'When it was removed.';
create trigger touch before update on public.service_accounts for each row execute function private.touch_updated_at();
create trigger ring after insert or update on public.service_accounts for each row execute function private.ring_changed_row();
-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.workers add constraint workers_service_account_id_fkey foreign key (service_account_id) references public.service_accounts (id);
-- squawk-ignore require-concurrent-index-creation
create index workers_service_account_id_idx on public.workers (service_account_id) where service_account_id is not null;

create table private.service_account_secrets (
  service_account_id uuid primary key references public.service_accounts (id) on delete cascade,
  hash text not null check (hash ~ '^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$'),
  created_at timestamptz not null default now()
);
alter table private.service_account_secrets enable row level security;
comment on table private.service_account_secrets is 'Hashes of service accounts'' client secrets.';
comment on column private.service_account_secrets.service_account_id is 'The service account.';
comment on column private.service_account_secrets.hash is 'bcrypt hash; the secret is shown once and never stored.';
comment on column private.service_account_secrets.created_at is 'When it was set.';

create table public.cloud_identities (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (length(name) between 1 and 100),
  provider text not null default 'aws' check (provider = 'aws'),
  account_id text not null check (account_id ~ '^\d{12}$'),
  role_arn text not null check (role_arn ~ '^arn:aws[a-z-]*:iam::\d{12}:role/.+$'),
  external_id text not null default replace(gen_random_uuid()::text, '-', ''),
  regions text[] not null check (cardinality(regions) between 1 and 50),
  network jsonb not null default '{"create_vpc": true}' check (jsonb_typeof(network) = 'object'),
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
comment on table public.cloud_identities is 'Where cloud-hosted runners are deployed: a role to assume, and regions. No secrets.';
comment on column public.cloud_identities.id is 'The cloud identity''s id.';
comment on column public.cloud_identities.org_id is 'The organisation.';
comment on column public.cloud_identities.name is 'The name, unique in the organisation.';
comment on column public.cloud_identities.provider is 'The cloud.';
comment on column public.cloud_identities.account_id is 'The account''s number.';
comment on column public.cloud_identities.role_arn is 'The role that the deploying runner assumes.';
comment on column public.cloud_identities.external_id is 'The external id that the role''s trust policy must demand.';
comment on column public.cloud_identities.regions is 'Regions that may be used.';
comment on column public.cloud_identities.network is 'Where tasks run: {subnets, security_groups, create_vpc}.';
comment on column public.cloud_identities.verified_at is 'When assuming the role last worked.';
comment on column public.cloud_identities.verification_error is 'Why it last did not.';
comment on column public.cloud_identities.created_by is 'The member who made it.';
comment on column public.cloud_identities.created_at is 'When it was made.';
comment on column public.cloud_identities.updated_at is 'When it last changed.';
comment on column public.cloud_identities.removed_at is 'When it was removed.';
create trigger touch before update on public.cloud_identities for each row execute function private.touch_updated_at();
create trigger ring after insert or update on public.cloud_identities for each row execute function private.ring_changed_row();
-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.workers add constraint workers_cloud_identity_id_fkey foreign key (cloud_identity_id) references public.cloud_identities (id);
-- squawk-ignore require-concurrent-index-creation
create index workers_cloud_identity_id_idx on public.workers (cloud_identity_id) where cloud_identity_id is not null;

create table public.worker_releases (
  id uuid primary key default gen_random_uuid(),
  version text not null unique check (private.version_key(version) is not null),
  channel text not null default 'stable' check (channel in ('stable', 'beta')),
  notes text not null default '',
  is_breaking boolean not null default false,
  artifacts jsonb not null default '[]' check (jsonb_typeof(artifacts) = 'array'),
  published_at timestamptz not null default now(),
  withdrawn_at timestamptz,
  withdrawn_reason text
);
alter table public.worker_releases enable row level security;
grant select on public.worker_releases to authenticated, worker, service_role;
create policy "Everybody who is signed in sees releases" on public.worker_releases for select to authenticated using (true);
create policy "Runners see releases" on public.worker_releases for select to worker using (true);
comment on table public.worker_releases is 'Published versions of the runner, with their notes.';
comment on column public.worker_releases.id is 'The release''s id.';
comment on column public.worker_releases.version is 'The version; 1.10.0 comes after 1.9.0.';
comment on column public.worker_releases.channel is 'stable or beta.';
comment on column public.worker_releases.notes is 'What is new (Markdown).';
comment on column public.worker_releases.is_breaking is 'Whether something must be changed before updating.';
comment on column public.worker_releases.artifacts is 'What to download: [{name, url, sha256}].';
comment on column public.worker_releases.published_at is 'When it was published.';
comment on column public.worker_releases.withdrawn_at is 'When it was withdrawn.';
comment on column public.worker_releases.withdrawn_reason is 'Why.';

create type public.rollout_status as enum ('RUNNING', 'PAUSED', 'SUCCEEDED', 'FAILED', 'ABORTED');
comment on type public.rollout_status is 'Where a rollout is. SUCCEEDED, FAILED and ABORTED are final.';

create table public.rollouts (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  version text not null,
  status public.rollout_status not null default 'RUNNING',
  wave integer not null default 1,
  waves jsonb not null default '[]',
  reason text,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz
);
create index rollouts_org_id_idx on public.rollouts (org_id, created_at desc);
create unique index rollouts_running_idx on public.rollouts (org_id) where status in ('RUNNING', 'PAUSED');
alter table public.rollouts enable row level security;
grant select on public.rollouts to authenticated, service_role;
create policy "Members see their organisation's rollouts" on public.rollouts
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.rollouts is
  'Updating the outdated runners in waves: one, then a quarter, then the rest. One at a time per organisation.';
comment on column public.rollouts.id is 'The rollout''s id.';
comment on column public.rollouts.org_id is 'The organisation.';
comment on column public.rollouts.version is 'The version that runners get.';
comment on column public.rollouts.status is 'Where it is.';
comment on column public.rollouts.wave is 'The wave that is running, from 1.';
comment on column public.rollouts.waves is 'The runners of each wave: [[worker id, …], …].';
comment on column public.rollouts.reason is 'Why it paused, failed or was aborted.';
comment on column public.rollouts.created_by is 'The member who started it.';
comment on column public.rollouts.created_at is 'When it was started.';
comment on column public.rollouts.updated_at is 'When it last changed.';
comment on column public.rollouts.finished_at is 'When it ended.';
create trigger touch before update on public.rollouts for each row execute function private.touch_updated_at();
-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.provision_jobs add constraint provision_jobs_rollout_id_fkey foreign key (rollout_id) references public.rollouts (id);

create table public.scaling_decisions (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  worker_id uuid not null references public.workers (id) on delete cascade,
  at timestamptz not null default now(),
  from_count integer not null,
  to_count integer not null,
  reason text not null,
  detail jsonb not null default '{}',
  dry_run boolean not null default false
);
create index scaling_decisions_worker_id_idx on public.scaling_decisions (worker_id, id desc);
create index scaling_decisions_org_id_idx on public.scaling_decisions (org_id, id desc);
alter table public.scaling_decisions enable row level security;
grant select on public.scaling_decisions to authenticated, service_role;
create policy "Members see their organisation's scaling decisions" on public.scaling_decisions
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.scaling_decisions is 'Why a cloud-hosted runner was given more or fewer tasks, or none.';
comment on column public.scaling_decisions.id is 'Order of the decisions.';
comment on column public.scaling_decisions.org_id is 'The organisation.';
comment on column public.scaling_decisions.worker_id is 'The runner.';
comment on column public.scaling_decisions.at is 'When.';
comment on column public.scaling_decisions.from_count is 'Tasks before.';
comment on column public.scaling_decisions.to_count is 'Tasks after.';
comment on column public.scaling_decisions.reason is 'Why, in words.';
comment on column public.scaling_decisions.detail is 'The numbers that it was computed from.';
comment on column public.scaling_decisions.dry_run is 'Whether it was only computed, not carried out.';
