-- Tenancy: organisations, their members and roles, service accounts that act with a role, and the audit
-- log.
-- Every later table carries org_id. A member sees the rows of the organisations of which they are a member and no
-- other; the list of those organisations is computed once per statement (`any(array(select …))`), not once per row.
-- Bodies are definers in `private`; the thin wrappers that run as the caller are all in the last file, api.
set lock_timeout = '5s';
set statement_timeout = '60s';

create type public.member_role as enum ('owner', 'admin', 'operator', 'viewer');
comment on type public.member_role is
  'owner: everything · admin: runners, members, identities · operator: modules and jobs · viewer: reads.';

create type public.actor_kind as enum ('user', 'worker', 'system', 'service_account');
comment on type public.actor_kind is
  'Who did something: a person, a runner, the database itself, or a service account.';

create type public.shared_use as enum ('NEVER', 'NONE_FITS', 'NONE_AVAILABLE');
comment on type public.shared_use is
  'When shared runners may take an organisation''s jobs: never · when no own runner is set up for it · when no own '
  'one is available.';

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  slug text not null unique check (slug ~ '^[a-z0-9](-?[a-z0-9]){1,38}$'),
  name text not null check (length(name) between 1 and 100),
  log_retention_days integer not null default 30 check (log_retention_days between 1 and 3650),
  can_approve_own_jobs boolean not null default false,
  shared_runners public.shared_use not null default 'NONE_FITS',
  maintenance_until timestamptz,
  maintenance_reason text check (length(maintenance_reason) <= 500),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table public.organizations enable row level security;
grant select on public.organizations to authenticated, service_role;
comment on table public.organizations is 'A tenant. Everything but shared runners and releases belongs to exactly one.';
comment on column public.organizations.slug is 'The short name in addresses: lower case, unique in the installation.';
comment on column public.organizations.log_retention_days is 'Job logs older than this many days are removed.';
comment on column public.organizations.can_approve_own_jobs is
  'Whether somebody who asked for a job may be one of those who approve it.';
comment on column public.organizations.shared_runners is 'When its jobs may go to shared runners.';
comment on column public.organizations.maintenance_until is
  'Until then no runner takes a job of it; what runs, finishes.';
create trigger touch before update on public.organizations for each row execute function private.touch_updated_at();

