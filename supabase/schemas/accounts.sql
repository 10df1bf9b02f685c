-- Identities other than runners and people: service accounts and cloud identities. The database stores hashes of
-- secrets, never the secrets. A cloud identity is not secret: it is a role to assume, and its external
-- id is meant for the other side.

-- Whether a text is a bcrypt hash of cost 8 to 12.
create function private.is_bcrypt_hash(p_hash text) returns boolean
language sql immutable set search_path = '' as $$
  -- The sender of a hash chooses the cost of each comparison: 8 to 12 is neither too weak nor a way to stop everybody's
  -- sign-in.
  select p_hash ~ '^\$2[aby]\$(08|09|10|11|12)\$[./A-Za-z0-9]{53}$'
$$;

-- Whether a JSON object of at most 8 KiB is {issuer, audience, bound_claims}; at least one claim, or every workload of
-- the issuer would be let in.
create function private.is_trust(p_trust jsonb) returns boolean
language sql immutable set search_path = '' as $$
  select coalesce(jsonb_typeof(p_trust) = 'object' and octet_length(p_trust::pg_catalog.text) <= 8192
    and p_trust - array['issuer', 'audience', 'bound_claims'] = '{}'
    and p_trust ->> 'issuer' ~ '^https?://' and length(p_trust ->> 'issuer') <= 500
    and length(p_trust ->> 'audience') between 1 and 500
    and jsonb_typeof(p_trust -> 'bound_claims') = 'object' and p_trust -> 'bound_claims' <> '{}', false)
$$;

-- Whether a JSON list holds at most ten trusts, each whole.
create function private.is_trust_list(p_trusts jsonb) returns boolean
language sql immutable set search_path = '' as $$
  select case when jsonb_typeof(p_trusts) = 'array' then jsonb_array_length(p_trusts) <= 10
    and not exists (select from jsonb_array_elements(p_trusts) as t where not private.is_trust(t)) else false end
$$;

create table public.service_accounts (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?$'),
  path text not null default '' check (path = '' or private.is_path(path)),
  description text not null default '' check (length(description) <= 2000),
  client_id text not null unique default 'rysa_' || replace(gen_random_uuid()::text, '-', ''),
  trusts jsonb not null default '[]' check (private.is_trust_list(trusts)),
  role public.member_role check (role <> 'owner'),
  credential_version integer not null default 1,
  has_secret boolean not null default false,
  secret_hint text,
  is_disabled boolean not null default false,
  last_used_at timestamptz,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz,
  constraint service_accounts_role_path_check check (role is null or path = '')
);
create unique index service_accounts_name_idx on public.service_accounts (org_id, lower(name)) where removed_at is null;
alter table public.service_accounts enable row level security;
grant select on public.service_accounts to authenticated, service_role;

-- ## accounts that act

-- The role of a service account in its organisation. One that has roles at paths alone reads, as a viewer does.
create function private.role_of(p_account public.service_accounts) returns public.member_role
language sql stable set search_path = '' as $$
  select coalesce(p_account.role, (select 'viewer'::public.member_role from public.role_bindings as b
    where b.account_id = p_account.id limit 1))
$$;

-- The service account that the caller's token names, while it holds a role and the token's credential counts; else
-- nothing.
create function private.acting_account() returns public.service_accounts
language sql stable set search_path = '' as $$
  select a.* from public.service_accounts as a
  where a.id = (private.jwt() ->> 'sub')::pg_catalog.uuid and private.role_of(a) is not null
    and a.removed_at is null and not a.is_disabled
    and a.credential_version = (private.jwt() ->> 'account_version')::integer
$$;

-- The role of the service account that calls; one that has proved its identity learns why it may not act.
create function private.need_account_role(p_org uuid) returns public.member_role
language plpgsql stable set search_path = '' as $$
declare
  v_account public.service_accounts := private.acting_account();
begin
  if v_account.id is null then
    perform private.fail('RY403', 'This service account may not act (any more).',
      'It was disabled, removed, or has no role; or its secret or trust was changed after this token was given out.');
  end if;
  return case when v_account.org_id = p_org then private.role_of(v_account) end;
