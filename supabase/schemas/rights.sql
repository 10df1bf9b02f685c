-- Rights: who may do what at which path. A member's role counts in the whole organisation. A binding adds a role to a
-- member, a team or a service account at one path and everything below it. Rights add up; nothing takes one away below.

-- The verbs of each built-in role. A planner and an approver read, and do one thing more.
create view private.role_verbs as
select
  r.role::text as role,
  v.verb
from private.verbs as v cross join unnest(enum_range(null::public.member_role)) as r (role)
where r.role <= v.least_role
union all
select
  r.role,
  v.verb
from (values ('planner', 'job.plan'), ('approver', 'job.approve')) as r (role, verb)
inner join private.verbs as v on v.least_role >= 'viewer' or v.verb = r.verb;
comment on view private.role_verbs is 'What each built-in role may do.';

create table public.roles (
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (name ~ '^[a-z][a-z0-9-]{0,38}[a-z0-9]$'),
  description text not null default '' check (length(description) <= 500),
  verbs text[] not null check (cardinality(verbs) between 1 and 100),
  created_at timestamptz not null default now(),
  primary key (org_id, name)
);
comment on table public.roles is 'Roles that an organisation made: a name for a set of verbs.';

create table public.teams (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (name ~ '^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?$'),
  claim text check (length(claim) between 1 and 255),
  created_at timestamptz not null default now()
);
create unique index teams_claim_idx on public.teams (org_id, claim);
create unique index teams_name_idx on public.teams (org_id, lower(name));
comment on table public.teams is 'Groups of members that get roles together.';
comment on column public.teams.claim is
  'The group at the organisation''s identity provider whose people are in it; null: members are put in by hand.';

-- The key to the membership removes a person from every team when they leave the organisation.
create table public.team_members (
  team_id uuid not null references public.teams (id) on delete cascade,
  org_id uuid not null,
  user_id uuid not null,
  added_at timestamptz not null default now(),
  is_claimed boolean not null default false,
  primary key (team_id, user_id),
  foreign key (org_id, user_id) references public.memberships (org_id, user_id) on delete cascade
);
create index team_members_user_id_idx on public.team_members (org_id, user_id);
comment on table public.team_members is 'Which member is in which team.';
comment on column public.team_members.is_claimed is
  'Whether a claim of the identity provider did it; it counts while the provider has confirmed the person lately.';

create table public.role_bindings (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null check (path = '' or private.is_path(path)),
  role text not null check (role <> 'owner'),
  user_id uuid,
  team_id uuid references public.teams (id) on delete cascade,
  account_id uuid references public.service_accounts (id) on delete cascade,
  created_by uuid,
  created_at timestamptz not null default now(),
  check (num_nonnulls(user_id, team_id, account_id) = 1),
  foreign key (org_id, user_id) references public.memberships (org_id, user_id) on delete cascade
);
create unique index role_bindings_subject_idx on public.role_bindings
  (org_id, coalesce(user_id, team_id, account_id), path, role);
create index role_bindings_user_id_idx on public.role_bindings (org_id, user_id);
create index role_bindings_team_id_idx on public.role_bindings (team_id);
create index role_bindings_account_id_idx on public.role_bindings (account_id);
comment on table public.role_bindings is
  'Roles beside those of the memberships: a member, a team or a service account has a role at a path and below.';
comment on column public.role_bindings.role is 'A built-in role or one of the organisation''s own; never owner.';

-- ## who may do what
-- The verbs of a role, of which each reads; none for a name that means nothing.
create function private.verbs_of(p_org uuid, p_role text) returns text[] language sql stable as $$
  select coalesce((select r.verbs || array(select v.verb from private.role_verbs as v where v.role = 'viewer')
      from public.roles as r where r.org_id = p_org and r.name = p_role),
    (select array_agg(v.verb) from private.role_verbs as v where v.role = p_role), '{}')
$$;

-- The bindings of a member or a service account, and those of the member's teams. Teams by
-- claim count while the provider has confirmed the person lately.
create function private.bindings_of(p_org uuid, p_subject uuid) returns setof public.role_bindings
language sql stable as $$
  select b.* from public.role_bindings as b
  where b.org_id = p_org and (p_subject in (b.user_id, b.account_id) or b.team_id in (
    select t.team_id from public.team_members as t where t.org_id = p_org and t.user_id = p_subject
      and (not t.is_claimed or private.is_confirmed(p_org, p_subject))))
$$;

