-- Tenancy: organisations, their members, roles, invitations, and the audit log. Every later table carries org_id. A
-- member sees the rows of their own organisations and no other; the list of those organisations is computed once per
-- statement (`any(array(select …))`), not once per row.

-- An access token outlives its session by up to an hour; a signed-out person must not. Service accounts have none.
create function private.has_auth_session(p_claims jsonb) returns boolean language plpgsql stable as $$
begin
  return p_claims ->> 'session_id' is null or case
    when p_claims ->> 'session_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then exists (
      select from auth.sessions as s where s.id = (p_claims ->> 'session_id')::pg_catalog.uuid)
    else false end;
end;
$$;

create table private.delegations (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null,
  xid xid8 not null default pg_current_xact_id(),
  claims jsonb
);
comment on table private.delegations is
  'Members for whom the database itself acts, such as for a command in a comment; each within one transaction.';
comment on column private.delegations.xid is 'The transaction; no other one accepts it.';
comment on column private.delegations.claims is 'Who called before; null for a caller without a token.';

-- Acts as this member until the end of the transaction, or as the caller again. Their permissions are checked as ever.
create function private.act_as(p_user uuid) returns void language plpgsql as $$
declare
  v_id pg_catalog.uuid;
  v_restored bigint;
begin
  if p_user is null then
    with ended as (delete from private.delegations where xid = pg_current_xact_id() returning claims)
    select count(set_config('request.jwt.claims', coalesce(e.claims::pg_catalog.text, ''), true)) into v_restored
    from ended as e where e.claims ->> 'delegation' is null;
    return;
  end if;
  insert into private.delegations (user_id, claims) values (p_user, private.jwt()) returning id into v_id;
  perform set_config('request.jwt.claims', jsonb_build_object('role', 'authenticated', 'sub', p_user, 'delegation',
    v_id)::pg_catalog.text, true);
end;
$$;

-- The strength of a sign-in. Auth signs a token for a password alone, too, and marks it; whether
-- that is enough is decided here, once, and asked where the database learns who is calling: by every policy
-- (my_org_ids) and at the beginning of every act (need, need_person). Runners never come this way.
-- Whether the caller has proved who they are as far as their account asks for it: somebody with two-step sign-in has
-- given the code, and a personal token is live. The one place that decides it.
create function private.is_proved() returns boolean language plpgsql stable as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  -- A token replaces both steps: somebody who had given them created it. Its row decides, so that a revoked one
  -- is void at once, and not when what it was exchanged for ends.
  if coalesce(v_claims ? 'personal_token', false) then
    return exists (select from private.personal_tokens as t
      where t.id = (v_claims ->> 'personal_token')::pg_catalog.uuid
        and t.user_id = (v_claims ->> 'sub')::pg_catalog.uuid and t.expires_at > now());
  end if;
  if coalesce(v_claims ? 'delegation', false) then
    return exists (select from private.delegations as d where d.id = (v_claims ->> 'delegation')::pg_catalog.uuid
      and d.user_id = (v_claims ->> 'sub')::pg_catalog.uuid and d.xid = pg_current_xact_id_if_assigned());
  end if;
  if not private.has_auth_session(v_claims) then return false; end if;
  return coalesce(v_claims ->> 'aal', '') = 'aal2' or not exists (select from auth.mfa_factors as f
    where f.user_id = (v_claims ->> 'sub')::pg_catalog.uuid and f.status = 'verified');
end;
$$;

-- Refuses a sign-in that lacks its second step, and a personal token that is void.
create function private.need_proved() returns void language plpgsql stable as $$
begin
  if private.is_proved() then
    return;
  elsif private.jwt() ? 'personal_token' then
    perform private.fail('RY403', 'This personal token was revoked or has expired.', 'Create a new one under Account.');
  elsif not private.has_auth_session(private.jwt()) then
    perform private.fail('RY401', 'This session was ended.', 'Sign in again.');
  else
    perform private.fail('RY403', 'This sign-in lacks its second step.',
      'Sign in again, and give the code of your authenticator app.');
  end if;
end;
$$;

create type public.member_role as enum ('owner', 'admin', 'operator', 'viewer', 'guest');
comment on type public.member_role is
  'owner: everything · admin: runners, members, identities · operator: modules and jobs · viewer: reads · '
  'guest: only what roles at paths give.';

create type public.actor_kind as enum ('user', 'worker', 'system', 'service_account');
comment on type public.actor_kind is 'Who did something: a person, a runner, the database, or a service account.';