end;
$$;

-- Whether the caller is a service account, and no person.
create function private.is_account() returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return coalesce(private.jwt() ? 'account_version', false);
end;
$$;
create policy "Members see their organisation's service accounts" on public.service_accounts
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read'))));
comment on table public.service_accounts is
  'Identities for runners and pipelines: trust in an OIDC issuer, or a client id with a secret.';
comment on column public.service_accounts.path is
  'The group it belongs to; it serves runners and modules at or below. "" is the whole organisation.';
comment on column public.service_accounts.client_id is 'The public half of its credentials.';
comment on column public.service_accounts.trusts is
  'OIDC issuers that it trusts, [{issuer, audience, bound_claims}]: a token must have that audience and each of '
  'those claims.';
comment on column public.service_accounts.role is
  'What it may do in the organisation, as a member of that role; null for one that opens runners'' sessions alone.';
comment on column public.service_accounts.credential_version is
  'Goes up with each new secret and each change of trust: tokens that were given out before are void.';
comment on column public.service_accounts.is_disabled is 'A disabled one opens no session and does nothing.';
create trigger touch before update on public.service_accounts for each row execute function private.touch_updated_at();
create trigger wake after insert or update on public.service_accounts
  for each row execute function private.wake_for_row();

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
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read'))));
comment on table public.cloud_identities is
  'Where cloud-hosted runners are deployed: a role to assume, and regions. No secrets.';
comment on column public.cloud_identities.role_arn is 'The role that the deploying runner assumes.';
comment on column public.cloud_identities.external_id is
  'The external id that the role''s trust policy must demand. Always made here, never taken.';
comment on column public.cloud_identities.regions is 'Regions that may be used.';
comment on column public.cloud_identities.network is 'Where tasks run: {subnets, security_groups, create_vpc}.';
create trigger touch before update on public.cloud_identities for each row execute function private.touch_updated_at();
create trigger wake after insert or update on public.cloud_identities
  for each row execute function private.wake_for_row();

-- ## cloud identities

-- A cloud identity that the caller may change, with the lock of its tests and its row held.
create function private.my_identity(p_identity uuid) returns public.cloud_identities
language plpgsql set search_path = '' as $$
declare
  v_identity public.cloud_identities;
begin
  select * into v_identity from public.cloud_identities where id = p_identity and removed_at is null
    and org_id in (select private.my_org_ids('module.read'));
  if v_identity.id is null then
    perform private.fail('RY404', 'There is no such cloud identity.');
  end if;
  perform private.need('identity.manage', v_identity.org_id);
  -- Before its row: deploying holds the routing, and ending a test the state, when they come to that.
  perform private.lock_state(v_identity.org_id, p_identity);
  select * into v_identity from public.cloud_identities where id = p_identity and removed_at is null for update;
  if v_identity.id is null then
    perform private.fail('RY404', 'There is no such cloud identity.', 'It was removed in this moment.');
  end if;
  return v_identity;
end;
$$;

create function private.create_cloud_identity(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities;
begin
  perform private.need('identity.manage', p_org);
  perform private.refuse_unknown_keys(p_spec, array['name', 'provider', 'account_id', 'role_arn', 'regions',
    'network']);
  insert into public.cloud_identities (org_id, name, provider, account_id, role_arn, regions, network, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'provider', 'aws'),
    coalesce(p_spec ->> 'account_id', split_part(p_spec ->> 'role_arn', ':', 5)),
    p_spec ->> 'role_arn', private.text_list(p_spec -> 'regions'),
      coalesce(p_spec -> 'network', '{"create_vpc": true}'),
    private.caller_id())
  returning * into v_identity;
  perform private.audit(p_org, 'cloud_identity.created', 'cloud_identity', v_identity.id::pg_catalog.text,
    v_identity.name);
  return to_jsonb(v_identity);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the cloud identity is missing or not valid.',
      'It needs a name, a role ARN like arn:aws:iam::123456789012:role/runyard of at most 2,048 characters, and 1 to '
      '50 regions of 2,000 characters in all; its network has at most 16 KiB.');
