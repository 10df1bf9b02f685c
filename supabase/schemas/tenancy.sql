-- Tenancy: organisations, their members, roles, invitations, and the audit log. Every later table carries org_id. A
-- member sees the rows of their own organisations and no other; the list of those organisations is computed once per
-- statement (`any(array(select …))`), not once per row.

-- An access token outlives its session by up to an hour; a person who was signed out must not. Tokens of service
-- accounts name no session.
create function private.has_auth_session(p_claims jsonb) returns boolean
language plpgsql stable set search_path = '' as $$
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
alter table private.delegations enable row level security;
comment on table private.delegations is
  'Members for whom the database itself acts, such as for a command in a comment; each within one transaction.';
comment on column private.delegations.user_id is 'The member.';
comment on column private.delegations.xid is 'The transaction; no other one accepts it.';
comment on column private.delegations.claims is 'Who called before; null for a caller without a token.';

-- Acts as this member until the end of the transaction, or as the caller again. Their permissions are checked as ever.
create function private.act_as(p_user uuid) returns void
language plpgsql set search_path = '' as $$
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
create function private.is_proved() returns boolean
language plpgsql stable set search_path = '' as $$
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
  if not private.has_auth_session(v_claims) then
    return false;
  end if;
  return coalesce(v_claims ->> 'aal', '') = 'aal2' or not exists (select from auth.mfa_factors as f
    where f.user_id = (v_claims ->> 'sub')::pg_catalog.uuid and f.status = 'verified');
end;
$$;

-- Refuses a sign-in that lacks its second step, and a personal token that is void.
create function private.need_proved() returns void
language plpgsql stable set search_path = '' as $$
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
comment on type public.actor_kind is
  'Who did something: a person, a runner, the database itself, or a service account.';

create type public.shared_use as enum ('NEVER', 'NONE_FITS', 'NONE_AVAILABLE');
comment on type public.shared_use is
  'When shared runners may take an organisation''s jobs: never · when no own runner is set up for it · when no own '
  'one is available.';

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  -- Clouds compare it where others have an id: it never looks like one.
  slug text not null unique check (slug ~ '^[a-z0-9](-?[a-z0-9]){1,38}$'
    and slug !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
  name text not null check (length(name) between 1 and 100),
  log_retention_days integer not null default 30 check (log_retention_days between 1 and 400),
  can_approve_own_jobs boolean not null default false,
  shared_runners public.shared_use not null default 'NONE_AVAILABLE',
  maintenance_until timestamptz,
  maintenance_reason text check (length(maintenance_reason) <= 500),
  deleted_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table public.organizations enable row level security;
grant select on public.organizations to authenticated, service_role;
comment on table public.organizations is 'A tenant. Everything but shared runners and releases belongs to exactly one.';
comment on column public.organizations.slug is 'The short name in addresses: lower case, unique in the installation.';
comment on column public.organizations.can_approve_own_jobs is
  'Whether somebody who asked for a job may be one of those who approve it.';
comment on column public.organizations.shared_runners is 'When its jobs may go to shared runners.';
comment on column public.organizations.maintenance_until is
  'Until then no runner takes a job of it; what runs, finishes.';
comment on column public.organizations.deleted_at is
  'When an owner removed it. Nobody is a member since then; the sweep deletes its history in parts.';
create trigger touch before update on public.organizations for each row execute function private.touch_updated_at();

create table private.ended_slugs (slug text primary key, ended_at timestamptz not null default now());
alter table private.ended_slugs enable row level security;
comment on table private.ended_slugs is
  'Short names of deleted organisations. Nobody gets one again: a cloud may still trust tokens that have it.';
comment on column private.ended_slugs.slug is 'The short name.';
comment on column private.ended_slugs.ended_at is 'When the organisation was deleted.';

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
comment on column public.audit_events.address is 'From where the actor signed in or exchanged its token, if known.';
comment on column public.audit_events.action is 'What was done, as noun.verb: worker.drained.';
comment on column public.audit_events.target_kind is 'What kind of thing it was done to.';
comment on column public.audit_events.detail is 'What changed; never a secret.';

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
  ('state.read', 'viewer'), ('state.text', 'admin'), ('state.write', 'admin'),
  ('runner.operate', 'operator'), ('runner.manage', 'admin'),
  ('schedule.write', 'operator'), ('schedule.destroy', 'admin'),
  ('git.read', 'viewer'), ('git.poll', 'operator'), ('git.manage', 'admin'),
  ('notification.read', 'viewer'), ('notification.manage', 'admin'),
  ('release.read', 'viewer'), ('release.roll_out', 'admin')
) as v (verb, least_role);
comment on view private.verbs is 'The permission table: which role may do what.';
comment on column private.verbs.verb is 'Noun and act, such as job.plan.';
comment on column private.verbs.least_role is 'This role and those above it may.';