create type public.shared_use as enum ('NEVER', 'NONE_FITS', 'NONE_AVAILABLE');
comment on type public.shared_use is
  'When shared runners may take jobs: never · when no own runner is set up for it · when no own one is available.';

-- Whether these are time limits of jobs: seconds by what is limited, such as {"plan": 3600}.
create function private.is_time_limits(p_limits jsonb) returns boolean language sql immutable as $$
  select jsonb_typeof(p_limits) = 'object' and not jsonb_path_exists(p_limits, 'strict $.keyvalue() ? (
    !(@.value.type() == "number" && @.value >= 1 && (@.key == "hook" && @.value <= 600
      || (@.key == "plan" || @.key == "apply") && @.value <= 604800)))')
$$;

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  -- Clouds compare it where others have an id: it never looks like one.
  slug text not null unique check (slug ~ '^[a-z0-9](-?[a-z0-9]){1,38}$'
    and slug !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
  name text not null check (length(name) between 1 and 100),
  log_retention_days integer not null default 30 check (log_retention_days between 1 and 400),
  can_approve_own_jobs boolean not null default false,
  shared_runners public.shared_use not null default 'NONE_AVAILABLE',
  time_limits jsonb not null default '{}' check (private.is_time_limits(time_limits)),
  maintenance_until timestamptz,
  maintenance_reason text check (length(maintenance_reason) <= 500),
  deleted_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.organizations is 'A tenant. Everything but shared runners and releases belongs to exactly one.';
comment on column public.organizations.slug is 'The short name in addresses: lower case, unique in the installation.';
comment on column public.organizations.can_approve_own_jobs is 'Whether requesters may approve their own jobs.';
comment on column public.organizations.time_limits is
  'How long jobs may take, in seconds: {"plan", "apply", "hook"}; what is missing is as the runner has it.';
comment on column public.organizations.maintenance_until is 'Until then no runner takes its jobs; what runs, finishes.';
comment on column public.organizations.deleted_at is
  'When an owner removed it. Nobody is a member since then; the sweep deletes its history in parts.';

create table private.ended_slugs (slug text primary key, ended_at timestamptz not null default now());
comment on table private.ended_slugs is
  'Short names of deleted organisations. Nobody gets one again: a cloud may still trust tokens that have it.';

create table public.memberships (
  org_id uuid not null references public.organizations (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  email text not null,
  role public.member_role not null,
  created_at timestamptz not null default now(),
  is_claimed boolean not null default false,
  primary key (org_id, user_id)
);
create index memberships_user_id_idx on public.memberships (user_id);
comment on table public.memberships is 'Who belongs to which organisation, and in which role.';
comment on column public.memberships.is_claimed is
  'Whether signing in at the provider made the person a member; with the last mapped group such a guest leaves.';

create table private.last_organizations (
  user_id uuid primary key references auth.users (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade
);
create index last_organizations_org_id_idx on private.last_organizations (org_id);
comment on table private.last_organizations is 'Which organisation a person opened last: a new sign-in leads there.';

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
comment on table public.invitations is 'Invitations by email address; a hash of the link''s secret is in private.';

create table private.invitation_tokens (
  invitation_id uuid primary key references public.invitations (id) on delete cascade,
  token_hash text not null
);
comment on table private.invitation_tokens is 'Hashes of the secrets in invitation links.';
comment on column private.invitation_tokens.token_hash is 'SHA-256 (hex); the secret itself is never stored.';

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
comment on table public.audit_events is 'What people did: one row per act. Append only. Admins and owners read it.';
comment on column public.audit_events.address is 'From where the actor signed in or exchanged its token, if known.';
comment on column public.audit_events.action is 'What was done, as noun.verb: worker.drained.';
comment on column public.audit_events.detail is 'What changed; never a secret.';

create function private.is_bcrypt_hash(p_hash text) returns boolean language sql immutable as $$
  -- The sender of a hash chooses the cost of each comparison: 8 to 12 is neither too weak nor stops everybody.
  select p_hash ~ '^\$2[aby]\$(08|09|10|11|12)\$[./A-Za-z0-9]{53}$'
$$;

-- Whether this is {issuer, audience, bound_claims} in 8 KiB; without a claim, every workload of it would come in.
create function private.is_trust(p_trust jsonb) returns boolean language sql immutable as $$
  select coalesce(jsonb_typeof(p_trust) = 'object' and octet_length(p_trust::pg_catalog.text) <= 8192
    and p_trust - array['issuer', 'audience', 'bound_claims'] = '{}'
    and p_trust ->> 'issuer' ~ '^https?://' and length(p_trust ->> 'issuer') <= 500
    and length(p_trust ->> 'audience') between 1 and 500
    and jsonb_typeof(p_trust -> 'bound_claims') = 'object' and p_trust -> 'bound_claims' <> '{}', false)
$$;

-- Whether a JSON list holds at most ten trusts, each whole.
create function private.is_trust_list(p_trusts jsonb) returns boolean language sql immutable as $$
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

-- The role of a service account in its organisation. One that has roles at paths alone is a guest.
create function private.role_of(p_account public.service_accounts) returns public.member_role language sql stable as $$
  select coalesce(p_account.role, (select 'guest'::public.member_role from public.role_bindings as b
    where b.account_id = p_account.id limit 1))
$$;

-- The service account of the caller's token, while it has a role and the credential counts; else nothing.
create function private.acting_account() returns public.service_accounts language sql stable as $$
  select a.* from public.service_accounts as a
  where a.id = (private.jwt() ->> 'sub')::pg_catalog.uuid and private.role_of(a) is not null
    and a.removed_at is null and not a.is_disabled
    and a.credential_version = (private.jwt() ->> 'account_version')::integer
$$;

-- The role of the service account that calls; one that has proved its identity learns why it may not act.
create function private.need_account_role(p_org uuid) returns public.member_role language plpgsql stable as $$
declare
  v_account public.service_accounts := private.acting_account();
begin
  perform private.fail('RY403', 'This service account may not act (any more).',
    'It was disabled, removed, or has no role; or its secret or trust was changed after this token was given out.')
  where v_account.id is null;
  return case when v_account.org_id = p_org then private.role_of(v_account) end;
end;
$$;

create function private.is_account() returns boolean language plpgsql stable as $$
begin
  return coalesce(private.jwt() ? 'account_version', false);
end;
$$;

-- Whether the caller's personal token, if it is one, reaches this far: a limited one does at most what its role may,
-- and only reads outside of its path.
create function private.token_allows(p_verb text, p_path text default '') returns boolean language plpgsql stable as $$
begin
  return not coalesce(private.jwt() ? 'personal_token', false) or exists (
    select from private.personal_tokens as t
    where t.id = (private.jwt() ->> 'personal_token')::pg_catalog.uuid and (t.role is null or exists (
      select from private.role_verbs as r where r.verb = p_verb and (r.role = 'viewer'
        or r.role = t.role and private.is_at_or_below(coalesce(p_path, ''), t.path)))));
end;
$$;

-- Whether a path is another one or below it; "" is above all.
create function private.is_at_or_below(p_path text, p_above text) returns boolean language sql immutable as $$
  select p_above = '' or p_path = p_above or starts_with(p_path, p_above || '/')
$$;

-- ## who is a member
-- The verbs of members, each with the least role that may. Policies, lists and calls all read this view.
create view private.verbs as
select
  v.verb,
  v.least_role::public.member_role
from (values
  ('organization.read', 'guest'), ('organization.update', 'owner'), ('organization.delete', 'owner'),
  ('organization.maintain', 'admin'),
  ('member.manage', 'admin'), ('member.own', 'owner'), ('audit.read', 'admin'), ('account.manage', 'admin'),
  ('identity.manage', 'admin'), ('role.grant', 'admin'), ('group.write', 'operator'), ('group.delete', 'admin'),
  ('module.read', 'viewer'), ('module.write', 'operator'), ('module.guard', 'admin'), ('module.delete', 'admin'),
  ('module.lock', 'operator'), ('variable.write', 'operator'), ('variable.enforce', 'admin'),
  ('job.read', 'viewer'), ('job.comment', 'viewer'), ('job.plan', 'operator'), ('job.apply', 'operator'),
  ('job.cancel', 'operator'), ('job.approve', 'operator'), ('job.resolve', 'operator'), ('job.destroy', 'admin'),
  ('policy.write', 'admin'), ('policy.override', 'admin'),
  ('state.read', 'viewer'), ('state.text', 'admin'), ('state.write', 'admin'),
  ('runner.operate', 'operator'), ('runner.manage', 'admin'),
  ('schedule.write', 'operator'), ('schedule.destroy', 'admin'),
  ('git.read', 'viewer'), ('git.poll', 'operator'), ('git.manage', 'admin'),
  ('notification.read', 'viewer'), ('notification.manage', 'admin'),
  ('release.read', 'viewer'), ('release.roll_out', 'admin')
) as v (verb, least_role);
comment on view private.verbs is 'The permission table: which role may do what.';
comment on column private.verbs.least_role is 'This role and those above it may.';

create function private.least_role(p_verb text, out v_role public.member_role) language plpgsql stable as $$
begin
  select v.least_role into strict v_role from private.verbs as v where v.verb = p_verb;
end;
$$;
comment on table public.service_accounts is 'Identities of runners and pipelines: trust in an issuer, or a secret.';
comment on column public.service_accounts.path is
  'The group it belongs to; it serves runners and modules at or below. "" is the whole organisation.';
comment on column public.service_accounts.trusts is
  'OIDC issuers that it trusts [{issuer, audience, bound_claims}]: a token needs that audience and those claims.';
comment on column public.service_accounts.role is
  'What it may do in the organisation, as a member of that role; null for one that opens runners'' sessions alone.';
comment on column public.service_accounts.credential_version is
  'Goes up with each new secret and each change of trust: tokens that were given out before are void.';

-- The name of the caller in records: a person, a service account, or the system.
create function private.caller_kind() returns public.actor_kind language plpgsql stable as $$
begin
  return case when private.is_account() then 'service_account'
    when private.jwt() ->> 'role' = 'authenticated' then 'user' else 'system' end;
end;
$$;

-- Refuses a service account where somebody must answer for what is done, a personal token with limits, whose role
-- covers nothing that belongs to a person, and a sign-in that lacks its second step.
create function private.need_person() returns void language plpgsql stable as $$
begin
  perform private.fail('RY403', 'This is for people, not for service accounts.', 'Sign in yourself and do it.')
  where private.is_account();
  perform private.fail('RY403', 'A personal token with a role does only what its role may.',
    'Sign in yourself and do it.')
  where exists (select from private.personal_tokens as t
    where t.id = (private.jwt() ->> 'personal_token')::pg_catalog.uuid and t.role is not null);
  perform private.need_proved();
end;
$$;

-- ## how members sign in
create table private.sign_in_providers (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  provider text not null unique check (provider ~ '^(custom|sso):[a-z0-9:-]{1,60}$'),
  name text not null check (length(name) >= 1 and length(name) <= 60 and name = trim(name)),
  issuer text not null check (issuer ~ '^https?://' and length(issuer) <= 500),
  client_id text not null check (length(client_id) between 1 and 500),
  secret_hint text not null default '' check (length(secret_hint) <= 4),
  secret_set_at timestamptz,
  claim text not null default 'groups' check (claim ~ '^[A-Za-z0-9_:./-]{1,200}$'),
  default_role public.member_role check (default_role not in ('owner', 'admin')),
  is_only boolean not null default false,
  break_glass uuid,
  hours integer not null default 24 check (hours between 1 and 720),
  created_at timestamptz not null default now(),
  check (not is_only or break_glass is not null)
);
comment on table private.sign_in_providers is 'The identity provider of an organisation; its secret is at Auth alone.';
comment on column private.sign_in_providers.provider is
  'As Auth names it: custom:<organisation>; sso:<id> where an operator joined a SAML provider.';
comment on column private.sign_in_providers.issuer is 'As its discovery document names it.';
comment on column private.sign_in_providers.client_id is 'What the provider calls Runyard.';
comment on column private.sign_in_providers.claim is 'The claim that lists a person''s groups.';
comment on column private.sign_in_providers.default_role is
  'The role of a new member in no mapped group; null: such a person does not become one.';
comment on column private.sign_in_providers.break_glass is 'The owner whose password still counts then.';
comment on column private.sign_in_providers.hours is
  'How long rights by claim, and entering through it, count after the provider confirmed the person.';

-- Written by a trigger on the identities of Auth.
create table private.sign_in_confirmations (
  org_id uuid not null references private.sign_in_providers (org_id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  confirmed_at timestamptz,
  primary key (org_id, user_id)
);
create index sign_in_confirmations_user_id_idx on private.sign_in_confirmations (user_id);
comment on table private.sign_in_confirmations is 'When an organisation''s provider last confirmed a person.';
comment on column private.sign_in_confirmations.confirmed_at is 'Null: it refused.';

create table private.session_origins (
  session_id uuid primary key references auth.sessions (id) on delete cascade,
  provider text not null
);
comment on table private.session_origins is
  'Sessions of programs that somebody confirmed in a session through a provider: they count like that one.';

-- Whether the organisation's provider confirmed this person lately.
create function private.is_confirmed(p_org uuid, p_user uuid) returns boolean language plpgsql stable as $$
begin
  return exists (select from private.sign_in_confirmations as c
    join private.sign_in_providers as p on p.org_id = c.org_id
    where c.org_id = p_org and c.user_id = p_user and c.confirmed_at > now() - make_interval(hours => p.hours));
end;
$$;

-- Whether the caller's session was opened at this provider. Auth's token shows that a provider opened it, not which
-- one: so it does not count for somebody who has identities of others, too.
create function private.entered_through(p_provider text) returns boolean language plpgsql stable as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if exists (select from private.session_origins as o where o.session_id::pg_catalog.text = v_claims ->> 'session_id'
      and o.provider = p_provider) then
    return true;
  end if;
  return coalesce(v_claims -> 'amr' @> case when p_provider like 'sso:%' then '[{"method": "sso/saml"}]'
      else '[{"method": "oauth"}]' end::pg_catalog.jsonb, false)
    and private.has_identity((v_claims ->> 'sub')::pg_catalog.uuid, p_provider);
end;
$$;

-- Whether a person has an identity at this provider, and at no other but Auth itself.
create function private.has_identity(p_user uuid, p_provider text) returns boolean language sql stable as $$
  select coalesce(bool_and(i.provider = p_provider), false) from auth.identities as i
  where i.user_id = p_user and i.provider not in ('email', 'phone')
$$;

-- Whether the caller may enter this organisation the way they signed in. Where its provider alone counts, a session
-- must have been opened there; a personal token and a comment only need its owner to be confirmed.
create function private.is_admitted(p_org uuid) returns boolean language plpgsql stable as $$
declare
  v_only private.sign_in_providers;
begin
  select * into v_only from private.sign_in_providers where org_id = p_org and is_only;
  if v_only.org_id is null or private.is_account() or v_only.break_glass = private.caller_id() then
    return true;
  end if;
  return private.is_confirmed(p_org, private.caller_id())
    and (private.jwt() ?| array['personal_token', 'delegation'] or private.entered_through(v_only.provider));
end;
$$;

-- The role of the caller's membership or service account in an organisation; null for one who has none.
create function private.my_role(p_org uuid, out v_role public.member_role) language plpgsql stable as $$
begin
  select m.role into v_role from public.memberships as m
  where m.org_id = p_org and m.user_id = private.caller_id() and private.is_admitted(p_org);
  if v_role is null and private.is_account() then v_role := private.need_account_role(p_org); end if;
end;
$$;

-- The words for a program that declares itself an agent, in the name of the person it acts for. They add no right.
create function private.through() returns text language sql stable as $$
  select case when nullif(current_setting('request.headers', true), '')::pg_catalog.jsonb ->> 'x-runyard-through'
    = 'agent' then ' through an agent' else '' end
$$;

-- The name of the caller in records of an organisation: the member's email address, the service account's name, else
-- the user's id. An act in a runner's call, for any organisation, is done by "system".
create function private.caller_label(p_org uuid) returns text language plpgsql stable as $$
declare
  v_caller pg_catalog.uuid := private.caller_id();
begin
  -- The address that was invited, not the one in the token: that one people can give themselves.
  return coalesce((select m.email from public.memberships as m where m.org_id = p_org
    and m.user_id = v_caller),
    case private.caller_kind() when 'service_account' then (private.acting_account()).name
      when 'user' then v_caller::pg_catalog.text end, 'system') || private.through();
end;
$$;

-- A value as the audit log keeps it: itself, or its size and digest where it is large.
create function private.audit_value(p_value jsonb) returns jsonb language sql immutable as $$
  select case when octet_length(p_value::pg_catalog.text) <= 2000 then p_value else jsonb_build_object('bytes',
    octet_length(p_value::pg_catalog.text), 'sha256', encode(sha256(convert_to(p_value::pg_catalog.text, 'UTF8')),
      'hex')) end
$$;

-- The differences between two versions of a row: {field: {from, to}}.
create function private.changes(p_before jsonb, p_after jsonb) returns jsonb language sql stable as $$
  select coalesce(jsonb_object_agg(a.key, jsonb_build_object('from', private.audit_value(b.value), 'to',
    private.audit_value(a.value))), '{}')
  from jsonb_each(p_after) as a join jsonb_each(p_before) as b on b.key = a.key
  where a.value <> b.value and a.key <> 'updated_at'
$$;

create function private.audit(
  p_org uuid, p_action text, p_target_kind text, p_target_id text, p_target_label text, p_detail jsonb default '{}'
) returns void language plpgsql as $$
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

-- Writes down what was done to a row, and answers with the row: the first word of the action is its kind.
create function private.audited(p_row jsonb, p_action text, p_label text, p_detail jsonb default '{}') returns jsonb
language sql as $$
  select private.audit((p_row ->> 'org_id')::pg_catalog.uuid, p_action, split_part(p_action, '.', 1), p_row ->> 'id',
    p_label, p_detail);
  select p_row
$$;