end;
$$;
comment on function private.create_cloud_identity is
  'Adds a place to deploy runners to: {name, role_arn, regions, account_id, network}. Its external id is made here. '
  'Admins.';
grant execute on function private.create_cloud_identity to authenticated;

create function private.update_cloud_identity(p_identity uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.refuse_unknown_keys(p_spec, array['name', 'role_arn', 'account_id', 'regions', 'network']);
  v_identity := jsonb_populate_record(v_identity, p_spec);
  update public.cloud_identities set name = trim(v_identity.name), role_arn = v_identity.role_arn,
    account_id = v_identity.account_id, regions = v_identity.regions, network = v_identity.network,
    verified_at = case when p_spec ?| array['role_arn', 'account_id', 'regions', 'network'] then null
      else verified_at end,
    verification_error = case when p_spec ?| array['role_arn', 'account_id', 'regions', 'network'] then null
      else verification_error end
  where id = p_identity returning * into v_identity;
  perform private.audit(v_identity.org_id, 'cloud_identity.updated', 'cloud_identity', p_identity::pg_catalog.text,
    v_identity.name);
  return to_jsonb(v_identity);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'A field of the cloud identity is not valid.',
      'Check the role ARN (at most 2,048 characters), the regions (1 to 50, of 2,000 characters in all) and the '
      'network (at most 16 KiB).');
end;
$$;
comment on function private.update_cloud_identity is 'Changes the fields of a cloud identity that are named. Admins.';
grant execute on function private.update_cloud_identity to authenticated;

create function private.remove_cloud_identity(p_identity uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.fail('RY409', format('%s runners are deployed with it.', count(*)),
    'Remove them first: afterwards nothing could reach them.')
  from public.workers where cloud_identity_id = p_identity and removed_at is null having count(*) > 0;
  update public.cloud_identities set removed_at = now() where id = p_identity returning * into v_identity;
  perform private.audit(v_identity.org_id, 'cloud_identity.removed', 'cloud_identity', p_identity::pg_catalog.text,
    v_identity.name);
  return to_jsonb(v_identity);
end;
$$;
comment on function private.remove_cloud_identity is 'Removes a cloud identity that no runner uses. Admins.';
grant execute on function private.remove_cloud_identity to authenticated;

-- ## service accounts
-- Service accounts: identities of runners and pipelines. A secret is a hash in `private`; trust in an issuer is not
-- a secret. One with a role acts as a member of that role does: through the same functions, with a token that the
-- edge function service-account-token signs. Every call asks the account's row, so what an admin changes counts at
-- once.
create table private.service_account_secrets (
  service_account_id uuid primary key references public.service_accounts (id) on delete cascade,
  hash text not null check (private.is_bcrypt_hash(hash)),
  created_at timestamptz not null default now()
);
alter table private.service_account_secrets enable row level security;
comment on table private.service_account_secrets is 'Hashes of service accounts'' client secrets.';
comment on column private.service_account_secrets.hash is 'bcrypt hash; the secret is shown once and never stored.';

-- A service account that the caller may change.
create function private.my_account(p_account uuid) returns public.service_accounts
language plpgsql set search_path = '' as $$
declare
  v_account public.service_accounts;
begin
  select * into v_account from public.service_accounts where id = p_account and removed_at is null
    and org_id in (select private.my_org_ids('module.read')) for update;
  if v_account.id is null then
    perform private.fail('RY404', 'There is no such service account.');
  end if;
  perform private.need('account.manage', v_account.org_id);
  return v_account;
end;
$$;

-- Stores the hash of a service account's secret.
create function private.set_account_secret(p_account uuid, p_hash text, p_hint text) returns void
language plpgsql set search_path = '' as $$
begin
  insert into private.service_account_secrets (service_account_id, hash) values (p_account, p_hash)
  on conflict (service_account_id) do update set hash = excluded.hash, created_at = now();
  update public.service_accounts set has_secret = true, secret_hint = right(p_hint, 4),
    credential_version = credential_version + 1
  where id = p_account;
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'The secret must come as a bcrypt hash of cost 8 to 12.',
      'Generate the secret where you show it; send only its hash.');
