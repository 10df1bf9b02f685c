-- Acts on organisations: make, change and remove them; invite members, change their roles, remove them; and a setting
-- of the installation, who may make organisations.

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
comment on table private.installation is 'What concerns the whole installation: one row.';
insert into private.installation default values;

create function private.organization_makers() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('who', i.organization_makers, 'may_create', i.organization_makers = 'EVERYBODY'
    or not exists (select from public.organizations)
    or exists (select from public.memberships as m where m.user_id = private.caller_id() and m.role = 'owner'))
  from private.installation as i where i.is_only
$$;
comment on function private.organization_makers is 'Who may make organisations here, and whether the caller may.';

create function private.set_organization_makers(p_who public.organization_makers) returns jsonb
language sql security definer set search_path = '' as $$
  select private.fail('RY422', 'It is not set who may create organisations.', 'Pass EVERYBODY or OWNERS.')
  where p_who is null;
  update private.installation set organization_makers = p_who where is_only;
  select private.audit(null, 'installation.organization_makers', 'installation', null, null,
    jsonb_build_object('who', p_who));
  select jsonb_build_object('who', p_who)
$$;
comment on function private.set_organization_makers is
  'Says who may make organisations on this installation: EVERYBODY, or OWNERS of one. Service key only.';

-- Acts of people on organisations: create, change, invite, accept, change a role, leave.
create function private.create_organization(p_name text, p_slug text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_org public.organizations;
begin
  perform private.fail('RY403', 'Nobody is signed in.', 'Sign in and try again.') where private.caller_id() is null;
  perform private.need_person();
  perform private.fail('RY403', 'Only people who own an organisation create new ones on this installation.',
    'Ask an owner to create it and to invite you.')
  where not (private.organization_makers() ->> 'may_create')::pg_catalog.bool;
  perform private.fail('RY413', 'You own 20 organisations, which is the limit.', 'Leave one that has another owner.')
  where (select count(*) from public.memberships where user_id = private.caller_id() and role = 'owner') >= 20;
  perform private.fail('RY409', format('The short name "%s" belonged to an organisation that was deleted.', p_slug),
    'Choose another one: clouds may still trust tokens with this name.')
  where exists (select from private.ended_slugs as e where e.slug = lower(trim(p_slug)));
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

create function private.update_organization(
  p_org uuid, p_name text default null, p_log_retention_days integer default null, p_can_approve_own_jobs boolean
  default null, p_time_limits jsonb default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_old pg_catalog.jsonb;
  v_org public.organizations;
begin
  perform private.need('organization.update', p_org);
  select to_jsonb(o) into v_old from public.organizations as o where o.id = p_org for no key update;
  update public.organizations set
    name = coalesce(trim(p_name), name), log_retention_days = coalesce(p_log_retention_days, log_retention_days),
    can_approve_own_jobs = coalesce(p_can_approve_own_jobs, can_approve_own_jobs),
    time_limits = coalesce(p_time_limits, time_limits)
  where id = p_org
  returning * into v_org;
  perform private.audit(p_org, 'organization.updated', 'organization', p_org::pg_catalog.text, v_org.name,
    jsonb_build_object('changes', private.changes(v_old, to_jsonb(v_org))));
  return to_jsonb(v_org);
exception when check_violation then
  perform private.fail('RY422', 'The name, the retention or a time limit is not valid.',
    'A name has 1 to 100 characters; logs are kept for 1 to 400 days; time limits are 1 to 604800 s for plan and '
    'apply, 1 to 600 s for hook.');
end;
$$;
comment on function private.update_organization is
  'Changes an organisation''s name, log retention, time limits, and whether people may approve their own jobs. Owners.';

create function private.delete_organization(p_org uuid, p_confirm_slug text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_org public.organizations;
begin
  perform private.need('organization.delete', p_org);
  select * into v_org from public.organizations where id = p_org;
  perform private.fail('RY422', 'The short name does not match.',
    format('Write "%s" to remove the organisation.', v_org.slug))
  where p_confirm_slug is distinct from v_org.slug;
  perform private.lock_routing(p_org, true);
  perform private.fail('RY409',
    format('The organisation still has modules (%s) or runners (%s).', c.modules, c.runners),
    'Remove them first. Destroy the infrastructure of a module before you remove it, or it stays without a state.')
  from (select (select count(*) from public.modules where org_id = p_org and deleted_at is null) as modules,
    (select count(*) from public.workers where org_id = p_org and removed_at is null) as runners) as c
  where c.modules + c.runners > 0;
  -- The organisation's own log is removed with it: the installation keeps this one.
  perform private.audit(null, 'organization.deleted', 'organization', p_org::pg_catalog.text, v_org.slug,
    jsonb_build_object('by', private.caller_label(p_org)));
  insert into private.ended_slugs (slug) values (v_org.slug);
  update public.organizations set deleted_at = now() where id = p_org;
  update public.service_accounts set removed_at = now() where org_id = p_org and removed_at is null;
  delete from private.sign_in_providers where org_id = p_org;
  delete from public.invitations where org_id = p_org;
  delete from public.memberships where org_id = p_org;
  return to_jsonb(v_org);
end;
$$;
comment on function private.delete_organization is
  'Removes an organisation without modules and runners, with its short name as confirmation. Owners.';

create function private.my_organizations() returns jsonb language sql stable security definer set search_path = '' as $$
  select private.need_proved();
  select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'slug', o.slug, 'name', o.name, 'role',
    m.role, 'is_last', exists (select from private.last_organizations as l where l.org_id = o.id
      and l.user_id = private.caller_id()), 'sees', private.seen(o.id), 'verbs', array(select distinct v.verb
      from private.bindings_of(o.id, private.caller_id()) as b
      cross join unnest(private.verbs_of(o.id, b.role)) as v (verb)), 'without', (select p.name
      from private.sign_in_providers as p where p.org_id = o.id and p.is_only
        and p.break_glass = private.caller_id() and not private.entered_through(p.provider)))
    order by o.name, o.id), '[]')
  from (
    select b.org_id, b.role from public.memberships as b where b.user_id = private.caller_id()
    union all
    select a.org_id, private.role_of(a) from private.acting_account() as a where a.id is not null
  ) as m join public.organizations as o on o.id = m.org_id
