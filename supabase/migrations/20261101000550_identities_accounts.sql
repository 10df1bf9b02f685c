-- Service accounts: identities of runners and pipelines. A secret is a hash in `private`; trust in an OIDC issuer is no
-- secret at all. One with a role acts as a member of that role does: through the same functions, with a token that the
-- edge function service-account-token signs. Every call asks the account's row, so what an admin changes counts at
-- once.
set lock_timeout = '5s';
set statement_timeout = '60s';

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
  select coalesce(jsonb_typeof(p_trust) = 'object' and p_trust - array['issuer', 'audience', 'bound_claims'] = '{}'
    and p_trust ->> 'issuer' ~ '^https?://' and length(p_trust ->> 'issuer') <= 500
    and length(p_trust ->> 'audience') between 1 and 500
    and jsonb_typeof(p_trust -> 'bound_claims') = 'object' and p_trust -> 'bound_claims' <> '{}', false)
$$;
comment on function private.is_trust(jsonb) is
  'Whether a JSON object is {issuer, audience, bound_claims}; at least one claim, or every workload of the issuer '
  'would be let in.';

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
create trigger ring after insert or update on public.service_accounts
  for each row execute function private.ring_changed_row();

create table private.service_account_secrets (
  service_account_id uuid primary key references public.service_accounts (id) on delete cascade,
  hash text not null check (private.is_bcrypt_hash(hash)),
  created_at timestamptz not null default now()
);
alter table private.service_account_secrets enable row level security;
comment on table private.service_account_secrets is 'Hashes of service accounts'' client secrets.';
comment on column private.service_account_secrets.hash is 'bcrypt hash; the secret is shown once and never stored.';

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
  update public.service_accounts set has_secret = true, secret_hint = right(p_hint, 4),
    credential_version = credential_version + 1
  where id = p_account;
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'The secret must come as a bcrypt hash of cost 8 to 12.',
      'Make the secret where you show it; send only its hash.');
end;
$$;
comment on function private.set_account_secret(uuid, text, text) is 'Stores the hash of a service account''s secret.';

create function private.check_account_role(p_role text, p_path text)
returns void
language plpgsql immutable
set search_path = ''
as $$
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
comment on function private.check_account_role(text, text) is
  'Refuses a role that no service account may have: roles count in the whole organisation, and owners are people.';

create function private.create_service_account(p_org uuid, p_spec jsonb, p_secret_hash text, p_secret_hint text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts;
begin
  perform private.need_role(p_org, 'admin');
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
      'Each of at most ten trusts is {issuer, audience, bound_claims}: an https address, and at least one claim.');
end;
$$;
comment on function private.create_service_account(uuid, jsonb, text, text) is 'Body of public.create_service_account.';
grant execute on function private.create_service_account(uuid, jsonb, text, text) to authenticated;

create function private.update_service_account(p_account uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
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
      'Each of at most ten trusts is {issuer, audience, bound_claims}: an https address, and at least one claim.');
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
    perform private.end_sessions(v_worker, null, p_account, p_reason);
    perform private.refresh_worker_status(v_worker);
    perform private.ring_worker(v_worker);
  end loop;
end;
$$;
comment on function private.end_account_sessions(uuid, text) is
  'Ends the sessions that were opened with a service account.';

create function private.rotate_service_account_secret(p_account uuid, p_secret_hash text, p_secret_hint text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
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
comment on function private.rotate_service_account_secret(uuid, text, text) is
  'Body of public.rotate_service_account_secret.';
grant execute on function private.rotate_service_account_secret(uuid, text, text) to authenticated;

create function private.remove_service_account(p_account uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
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
comment on function private.remove_service_account(uuid) is 'Body of public.remove_service_account.';
grant execute on function private.remove_service_account(uuid) to authenticated;

create function private.service_account_for(p_client_id text)
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select jsonb_build_object('id', a.id, 'org_id', a.org_id, 'name', a.name, 'trusts', a.trusts, 'version',
    a.credential_version, 'hashes', coalesce((select jsonb_agg(jsonb_build_object('token_id', s.service_account_id,
      'hash', s.hash))
      from private.service_account_secrets as s where s.service_account_id = a.id), '[]'))
  from public.service_accounts as a where a.client_id = p_client_id and a.removed_at is null and not a.is_disabled
$$;
comment on function private.service_account_for(text) is 'Body of public.service_account_for.';
grant execute on function private.service_account_for(text) to service_role;

-- ---------------------------------------------------------------------------------------------- accounts that act

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

create function private.use_service_account(p_account uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_account public.service_accounts;
begin
  update public.service_accounts set last_used_at = now()
  where id = p_account and removed_at is null and not is_disabled and role is not null returning * into v_account;
  if v_account.id is null then
    perform private.fail('RY403', 'This service account holds no role in the organisation.',
      'An admin gives it one under Settings → Service accounts, or with `runyard accounts update --role`.');
  end if;
  return jsonb_build_object('role', v_account.role, 'version', v_account.credential_version);
end;
$$;
comment on function private.use_service_account(uuid) is 'Body of public.use_service_account.';
grant execute on function private.use_service_account(uuid) to service_role;

revoke execute on all functions in schema private from public;