create function private.least_role(p_verb text) returns public.member_role
language plpgsql stable set search_path = '' as $$
declare
  v_role public.member_role;
begin
  select v.least_role into strict v_role from private.verbs as v where v.verb = p_verb;
  return v_role;
end;
$$;

-- The organisations in which the caller may do this. Nothing rather than an error: Realtime asks every subscriber's
-- policies at once.
create function private.my_org_ids(p_verb text default 'organization.read') returns setof uuid
language plpgsql stable security definer set search_path = '' as $$
declare
  v_least public.member_role := private.least_role(p_verb);
begin
  return query select m.org_id from public.memberships as m
  where m.user_id = private.caller_id() and private.is_proved() and private.token_allows(p_verb)
    and (m.role <= v_least or exists (select from private.bindings_for(p_verb, m.org_id, '', m.user_id)));
  if not found then
    return query select a.org_id from private.acting_account() as a where private.role_of(a) <= v_least;
  end if;
end;
$$;
grant execute on function private.my_org_ids to authenticated;

-- The prefixes of a guest: the paths at which they have a role, each written as organisation:path. Other members see
-- their whole organisation and need none.
create function private.my_prefixes() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  return query select b.org_id || ':' || b.path from (
    select m.org_id, m.user_id as id from public.memberships as m
    where m.user_id = private.caller_id() and m.role > 'viewer' and private.is_proved()
    union all
    select a.org_id, a.id from private.acting_account() as a where private.role_of(a) > 'viewer') as g
  cross join lateral private.bindings_of(g.org_id, g.id) as b order by 1;
end;
$$;
grant execute on function private.my_prefixes to authenticated;

-- Whether a path of an organisation is among these prefixes or below one; without prefixes everything is.
create function private.is_seen(p_org uuid, p_path text, p_seen text[]) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return p_seen is null or exists (select from unnest(p_seen) as s (above)
    where p_org || ':' || p_path = s.above or starts_with(p_org || ':' || p_path, s.above || '/'));
end;
$$;
grant execute on function private.is_seen to authenticated;

-- The prefixes of a member of this organisation; null for one who sees all of it.
create function private.seen(p_org uuid) returns text[]
language plpgsql stable set search_path = '' as $$
begin
  if private.my_role(p_org) <= 'viewer' or p_org in (select private.my_org_ids('module.read')) then
    return null;
  end if;
  return array(select private.my_prefixes());
end;
$$;

-- Whether the caller sees what is at a path; what has no path, only those who see the whole organisation.
create function private.may_see(p_org uuid, p_path text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return p_org in (select private.my_org_ids()) and private.is_seen(p_org, p_path, private.seen(p_org));
end;
$$;

-- The path of a module as the caller may read it: texts about other modules name it.
create function private.shown_path(p_org uuid, p_path text) returns text
language plpgsql stable set search_path = '' as $$
begin
  return case when private.caller_kind() = 'system' or private.may_see(p_org, p_path) then p_path
    else 'a module you may not see' end;
end;
$$;

-- Refuses a path that the caller does not see like one that does not exist.
create function private.need_seen(p_org uuid, p_path text default '') returns text[]
language plpgsql stable set search_path = '' as $$
declare
  v_seen pg_catalog.text[];
begin
  perform private.need('organization.read', p_org);
  v_seen := private.seen(p_org);
  if p_path <> '' and not private.is_seen(p_org, p_path, v_seen) then
    perform private.fail('RY404', 'There is no such module or group.',
      'Write its whole path, such as platform/network; "" is all modules.');
  end if;
  return v_seen;
end;
$$;
create policy "Members see their organisations" on public.organizations
  for select to authenticated using (id = any(array(select private.my_org_ids())));
create policy "Members see who else is a member" on public.memberships
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read')))
    or org_id = any(array(select private.my_org_ids())) and user_id = (select private.caller_id()));
