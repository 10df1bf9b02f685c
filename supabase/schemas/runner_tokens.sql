-- Tokens with which runners sign in. Only the bcrypt hash of a token reaches the database; the edge function verifies
-- it.

-- ## secrets and sessions
create table private.worker_tokens (
  id uuid primary key default gen_random_uuid(),
  worker_id uuid not null references public.workers (id) on delete cascade,
  hash text not null check (private.is_bcrypt_hash(hash)),
  hint text not null check (length(hint) = 4),
  created_by uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index worker_tokens_worker_id_idx on private.worker_tokens (worker_id, created_at desc);
alter table private.worker_tokens enable row level security;
comment on table private.worker_tokens is
  'Hashes of runners'' tokens. Two may be live at a time, so that rotation overlaps.';
comment on column private.worker_tokens.hash is 'bcrypt hash; the token is shown once and never stored.';
comment on column private.worker_tokens.hint is 'Its last four characters.';
comment on column private.worker_tokens.expires_at is 'After this it opens no session.';
comment on column private.worker_tokens.last_used_at is 'When it last opened a session.';
comment on column private.worker_tokens.revoked_at is 'When it was revoked; its sessions ended then.';

create view private.live_tokens as
select
  t.id,
  t.worker_id,
  t.hash,
  t.created_at
from private.worker_tokens as t
where t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
comment on view private.live_tokens is 'Tokens that open sessions: neither revoked nor expired.';
comment on column private.live_tokens.hash is 'bcrypt hash of the token.';

-- Stores the hash of a new token.
create function private.add_token(p_worker uuid, p_hash text, p_hint text, p_expires_at timestamptz) returns uuid
language plpgsql set search_path = '' as $$
declare
  v_id pg_catalog.uuid;
begin
  insert into private.worker_tokens (worker_id, hash, hint, created_by, expires_at)
  values (p_worker, p_hash, p_hint, private.caller_id(), p_expires_at) returning id into v_id;
  return v_id;
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422',
      'The token must come as a bcrypt hash of cost 8 to 12 with a hint of four characters.',
        'Generate the token where you show it; send only its hash.');
end;
$$;

-- ## tokens

-- A token's record without its hash.
create function private.token_json(p_token private.worker_tokens) returns jsonb
language sql stable set search_path = '' as $$
  select to_jsonb(p_token) - 'hash' || jsonb_build_object('is_live',
    exists (select from private.live_tokens as t where t.id = p_token.id))
$$;

-- Ends a runner's tokens, and the sessions that they opened, at a time, where they do not end before it.
create function private.expire_tokens(p_worker uuid, p_at timestamptz) returns void
language plpgsql set search_path = '' as $$
begin
  update private.worker_tokens as t set expires_at = least(t.expires_at, p_at)
  where t.worker_id = p_worker and t.revoked_at is null;
  update private.sessions as s set expires_at = t.expires_at from private.worker_tokens as t
  where s.worker_id = p_worker and s.ended_at is null and t.id = s.token_id
    and s.expires_at is distinct from t.expires_at;
end;
$$;

