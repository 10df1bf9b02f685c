-- What admins do with cloud identities and service accounts, and what edge functions ask about them.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.my_identity(p_identity uuid)
returns public.cloud_identities
language plpgsql
set search_path = ''
as $$
declare
  v_identity public.cloud_identities;
begin
  select * into v_identity from public.cloud_identities where id = p_identity and removed_at is null
    and org_id in (select private.my_org_ids()) for update;
  if v_identity.id is null then
    perform private.fail('RY404', 'There is no such cloud identity.');
  end if;
  perform private.need_role(v_identity.org_id, 'admin');
  return v_identity;
end;
$$;
comment on function private.my_identity(uuid) is 'A cloud identity that the caller may change.';

create function private.create_cloud_identity(p_org uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_identity public.cloud_identities;
begin
  perform private.need_role(p_org, 'admin');
  perform private.refuse_unknown_keys(p_spec, array['name', 'provider', 'account_id', 'role_arn', 'external_id', 'regions', 'network']);
  insert into public.cloud_identities (org_id, name, provider, account_id, role_arn, external_id, regions, network, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'provider', 'aws'),
    coalesce(p_spec ->> 'account_id', split_part(p_spec ->> 'role_arn', ':', 5)),
    p_spec ->> 'role_arn', coalesce(p_spec ->> 'external_id', replace(gen_random_uuid()::pg_catalog.text, '-', '')),
      private.text_list(p_spec -> 'regions'),
    coalesce(p_spec -> 'network', '{"create_vpc": true}'), private.caller_id())
  returning * into v_identity;
  perform private.audit(p_org, 'cloud_identity.created', 'cloud_identity', v_identity.id::pg_catalog.text, v_identity.name);
  return to_jsonb(v_identity);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'), 'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the cloud identity is missing or not valid.',
      'It needs a name, a role ARN like arn:aws:iam::123456789012:role/runyard, and at least one region.');