create policy "Members see their organisation's invitations" on public.invitations
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read'))));
create policy "Admins read the audit log" on public.audit_events
  for select to authenticated using (org_id = any(array(select private.my_org_ids('audit.read'))));

-- The name of the caller in records: a person, a service account, or the system.
create function private.caller_kind() returns public.actor_kind
language plpgsql stable set search_path = '' as $$
begin
  return case when private.is_account() then 'service_account'
    when private.jwt() ->> 'role' = 'authenticated' then 'user' else 'system' end;
end;
$$;

-- Refuses a service account where somebody must answer for what is done, and a sign-in that lacks its second step.
create function private.need_person() returns void
language plpgsql stable set search_path = '' as $$
begin
  if private.is_account() then
    perform private.fail('RY403', 'This is for people, not for service accounts.', 'Sign in yourself and do it.');
  end if;
  perform private.need_proved();
end;
$$;

-- The role of the caller's membership or service account in an organisation; null for one who has none.
create function private.my_role(p_org uuid) returns public.member_role
language plpgsql stable set search_path = '' as $$
declare
  v_role public.member_role;
begin
  select m.role into v_role from public.memberships as m where m.org_id = p_org and m.user_id = private.caller_id();
  if v_role is null and private.is_account() then
    v_role := private.need_account_role(p_org);
  end if;
  return v_role;
end;
$$;

-- Whether the caller may do this at a path: by their role in the organisation, or by a binding there or above.
create function private.is_allowed(p_verb text, p_org uuid, p_path text) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return private.token_allows(p_verb, p_path) and (private.my_role(p_org) <= private.least_role(p_verb)
    or exists (select from private.bindings_for(p_verb, p_org, p_path, private.caller_id())));
end;
$$;

-- Refuses the caller unless they may do this in the organisation, at this path. Every public call asks it. An act on
-- the organisation itself names no path.
create function private.need(p_verb text, p_org uuid, p_path text default null) returns void
language plpgsql stable set search_path = '' as $$
declare
  v_role public.member_role := private.my_role(p_org);
begin
  -- A stranger learns nothing about what exists: a foreign organisation and a missing one look the same.
  if v_role is null then
    perform private.fail('RY404', 'There is no such organisation, or you are not a member of it.',
      'Check that you are signed in with the right account.');
  end if;
  perform private.need_proved();
  if v_role > private.least_role(p_verb)
    and not exists (select from private.bindings_for(p_verb, p_org, p_path, private.caller_id())) then
    perform private.need_seen(p_org, p_path) where p_path <> '';
    perform private.fail('RY403', format('You need %s %s; your role is %s.', p_verb,
      coalesce('at ' || nullif(p_path, ''), 'in the whole organisation'), v_role),
      coalesce(private.holders(p_verb, p_org, p_path), 'Nobody has it.'),
      jsonb_build_object('verb', p_verb, 'path', p_path)::pg_catalog.text);
  end if;
  if not private.token_allows(p_verb, p_path) then
    perform private.fail('RY403', format('This personal token may not %s %s.', p_verb,
      coalesce('at ' || nullif(p_path, ''), 'in the whole organisation')),
      'Use a token with a wider role or path; they are created under Account.');
  end if;
end;
$$;

-- The words for a program that declares itself an agent, in the name of the person it acts for. They add no right.
create function private.through() returns text
language sql stable set search_path = '' as $$
  select case when nullif(current_setting('request.headers', true), '')::pg_catalog.jsonb ->> 'x-runyard-through'
    = 'agent' then ' through an agent' else '' end
$$;