create function private.rotate_worker_token(
  p_worker uuid, p_token_hash text, p_token_hint text, p_overlap_seconds integer default 86400
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_token private.worker_tokens;
begin
  v_worker := private.lock_worker(p_worker, 'runner.manage');
  if coalesce(p_overlap_seconds, -1) not between 0 and 2592000 then
    perform private.fail('RY422', 'The overlap must be between 0 seconds and 30 days.');
  end if;
  perform private.expire_tokens(p_worker, now() + make_interval(secs => p_overlap_seconds));
  -- Two live tokens at most: the newest of the old ones may overlap, the others end now.
  for v_token in
    update private.worker_tokens as t set revoked_at = now()
    where t.worker_id = p_worker and t.revoked_at is null and t.id not in (
      select o.id from private.worker_tokens as o where o.worker_id = p_worker and o.revoked_at is null
        order by o.created_at desc limit 1)
    returning t.*
  loop
    perform private.end_sessions(p_worker, null, v_token.id, 'its token was revoked');
  end loop;
  -- On its own line: in a where clause it would be called for every row, and add a token each time.
  v_token.id := private.add_token(p_worker, p_token_hash, p_token_hint, null);
  select * into v_token from private.worker_tokens where id = v_token.id;
  perform private.refresh_worker_status(p_worker);
  perform private.record_worker_event(p_worker, 'token_rotated',
    'Rotated by ' || private.caller_label(v_worker.org_id));
  perform private.audit(v_worker.org_id, 'worker.token_rotated', 'worker', p_worker::pg_catalog.text, v_worker.name,
    jsonb_build_object('hint', p_token_hint, 'overlap_seconds', p_overlap_seconds));
  return private.token_json(v_token);
end;
$$;
comment on function private.rotate_worker_token is
  'Gives a runner a new token; the present one, and the sessions that it opened, stay good for the overlap. Admins.';
grant execute on function private.rotate_worker_token to authenticated;

create function private.revoke_worker_token(p_token uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_token private.worker_tokens;
  v_worker public.workers;
begin
  select t.* into v_token from private.worker_tokens as t join public.workers as w on w.id = t.worker_id
  where t.id = p_token and w.removed_at is null and (w.is_shared or w.org_id in (select private.my_org_ids()));
  if v_token.id is null then
    perform private.fail('RY404', 'There is no such token.');
  end if;
  v_worker := private.lock_worker(v_token.worker_id, 'runner.manage');
  update private.worker_tokens set revoked_at = coalesce(revoked_at, now()) where id = p_token returning * into v_token;
  perform private.end_sessions(v_worker.id, null, p_token, 'its token was revoked');
  perform private.refresh_worker_status(v_worker.id);
  perform private.wake_worker(v_worker.id);
  perform private.record_worker_event(v_worker.id, 'token_revoked',
    'Revoked by ' || private.caller_label(v_worker.org_id));
  perform private.audit(v_worker.org_id, 'worker.token_revoked', 'worker', v_worker.id::pg_catalog.text, v_worker.name,
    jsonb_build_object('hint', v_token.hint));
  return private.token_json(v_token);
end;
$$;
comment on function private.revoke_worker_token is
  'Revokes a token and ends the sessions that it opened, at once. Admins.';
grant execute on function private.revoke_worker_token to authenticated;

create function private.list_worker_tokens(p_worker uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.need('runner.manage', w.org_id) from public.workers as w
  where w.id = p_worker and not w.is_shared and w.org_id in (select private.my_org_ids());
  if not found then
    perform private.fail('RY404', 'There is no such runner.');
  end if;
  return (select coalesce(jsonb_agg(private.token_json(t) order by t.created_at desc), '[]')
    from private.worker_tokens as t
    where t.worker_id = p_worker);
end;
$$;
comment on function private.list_worker_tokens is
  'A runner''s tokens: hint, creation, expiry, last use; never the token or its hash. Admins.';
grant execute on function private.list_worker_tokens to authenticated;

create function private.check_worker_credential(
  p_worker uuid, p_token uuid default null, p_service_account uuid default null, p_account_version integer default
  null
) returns void
language plpgsql stable security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_account public.service_accounts;
begin
  select * into v_worker from public.workers where id = p_worker and removed_at is null;
  select * into v_account from public.service_accounts
  where id = p_service_account and org_id = v_worker.org_id and removed_at is null and not is_disabled
    and credential_version = p_account_version;
  if num_nonnulls(p_token, p_service_account) = 1 and (v_account.id = v_worker.service_account_id or exists (
    select from private.live_tokens as t where t.id = p_token and t.worker_id = p_worker)) then
    return;
  end if;
  -- Who has proved to be an account of the same organisation may know what is missing; others learn nothing.
  if v_account.id is not null then
    perform private.fail('RY403', format('The service account "%s" is not assigned to this runner.', v_account.name),
      format('Choose it on the runner''s page under Edit, or: runyard runners update "%s" --service-account "%s".',
        v_worker.name,
        v_account.name));
  end if;
  perform private.fail('RY403', 'These credentials do not belong to this runner.',
    'Use the token that was shown when the runner was registered.');
end;
$$;
comment on function private.check_worker_credential is
  'Refuses a token or a service account that may not open a session of this runner, and says why. Edge functions '
  'only.';
grant execute on function private.check_worker_credential to service_role;

create function private.worker_token_hashes(p_worker uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select coalesce(jsonb_agg(jsonb_build_object('token_id', t.id, 'hash', t.hash) order by t.created_at desc), '[]')
  from (
    select t.id, t.hash, t.created_at from private.live_tokens as t join public.workers as w on w.id = t.worker_id
    where t.worker_id = p_worker and w.removed_at is null
    order by t.created_at desc limit 2
  ) as t
$$;
comment on function private.worker_token_hashes is
  'Hashes of a runner''s live tokens, two at most, to be verified outside of the database. Edge functions only.';
grant execute on function private.worker_token_hashes to service_role;