end;
$$;

-- Refuses a role that no service account may have: roles count in the whole organisation, and owners are people.
create function private.check_account_role(p_role text, p_path text) returns void
language plpgsql immutable set search_path = '' as $$
begin
  if p_role is not null and p_role not in ('viewer', 'operator', 'admin') then
    perform private.fail('RY422', 'A service account may be viewer, operator or admin.',
      'Owners are people: somebody must answer for the organisation.');
  end if;
  if p_role is not null and coalesce(p_path, '') <> '' then
    perform private.fail('RY422', 'A service account with a role serves the whole organisation.',
      'Leave its path empty, or its role; make two accounts where you need both.');
  end if;
end;
$$;

create function private.create_service_account(
  p_org uuid, p_spec jsonb, p_secret_hash text default null, p_secret_hint text default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts;
begin
  perform private.need('account.manage', p_org);
  perform private.refuse_unknown_keys(p_spec, array['name', 'path', 'description', 'trusts', 'role']);
  if coalesce(p_spec -> 'trusts', '[]') = '[]' and p_secret_hash is null then
    perform private.fail('RY422', 'A service account needs a trusted issuer or a secret.',
      'Name the OIDC issuer and audience, or make a secret.');
  end if;
  perform private.check_account_role(p_spec ->> 'role', p_spec ->> 'path');
  if coalesce(p_spec ->> 'path',
    '') <> '' and not exists (select from public.groups where org_id = p_org and path = p_spec ->> 'path') then
    perform private.fail('RY404', format('There is no group "%s".', p_spec ->> 'path'),
      'Create it first, or leave the path empty for the whole organisation.');
  end if;
  insert into public.service_accounts (org_id, name, path, description, trusts, role, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'path', ''), coalesce(p_spec ->> 'description', ''),
    coalesce(p_spec -> 'trusts', '[]'), (p_spec ->> 'role')::public.member_role,
      private.caller_id()) returning * into v_account;
  if p_secret_hash is not null then
    perform private.set_account_secret(v_account.id, p_secret_hash, p_secret_hint);
  end if;
  perform private.audit(p_org, 'service_account.created', 'service_account', v_account.id::pg_catalog.text,
    v_account.name,
    jsonb_build_object('role', v_account.role));
  return (select to_jsonb(a) from public.service_accounts as a where a.id = v_account.id);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a service account "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the service account is missing or not valid.',
      'Each of at most ten trusts is {issuer, audience, bound_claims} of at most 8 KiB: an https address, and at least '
      'one claim.');
end;
$$;
comment on function private.create_service_account is
  'Makes a service account {name, path, description, trusts, role}, with a secret (bcrypt hash) or without. Admins.';
grant execute on function private.create_service_account to authenticated;

-- Ends the sessions that were opened with a service account.
create function private.end_account_sessions(p_account uuid, p_reason text) returns void
language plpgsql set search_path = '' as $$
declare
  v_worker pg_catalog.uuid;
begin
  for v_worker in select distinct s.worker_id from private.sessions as s where s.service_account_id = p_account
    and s.ended_at is null order by 1 loop
    perform private.end_sessions(v_worker, null, p_account, p_reason);
    perform private.refresh_worker_status(v_worker);
    perform private.wake_worker(v_worker);
  end loop;
end;
$$;