-- The bindings by which somebody may do this at a path; for an act on the organisation itself, those at the top.
create function private.bindings_for(p_verb text, p_org uuid, p_path text, p_subject uuid)
returns setof public.role_bindings language sql stable as $$
  select b.* from private.bindings_of(p_org, p_subject) as b
  where private.is_at_or_below(coalesce(p_path, ''), b.path) and p_verb = any (private.verbs_of(p_org, b.role))
$$;

-- The organisations in which the caller may do this. No error: Realtime evaluates every subscriber's policies at once.
create function private.my_org_ids(p_verb text default 'organization.read') returns setof uuid
language plpgsql stable security definer set search_path = '' as $$
declare
  v_least public.member_role := private.least_role(p_verb);
begin
  return query select m.org_id from public.memberships as m
  where m.user_id = private.caller_id() and private.is_proved() and private.token_allows(p_verb)
    and private.is_admitted(m.org_id)
    and (m.role <= v_least or exists (select from private.bindings_for(p_verb, m.org_id, '', m.user_id)));
  if not found then
    return query select a.org_id from private.acting_account() as a where private.role_of(a) <= v_least
      or exists (select from private.bindings_for(p_verb, a.org_id, '', a.id));
  end if;
end;
$$;

-- The prefixes of a guest: the paths at which they have a role, each written as organisation:path. Other members see
-- their whole organisation and need none.
create function private.my_prefixes() returns setof text
language plpgsql stable security definer set search_path = '' as $$
begin
  return query select b.org_id || ':' || b.path from (
    select m.org_id, m.user_id as id from public.memberships as m
    where m.user_id = private.caller_id() and m.role > 'viewer' and private.is_proved()
      and private.is_admitted(m.org_id)
    union all
    select a.org_id, a.id from private.acting_account() as a where private.role_of(a) > 'viewer') as g
  cross join lateral private.bindings_of(g.org_id, g.id) as b order by 1;
end;
$$;

-- Whether a path of an organisation is among these prefixes or below one; without prefixes everything is.
create function private.is_seen(p_org uuid, p_path text, p_seen text[]) returns boolean language plpgsql stable as $$
begin
  return p_seen is null or exists (select from unnest(p_seen) as s (above)
    where p_org || ':' || p_path = s.above or starts_with(p_org || ':' || p_path, s.above || '/'));
end;
$$;

-- The prefixes of a member of this organisation; null for one who sees all of it.
create function private.seen(p_org uuid) returns text[] language plpgsql stable as $$
begin
  if private.my_role(p_org) <= 'viewer' or p_org in (select private.my_org_ids('module.read')) then
    return null;
  end if;
  return array(select private.my_prefixes());
end;
$$;

-- Whether the caller sees what is at a path; what has no path, only those who see the whole organisation.
create function private.may_see(p_org uuid, p_path text) returns boolean language plpgsql stable as $$
begin
  return p_org in (select private.my_org_ids()) and private.is_seen(p_org, p_path, private.seen(p_org));
end;
$$;

-- The path of a module as the caller may read it: texts about other modules name it.
create function private.shown_path(p_org uuid, p_path text) returns text language plpgsql stable as $$
begin
  return case when private.caller_kind() = 'system' or private.may_see(p_org, p_path) then p_path
    else 'a module you may not see' end;
end;
$$;
create policy "Members see their organisations" on public.organizations
  for select to authenticated using (id = any(array(select private.my_org_ids())));
create policy "Admins read the audit log" on public.audit_events
  for select to authenticated using (org_id = any(array(select private.my_org_ids('audit.read'))));

create policy "Members see their organisation's own roles" on public.roles
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));

-- Whether a member may do this at a path: by the role of the membership, or by a binding.
create function private.may(p_verb text, p_org uuid, p_path text, p_user uuid) returns boolean language sql stable as $$
  select exists (select from public.memberships as m where m.org_id = p_org and m.user_id = p_user
    and (m.role <= private.least_role(p_verb)
      or exists (select from private.bindings_for(p_verb, p_org, p_path, p_user))))
$$;

-- The same for a service account.
create function private.account_may(p_verb text, p_org uuid, p_path text, p_account uuid) returns boolean
language sql stable as $$
  select exists (select from public.service_accounts as a where a.org_id = p_org and a.id = p_account
    and a.removed_at is null and not a.is_disabled and (a.role <= private.least_role(p_verb)
      or exists (select from private.bindings_for(p_verb, p_org, p_path, p_account))))
