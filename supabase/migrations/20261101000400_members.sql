-- Members: how people are invited to an organisation, join it, change their role and leave.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- --------------------------------------------------------------------------------------------------------- invitations

create function private.check_role(p_role public.member_role)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if p_role is null then
    perform private.fail('RY422', 'A member needs a role.', 'Choose owner, admin, operator or viewer.');
  end if;
end;
$$;
comment on function private.check_role(public.member_role) is 'Refuses a member without a role.';

create function private.invite_member(p_org uuid, p_email text, p_role public.member_role, p_token_hash text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_invitation public.invitations;
begin
  perform private.need_role(p_org, case when p_role = 'owner' then 'owner' else 'admin' end::public.member_role);
  perform private.check_role(p_role);
  if coalesce(p_token_hash, '') !~ '^[0-9a-f]{64}$' then
    perform private.fail('RY422', 'The hash of the link''s secret is not a SHA-256 in hex.');
  end if;
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
comment on function private.invite_member(uuid, text, public.member_role, text) is 'Body of public.invite_member.';
grant execute on function private.invite_member(uuid, text, public.member_role, text) to authenticated;

create function private.accept_invitation(p_invitation uuid, p_token_hash text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_invitation public.invitations;
  v_member public.memberships;
begin
  perform private.need_person();
  select i.* into v_invitation
  from public.invitations as i join private.invitation_tokens as t on t.invitation_id = i.id
  where i.id = p_invitation and t.token_hash = p_token_hash and i.accepted_at is null and i.revoked_at is null
    and i.expires_at > now()
  for update of i;
  -- One message for wrong, used, withdrawn and expired: a guess must not learn which.
  if v_invitation.id is null then
    perform private.fail('RY404', 'This invitation is not valid, or no longer.', 'Ask for a new one.');
  end if;
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
comment on function private.accept_invitation(uuid, text) is 'Body of public.accept_invitation.';
grant execute on function private.accept_invitation(uuid, text) to authenticated;

create function private.revoke_invitation(p_invitation uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_invitation public.invitations;
begin
  select * into v_invitation from public.invitations where id = p_invitation
    and org_id in (select private.my_org_ids());
  if v_invitation.id is null then
    perform private.fail('RY404', 'There is no such invitation.');
  end if;
  perform private.need_role(v_invitation.org_id, 'admin');
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
comment on function private.revoke_invitation(uuid) is 'Body of public.revoke_invitation.';
grant execute on function private.revoke_invitation(uuid) to authenticated;

-- ------------------------------------------------------------------------------------------------------------- members

create function private.lock_member(p_org uuid, p_user uuid)
returns public.memberships
language plpgsql
set search_path = ''
as $$
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
comment on function private.lock_member(uuid, uuid) is 'Locks the organisation and one membership for a change.';

create function private.keep_an_owner(p_org uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if not exists (select from public.memberships where org_id = p_org and role = 'owner') then
    perform private.fail('RY409', 'An organisation needs an owner.', 'Make somebody else an owner first.');
  end if;
end;
$$;
comment on function private.keep_an_owner(uuid) is 'Refuses to leave an organisation without an owner.';

create function private.set_member_role(p_org uuid, p_user uuid, p_role public.member_role)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_member public.memberships;
begin
  perform private.need_role(p_org, 'admin');
  perform private.check_role(p_role);
  v_member := private.lock_member(p_org, p_user);
  -- Again, because the caller's own role may have changed while they waited.
  perform private.need_role(p_org, case when 'owner' in (v_member.role, p_role) then 'owner'
    else 'admin' end::public.member_role);
  update public.memberships set role = p_role where org_id = p_org and user_id = p_user;
  perform private.keep_an_owner(p_org);
  perform private.audit(p_org, 'member.role_changed', 'member', p_user::pg_catalog.text, v_member.email,
    jsonb_build_object('from', v_member.role, 'to', p_role));
  return to_jsonb(v_member) || jsonb_build_object('role', p_role);
end;
$$;
comment on function private.set_member_role(uuid, uuid, public.member_role) is 'Body of public.set_member_role.';
grant execute on function private.set_member_role(uuid, uuid, public.member_role) to authenticated;

create function private.remove_member(p_org uuid, p_user uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_member public.memberships;
  v_needed public.member_role := case when p_user = private.caller_id() then 'viewer' else 'admin' end;
begin
  perform private.need_role(p_org, v_needed);
  v_member := private.lock_member(p_org, p_user);
  -- Again, because the caller's own role may have changed while they waited.
  perform private.need_role(p_org, case when v_member.role = 'owner' then 'owner' else v_needed end);
  -- Before the membership goes: it says what the log calls somebody who leaves.
  perform private.audit(p_org, 'member.removed', 'member', p_user::pg_catalog.text, v_member.email);
  delete from public.memberships where org_id = p_org and user_id = p_user;
  perform private.keep_an_owner(p_org);
  return to_jsonb(v_member);
end;
$$;
comment on function private.remove_member(uuid, uuid) is 'Body of public.remove_member.';
grant execute on function private.remove_member(uuid, uuid) to authenticated;

revoke execute on all functions in schema private from public;