create function private.update_service_account(p_account uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.service_accounts := private.my_account(p_account);
  v_account public.service_accounts;
begin
  perform private.refuse_unknown_keys(p_spec, array['name', 'description', 'trusts', 'role', 'is_disabled']);
  perform private.check_account_role(p_spec ->> 'role', v_old.path);
  v_account := jsonb_populate_record(v_old, p_spec);
  update public.service_accounts set name = trim(v_account.name), description = v_account.description,
    trusts = v_account.trusts,
    role = v_account.role, is_disabled = v_account.is_disabled,
    credential_version = credential_version + case when v_account.trusts <> v_old.trusts then 1 else 0 end
  where id = p_account returning * into v_account;
  if v_account.is_disabled then
    perform private.end_account_sessions(p_account, 'its service account was disabled');
  elsif v_account.trusts <> v_old.trusts then
    perform private.end_account_sessions(p_account, 'its service account trusts other issuers now');
  end if;
  perform private.refresh_worker_status(w.id) from (
    select o.id from public.workers as o where o.service_account_id = p_account
      and o.removed_at is null order by o.id) as w;
  perform private.audit(v_account.org_id, 'service_account.updated', 'service_account', p_account::pg_catalog.text,
    v_account.name,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_account))));
  return to_jsonb(v_account);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a service account "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'A field of the service account is not valid.',
      'Each of at most ten trusts is {issuer, audience, bound_claims} of at most 8 KiB: an https address, and at least '
      'one claim.');
end;
$$;
comment on function private.update_service_account is
  'Changes the fields of a service account that are named; disabling ends its sessions at once. Admins.';
grant execute on function private.update_service_account to authenticated;

create function private.rotate_service_account_secret(
  p_account uuid, p_secret_hash text, p_secret_hint text
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.set_account_secret(p_account, p_secret_hash, p_secret_hint);
  perform private.end_account_sessions(p_account, 'its service account''s secret was rotated');
  perform private.audit(v_account.org_id, 'service_account.secret_rotated', 'service_account',
    p_account::pg_catalog.text, v_account.name);
  return (select to_jsonb(a) from public.service_accounts as a where a.id = p_account);
end;
$$;
comment on function private.rotate_service_account_secret is
  'Gives a service account a new secret (bcrypt hash); the old one is void at once, and the account''s sessions end. '
  'Admins.';
grant execute on function private.rotate_service_account_secret to authenticated;

create function private.remove_service_account(p_account uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.fail('RY409', format('%s runners sign in with it.', count(*)),
    'Give them a token or another service account first.')
  from public.workers as w where w.service_account_id = p_account and w.removed_at is null having count(*) > 0;
  update public.service_accounts set removed_at = now(), is_disabled = true, has_secret = false, secret_hint = null
    where id = p_account returning * into v_account;
  delete from private.service_account_secrets where service_account_id = p_account;
  perform private.end_account_sessions(p_account, 'its service account was removed');
  perform private.audit(v_account.org_id, 'service_account.removed', 'service_account', p_account::pg_catalog.text,
    v_account.name);
  return to_jsonb(v_account);
end;
$$;
comment on function private.remove_service_account is 'Removes a service account that no runner uses. Admins.';
grant execute on function private.remove_service_account to authenticated;

create function private.service_account_for(p_client_id text) returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('id', a.id, 'org_id', a.org_id, 'name', a.name, 'trusts', a.trusts, 'version',
    a.credential_version, 'hashes', coalesce((select jsonb_agg(jsonb_build_object('token_id', s.service_account_id,
      'hash', s.hash))
      from private.service_account_secrets as s where s.service_account_id = a.id), '[]'))
  from public.service_accounts as a where a.client_id = p_client_id and a.removed_at is null and not a.is_disabled
$$;
comment on function private.service_account_for is
  'What an edge function needs to verify a service account: its trust and its secret''s hash; null when there is '
  'none. Edge functions only.';
grant execute on function private.service_account_for to service_role;

create function private.use_service_account(p_account uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts;
begin
  update public.service_accounts as a set last_used_at = now()
  where id = p_account and removed_at is null and not is_disabled and private.role_of(a) is not null
  returning * into v_account;
  if v_account.id is null then
    perform private.fail('RY403', 'This service account has no role in the organisation.',
      'An admin gives it one under Settings → Service accounts, or with `runyard accounts update --role`.');
  end if;
  return jsonb_build_object('role', private.role_of(v_account), 'version', v_account.credential_version);
end;
$$;
comment on function private.use_service_account is
  'Notes that a service account signs in to act, and says as what {role, version}; refuses one without a role. Edge '
  'functions only.';
grant execute on function private.use_service_account to service_role;
