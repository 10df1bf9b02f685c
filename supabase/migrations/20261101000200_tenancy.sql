-- Tenancy: organisations, their members and roles, invitations, and the audit log.
-- Every later table carries org_id. A member sees the rows of the organisations of which they are a member and no
-- other; the list of those organisations is computed once per statement (`any(array(select …))`), not once per row.
-- Bodies are definers in `private`; the thin wrappers that run as the caller are all in the api files at the end.
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
comment on column public.organizations.maintenance_reason is 'Why, as members read it.';
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
comment on column public.memberships.email is 'The person''s e-mail address when they joined.';
create trigger ring after insert or update
  or delete on public.memberships for each row execute function private.ring_changed_row();

create table public.invitations (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  email text not null check (email ~ '^[^@\s]+@[^@\s]+$'),
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
  'Invitations by e-mail address. The secret of the link is not here; its hash is in private.';
comment on column public.invitations.invited_by is 'The member who invited.';
comment on column public.invitations.expires_at is 'After this it can no longer be accepted.';
create trigger ring after insert or update
  or delete on public.invitations for each row execute function private.ring_changed_row();

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
comment on column public.audit_events.actor_kind is 'What kind of actor.';
comment on column public.audit_events.actor_id is 'The actor''s id.';
comment on column public.audit_events.actor_label is 'The actor''s name at that time.';
comment on column public.audit_events.action is 'What was done, as noun.verb: worker.drained.';
comment on column public.audit_events.target_kind is 'What kind of thing it was done to.';
comment on column public.audit_events.target_id is 'Which one.';
comment on column public.audit_events.target_label is 'Its name at that time.';
comment on column public.audit_events.detail is 'What changed; never a secret.';

-- ---------------------------------------------------------------------------------------------- who is a member

create function private.my_org_ids()
returns setof uuid
language plpgsql stable security definer
set search_path = ''
as $$
begin
  return query select m.org_id from public.memberships as m where m.user_id = private.caller_id();
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
  where m.user_id = private.caller_id() and m.role in ('owner', 'admin');
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
  return coalesce(nullif(current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb ? 'account_version', false);
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
end;
$$;
comment on function private.need_person() is 'Refuses a service account where somebody must answer for what is done.';

create function private.need_role(p_org uuid, p_role public.member_role)
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_caller pg_catalog.uuid := nullif(current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb ->> 'sub';
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
  v_caller pg_catalog.text := nullif(current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb ->> 'sub';
begin
  -- The address that was invited, not the one in the token: that one people can give themselves.
  return coalesce((select m.email from public.memberships as m where m.org_id = p_org
    and m.user_id = v_caller::pg_catalog.uuid),
    case when private.is_account() then (private.acting_account()).name end, v_caller, 'system');
end;
$$;
comment on function private.caller_label(uuid) is
  'What records of an organisation call the caller: the member''s e-mail address, the service account''s name, else '
  'the id, else "system".';

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
  v_claims pg_catalog.jsonb := nullif(current_setting('request.jwt.claims', true), '');
begin
  insert into public.audit_events (org_id, actor_kind, actor_id, actor_label, action, target_kind, target_id,
    target_label, detail)
  values (
    p_org,
    private.caller_kind(),
    (v_claims ->> 'sub')::pg_catalog.uuid, private.caller_label(p_org), p_action, p_target_kind, p_target_id,
      p_target_label,
    coalesce(p_detail, '{}')
  );
end;
$$;
comment on function private.audit(uuid, text, text, text, text, jsonb) is
  'Writes what the caller did to the audit log.';

revoke execute on all functions in schema private from public;