-- The name of the caller in records of an organisation: the member's email address, the service account's name, else
-- the user's id. An act in a runner's call, for any organisation, is done by "system".
create function private.caller_label(p_org uuid) returns text
language plpgsql stable set search_path = '' as $$
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
create function private.audit_value(p_value jsonb) returns jsonb
language sql immutable set search_path = '' as $$
  select case when octet_length(p_value::pg_catalog.text) <= 2000 then p_value else jsonb_build_object('bytes',
    octet_length(p_value::pg_catalog.text), 'sha256', encode(sha256(convert_to(p_value::pg_catalog.text, 'UTF8')),
      'hex')) end
$$;

-- The differences between two versions of a row: {field: {from, to}}.
create function private.changes(p_before jsonb, p_after jsonb) returns jsonb
language sql stable set search_path = '' as $$
  select coalesce(jsonb_object_agg(a.key, jsonb_build_object('from', private.audit_value(b.value), 'to',
    private.audit_value(a.value))), '{}')
  from jsonb_each(p_after) as a join jsonb_each(p_before) as b on b.key = a.key
  where a.value <> b.value and a.key <> 'updated_at'
$$;

-- Writes what the caller did to the audit log.
create function private.audit(
  p_org uuid, p_action text, p_target_kind text, p_target_id text, p_target_label text, p_detail jsonb default '{}'
) returns void
language plpgsql set search_path = '' as $$
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

-- ## the installation
-- Settings of the whole installation: one row. Only the service key can change it; no organisation can.
create type public.organization_makers as enum ('EVERYBODY', 'OWNERS');
comment on type public.organization_makers is
  'Who may create organisations: everybody who has an account · owners of one (and the first of all).';

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

create function private.organization_makers() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('who', i.organization_makers, 'may_create', i.organization_makers = 'EVERYBODY'
    or not exists (select from public.organizations)
    or exists (select from public.memberships as m where m.user_id = private.caller_id() and m.role = 'owner'))
  from private.installation as i where i.is_only
$$;
comment on function private.organization_makers is
  'Says who may make organisations on this installation, and whether the caller may.';
grant execute on function private.organization_makers to authenticated;

create function private.set_organization_makers(p_who public.organization_makers) returns jsonb
language plpgsql security definer set search_path = '' as $$
begin
  if p_who is null then
    perform private.fail('RY422', 'It is not set who may create organisations.', 'Pass EVERYBODY or OWNERS.');
  end if;
  update private.installation set organization_makers = p_who where is_only;
  perform private.audit(null, 'installation.organization_makers', 'installation', null, null,
    jsonb_build_object('who', p_who));
  return jsonb_build_object('who', p_who);
end;
$$;
comment on function private.set_organization_makers is
  'Says who may make organisations on this installation: EVERYBODY, or OWNERS of one. Service key only.';
grant execute on function private.set_organization_makers to service_role;

-- ## organisations and members

-- Acts of people on organisations: create, change, invite, accept, change a role, leave.
create function private.create_organization(p_name text, p_slug text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_org public.organizations;
begin
  if private.caller_id() is null then
    perform private.fail('RY403', 'Nobody is signed in.', 'Sign in and try again.');
  end if;
  perform private.need_person();
  if not (private.organization_makers() ->> 'may_create')::pg_catalog.bool then
    perform private.fail('RY403', 'Only people who own an organisation create new ones on this installation.',
      'Ask an owner to create it and to invite you.');
  end if;
  if (select count(*) from public.memberships where user_id = private.caller_id() and role = 'owner') >= 20 then
    perform private.fail('RY413', 'You own 20 organisations, which is the limit.',
      'Leave one that has another owner.');
  end if;
  if exists (select from private.ended_slugs as e where e.slug = lower(trim(p_slug))) then
    perform private.fail('RY409', format('The short name "%s" belonged to an organisation that was deleted.', p_slug),
      'Choose another one: clouds may still trust tokens with this name.');
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
      'A name has 1 to 100 characters; a short name has 2 to 39 lower-case letters, digits and single hyphens, '
      'and is no UUID.');
end;
$$;
comment on function private.create_organization is 'Creates an organisation; the caller becomes its owner.';
grant execute on function private.create_organization to authenticated;

