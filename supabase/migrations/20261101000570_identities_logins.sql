-- Signing a program in by a short code: it shows the code, somebody who is signed in confirms it on a page, and the
-- program gets a login of theirs from the edge function device-login (RFC 8628). No password is typed into a terminal.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table private.device_logins (
  device_hash text primary key check (device_hash ~ '^[0-9a-f]{64}$'),
  user_code text not null unique check (user_code ~ '^[B-Z]{8}$'),
  program text not null check (length(program) between 1 and 200),
  address text not null default '' check (length(address) <= 200),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '10 minutes',
  decided_by uuid,
  is_confirmed boolean
);
create index device_logins_expires_at_idx on private.device_logins (expires_at);
alter table private.device_logins enable row level security;
comment on table private.device_logins is 'Programs that wait to be signed in; a row lives for ten minutes.';
comment on column private.device_logins.device_hash is 'SHA-256 (hex) of the secret that the program polls with.';
comment on column private.device_logins.user_code is 'What the person compares and confirms.';
comment on column private.device_logins.program is 'What the program says it is, and on which machine.';
comment on column private.device_logins.address is 'Where the request came from.';
comment on column private.device_logins.expires_at is 'After this the code is void.';
comment on column private.device_logins.decided_by is 'Who confirmed or declined it.';
comment on column private.device_logins.is_confirmed is 'What they said; null until then.';

create function private.start_device_login(p_device_hash text, p_user_code text, p_program text, p_address text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  delete from private.device_logins where expires_at < now() - interval '1 hour';
  insert into private.device_logins (device_hash, user_code, program, address)
  values (p_device_hash, p_user_code, left(p_program, 200), left(coalesce(p_address, ''), 200));
  return jsonb_build_object('expires_in', 600);
exception
  when unique_violation then
    perform private.fail('RY409', 'That code is in use.', 'Draw another one.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the login is missing or not valid.',
      'Send the SHA-256 of the device''s secret, a code of eight letters from B to Z, and the program''s name.');
end;
$$;
comment on function private.start_device_login(text, text, text, text) is 'Body of public.start_device_login.';
grant execute on function private.start_device_login(text, text, text, text) to service_role;

create function private.need_device_login(p_user_code text)
returns private.device_logins
language plpgsql
set search_path = ''
as $$
declare
  v_login private.device_logins;
begin
  perform private.need_person();
  select * into v_login from private.device_logins
  where user_code = upper(regexp_replace(p_user_code, '[^A-Za-z]', '', 'g')) and expires_at > now()
    and is_confirmed is null
  for update;
  if v_login.device_hash is null then
    perform private.fail('RY404', 'No program waits with this code.',
      'It may be mistyped, older than ten minutes, or used already: start `runyard login` again.');
  end if;
  return v_login;
end;
$$;
comment on function private.need_device_login(text) is 'The login that waits with a code, however the code is written.';

create function private.device_login(p_user_code text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_login private.device_logins := private.need_device_login(p_user_code);
begin
  return jsonb_build_object('user_code', v_login.user_code, 'program', v_login.program, 'address', v_login.address,
    'created_at', v_login.created_at, 'expires_at', v_login.expires_at);
end;
$$;
comment on function private.device_login(text) is 'Body of public.device_login.';
grant execute on function private.device_login(text) to authenticated;

create function private.decide_device_login(p_user_code text, p_is_confirmed boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_login private.device_logins := private.need_device_login(p_user_code);
begin
  if p_is_confirmed is null then
    perform private.fail('RY422', 'Confirm it or decline it.', 'Send true or false.');
  end if;
  update private.device_logins set is_confirmed = p_is_confirmed, decided_by = private.caller_id()
  where device_hash = v_login.device_hash;
  return jsonb_build_object('user_code', v_login.user_code, 'is_confirmed', p_is_confirmed);
end;
$$;
comment on function private.decide_device_login(text, boolean) is 'Body of public.decide_device_login.';
grant execute on function private.decide_device_login(text, boolean) to authenticated;

create function private.take_device_login(p_device_hash text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_login private.device_logins;
begin
  select * into v_login from private.device_logins where device_hash = p_device_hash for update;
  if v_login.device_hash is null or v_login.expires_at <= now() then
    return jsonb_build_object('status', 'expired');
  elsif v_login.is_confirmed is null then
    return jsonb_build_object('status', 'pending');
  end if;
  -- It is good for one login.
  delete from private.device_logins where device_hash = p_device_hash;
  return jsonb_build_object('status', case when v_login.is_confirmed then 'confirmed' else 'declined' end,
    'user_id', case when v_login.is_confirmed then v_login.decided_by end);
end;
$$;
comment on function private.take_device_login(text) is 'Body of public.take_device_login.';
grant execute on function private.take_device_login(text) to service_role;

revoke execute on all functions in schema private from public;