$$;

-- Whether a member may do this somewhere in the organisation.
create function private.may_anywhere(p_verb text, p_org uuid, p_user uuid) returns boolean language sql stable as $$
  select private.may(p_verb, p_org, '', p_user) or exists (
    select from private.bindings_of(p_org, p_user) as b where p_verb = any (private.verbs_of(p_org, b.role)))
$$;

-- Refuses the caller who may do this nowhere in the organisation; the paths are checked once they are known.
create function private.need_anywhere(p_verb text, p_org uuid) returns void language sql stable as $$
  select private.need(p_verb, p_org) where not private.may_anywhere(p_verb, p_org, private.caller_id())
$$;

-- The members and teams that may do this at a path, for a person who may not: at most five names.
create function private.holders(p_verb text, p_org uuid, p_path text) returns text language sql stable as $$
  with holder as (
    select 1 as place, 'the team ' || t.name as name from public.role_bindings as b
      join public.teams as t on t.id = b.team_id
    where b.org_id = p_org and private.is_at_or_below(coalesce(p_path, ''), b.path)
      and p_verb = any (private.verbs_of(p_org, b.role))
    union
    select 2, m.email from public.memberships as m
    where m.org_id = p_org and (m.role <= private.least_role(p_verb) or exists (
      select from public.role_bindings as b where b.org_id = p_org and b.user_id = m.user_id
        and private.is_at_or_below(coalesce(p_path, ''), b.path)
        and p_verb = any (private.verbs_of(p_org, b.role))))
  ), named as (select h.name, h.place, row_number() over (order by h.place, h.name) as n, count(*) over () as total
    from holder as h)
  select string_agg(n.name, ', ' order by n.n) || case when max(n.total) > 5 then format(' and %s more', max(n.total)
    - 5) else '' end || case when max(n.total) = 1 then ' has it.' else ' have it.' end
  from named as n where n.n <= 5
$$;

-- ## giving and taking
-- Refuses the caller unless they may grant roles at a path and have every one of these verbs there themselves.
create function private.need_to_grant(p_org uuid, p_path text, p_verbs text[]) returns void language sql stable as $$
  select private.need('role.grant', p_org, p_path);
  select private.need(v.verb, p_org, p_path) from unnest(p_verbs) as v (verb)
$$;

-- Refuses the caller unless they have every verb of this role in the whole organisation, and of these bindings where
-- they count: a person who gives a role, or changes how an account signs in, may act with it.
create function private.need_verbs_of(p_org uuid, p_role text, p_bindings public.role_bindings[] default '{}')
returns void language sql stable as $$
  select private.need(v.verb, p_org, g.path) from (
    select null as path, p_role as role union all select b.path, b.role from unnest(p_bindings) as b) as g
  cross join lateral unnest(private.verbs_of(p_org, g.role)) as v (verb)
$$;

-- The name of a member, a team or a service account of the organisation; refuses anything else.
create function private.subject_name(p_org uuid, p_kind text, p_id uuid, out v_name text) language plpgsql stable as $$
begin
  v_name := case p_kind
    when 'member' then (select m.email from public.memberships as m where m.org_id = p_org and m.user_id = p_id)
    when 'team' then (select t.name from public.teams as t where t.org_id = p_org and t.id = p_id)
    when 'account' then (select a.name from public.service_accounts as a where a.org_id = p_org and a.id = p_id
      and a.removed_at is null) end;
  perform private.fail('RY404', 'There is no such member, team or service account.',
    'Send the kind (member, team or account) and the id.') where v_name is null;
end;
$$;