end;
$$;
comment on function private.create_cloud_identity(uuid, jsonb) is 'Body of public.create_cloud_identity.';
grant execute on function private.create_cloud_identity(uuid, jsonb) to authenticated;
create function public.create_cloud_identity(p_org uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.create_cloud_identity(p_org, p_spec) $$;
comment on function public.create_cloud_identity(uuid, jsonb) is
  'Adds a place to deploy runners to: {name, role_arn, regions, account_id, external_id, network}. Admins.';
grant execute on function public.create_cloud_identity(uuid, jsonb) to authenticated;

create function private.update_cloud_identity(p_identity uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.refuse_unknown_keys(p_spec, array['name', 'role_arn', 'account_id', 'external_id', 'regions', 'network']);
  v_identity := jsonb_populate_record(v_identity, p_spec);
  update public.cloud_identities set name = trim(v_identity.name), role_arn = v_identity.role_arn, account_id = v_identity.account_id,
    external_id = v_identity.external_id, regions = v_identity.regions, network = v_identity.network,
    verified_at = case when p_spec ?| array['role_arn', 'account_id', 'external_id', 'regions', 'network'] then null else verified_at end,
    verification_error = case when p_spec ?| array['role_arn', 'account_id', 'external_id', 'regions', 'network'] then null
      else verification_error end
  where id = p_identity returning * into v_identity;
  perform private.audit(v_identity.org_id, 'cloud_identity.updated', 'cloud_identity', p_identity::pg_catalog.text, v_identity.name);
  return to_jsonb(v_identity);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'), 'Choose another name.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'A field of the cloud identity is not valid.', 'Check the role ARN and the regions.');
end;
$$;
comment on function private.update_cloud_identity(uuid, jsonb) is 'Body of public.update_cloud_identity.';
grant execute on function private.update_cloud_identity(uuid, jsonb) to authenticated;
create function public.update_cloud_identity(p_identity uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_cloud_identity(p_identity, p_spec) $$;
comment on function public.update_cloud_identity(uuid, jsonb) is 'Changes the fields of a cloud identity that are named. Admins.';
grant execute on function public.update_cloud_identity(uuid, jsonb) to authenticated;

create function private.remove_cloud_identity(p_identity uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.fail('RY409', format('%s runners are deployed with it.', count(*)),
    'Remove them first: afterwards nothing could reach them.')
  from public.workers where cloud_identity_id = p_identity and removed_at is null having count(*) > 0;
  update public.cloud_identities set removed_at = now() where id = p_identity returning * into v_identity;
  perform private.audit(v_identity.org_id, 'cloud_identity.removed', 'cloud_identity', p_identity::pg_catalog.text, v_identity.name);
  return to_jsonb(v_identity);
end;
$$;
comment on function private.remove_cloud_identity(uuid) is 'Body of public.remove_cloud_identity.';
grant execute on function private.remove_cloud_identity(uuid) to authenticated;
create function public.remove_cloud_identity(p_identity uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_cloud_identity(p_identity) $$;
comment on function public.remove_cloud_identity(uuid) is 'Removes a cloud identity that no runner uses. Admins.';
grant execute on function public.remove_cloud_identity(uuid) to authenticated;

-- ---------------------------------------------------------------------------------------------- service accounts

create function private.my_account(p_account uuid)
returns public.service_accounts
language plpgsql
set search_path = ''
as $$
declare
  v_account public.service_accounts;
begin
  select * into v_account from public.service_accounts where id = p_account and removed_at is null
    and org_id in (select private.my_org_ids()) for update;
  if v_account.id is null then
    perform private.fail('RY404', 'There is no such service account.');
  end if;
  perform private.need_role(v_account.org_id, 'admin');
  return v_account;
end;
$$;
comment on function private.my_account(uuid) is 'A service account that the caller may change.';

create function private.set_account_secret(p_account uuid, p_hash text, p_hint text)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into private.service_account_secrets (service_account_id, hash) values (p_account, p_hash)
  on conflict (service_account_id) do update set hash = excluded.hash, created_at = now();
  update public.service_accounts set has_secret = true, secret_hint = right(p_hint, 4) where id = p_account;
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'The secret must come as a bcrypt hash.', 'Make the secret where you show it; send only its hash.');
end;
$$;
comment on function private.set_account_secret(uuid, text, text) is 'Stores the hash of a service account''s secret.';

create function private.create_service_account(p_org uuid, p_spec jsonb, p_secret_hash text, p_secret_hint text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts;
begin
  perform private.need_role(p_org, 'admin');
  perform private.refuse_unknown_keys(p_spec, array['name', 'path', 'description', 'issuer', 'audience', 'bound_claims']);
  if p_spec ->> 'issuer' is null and p_secret_hash is null then
    perform private.fail('RY422', 'A service account needs a trusted issuer or a secret.',
      'Name the OIDC issuer and audience, or make a secret.');
  end if;
  if coalesce(p_spec ->> 'path', '') <> '' and not exists (select from public.groups where org_id = p_org and path = p_spec ->> 'path') then
    perform private.fail('RY404', format('There is no group "%s".', p_spec ->> 'path'),
      'Create it first, or leave the path empty for the whole organisation.');
  end if;
  insert into public.service_accounts (org_id, name, path, description, issuer, audience, bound_claims, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'path', ''), coalesce(p_spec ->> 'description', ''), p_spec ->> 'issuer',
    p_spec ->> 'audience',
    coalesce(p_spec -> 'bound_claims', '{}'), private.caller_id()) returning * into v_account;
  if p_secret_hash is not null then
    perform private.set_account_secret(v_account.id, p_secret_hash, p_secret_hint);
  end if;
  perform private.audit(p_org, 'service_account.created', 'service_account', v_account.id::pg_catalog.text, v_account.name);
  return (select to_jsonb(a) from public.service_accounts as a where a.id = v_account.id);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a service account "%s".', p_spec ->> 'name'), 'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the service account is missing or not valid.',
      'An issuer is an https address and comes with an audience.');
end;
$$;
comment on function private.create_service_account(uuid, jsonb, text, text) is 'Body of public.create_service_account.';
grant execute on function private.create_service_account(uuid, jsonb, text, text) to authenticated;
create function public.create_service_account(p_org uuid, p_spec jsonb, p_secret_hash text default null, p_secret_hint text default null)
returns jsonb language sql set search_path = ''
as $$ select private.create_service_account(p_org, p_spec, p_secret_hash, p_secret_hint) $$;
comment on function public.create_service_account(uuid, jsonb, text, text) is
  'Makes a service account {name, path, description, issuer, audience, bound_claims}, with a secret (bcrypt hash) or without. Admins.';
grant execute on function public.create_service_account(uuid, jsonb, text, text) to authenticated;

create function private.update_service_account(p_account uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.refuse_unknown_keys(p_spec, array['name', 'description', 'issuer', 'audience', 'bound_claims', 'is_disabled']);
  v_account := jsonb_populate_record(v_account, p_spec);
  update public.service_accounts set name = trim(v_account.name), description = v_account.description, issuer = v_account.issuer,
    audience = v_account.audience, bound_claims = v_account.bound_claims, is_disabled = v_account.is_disabled
  where id = p_account returning * into v_account;
  if v_account.is_disabled then
    perform private.end_account_sessions(p_account, 'its service account was disabled');
  end if;
  perform private.refresh_worker_status(w.id) from (
    select o.id from public.workers as o where o.service_account_id = p_account and o.removed_at is null order by o.id) as w;
  perform private.audit(v_account.org_id, 'service_account.updated', 'service_account', p_account::pg_catalog.text, v_account.name);
  return to_jsonb(v_account);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a service account "%s".', p_spec ->> 'name'), 'Choose another name.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'A field of the service account is not valid.',
      'An issuer is an https address and comes with an audience.');
end;
$$;
comment on function private.update_service_account(uuid, jsonb) is 'Body of public.update_service_account.';
grant execute on function private.update_service_account(uuid, jsonb) to authenticated;

create function private.end_account_sessions(p_account uuid, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_worker pg_catalog.uuid;
begin
  for v_worker in select distinct s.worker_id from private.sessions as s where s.service_account_id = p_account
    and s.ended_at is null order by 1 loop
    perform private.end_sessions(v_worker, null, null, p_reason);
    perform private.refresh_worker_status(v_worker);
    perform private.ring_worker(v_worker);
  end loop;
end;
$$;
comment on function private.end_account_sessions(uuid, text) is 'Ends the sessions of all runners that signed in with a service account.';

create function public.update_service_account(p_account uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_service_account(p_account, p_spec) $$;
comment on function public.update_service_account(uuid, jsonb) is
  'Changes the fields of a service account that are named; disabling ends its sessions at once. Admins.';
grant execute on function public.update_service_account(uuid, jsonb) to authenticated;

create function private.rotate_service_account_secret(p_account uuid, p_secret_hash text, p_secret_hint text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.set_account_secret(p_account, p_secret_hash, p_secret_hint);
  perform private.audit(v_account.org_id, 'service_account.secret_rotated', 'service_account', p_account::pg_catalog.text, v_account.name);
  return (select to_jsonb(a) from public.service_accounts as a where a.id = p_account);
end;
$$;
comment on function private.rotate_service_account_secret(uuid, text, text) is 'Body of public.rotate_service_account_secret.';
grant execute on function private.rotate_service_account_secret(uuid, text, text) to authenticated;
create function public.rotate_service_account_secret(p_account uuid, p_secret_hash text, p_secret_hint text)
returns jsonb language sql set search_path = ''
as $$ select private.rotate_service_account_secret(p_account, p_secret_hash, p_secret_hint) $$;
comment on function public.rotate_service_account_secret(uuid, text, text) is
  'Gives a service account a new secret (bcrypt hash); the old one is void at once. Admins.';
grant execute on function public.rotate_service_account_secret(uuid, text, text) to authenticated;

create function private.remove_service_account(p_account uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts := private.my_account(p_account);
begin
  perform private.fail('RY409', format('%s runners sign in with it.', count(*)), 'Give them a token or another service account first.')
  from public.workers as w where w.service_account_id = p_account and w.removed_at is null having count(*) > 0;
  update public.service_accounts set removed_at = now(), is_disabled = true, has_secret = false, secret_hint = null
    where id = p_account returning * into v_account;
  delete from private.service_account_secrets where service_account_id = p_account;
  perform private.audit(v_account.org_id, 'service_account.removed', 'service_account', p_account::pg_catalog.text, v_account.name);
  return to_jsonb(v_account);
end;
$$;
comment on function private.remove_service_account(uuid) is 'Body of public.remove_service_account.';
grant execute on function private.remove_service_account(uuid) to authenticated;
create function public.remove_service_account(p_account uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_service_account(p_account) $$;
comment on function public.remove_service_account(uuid) is 'Removes a service account that no runner uses. Admins.';
grant execute on function public.remove_service_account(uuid) to authenticated;

create function private.service_account_for(p_client_id text)
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select jsonb_build_object('id', a.id, 'org_id', a.org_id, 'name', a.name, 'issuer', a.issuer, 'audience', a.audience, 'bound_claims',
    a.bound_claims,
    'hashes', coalesce((select jsonb_agg(jsonb_build_object('token_id', s.service_account_id, 'hash', s.hash))
      from private.service_account_secrets as s where s.service_account_id = a.id), '[]'))
  from public.service_accounts as a where a.client_id = p_client_id and a.removed_at is null and not a.is_disabled
$$;
comment on function private.service_account_for(text) is 'Body of public.service_account_for.';
grant execute on function private.service_account_for(text) to service_role;
create function public.service_account_for(p_client_id text)
returns jsonb language sql stable set search_path = ''
as $$ select private.service_account_for(p_client_id) $$;
comment on function public.service_account_for(text) is
  'What an edge function needs to verify a service account: its trust and its secret''s hash; null when there is none. Edge functions only.';
grant execute on function public.service_account_for(text) to service_role;

revoke execute on all functions in schema private, public from public;