$$;
comment on function private.my_organizations is
  'The caller''s organisations with their role in each, which one was opened last, the prefixes that a guest sees '
  '(null: all), the verbs that roles at paths add somewhere, and without which provider a break-glass owner came in.';

create function private.open_organization(p_org uuid) returns void
language sql security definer set search_path = '' as $$
  select private.need('organization.read', p_org);
  insert into private.last_organizations (user_id, org_id)
  select m.user_id, m.org_id from public.memberships as m where m.org_id = p_org and m.user_id = private.caller_id()
  on conflict (user_id) do update set org_id = excluded.org_id
$$;
comment on function private.open_organization is 'Notes which organisation the caller opened last. Members.';

create function private.check_role(p_role public.member_role) returns void language sql immutable as $$
  select private.fail('RY422', 'A member needs a role.', 'Choose owner, admin, operator, viewer or guest.')
  where p_role is null
$$;

create function private.invite_member(p_org uuid, p_email text, p_role public.member_role, p_token_hash text)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
begin
  perform private.need('member.manage', p_org);
  perform private.check_role(p_role);
  perform private.need_verbs_of(p_org, p_role::pg_catalog.text);
  perform private.fail('RY422', 'The hash of the link''s secret is not a SHA-256 in hex.')
  where coalesce(p_token_hash, '') !~ '^[0-9a-f]{64}$';
  -- One at a time for an address: the later invitation replaces the earlier one.
  perform pg_advisory_xact_lock(private.lock_key('invitation', p_org || lower(trim(p_email))));
  perform private.fail('RY409', format('%s is already a member.', trim(p_email)), 'Change their role instead.')
  where exists (select from public.memberships where org_id = p_org and lower(email) = lower(trim(p_email)));
  update public.invitations set revoked_at = now()
  where org_id = p_org and lower(email) = lower(trim(p_email)) and accepted_at is null and revoked_at is null;
  insert into public.invitations (org_id, email, role, invited_by)
  values (p_org, lower(trim(p_email)), p_role, private.caller_id()) returning * into v_invitation;
  insert into private.invitation_tokens (invitation_id, token_hash) values (v_invitation.id, p_token_hash);
  perform private.audit(p_org, 'member.invited', 'invitation', v_invitation.id::pg_catalog.text, v_invitation.email,
    jsonb_build_object('role', p_role));
  return to_jsonb(v_invitation);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'That is not an email address.', 'Write it as name@example.org.');
end;
$$;
comment on function private.invite_member is
  'Invites an address; the caller made the link''s secret and sends only its SHA-256 (hex). Admins; owners for owners.';

-- Finds an open invitation by its link's secret.
create function private.lock_invitation(p_invitation uuid, p_token_hash text, out v_invitation public.invitations)
language plpgsql as $$
begin
  select i.* into v_invitation
  from public.invitations as i join private.invitation_tokens as t on t.invitation_id = i.id
  where i.id = p_invitation and t.token_hash = p_token_hash and i.accepted_at is null and i.revoked_at is null
    and i.expires_at > now()
  for update of i;
  -- One message for wrong, used, withdrawn and expired: a guess must not learn which.
  perform private.fail('RY404', 'This invitation is not valid, or no longer.', 'Ask for a new one.')
  where v_invitation.id is null;