create function private.update_organization(
  p_org uuid, p_name text default null, p_log_retention_days integer default null, p_can_approve_own_jobs boolean
  default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old pg_catalog.jsonb;
  v_org public.organizations;
begin
  perform private.need('organization.update', p_org);
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
      'A name has 1 to 100 characters; logs are kept for 1 to 400 days.');
end;
$$;
comment on function private.update_organization is
  'Changes an organisation''s name, how long it keeps logs, whether people may approve their own jobs. Owners.';
grant execute on function private.update_organization to authenticated;

-- Refuses to remove an organisation that still has something of its own.
create function private.refuse_contents(p_org uuid) returns void
language plpgsql stable set search_path = '' as $$
declare
  v_modules bigint := (select count(*) from public.modules where org_id = p_org and deleted_at is null);
  v_runners bigint := (select count(*) from public.workers where org_id = p_org and removed_at is null);
begin
  if v_modules + v_runners > 0 then
    perform private.fail('RY409',
      format('The organisation still has modules (%s) or runners (%s).', v_modules, v_runners),
      'Remove them first. Destroy the infrastructure of a module before you remove it, or it stays without a state.');
  end if;
end;
$$;

create function private.delete_organization(p_org uuid, p_confirm_slug text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_org public.organizations;
begin
  perform private.need('organization.delete', p_org);
  select * into v_org from public.organizations where id = p_org;
  if p_confirm_slug is distinct from v_org.slug then
    perform private.fail('RY422', 'The short name does not match.',
      format('Write "%s" to remove the organisation.', v_org.slug));
  end if;
  perform private.lock_routing(p_org, true);
  perform private.refuse_contents(p_org);
  -- The organisation's own log is removed with it: the installation keeps this one.
  perform private.audit(null, 'organization.deleted', 'organization', p_org::pg_catalog.text, v_org.slug,
    jsonb_build_object('by', private.caller_label(p_org)));
  insert into private.ended_slugs (slug) values (v_org.slug);
  update public.organizations set deleted_at = now() where id = p_org;
  update public.service_accounts set removed_at = now() where org_id = p_org and removed_at is null;
  delete from public.invitations where org_id = p_org;
  delete from public.memberships where org_id = p_org;
  return to_jsonb(v_org);
end;
$$;
comment on function private.delete_organization is
  'Removes an organisation without modules and runners, with its short name as confirmation. Owners.';
grant execute on function private.delete_organization to authenticated;

create function private.my_organizations() returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.need_proved();
  return (
    select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'slug', o.slug, 'name', o.name, 'role',
      m.role, 'sees', private.seen(o.id), 'verbs', array(select distinct v.verb from private.bindings_of(o.id,
        private.caller_id()) as b cross join unnest(private.verbs_of(o.id, b.role)) as v (verb)))
      order by o.name, o.id), '[]')
    from (
      select b.org_id, b.role from public.memberships as b where b.user_id = private.caller_id()
      union all
      select a.org_id, private.role_of(a) from private.acting_account() as a where a.id is not null
    ) as m join public.organizations as o on o.id = m.org_id);
end;
$$;
comment on function private.my_organizations is
  'The caller''s organisations with their role in each, the prefixes that a guest sees (null: '
  'all), and the verbs that roles at paths add somewhere.';
grant execute on function private.my_organizations to authenticated;

-- ## invitations

-- Refuses a member without a role.
create function private.check_role(p_role public.member_role) returns void
language plpgsql immutable set search_path = '' as $$
begin
  if p_role is null then
    perform private.fail('RY422', 'A member needs a role.', 'Choose owner, admin, operator, viewer or guest.');
  end if;
end;
$$;