create table public.memberships (
  org_id uuid not null references public.organizations (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  email text not null,
  role public.member_role not null,
  created_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index memberships_user_id_idx on public.memberships (user_id);
alter table public.memberships enable row level security;
grant select on public.memberships to authenticated, service_role;
comment on table public.memberships is 'Who belongs to which organisation, and in which role.';
comment on column public.memberships.email is 'The person''s email address when they joined.';
create trigger wake after insert or update
  or delete on public.memberships for each row execute function private.wake_for_row();

create table public.invitations (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  email text not null check (length(email) <= 320 and email ~ '^[^@\s]+@[^@\s]+$'),
  role public.member_role not null,
  invited_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  accepted_at timestamptz,
  revoked_at timestamptz
);
create index invitations_org_id_idx on public.invitations (org_id, created_at desc);
create unique index invitations_open_idx on public.invitations (org_id, lower(email)) where accepted_at is null
  and revoked_at is null;
alter table public.invitations enable row level security;
grant select on public.invitations to authenticated, service_role;
comment on table public.invitations is
  'Invitations by email address. The secret of the link is not here; its hash is in private.';
comment on column public.invitations.invited_by is 'The member who invited.';
comment on column public.invitations.expires_at is 'After this it can no longer be accepted.';
create trigger wake after insert or update
  or delete on public.invitations for each row execute function private.wake_for_row();

create table private.invitation_tokens (
  invitation_id uuid primary key references public.invitations (id) on delete cascade,
  token_hash text not null
);
alter table private.invitation_tokens enable row level security;
comment on table private.invitation_tokens is 'Hashes of the secrets in invitation links.';
comment on column private.invitation_tokens.token_hash is
  'SHA-256 (hex) of the secret; the secret itself is never stored.';

create table public.audit_events (
  id bigint generated always as identity primary key,
  org_id uuid references public.organizations (id) on delete cascade,
  at timestamptz not null default now(),
  actor_kind public.actor_kind not null,
  actor_id uuid,
  actor_label text not null,
  address inet,
  action text not null,
  target_kind text not null,
  target_id text,
  target_label text,
  detail jsonb not null default '{}'
);
create index audit_events_org_id_idx on public.audit_events (org_id, id desc);
create index audit_events_target_idx on public.audit_events (org_id, target_kind, target_id, id desc);
alter table public.audit_events enable row level security;
grant select on public.audit_events to authenticated, service_role;
comment on table public.audit_events is 'What people did: one row per act. Append only. Admins and owners read it.';
comment on column public.audit_events.org_id is 'The organisation; null for acts on shared runners and releases.';
comment on column public.audit_events.actor_label is 'The actor''s name at that time.';
comment on column public.audit_events.address is 'From where the actor signed in or exchanged its token, if known.';
comment on column public.audit_events.action is 'What was done, as noun.verb: worker.drained.';
comment on column public.audit_events.target_kind is 'What kind of thing it was done to.';
comment on column public.audit_events.target_label is 'Its name at that time.';
comment on column public.audit_events.detail is 'What changed; never a secret.';

create function private.is_bcrypt_hash(p_hash text)
returns boolean
language sql immutable
set search_path = ''
as $$
  -- Whoever sends a hash chooses what each comparison costs: 8 to 12 is neither a joke nor a way to stop everybody's
  -- sign-in.
  select p_hash ~ '^\$2[aby]\$(08|09|10|11|12)\$[./A-Za-z0-9]{53}$'
$$;
comment on function private.is_bcrypt_hash(text) is 'Whether a text is a bcrypt hash of cost 8 to 12.';

create function private.is_trust(p_trust jsonb)
returns boolean
language sql immutable
set search_path = ''
as $$
  select coalesce(jsonb_typeof(p_trust) = 'object' and octet_length(p_trust::pg_catalog.text) <= 8192
    and p_trust - array['issuer', 'audience', 'bound_claims'] = '{}'
    and p_trust ->> 'issuer' ~ '^https?://' and length(p_trust ->> 'issuer') <= 500
    and length(p_trust ->> 'audience') between 1 and 500
    and jsonb_typeof(p_trust -> 'bound_claims') = 'object' and p_trust -> 'bound_claims' <> '{}', false)
$$;
comment on function private.is_trust(jsonb) is
  'Whether a JSON object of at most 8 KiB is {issuer, audience, bound_claims}; at least one claim, or every workload '
  'of the issuer would be let in.';

create function private.is_trust_list(p_trusts jsonb)
returns boolean
language sql immutable
set search_path = ''
as $$
  select case when jsonb_typeof(p_trusts) = 'array' then jsonb_array_length(p_trusts) <= 10
    and not exists (select from jsonb_array_elements(p_trusts) as t where not private.is_trust(t)) else false end
$$;
comment on function private.is_trust_list(jsonb) is 'Whether a JSON list holds at most ten trusts, each whole.';

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

-- --------------------------------------------------------------------------------------------------- accounts that act

create function private.acting_account()
returns public.service_accounts
language sql stable
set search_path = ''
as $$
  select a.* from public.service_accounts as a
  where a.id = (private.jwt() ->> 'sub')::pg_catalog.uuid and a.role is not null and a.removed_at is null
    and not a.is_disabled
    and a.credential_version = (private.jwt() ->> 'account_version')::integer
$$;
comment on function private.acting_account() is
  'The service account that the caller''s token names, while it holds a role and the token''s credential counts; '
  'else nothing.';

create function private.need_account_role(p_org uuid)
returns public.member_role
language plpgsql stable
set search_path = ''
as $$
declare
  v_account public.service_accounts := private.acting_account();
begin
  if v_account.id is null then
    perform private.fail('RY403', 'This service account may not act (any more).',
      'It was disabled, removed, or has no role; or its secret or trust was changed after this token was given out.');
  end if;
  return case when v_account.org_id = p_org then v_account.role end;
end;
$$;
comment on function private.need_account_role(uuid) is
  'The role of the service account that calls; one that has proved who it is, is told why it may not act.';

-- ----------------------------------------------------------------------------------------------------- who is a member

create function private.my_org_ids()
returns setof uuid
language plpgsql stable security definer
set search_path = ''
as $$
begin
  -- Nothing rather than an error: Realtime asks every subscriber's policies at once.
  return query select m.org_id from public.memberships as m
  where m.user_id = private.caller_id() and private.is_proved();
  if not found then
    return query select a.org_id from private.acting_account() as a where a.id is not null;
  end if;
end;
$$;
comment on function private.my_org_ids() is
  'The organisations of which the caller is a member, or a service account with a role. Used by every policy.';
grant execute on function private.my_org_ids() to authenticated;

create function private.my_admin_org_ids()
returns setof uuid
language plpgsql stable security definer
set search_path = ''
as $$
begin
  return query select m.org_id from public.memberships as m
  where m.user_id = private.caller_id() and m.role in ('owner', 'admin') and private.is_proved();
  if not found then
    return query select a.org_id from private.acting_account() as a where a.role = 'admin';
  end if;
end;
$$;
comment on function private.my_admin_org_ids() is 'The organisations that the caller administers.';
grant execute on function private.my_admin_org_ids() to authenticated;

create policy "Members see their organisations" on public.organizations
  for select to authenticated using (id = any(array(select private.my_org_ids())));
create policy "Members see who else is a member" on public.memberships
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
create policy "Members see their organisation's invitations" on public.invitations
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
create policy "Admins read the audit log" on public.audit_events
  for select to authenticated using (org_id = any(array(select private.my_admin_org_ids())));

create function private.is_account()
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return coalesce(private.jwt() ? 'account_version', false);
end;
$$;
comment on function private.is_account() is 'Whether the caller is a service account, and no person.';

create function private.caller_kind()
returns public.actor_kind
language plpgsql stable
set search_path = ''
as $$
begin
  return case when private.is_account() then 'service_account'
    when private.jwt() ->> 'role' = 'authenticated' then 'user' else 'system' end;
end;
$$;
comment on function private.caller_kind() is
  'What records call the caller: a person, a service account, or the system.';

create function private.need_person()
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if private.is_account() then
    perform private.fail('RY403', 'This is for people, not for service accounts.', 'Sign in yourself and do it.');
  end if;
  perform private.need_proved();
end;
$$;
comment on function private.need_person() is
  'Refuses a service account where somebody must answer for what is done, and a sign-in that lacks its second step.';

create function private.need_role(p_org uuid, p_role public.member_role)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_caller pg_catalog.uuid := private.caller_id();
  v_role public.member_role;
begin
  select m.role into v_role from public.memberships as m where m.org_id = p_org and m.user_id = v_caller;
  if v_role is null and private.is_account() then
    v_role := private.need_account_role(p_org);
  end if;
  -- A stranger learns nothing about what exists: a foreign organisation and a missing one look the same.
  if v_role is null then
    perform private.fail('RY404', 'There is no such organisation, or you are not a member of it.',
      'Check that you are signed in with the right account.');
  end if;
  perform private.need_proved();
  if v_role > p_role then
    perform private.fail('RY403', format('Your role is %s; this needs %s.', v_role, p_role),
      'Ask an owner or admin of the organisation.');
  end if;
end;
$$;
comment on function private.need_role(uuid, public.member_role) is
  'Refuses the caller unless they have at least this role in the organisation.';

create function private.caller_label(p_org uuid)
returns text
language plpgsql stable
set search_path = ''
as $$
declare
  v_caller pg_catalog.uuid := private.caller_id();
begin
  -- The address that was invited, not the one in the token: that one people can give themselves.
  return coalesce((select m.email from public.memberships as m where m.org_id = p_org
    and m.user_id = v_caller),
    case private.caller_kind() when 'service_account' then (private.acting_account()).name
      when 'user' then v_caller::pg_catalog.text end, 'system');
end;
$$;
comment on function private.caller_label(uuid) is
  'What records of an organisation call the caller: the member''s email address, the service account''s name, else '
  'the user''s id. What happens in a runner''s call, for whichever organisation, is done by "system".';

create function private.audit_value(p_value jsonb)
returns jsonb
language sql immutable
set search_path = ''
as $$
  select case when octet_length(p_value::pg_catalog.text) <= 2000 then p_value else jsonb_build_object('bytes',
    octet_length(p_value::pg_catalog.text), 'sha256', encode(sha256(convert_to(p_value::pg_catalog.text, 'UTF8')),
      'hex')) end
$$;
comment on function private.audit_value(jsonb) is
  'A value as the audit log keeps it: itself, or its size and digest where it is large.';

create function private.changes(p_before jsonb, p_after jsonb)
returns jsonb
language sql stable
set search_path = ''
as $$
  select coalesce(jsonb_object_agg(a.key, jsonb_build_object('from', private.audit_value(b.value), 'to',
    private.audit_value(a.value))), '{}')
  from jsonb_each(p_after) as a join jsonb_each(p_before) as b on b.key = a.key
  where a.value <> b.value and a.key <> 'updated_at'
$$;
comment on function private.changes(jsonb, jsonb) is
  'What is not the same in two versions of a row: {field: {from, to}}.';

create function private.audit(
  p_org uuid, p_action text, p_target_kind text, p_target_id text, p_target_label text, p_detail jsonb default '{}'
)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_kind public.actor_kind := private.caller_kind();
begin
  insert into public.audit_events (org_id, actor_kind, actor_id, actor_label, address, action, target_kind,
    target_id, target_label, detail)
  values (
    p_org, v_kind, case when v_kind <> 'system' then private.caller_id() end, private.caller_label(p_org),
    private.caller_address(), p_action, p_target_kind, p_target_id, p_target_label, coalesce(p_detail, '{}')
  );
end;
$$;
comment on function private.audit(uuid, text, text, text, text, jsonb) is
  'Writes what the caller did to the audit log.';

create policy "Members see their organisation's service accounts" on public.service_accounts
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
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
comment on column public.service_accounts.has_secret is 'Whether it also has a client secret.';
comment on column public.service_accounts.secret_hint is 'The last four characters of that secret.';
comment on column public.service_accounts.is_disabled is 'A disabled one opens no session and does nothing.';
comment on column public.service_accounts.last_used_at is 'When it last signed in.';
create trigger touch before update on public.service_accounts for each row execute function private.touch_updated_at();
create trigger wake after insert or update on public.service_accounts
  for each row execute function private.wake_for_row();

-- ---------------------------------------------------------------------------------------------------- the installation
-- What concerns the whole installation: one row. Whoever holds the service key changes it; no organisation can.

create type public.organization_makers as enum ('EVERYBODY', 'OWNERS');
comment on type public.organization_makers is
  'Who may make organisations: everybody who has an account · whoever owns one already (and the first one of all).';

create table private.installation (
  is_only boolean primary key default true check (is_only),
  maintenance_until timestamptz,
  maintenance_reason text check (length(maintenance_reason) <= 500),
  organization_makers public.organization_makers not null default 'EVERYBODY'
);
alter table private.installation enable row level security;
comment on table private.installation is 'What concerns the whole installation: one row.';
comment on column private.installation.is_only is 'So that there is one row.';
comment on column private.installation.maintenance_until is 'Until then no runner takes any job; what runs, finishes.';
insert into private.installation default values;

create function private.organization_makers()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select jsonb_build_object('who', i.organization_makers, 'may_create', i.organization_makers = 'EVERYBODY'
    or not exists (select from public.organizations)
    or exists (select from public.memberships as m where m.user_id = private.caller_id() and m.role = 'owner'))
  from private.installation as i where i.is_only
$$;
comment on function private.organization_makers() is 'Body of public.organization_makers.';
grant execute on function private.organization_makers() to authenticated;

create function private.set_organization_makers(p_who public.organization_makers)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  if p_who is null then
    perform private.fail('RY422', 'It is not said who may make organisations.', 'Say EVERYBODY or OWNERS.');
  end if;
  update private.installation set organization_makers = p_who where is_only;
  perform private.audit(null, 'installation.organization_makers', 'installation', null, null,
    jsonb_build_object('who', p_who));
  return jsonb_build_object('who', p_who);
end;
$$;
comment on function private.set_organization_makers(public.organization_makers) is
  'Body of public.set_organization_makers.';
grant execute on function private.set_organization_makers(public.organization_makers) to service_role;

-- ------------------------------------------------------------------------------------------- organisations and members
-- What people do with organisations: create, change, invite, accept, change a role, leave.

create function private.create_organization(p_name text, p_slug text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_org public.organizations;
begin
  if private.caller_id() is null then
    perform private.fail('RY403', 'Nobody is signed in.', 'Sign in and try again.');
  end if;
  perform private.need_person();
  if not (private.organization_makers() ->> 'may_create')::pg_catalog.bool then
    perform private.fail('RY403', 'Only people who own an organisation make new ones on this installation.',
      'Ask an owner to make it and to invite you.');
  end if;
  if (select count(*) from public.memberships where user_id = private.caller_id() and role = 'owner') >= 20 then
    perform private.fail('RY429', 'You own 20 organisations, which is the limit.',
      'Leave one that has another owner.');
  end if;
  insert into public.organizations (name, slug) values (trim(p_name), lower(trim(p_slug))) returning * into v_org;
  insert into public.memberships (org_id, user_id, email, role)
  values (v_org.id, private.caller_id(), coalesce(private.jwt() ->> 'email', private.caller_id()::pg_catalog.text),
    'owner');
  perform private.audit(v_org.id, 'organization.created', 'organization', v_org.id::pg_catalog.text, v_org.name);
  return to_jsonb(v_org);
exception
  when unique_violation then
    perform private.fail('RY409', format('The short name "%s" is taken.', p_slug), 'Choose another one.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'The name or the short name is not valid.',
      'A name has 1 to 100 characters; a short name has 2 to 39 lower-case letters, digits and single hyphens.');
end;
$$;
comment on function private.create_organization(text, text) is 'Body of public.create_organization.';
grant execute on function private.create_organization(text, text) to authenticated;

create function private.update_organization(p_org uuid, p_name text, p_log_retention_days integer,
  p_can_approve_own_jobs boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_old pg_catalog.jsonb;
  v_org public.organizations;
begin
  perform private.need_role(p_org, 'owner');
  select to_jsonb(o) into v_old from public.organizations as o where o.id = p_org for no key update;
  update public.organizations set
    name = coalesce(trim(p_name), name), log_retention_days = coalesce(p_log_retention_days, log_retention_days),
    can_approve_own_jobs = coalesce(p_can_approve_own_jobs, can_approve_own_jobs)
  where id = p_org
  returning * into v_org;
  perform private.audit(p_org, 'organization.updated', 'organization', p_org::pg_catalog.text, v_org.name,
    jsonb_build_object('changes', private.changes(v_old, to_jsonb(v_org))));
  return to_jsonb(v_org);
exception
  when check_violation then
    perform private.fail('RY422', 'The name or the retention is not valid.',
      'A name has 1 to 100 characters; logs are kept for 1 to 3,650 days.');
end;
$$;
comment on function private.update_organization(uuid, text, integer, boolean) is 'Body of public.update_organization.';
grant execute on function private.update_organization(uuid, text, integer, boolean) to authenticated;

create function private.my_organizations()
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.need_proved();
  return (
    select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'slug', o.slug, 'name', o.name, 'role',
      m.role) order by o.name, o.id), '[]')
    from (
      select b.org_id, b.role from public.memberships as b where b.user_id = private.caller_id()
      union all
      select a.org_id, a.role from private.acting_account() as a where a.id is not null
    ) as m join public.organizations as o on o.id = m.org_id);
end;
$$;
comment on function private.my_organizations() is 'Body of public.my_organizations.';
grant execute on function private.my_organizations() to authenticated;

revoke execute on all functions in schema private from public;