end;
$$;

create function private.invitation_offer(p_invitation uuid, p_token_hash text) returns jsonb
language sql security definer set search_path = '' as $$
  select jsonb_build_object('email', i.email, 'role', i.role, 'expires_at', i.expires_at,
    'organization', (select o.name from public.organizations as o where o.id = i.org_id),
    'invited_by', (select m.email from public.memberships as m where m.org_id = i.org_id and m.user_id = i.invited_by))
  from private.lock_invitation(p_invitation, p_token_hash) as i
$$;
comment on function private.invitation_offer is
  'What an invitation offers to the person who has its link: organisation, role, address and inviter.';

create function private.accept_invitation(p_invitation uuid, p_token_hash text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
  v_member public.memberships;
begin
  perform private.need_person();
  v_invitation := private.lock_invitation(p_invitation, p_token_hash);
  perform private.fail('RY403', 'This invitation is for another email address.',
    'Sign in with the address that was invited.')
  where v_invitation.email <> lower(coalesce(private.jwt() ->> 'email', ''));
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

create function private.revoke_invitation(p_invitation uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_invitation public.invitations;
begin
  select * into v_invitation from public.invitations where id = p_invitation
    and org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such invitation.') where v_invitation.id is null;
  perform private.need('member.manage', v_invitation.org_id);
  update public.invitations set revoked_at = now()
  where id = p_invitation and accepted_at is null and revoked_at is null returning * into v_invitation;
  perform private.fail('RY409', 'This invitation was already accepted or withdrawn.') where not found;
  return private.audited(to_jsonb(v_invitation), 'invitation.revoked', v_invitation.email);
end;
$$;
comment on function private.revoke_invitation is 'Withdraws an invitation. Admins.';

-- Locks the organisation and one membership for a change.
create function private.lock_member(p_org uuid, p_user uuid, out v_member public.memberships) language plpgsql as $$
begin
  -- Two owners who demote each other at once must not leave the organisation without one.
  perform from public.organizations where id = p_org for update;
  select * into v_member from public.memberships where org_id = p_org and user_id = p_user for update;
  perform private.fail('RY404', 'That person is not a member.') where v_member.user_id is null;
end;
$$;

-- Refuses to leave an organisation without an owner, or without the one who can enter when its provider is away.
create function private.keep_an_owner(p_org uuid) returns void language sql as $$
  select private.fail('RY409', 'This owner can enter when the identity provider is away.',
    'Choose another owner for that under Settings → Sign-in first.')
  where exists (select from private.sign_in_providers as p where p.org_id = p_org and p.is_only and not exists (
    select from public.memberships as m where m.org_id = p_org and m.user_id = p.break_glass and m.role = 'owner'));
  select private.fail('RY409', 'An organisation needs an owner.', 'Make somebody else an owner first.')
  where not exists (select from public.memberships where org_id = p_org and role = 'owner')
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
  perform private.need('member.manage', p_org);
  perform private.need_verbs_of(p_org, least(v_member.role, p_role)::pg_catalog.text);
  update public.memberships set role = p_role, is_claimed = false where org_id = p_org and user_id = p_user;
  perform private.keep_an_owner(p_org);
  perform private.audit(p_org, 'member.role_changed', 'member', p_user::pg_catalog.text, v_member.email,
    jsonb_build_object('from', v_member.role, 'to', p_role));
  return to_jsonb(v_member) || jsonb_build_object('role', p_role);
end;
$$;
comment on function private.set_member_role is 'Changes a member''s role. Admins; only owners make or unmake owners.';

create function private.remove_member(p_org uuid, p_user uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_member public.memberships;
  -- Everybody may leave.
  v_verb pg_catalog.text := case when p_user = private.caller_id() then 'organization.read' else 'member.manage' end;
begin
  perform private.need(v_verb, p_org);
  perform private.need_person() where p_user = private.caller_id();
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
comment on function private.remove_member is 'Removes a member; all may leave. Admins; only owners remove owners.';

create function private.member_sign_ins(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('member.manage', p_org);
  select coalesce(jsonb_agg(jsonb_build_object('user_id', m.user_id, 'email', m.email, 'has_two_step', exists (
    select from auth.mfa_factors as f where f.user_id = m.user_id and f.status = 'verified'),
    'last_sign_in_at', u.last_sign_in_at) order by m.email), '[]')
  from public.memberships as m join auth.users as u on u.id = m.user_id where m.org_id = p_org
$$;
comment on function private.member_sign_ins is 'Which members have two-step sign-in, and their last sign-in. Admins.';