create function private.invite_member(
  p_org uuid, p_email text, p_role public.member_role, p_token_hash text
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
begin
  perform private.need(case when p_role = 'owner' then 'member.own' else 'member.manage' end, p_org);
  perform private.check_role(p_role);
  if coalesce(p_token_hash, '') !~ '^[0-9a-f]{64}$' then
    perform private.fail('RY422', 'The hash of the link''s secret is not a SHA-256 in hex.');
  end if;
  -- One at a time for an address: the later invitation replaces the earlier one.
  perform pg_advisory_xact_lock(private.lock_key('invitation', p_org || lower(trim(p_email))));
  if exists (select from public.memberships where org_id = p_org and lower(email) = lower(trim(p_email))) then
    perform private.fail('RY409', format('%s is already a member.', trim(p_email)), 'Change their role instead.');
  end if;
  update public.invitations set revoked_at = now()
  where org_id = p_org and lower(email) = lower(trim(p_email)) and accepted_at is null and revoked_at is null;
  insert into public.invitations (org_id, email, role, invited_by)
  values (p_org, lower(trim(p_email)), p_role, private.caller_id()) returning * into v_invitation;
  insert into private.invitation_tokens (invitation_id, token_hash) values (v_invitation.id, p_token_hash);
  perform private.audit(p_org, 'member.invited', 'invitation', v_invitation.id::pg_catalog.text, v_invitation.email,
    jsonb_build_object('role', p_role));
  return to_jsonb(v_invitation);
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'That is not an email address.', 'Write it as name@example.org.');
end;
$$;
comment on function private.invite_member is
  'Invites an address; the caller made the link''s secret and sends only its SHA-256 (hex). Admins; owners for '
  'owners.';
grant execute on function private.invite_member to authenticated;

-- Finds an open invitation by its link's secret.
create function private.lock_invitation(p_invitation uuid, p_token_hash text) returns public.invitations
language plpgsql set search_path = '' as $$
declare
  v_invitation public.invitations;
begin
  select i.* into v_invitation
  from public.invitations as i join private.invitation_tokens as t on t.invitation_id = i.id
  where i.id = p_invitation and t.token_hash = p_token_hash and i.accepted_at is null and i.revoked_at is null
    and i.expires_at > now()
  for update of i;
  -- One message for wrong, used, withdrawn and expired: a guess must not learn which.
  if v_invitation.id is null then
    perform private.fail('RY404', 'This invitation is not valid, or no longer.', 'Ask for a new one.');
  end if;
  return v_invitation;
end;
$$;

