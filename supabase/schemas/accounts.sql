-- Service accounts: identities of runners and pipelines. A secret is a hash in `private`; trust in an issuer is not a
-- secret. One with a role acts as a member of that role does: through the same functions, with a token that the edge
-- function service-account-token signs. Every call asks the account's row, so what an admin changes counts at once.
create table private.service_account_secrets (
  service_account_id uuid primary key references public.service_accounts (id) on delete cascade,
  hash text not null check (private.is_bcrypt_hash(hash)),
  created_at timestamptz not null default now()
);
comment on table private.service_account_secrets is 'Hashes of service accounts'' client secrets.';
comment on column private.service_account_secrets.hash is 'bcrypt hash; the secret is shown once and never stored.';

-- A service account that the caller may change.
create function private.my_account(p_account uuid, out v_account public.service_accounts) language plpgsql as $$
begin
  select * into v_account from public.service_accounts where id = p_account and removed_at is null
    and org_id in (select private.my_org_ids('module.read')) for update;
  perform private.fail('RY404', 'There is no such service account.') where v_account.id is null;
  perform private.need('account.manage', v_account.org_id);
  perform private.need_verbs_of(v_account.org_id, v_account.role::pg_catalog.text, array(
    select b from private.bindings_of(v_account.org_id, p_account) as b));
end;
$$;

create function private.set_account_secret(p_account uuid, p_hash text, p_hint text) returns void language plpgsql as $$
begin
  insert into private.service_account_secrets (service_account_id, hash) values (p_account, p_hash)
  on conflict (service_account_id) do update set hash = excluded.hash, created_at = now();
  update public.service_accounts set has_secret = true, secret_hint = right(p_hint, 4),
    credential_version = credential_version + 1
  where id = p_account;
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'The secret must come as a bcrypt hash of cost 8 to 12.',
    'Generate the secret where you show it; send only its hash.');
end;
$$;

-- Refuses a role that no service account may have: roles count in the whole organisation, and owners are people.
create function private.check_account_role(p_role text, p_path text) returns void language sql immutable as $$
  select private.fail('RY422', 'A service account may be viewer, operator or admin.',
    'Owners are people: somebody must answer for the organisation.')
  where p_role is not null and p_role not in ('viewer', 'operator', 'admin');
  select private.fail('RY422', 'A service account with a role serves the whole organisation.',
    'Leave its path empty, or its role; make two accounts where you need both.')
  where p_role is not null and coalesce(p_path, '') <> ''
$$;

create function private.create_service_account(
  p_org uuid, p_spec jsonb, p_secret_hash text default null, p_secret_hint text default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts;
begin
  perform private.need('account.manage', p_org);
  perform private.refuse_unknown_keys(p_spec, array['name', 'path', 'description', 'trusts', 'role']);
  perform private.fail('RY422', 'A service account needs a trusted issuer or a secret.',
    'Name the OIDC issuer and audience, or make a secret.')
  where coalesce(p_spec -> 'trusts', '[]') = '[]' and p_secret_hash is null;
  perform private.check_account_role(p_spec ->> 'role', p_spec ->> 'path');
  perform private.need_verbs_of(p_org, p_spec ->> 'role');
  perform private.fail('RY404', format('There is no group "%s".', p_spec ->> 'path'),
    'Create it first, or leave the path empty for the whole organisation.')
  where coalesce(p_spec ->> 'path', '') <> ''
    and not exists (select from public.groups where org_id = p_org and path = p_spec ->> 'path');
  insert into public.service_accounts (org_id, name, path, description, trusts, role, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'path', ''), coalesce(p_spec ->> 'description', ''),
    coalesce(p_spec -> 'trusts', '[]'), (p_spec ->> 'role')::public.member_role,
      private.caller_id()) returning * into v_account;
  perform private.set_account_secret(v_account.id, p_secret_hash, p_secret_hint) where p_secret_hash is not null;
  perform private.audited(to_jsonb(v_account), 'service_account.created', v_account.name,
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

create function private.end_account_sessions(p_account uuid, p_reason text) returns void language plpgsql as $$
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
  perform private.need_verbs_of(v_old.org_id, p_spec ->> 'role');
  v_account := jsonb_populate_record(v_old, p_spec);
  update public.service_accounts set name = trim(v_account.name), description = v_account.description,
    trusts = v_account.trusts, role = v_account.role, is_disabled = v_account.is_disabled,
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
  return private.audited(to_jsonb(v_account), 'service_account.updated', v_account.name,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_account))));
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

create function private.rotate_service_account_secret(p_account uuid, p_secret_hash text, p_secret_hint text)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.set_account_secret(p_account, p_secret_hash, p_secret_hint);
  perform private.end_account_sessions(p_account, 'its service account''s secret was rotated');
  perform private.audited(to_jsonb(v_account), 'service_account.secret_rotated', v_account.name);
  return (select to_jsonb(a) from public.service_accounts as a where a.id = p_account);
end;
$$;
comment on function private.rotate_service_account_secret is
  'Gives a service account a new secret (bcrypt hash); the old one is void and its sessions end at once. Admins.';

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
  return private.audited(to_jsonb(v_account), 'service_account.removed', v_account.name);
end;
$$;
comment on function private.remove_service_account is 'Removes a service account that no runner uses. Admins.';

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

create function private.use_service_account(p_account uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_account public.service_accounts;
begin
  update public.service_accounts as a set last_used_at = now()
  where id = p_account and removed_at is null and not is_disabled and private.role_of(a) is not null
  returning * into v_account;
  perform private.fail('RY403', 'This service account has no role in the organisation.',
    'An admin gives it one under Settings → Service accounts, or with `runyard accounts update --role`.')
  where v_account.id is null;
  return jsonb_build_object('role', private.role_of(v_account), 'version', v_account.credential_version);
end;
$$;
comment on function private.use_service_account is
  'Notes that a service account acts, and as what {role, version}; refuses one without a role. Edge functions only.';
