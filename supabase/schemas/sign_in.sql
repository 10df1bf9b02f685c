-- Sign-in: what belongs to a person and to no organisation. Of codes and tokens the database stores hashes alone.

-- ## programs that people sign in
-- Signing a program in by a short code: it shows the code, somebody who is signed in confirms it on a page, and the
-- program gets a login of theirs from the edge function device-login (RFC 8628). No password is typed into a terminal.
create table private.device_logins (
  device_hash text primary key check (device_hash ~ '^[0-9a-f]{64}$'),
  user_code text not null unique check (user_code ~ '^[B-Z]{8}$'),
  program text not null check (length(program) between 1 and 200),
  address text not null default '' check (length(address) <= 200),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '10 minutes',
  decided_by uuid,
  is_confirmed boolean,
  callback jsonb,
  role text check (role in ('viewer', 'planner', 'approver', 'operator', 'admin')),
  through text
);
create index device_logins_expires_at_idx on private.device_logins (expires_at);
comment on table private.device_logins is 'Programs that wait to be signed in; a row lives for ten minutes.';
comment on column private.device_logins.device_hash is 'SHA-256 (hex) of the secret that the program polls with.';
comment on column private.device_logins.user_code is 'What the person compares and confirms.';
comment on column private.device_logins.is_confirmed is 'What they said; null until then.';
comment on column private.device_logins.callback is
  'Of `tofu login`: {redirect_uri, challenge, state}. It gets a personal token for the code that its browser brings.';
comment on column private.device_logins.through is
  'The identity provider through which the person who confirmed it had signed in: the program''s session counts alike.';