create function private.invitation_offer(p_invitation uuid, p_token_hash text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations := private.lock_invitation(p_invitation, p_token_hash);
begin
  return jsonb_build_object('email', v_invitation.email, 'role', v_invitation.role,
    'expires_at', v_invitation.expires_at,
    'organization', (select o.name from public.organizations as o where o.id = v_invitation.org_id),
    'invited_by', (select m.email from public.memberships as m
      where m.org_id = v_invitation.org_id and m.user_id = v_invitation.invited_by));
end;
$$;
comment on function private.invitation_offer is
  'What an invitation offers to the person who has its link: organisation, role, address and inviter.';
grant execute on function private.invitation_offer to service_role;

create function private.accept_invitation(p_invitation uuid, p_token_hash text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
  v_member public.memberships;
begin
  perform private.need_person();
  v_invitation := private.lock_invitation(p_invitation, p_token_hash);
  if v_invitation.email <> lower(coalesce(private.jwt() ->> 'email', '')) then
    perform private.fail('RY403', 'This invitation is for another email address.',
      'Sign in with the address that was invited.');
  end if;
  insert into public.memberships (org_id, user_id, email, role)
  values (v_invitation.org_id, private.caller_id(), v_invitation.email, v_invitation.role)
  on conflict (org_id, user_id) do update set email = excluded.email returning * into v_member;
  update public.invitations set accepted_at = now() where id = p_invitation;
  perform private.audit(v_invitation.org_id, 'member.joined', 'member', private.caller_id()::pg_catalog.text,
    v_invitation.email, jsonb_build_object('role', v_member.role));
  return to_jsonb(v_member);
end;
$$;
comment on function private.accept_invitation is
  'Accepts an invitation: the link''s secret (as SHA-256) and the invited email address must both match.';
grant execute on function private.accept_invitation to authenticated;

create function private.revoke_invitation(p_invitation uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
begin
  select * into v_invitation from public.invitations where id = p_invitation
    and org_id in (select private.my_org_ids('module.read'));
  if v_invitation.id is null then
    perform private.fail('RY404', 'There is no such invitation.');
  end if;
  perform private.need('member.manage', v_invitation.org_id);
  update public.invitations set revoked_at = now()
  where id = p_invitation and accepted_at is null and revoked_at is null returning * into v_invitation;
  if not found then
    perform private.fail('RY409', 'This invitation was already accepted or withdrawn.');
  end if;
  perform private.audit(v_invitation.org_id, 'invitation.revoked', 'invitation', p_invitation::pg_catalog.text,
    v_invitation.email);
  return to_jsonb(v_invitation);
end;
$$;
comment on function private.revoke_invitation is 'Withdraws an invitation. Admins.';
grant execute on function private.revoke_invitation to authenticated;

-- ## members

-- Locks the organisation and one membership for a change.
create function private.lock_member(p_org uuid, p_user uuid) returns public.memberships
language plpgsql set search_path = '' as $$
declare
  v_member public.memberships;
begin
  -- Two owners who demote each other at once must not leave the organisation without one.
  perform from public.organizations where id = p_org for update;
  select * into v_member from public.memberships where org_id = p_org and user_id = p_user for update;
  if v_member.user_id is null then
    perform private.fail('RY404', 'That person is not a member.');
  end if;
  return v_member;
end;
$$;

-- Refuses to leave an organisation without an owner.
create function private.keep_an_owner(p_org uuid) returns void
language plpgsql set search_path = '' as $$
begin
  if not exists (select from public.memberships where org_id = p_org and role = 'owner') then
    perform private.fail('RY409', 'An organisation needs an owner.', 'Make somebody else an owner first.');
  end if;
end;
$$;

create function private.set_member_role(p_org uuid, p_user uuid, p_role public.member_role) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_member public.memberships;
begin
  perform private.need('member.manage', p_org);
  perform private.check_role(p_role);
  v_member := private.lock_member(p_org, p_user);
  -- Again, because the caller's own role may have changed while they waited.
  perform private.need(case when 'owner' in (v_member.role, p_role) then 'member.own' else 'member.manage' end, p_org);
  update public.memberships set role = p_role where org_id = p_org and user_id = p_user;
  perform private.keep_an_owner(p_org);
  perform private.audit(p_org, 'member.role_changed', 'member', p_user::pg_catalog.text, v_member.email,
    jsonb_build_object('from', v_member.role, 'to', p_role));
  return to_jsonb(v_member) || jsonb_build_object('role', p_role);
end;
$$;
comment on function private.set_member_role is 'Changes a member''s role. Admins; only owners make or unmake owners.';
grant execute on function private.set_member_role to authenticated;

create function private.remove_member(p_org uuid, p_user uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_member public.memberships;
  -- Everybody may leave.
  v_verb pg_catalog.text := case when p_user = private.caller_id() then 'organization.read' else 'member.manage' end;
begin
  perform private.need(v_verb, p_org);
  v_member := private.lock_member(p_org, p_user);
  -- Again, because the caller's own role may have changed while they waited.
  perform private.need(case when v_member.role = 'owner' then 'member.own' else v_verb end, p_org);
  -- Before the membership is removed: it has the name under which the log shows somebody who leaves.
  perform private.audit(p_org, 'member.removed', 'member', p_user::pg_catalog.text, v_member.email);
  delete from public.memberships where org_id = p_org and user_id = p_user;
  perform private.keep_an_owner(p_org);
  return to_jsonb(v_member);
end;
$$;
comment on function private.remove_member is
  'Removes a member; everybody may leave. Admins; only owners remove owners.';
grant execute on function private.remove_member to authenticated;

create function private.member_sign_ins(p_org uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.need('member.manage', p_org);
  return (
    select coalesce(jsonb_agg(jsonb_build_object('user_id', m.user_id, 'email', m.email, 'has_two_step', exists (
      select from auth.mfa_factors as f where f.user_id = m.user_id and f.status = 'verified'),
      'last_sign_in_at', u.last_sign_in_at) order by m.email), '[]')
    from public.memberships as m join auth.users as u on u.id = m.user_id where m.org_id = p_org);
end;
$$;
comment on function private.member_sign_ins is
  'Which members have two-step sign-in, and when each last signed in. Admins.';
grant execute on function private.member_sign_ins to authenticated;