create function private.grant_role(p_org uuid, p_path text, p_role text, p_kind text, p_subject uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_binding public.role_bindings;
  v_name pg_catalog.text;
  v_verbs pg_catalog.text[] := private.verbs_of(p_org, p_role);
begin
  perform private.need('role.grant', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.fail('RY404', format('There is no role "%s".', left(p_role, 100)),
    'List them with list_roles, or under Settings → Roles.') where v_verbs = '{}' or p_role = 'guest';
  perform private.need_to_grant(p_org, p_path, v_verbs);
  v_name := private.subject_name(p_org, p_kind, p_subject);
  insert into public.role_bindings (org_id, path, role, user_id, team_id, account_id, created_by)
  values (p_org, p_path, p_role, case p_kind when 'member' then p_subject end,
    case p_kind when 'team' then p_subject end, case p_kind when 'account' then p_subject end, private.caller_id())
  returning * into v_binding;
  perform private.audit(p_org, 'access.granted', p_kind, p_subject::pg_catalog.text, v_name,
    jsonb_build_object('role', p_role, 'path', p_path));
  return to_jsonb(v_binding);
exception
  when unique_violation then
    perform private.fail('RY409', format('%s is %s there already.', v_name, p_role), 'Nothing is left to do.');
  when check_violation then
    perform private.fail('RY422', 'An owner is made under Settings → Members, for the whole organisation.',
      'Choose another role.');
end;
$$;
comment on function private.grant_role is
  'Gives a member, team or service account a role at a path; the caller needs each of its verbs there. Admins.';

create function private.revoke_role(p_binding uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_binding public.role_bindings;
begin
  select * into v_binding from public.role_bindings where id = p_binding and private.may_see(org_id, path) for update;
  perform private.fail('RY404', 'There is no such access.', 'It may have been taken away meanwhile.')
  where v_binding.id is null;
  perform private.need('role.grant', v_binding.org_id, v_binding.path);
  delete from public.role_bindings where id = p_binding;
  perform private.audit(v_binding.org_id, 'access.revoked',
    case when v_binding.user_id is not null then 'member' when v_binding.team_id is not null then 'team'
      else 'account' end, coalesce(v_binding.user_id, v_binding.team_id, v_binding.account_id)::pg_catalog.text,
    private.binding_name(v_binding), jsonb_build_object('role', v_binding.role, 'path', v_binding.path));
  return to_jsonb(v_binding);
end;
$$;
comment on function private.revoke_role is 'Takes a role away that was given at a path. Admins.';

create function private.binding_name(p_binding public.role_bindings) returns text language sql stable as $$
  select coalesce(
    (select m.email from public.memberships as m where m.org_id = p_binding.org_id and m.user_id = p_binding.user_id),
    (select t.name from public.teams as t where t.id = p_binding.team_id),
    (select a.name from public.service_accounts as a where a.id = p_binding.account_id))
$$;

-- ## who has access
create function private.list_access(p_org uuid, p_path text) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org, p_path);
  select private.need('module.read', p_org, p_path);
  select private.need_target(p_org, p_path);
  select (
    select coalesce(jsonb_agg(to_jsonb(a) order by length(a.path) desc nulls last, a.kind, a.name, a.role), '[]') from (
      select b.id, case when b.user_id is not null then 'member' when b.team_id is not null then 'team'
          else 'account' end as kind, coalesce(b.user_id, b.team_id, b.account_id) as subject_id,
        private.binding_name(b) as name, b.role, b.path, b.created_at,
        (select count(*) from public.team_members as t where t.team_id = b.team_id) as members
      from public.role_bindings as b
      where b.org_id = p_org and private.is_at_or_below(p_path, b.path) and private.is_seen(p_org, b.path, n.seen)
      union all
      select null, 'member', m.user_id, m.email, m.role::pg_catalog.text, '', m.created_at, 0
      from public.memberships as m where m.org_id = p_org and n.seen is null
      union all
      select null, 'account', s.id, s.name, s.role::pg_catalog.text, '', s.created_at, 0
      from public.service_accounts as s where s.org_id = p_org and s.removed_at is null and s.role is not null
        and n.seen is null
    ) as a)
  from private.seen(p_org) as n (seen)
$$;
comment on function private.list_access is
  'Who has which role at a path, and where it was given: [{kind, subject_id, name, role, path, id}]; without an id it '
  'is the role of a membership or an account in the whole organisation. Members.';

create function private.explain_access(p_org uuid, p_path text, p_verb text, p_user uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_name pg_catalog.text;
  v_why pg_catalog.text[];
begin
  perform private.need('module.read', p_org, p_path);
  v_name := private.subject_name(p_org, 'member', p_user);
  perform private.need_target(p_org, p_path);
  perform private.fail('RY404', format('There is no verb "%s".', left(p_verb, 100)),
    'They are listed in the permissions reference, such as job.plan.')
  where not exists (select from private.verbs as v where v.verb = p_verb);
  v_why := array(
    select format('%s in the whole organisation', m.role) from public.memberships as m
    where m.org_id = p_org and m.user_id = p_user and m.role <= private.least_role(p_verb)
    union all
    select format('%s at %s', b.role, coalesce(nullif(b.path, ''), 'the top'))
      || coalesce(' through the team ' || (select t.name from public.teams as t where t.id = b.team_id), '')
    from private.bindings_for(p_verb, p_org, p_path, p_user) as b);
  return jsonb_build_object('may', v_why <> '{}', 'why', v_why, 'words', case when v_why = '{}'
    then format('%s may not %s at %s. %s', v_name, p_verb, coalesce(nullif(p_path, ''), 'the top'),
      private.holders(p_verb, p_org, p_path))
    else format('%s may %s at %s: %s.', v_name, p_verb, coalesce(nullif(p_path, ''), 'the top'),
      array_to_string(v_why, '; ')) end);
end;
$$;
comment on function private.explain_access is 'Whether a member may do this at a path: {may, why, words}. Members.';

create function private.my_verbs(p_org uuid, p_path text) returns text[]
language sql stable security definer set search_path = '' as $$
  select private.need('organization.read', p_org, p_path);
  select array(select v.verb from private.verbs as v where private.is_allowed(v.verb, p_org, p_path) order by v.verb)
$$;
comment on function private.my_verbs is 'What the caller may do at a path. Members.';

-- ## teams
create function private.create_team(p_org uuid, p_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_team public.teams;
begin
  perform private.need('member.manage', p_org);
  insert into public.teams (org_id, name) values (p_org, trim(p_name)) returning * into v_team;
  return private.audited(to_jsonb(v_team), 'team.created', v_team.name);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a team "%s".', trim(p_name)), 'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A team''s name has 1 to 63 letters, digits, spaces, dots, hyphens and underscores.',
      'It begins and ends with a letter or a digit.');
end;
$$;
comment on function private.create_team is 'Creates a team without members. Admins.';

-- A team that the caller may change, locked.
create function private.my_team(p_team uuid, out v_team public.teams) language plpgsql as $$
begin
  select * into v_team from public.teams where id = p_team
    and org_id in (select private.my_org_ids('module.read')) for update;
  perform private.fail('RY404', 'There is no such team.') where v_team.id is null;
  perform private.need('member.manage', v_team.org_id);
end;
$$;

create function private.delete_team(p_team uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.my_team(p_team);
  with gone as (delete from public.teams where id = p_team returning *)
  select private.audited(to_jsonb(g), 'team.deleted', g.name) from gone as g
$$;
comment on function private.delete_team is 'Deletes a team, with the roles that it has. Admins.';

create function private.set_team_member(p_team uuid, p_user uuid, p_is_member boolean) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_team public.teams := private.my_team(p_team);
  v_name pg_catalog.text := private.subject_name(v_team.org_id, 'member', p_user);
begin
  if p_is_member then
    -- A person who joins gets all that the team has.
    perform private.need_to_grant(v_team.org_id, b.path, private.verbs_of(v_team.org_id, b.role))
    from public.role_bindings as b where b.team_id = p_team;
    insert into public.team_members (team_id, org_id, user_id) values (p_team, v_team.org_id, p_user)
    on conflict (team_id, user_id) do update set is_claimed = false;
  else
    delete from public.team_members where team_id = p_team and user_id = p_user;
  end if;
  return private.audited(to_jsonb(v_team), case when p_is_member then 'team.member_added' else 'team.member_removed'
    end, v_team.name, jsonb_build_object('member', v_name));
end;
$$;
comment on function private.set_team_member is
  'Puts a member into a team or takes them out; the caller needs every verb that the team has. Admins.';

-- ## own roles
create function private.list_roles(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('organization.read', p_org);
  select jsonb_agg(to_jsonb(r) order by r.is_own, cardinality(r.verbs) desc, r.name) from (
    select v.role as name, '' as description, array_agg(v.verb order by v.verb) as verbs, false as is_own
    from private.role_verbs as v group by v.role
    union all
    select o.name, o.description, o.verbs, true from public.roles as o where o.org_id = p_org) as r
$$;
comment on function private.list_roles is
  'The roles of an organisation with their verbs, built-in ones first: [{name, description, verbs, is_own}]. Members.';

create function private.set_role(p_org uuid, p_name text, p_verbs text[], p_description text default '') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_role public.roles;
begin
  perform private.fail('RY422', format('A role cannot have: %s.', coalesce(left(string_agg(w.verb, ', '), 200),
    'no verb at all')), 'Choose from list_roles; what only owners may do stays theirs.')
  from unnest(p_verbs) as w (verb)
  where not exists (select from private.verbs as v where v.verb = w.verb and v.least_role <> 'owner')
  having count(w.verb) > 0 or coalesce(cardinality(p_verbs), 0) = 0;
  perform private.need_to_grant(p_org, '', p_verbs);
  perform private.fail('RY409', format('"%s" is a built-in role.', p_name), 'Choose another name.')
  where exists (select from private.role_verbs as v where v.role = p_name);
  insert into public.roles (org_id, name, verbs, description)
  values (p_org, p_name, array(select distinct v from unnest(p_verbs) as v order by v), coalesce(p_description, ''))
  on conflict (org_id, name) do update set verbs = excluded.verbs, description = excluded.description
  returning * into v_role;
  perform private.audit(p_org, 'role.set', 'role', p_name, p_name, jsonb_build_object('verbs', v_role.verbs));
  return to_jsonb(v_role);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'A role''s name has 2 to 40 lower-case letters, digits and hyphens.',
    'It begins with a letter; a description has at most 500 characters.');
end;
$$;
comment on function private.set_role is
  'Creates or changes a role: a name for verbs, each of which the caller has in the whole organisation. Admins.';

create function private.delete_role(p_org uuid, p_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_role public.roles;
begin
  perform private.need('role.grant', p_org);
  select * into v_role from public.roles where org_id = p_org and name = p_name for update;
  perform private.fail('RY404', format('There is no own role "%s".', left(p_name, 100))) where v_role.name is null;
  perform private.fail('RY409', format('Somebody has the role "%s".', p_name), 'Take it away from them first.')
  where exists (select from public.role_bindings as b where b.org_id = p_org and b.role = p_name);
  delete from public.roles where org_id = p_org and name = p_name;
  perform private.audit(p_org, 'role.deleted', 'role', p_name, p_name);
  return to_jsonb(v_role);
end;
$$;
comment on function private.delete_role is 'Deletes a role of the organisation that nobody has. Admins.';

-- Whether the caller may do this at a path: by their role in the organisation, or by a binding there or above.
create function private.is_allowed(p_verb text, p_org uuid, p_path text) returns boolean language plpgsql stable as $$
begin
  return private.token_allows(p_verb, p_path) and (private.my_role(p_org) <= private.least_role(p_verb)
    or exists (select from private.bindings_for(p_verb, p_org, p_path, private.caller_id())));
end;
$$;

-- Refuses the caller unless they may do this in the organisation, at this path. Every public call asks it. An act on
-- the organisation itself names no path.
create function private.need(p_verb text, p_org uuid, p_path text default null) returns void
language plpgsql stable as $$
declare
  v_role public.member_role := private.my_role(p_org);
begin
  if v_role is null then
    perform private.fail('RY403', format('%s is entered through %s only.', o.name, p.name),
      format('Sign out, and sign in with %s.', p.name))
    from public.memberships as m join public.organizations as o on o.id = m.org_id
    join private.sign_in_providers as p on p.org_id = m.org_id
    where m.org_id = p_org and m.user_id = private.caller_id() and private.is_proved();
    -- A stranger learns nothing about what exists: a foreign organisation and a missing one look the same.
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
  perform private.fail('RY403', format('This personal token may not %s %s.', p_verb,
    coalesce('at ' || nullif(p_path, ''), 'in the whole organisation')),
    'Use a token with a wider role or path; they are created under Account.')
  where not private.token_allows(p_verb, p_path);
end;
$$;

-- Refuses a path that the caller does not see like one that does not exist.
create function private.need_seen(p_org uuid, p_path text default '', out v_seen text[]) language plpgsql stable as $$
begin
  perform private.need('organization.read', p_org);
  v_seen := private.seen(p_org);
  perform private.fail('RY404', 'There is no such module or group.',
    'Write its whole path, such as platform/network; "" is all modules.')
  where p_path <> '' and not private.is_seen(p_org, p_path, v_seen);
end;
$$;

-- Refuses a path at which there is neither a module nor a group.
create function private.need_target(p_org uuid, p_path text) returns void language sql stable as $$
  select private.fail('RY422', 'Name a module or a group.',
    'Write its whole path, such as platform/network; "" is all modules.') where p_path is null;
  select private.fail('RY404', format('There is no module or group "%s".', left(p_path, 200)),
    'Write its whole path, such as platform/network; "" is all modules.')
  where p_path <> '' and not exists (
    select from public.groups as g where g.org_id = p_org and g.path = p_path
    union all
    select from public.modules as m where m.org_id = p_org and m.path = p_path and m.deleted_at is null
  )
$$;