create function private.start_device_login(
  p_device_hash text, p_user_code text, p_program text, p_address text default '', p_callback jsonb default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
begin
  delete from private.device_logins where expires_at < now() - interval '1 hour';
  -- The ports on which Terraform and OpenTofu listen, on the browser's own machine.
  perform private.fail('RY422', 'The login''s return address, challenge or state is not valid.',
    'Use http://localhost:10000 to 10010/login, and a challenge by S256.')
  where p_callback is not null and (coalesce(p_callback ->> 'redirect_uri', '')
      !~ '^http://localhost:100(0[0-9]|10)/login$'
    or coalesce(p_callback ->> 'challenge', '') !~ '^[A-Za-z0-9_-]{43}$'
    or length(coalesce(p_callback ->> 'state', '')) > 500);
  insert into private.device_logins (device_hash, user_code, program, address, callback)
  values (p_device_hash, p_user_code, left(p_program, 200), left(coalesce(p_address, ''), 200), p_callback);
  return jsonb_build_object('expires_in', 600);
exception
  when unique_violation then
    perform private.fail('RY409', 'That code is in use.', 'Generate another one.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the login is missing or not valid.',
      'Send the SHA-256 of the device''s secret, a code of eight letters from B to Z, and the program''s name.');
end;
$$;
comment on function private.start_device_login is
  'Starts the login of a program, which waits for a person to confirm its code. Edge functions only.';

-- Refuses a personal token where it would outlive its own revocation.
create function private.refuse_personal_token() returns void language sql stable as $$
  select private.fail('RY403', 'A personal token creates no other login and no other token.',
    'Sign in yourself: on the dashboard, or with: runyard login.') where private.jwt() ? 'personal_token'
$$;

-- The login that waits with a code, however the code is written; empty if there is none. Guesses are counted, so a
-- wrong one is answered without an exception, which would take its count back.
create function private.find_device_login(p_user_code text, out v_login private.device_logins) language plpgsql as $$
begin
  perform private.need_person();
  perform private.refuse_personal_token();
  perform private.fail('RY429', 'Too many codes were tried.', 'Try again in a minute.')
  where not private.rate_limit('device:code:' || private.caller_id(), 20, 60);
  select * into v_login from private.device_logins
  where user_code = upper(regexp_replace(p_user_code, '[^A-Za-z]', '', 'g')) and expires_at > now()
    and is_confirmed is null
  for update;
end;
$$;

-- PostgREST answers with this status and commits.
create function private.no_device_login() returns jsonb language sql as $$
  select set_config('response.status', '404', true);
  select jsonb_build_object('code', 'RY404', 'message', 'No program waits with this code.', 'details', null, 'hint',
    'It may be mistyped, older than ten minutes, or used already; start again with: runyard login.')
$$;

create function private.device_login(p_user_code text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_login private.device_logins := private.find_device_login(p_user_code);
begin
  if v_login.device_hash is null then return private.no_device_login(); end if;
  return jsonb_build_object('user_code', v_login.user_code, 'program', v_login.program, 'address', v_login.address,
    'created_at', v_login.created_at, 'expires_at', v_login.expires_at, 'is_terminal', v_login.callback is not null);
end;
$$;
comment on function private.device_login is
  'The program that waits with a code {program, address, created_at, expires_at, is_terminal}. All who are signed in.';

create function private.decide_device_login(p_user_code text, p_is_confirmed boolean, p_role text default null)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_login private.device_logins := private.find_device_login(p_user_code);
  -- Only the browser's return carries it.
  v_code pg_catalog.text := translate(gen_random_uuid()::pg_catalog.text || gen_random_uuid(), '-', '');
  v_answer pg_catalog.text := case when p_is_confirmed then 'code=' || v_code else 'error=access_denied' end;
begin
  if p_is_confirmed is null then
    perform private.fail('RY422', 'Confirm it or decline it.', 'Send true or false.');
  elsif v_login.device_hash is null then
    return private.no_device_login();
  end if;
  update private.device_logins set is_confirmed = p_is_confirmed, decided_by = private.caller_id(), role = p_role,
    through = (select p.provider from private.sign_in_providers as p where private.entered_through(p.provider)),
    device_hash = case when callback is null then device_hash
      else encode(sha256(convert_to(v_code, 'UTF8')), 'hex') end
  where device_hash = v_login.device_hash;
  return jsonb_build_object('user_code', v_login.user_code, 'is_confirmed', p_is_confirmed, 'return_to',
    format('%s?%s', v_login.callback ->> 'redirect_uri', v_answer), 'state', v_login.callback ->> 'state')
    - case when v_login.callback is null then array['return_to', 'state'] else '{}' end;
exception when check_violation then
  perform private.fail('RY422', 'That is not a role for a token.',
    'A role is viewer, planner, approver, operator or admin.');
end;
$$;
comment on function private.decide_device_login is
  'Signs the program that shows this code in as the caller, or declines it. To `tofu login` the browser returns with a '
  'code, for a personal token with at most that role. Everybody who is signed in.';

create function private.take_device_login(p_device_hash text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_login private.device_logins;
begin
  select * into v_login from private.device_logins where device_hash = p_device_hash and callback is null for update;
  if v_login.device_hash is null or v_login.expires_at <= now() then
    return jsonb_build_object('status', 'expired');
  elsif v_login.is_confirmed is null then
    return jsonb_build_object('status', 'pending');
  end if;
  -- It is valid for one login.
  delete from private.device_logins where device_hash = p_device_hash;
  return jsonb_build_object('status', case when v_login.is_confirmed then 'confirmed' else 'declined' end,
    'user_id', case when v_login.is_confirmed then v_login.decided_by end, 'through', v_login.through);
end;
$$;
comment on function private.take_device_login is
  'What became of a program that waits: {status: pending, declined, expired or confirmed, user_id, through}; good for '
  'one login. Edge functions only.';

create function private.note_session_origin(p_session uuid, p_provider text) returns void
language plpgsql security definer set search_path = '' as $$
begin
  insert into private.session_origins (session_id, provider)
  select s.id, p_provider from auth.sessions as s where s.id = p_session and p_provider <> '';
  perform private.fail('RY404', 'There is no such session.', 'Sign in again.') where not found;
end;
$$;
comment on function private.note_session_origin is
  'Notes that the session of a program was confirmed in one through this identity provider. Edge functions only.';

-- ## personal tokens
-- A person's programs act as that person, with a token of their own: the edge function service-account-token exchanges
-- it for a login of ten minutes, and every call asks the token's row (private.is_proved).
create table private.personal_tokens (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  name text not null check (length(name) between 1 and 60 and name = trim(name)),
  token_hash text not null unique check (token_hash ~ '^[0-9a-f]{64}$'),
  hint text not null check (length(hint) = 4),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  last_used_at timestamptz,
  role text check (role in ('viewer', 'planner', 'approver', 'operator', 'admin')),
  path text not null default '' check (path = '' or private.is_path(path)),
  check (role is not null or path = '')
);
create index personal_tokens_user_id_idx on private.personal_tokens (user_id);
comment on table private.personal_tokens is 'Tokens with which programs act as a person; they go with the account.';
comment on column private.personal_tokens.role is
  'At most what this role may do, and never more than its owner may; null: all that its owner may.';
comment on column private.personal_tokens.path is 'Where it may do more than read; "" is everywhere.';
comment on column private.personal_tokens.token_hash is
  'SHA-256 (hex); with 256 random bits there is nothing to guess. The token is shown once and never stored.';

create function private.personal_token_row(p_token private.personal_tokens) returns jsonb language sql stable as $$
  select to_jsonb(p_token) - array['token_hash', 'user_id'] || jsonb_build_object('is_live', p_token.expires_at > now())
$$;

create function private.add_personal_token(
  p_user uuid, p_name text, p_token_hash text, p_hint text, p_days integer, p_role text, p_path text
) returns jsonb language plpgsql as $$
declare
  v_token private.personal_tokens;
begin
  perform private.fail('RY422', 'A personal token is valid for 1 to 365 days.', 'Choose how long you need it.')
  where p_days is null or p_days not between 1 and 365;
  delete from private.personal_tokens where user_id = p_user and expires_at < now() - interval '90 days';
  perform private.fail('RY413', 'You have 50 personal tokens, which is the limit.',
    'Revoke one that you no longer use.')
  where (select count(*) from private.personal_tokens where user_id = p_user) >= 50;
  perform private.fail('RY422', 'A token for one group needs a role, too.', 'Choose planner or operator.')
  where p_role is null and p_path <> '';
  insert into private.personal_tokens (user_id, name, token_hash, hint, expires_at, role, path)
  values (p_user, trim(p_name), p_token_hash, p_hint, now() + make_interval(days => p_days), p_role,
    coalesce(p_path, ''))
  returning * into v_token;
  return private.personal_token_row(v_token);
exception when check_violation or not_null_violation or unique_violation then
  perform private.fail('RY422', 'The token''s name, hash, hint, role or path is not valid.',
    'A name has 1 to 60 characters; send the SHA-256 (hex) of the token and its last four characters; a role is '
    'viewer, planner, approver, operator or admin.');
end;
$$;

create function private.create_personal_token(
  p_name text, p_token_hash text, p_hint text, p_days integer default 90, p_role text default null,
  p_path text default ''
) returns jsonb language sql security definer set search_path = '' as $$
  select private.need_person();
  select private.refuse_personal_token();
  select private.add_personal_token(private.caller_id(), p_name, p_token_hash, p_hint, p_days, p_role, p_path)
$$;
comment on function private.create_personal_token is
  'Keeps the hash of a token with which the caller''s programs act as them, for so many days; with a role and a path '
  'they may do at most what that role may, there. Everybody who is signed in.';

create function private.take_terminal_login(
  p_code_hash text, p_redirect_uri text, p_challenge text, p_token_hash text, p_hint text
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_login private.device_logins;
begin
  -- A code works once.
  delete from private.device_logins where device_hash = p_code_hash and callback is not null returning * into v_login;
  if v_login.device_hash is null or not coalesce(v_login.is_confirmed, false) or v_login.expires_at <= now()
    or v_login.callback ->> 'redirect_uri' is distinct from p_redirect_uri
    or v_login.callback ->> 'challenge' is distinct from p_challenge then
    return null;
  end if;
  return private.add_personal_token(v_login.decided_by, v_login.program, p_token_hash, p_hint, 90, v_login.role, '');
end;
$$;
comment on function private.take_terminal_login is
  'Keeps the hash of a personal token for the code that a browser brought back to `tofu login`, if address and '
  'challenge are the login''s; null otherwise. Edge functions only.';

create function private.my_personal_tokens() returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_person();
  select coalesce(jsonb_agg(private.personal_token_row(t) order by t.created_at desc), '[]')
  from private.personal_tokens as t where t.user_id = private.caller_id()
$$;
comment on function private.my_personal_tokens is
  'The caller''s own tokens [{id, name, hint, role, path, created_at, expires_at, last_used_at, is_live}]. Everybody '
  'who is signed in.';

create function private.revoke_personal_token(p_token uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_token private.personal_tokens;
begin
  perform private.need_person();
  delete from private.personal_tokens where id = p_token and user_id = private.caller_id() returning * into v_token;
  perform private.fail('RY404', 'You have no such personal token.', 'It may have been revoked already.')
  where v_token.id is null;
  return private.personal_token_row(v_token);
end;
$$;
comment on function private.revoke_personal_token is
  'Ends one of the caller''s tokens, and all that it was exchanged for, at once. Everybody who is signed in.';

create function private.use_personal_token(p_token_hash text) returns jsonb
language sql security definer set search_path = '' as $$
  update private.personal_tokens as t set last_used_at = now()
  from auth.users as u
  where t.token_hash = p_token_hash and t.expires_at > now() and u.id = t.user_id and u.deleted_at is null
    and coalesce(u.banned_until <= now(), true)
  returning jsonb_build_object('id', t.id, 'user_id', t.user_id, 'email', u.email)
$$;
comment on function private.use_personal_token is
  'Whose token this is {id, user_id, email}, and notes its use; null when either is not live. Edge functions only.';

-- ## recovery codes
-- For a person who lost the authenticator app: each code works once, in place of the app's, and removes every device,
-- because only Auth can give a login its second step. The plain codes never arrive here.
create table private.recovery_codes (
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash text not null check (code_hash ~ '^[0-9a-f]{64}$'),
  used_at timestamptz,
  primary key (user_id, code_hash)
);
comment on table private.recovery_codes is 'Codes that sign a person in without their device, each once.';
comment on column private.recovery_codes.code_hash is 'SHA-256 (hex) of the code in lower case, without its hyphen.';

create function private.set_recovery_codes(p_hashes text[]) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.need_person();
  perform private.refuse_personal_token();
  perform private.fail('RY422', 'There are ten recovery codes.', 'Send the SHA-256 (hex) of each.')
  where cardinality(p_hashes) is distinct from 10;
  delete from private.recovery_codes where user_id = private.caller_id();
  insert into private.recovery_codes (user_id, code_hash) select private.caller_id(), h from unnest(p_hashes) as h;
exception when check_violation or not_null_violation or unique_violation then
  perform private.fail('RY422', 'A hash is not valid, or is listed twice.', 'Send the SHA-256 (hex) of each code.');
end;
$$;
comment on function private.set_recovery_codes is
  'Replaces the caller''s recovery codes by ten others, of which it gets the hashes. Everybody who is signed in.';

create function private.recovery_codes_left() returns integer
language sql stable security definer set search_path = '' as $$
  select private.need_person();
  select count(*) from private.recovery_codes as c where c.user_id = private.caller_id() and c.used_at is null
$$;
comment on function private.recovery_codes_left is 'How many of the caller''s codes are unused. All who are signed in.';

-- Answers instead of failing: a failure would undo the count of attempts.
create function private.use_recovery_code(p_hash text) returns boolean
language plpgsql security definer set search_path = '' as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  perform private.fail('RY403', 'This is for people, not for service accounts.') where private.is_account();
  perform private.refuse_personal_token();
  if not private.has_auth_session(v_claims)
    or not private.rate_limit('recovery:' || private.caller_id(), 10, 900) then
    return false;
  end if;
  update private.recovery_codes set used_at = now()
  where user_id = private.caller_id() and code_hash = p_hash and used_at is null;
  if not found then return false; end if;
  delete from auth.mfa_factors where user_id = private.caller_id();
  return true;
end;
$$;
comment on function private.use_recovery_code is
  'Uses up a recovery code of the caller, whose login may lack its second step, and removes their devices; false for '
  'a wrong or used one, and after ten attempts in a quarter of an hour. Everybody who is signed in.';

-- Auth writes these rows itself, so the changes are noted where they happen, in each of the member's logs.
create function private.note_sign_in_change() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  v_user pg_catalog.uuid := to_jsonb(case when tg_op = 'DELETE' then old else new end) ->> tg_argv[1];
begin
  insert into public.audit_events (org_id, actor_kind, actor_id, actor_label, action, target_kind, target_id,
    target_label)
  select m.org_id, 'user', m.user_id, m.email, tg_argv[0], 'member', m.user_id::pg_catalog.text, m.email
  from public.memberships as m where m.user_id = v_user;
  return null;
end;
$$;
create trigger note_password after update of encrypted_password on auth.users for each row
  when (old.encrypted_password <> '' and old.encrypted_password is distinct from new.encrypted_password)
  execute function private.note_sign_in_change('member.password_changed', 'id');
create trigger note_device after update of status on auth.mfa_factors for each row
  when (old.status <> 'verified' and new.status = 'verified')
  execute function private.note_sign_in_change('member.device_added', 'user_id');
create trigger note_removed_device after delete on auth.mfa_factors for each row
  when (old.status = 'verified')
  execute function private.note_sign_in_change('member.device_removed', 'user_id');
