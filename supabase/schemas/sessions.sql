-- Sessions: how a process becomes an instance of a runner, and how every later call knows its caller. The edge function
-- verifies the token (bcrypt, once) and calls open_worker_session with the secret key; the runner then has a short JWT
-- with the session's id. Its calls name no runner: the identity comes from that id alone, and the row is read every
-- time, so revoking is immediate.

-- ## tokens
-- Tokens with which runners sign in. Only their bcrypt hashes are here; the edge function verifies them.

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
comment on table private.worker_tokens is 'Hashes of runners'' tokens; two may be live, so that rotation overlaps.';

create view private.live_tokens as
select
  t.id,
  t.worker_id,
  t.hash,
  t.created_at
from private.worker_tokens as t
where t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
comment on view private.live_tokens is 'Tokens that open sessions: neither revoked nor expired.';

create function private.add_token(p_worker uuid, p_hash text, p_hint text, p_expires_at timestamptz) returns uuid
language plpgsql as $$
declare
  v_id pg_catalog.uuid;
begin
  insert into private.worker_tokens (worker_id, hash, hint, created_by, expires_at)
  values (p_worker, p_hash, p_hint, private.caller_id(), p_expires_at) returning id into v_id;
  return v_id;
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'The token must come as a bcrypt hash of cost 8 to 12 with a hint of four characters.',
    'Generate the token where you show it; send only its hash.');
end;
$$;

create function private.token_json(p_token private.worker_tokens) returns jsonb language sql stable as $$
  select to_jsonb(p_token) - 'hash' || jsonb_build_object('is_live',
    exists (select from private.live_tokens as t where t.id = p_token.id))
$$;

-- Ends a runner's tokens, and the sessions that they opened, at a time, where they do not end before it.
create function private.expire_tokens(p_worker uuid, p_at timestamptz) returns void language sql as $$
  update private.worker_tokens as t set expires_at = least(t.expires_at, p_at)
  where t.worker_id = p_worker and t.revoked_at is null;
  update private.sessions as s set expires_at = t.expires_at from private.worker_tokens as t
  where s.worker_id = p_worker and s.ended_at is null and t.id = s.token_id
    and s.expires_at is distinct from t.expires_at
$$;

create function private.rotate_worker_token(
  p_worker uuid, p_token_hash text, p_token_hint text, p_overlap_seconds integer default 86400
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_token private.worker_tokens;
begin
  v_worker := private.lock_worker(p_worker, 'runner.manage');
  perform private.fail('RY422', 'The overlap must be between 0 seconds and 30 days.')
  where coalesce(p_overlap_seconds, -1) not between 0 and 2592000;
  perform private.expire_tokens(p_worker, now() + make_interval(secs => p_overlap_seconds));
  -- Two live tokens at most: the newest of the old ones may overlap, the others end now.
  for v_token in
    update private.worker_tokens as t set revoked_at = now()
    where t.worker_id = p_worker and t.revoked_at is null and t.id not in (
      select o.id from private.worker_tokens as o where o.worker_id = p_worker and o.revoked_at is null
        order by o.created_at desc limit 1)
    returning t.* loop
    perform private.end_sessions(p_worker, null, v_token.id, 'its token was revoked');
  end loop;
  -- On its own line: in a where clause it would be called for every row, and add a token each time.
  v_token.id := private.add_token(p_worker, p_token_hash, p_token_hint, null);
  select * into v_token from private.worker_tokens where id = v_token.id;
  perform private.refresh_worker_status(p_worker);
  perform private.record_worker_event(p_worker, 'token_rotated',
    'Rotated by ' || private.caller_label(v_worker.org_id));
  perform private.audited(to_jsonb(v_worker), 'worker.token_rotated', v_worker.name,
    jsonb_build_object('hint', p_token_hint, 'overlap_seconds', p_overlap_seconds));
  return private.token_json(v_token);
end;
$$;
comment on function private.rotate_worker_token is
  'Gives a runner a new token; the present one, and the sessions that it opened, stay good for the overlap. Admins.';

create function private.revoke_worker_token(p_token uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_token private.worker_tokens;
  v_worker public.workers;
begin
  select t.* into v_token from private.worker_tokens as t join public.workers as w on w.id = t.worker_id
  where t.id = p_token and w.removed_at is null
    and (w.is_shared or w.org_id in (select private.my_org_ids('module.read')));
  perform private.fail('RY404', 'There is no such token.') where v_token.id is null;
  v_worker := private.lock_worker(v_token.worker_id, 'runner.manage');
  update private.worker_tokens set revoked_at = coalesce(revoked_at, now()) where id = p_token returning * into v_token;
  perform private.end_sessions(v_worker.id, null, p_token, 'its token was revoked');
  perform private.refresh_worker_status(v_worker.id);
  perform private.wake_worker(v_worker.id);
  perform private.record_worker_event(v_worker.id, 'token_revoked',
    'Revoked by ' || private.caller_label(v_worker.org_id));
  perform private.audited(to_jsonb(v_worker), 'worker.token_revoked', v_worker.name,
    jsonb_build_object('hint', v_token.hint));
  return private.token_json(v_token);
end;
$$;
comment on function private.revoke_worker_token is 'Revokes a token and ends its sessions at once. Admins.';

create function private.list_worker_tokens(p_worker uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.need('runner.manage', w.org_id) from public.workers as w
  where w.id = p_worker and not w.is_shared and w.org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such runner.') where not found;
  return to_jsonb(array(select private.token_json(t) from private.worker_tokens as t where t.worker_id = p_worker
    order by t.created_at desc));
end;
$$;
comment on function private.list_worker_tokens is 'A runner''s tokens: hint, times, last use; no hash. Admins.';

create function private.check_worker_credential(
  p_worker uuid, p_token uuid default null, p_service_account uuid default null, p_account_version integer default null
) returns void language plpgsql stable security definer set search_path = '' as $$
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
  -- An account of the same organisation may learn what is missing; others learn nothing.
  if v_account.id is not null then
    perform private.fail('RY403', format('The service account "%s" is not assigned to this runner.', v_account.name),
      format('Choose it on the runner''s page under Edit, or: runyard runners update "%s" --service-account "%s".',
        v_worker.name, v_account.name));
  end if;
  perform private.fail('RY403', 'These credentials do not belong to this runner.',
    'Use the token that was shown when the runner was registered.');
end;
$$;
comment on function private.check_worker_credential is
  'Refuses a token or a service account that may not open a session of this runner, and says why. Edge functions only.';

create function private.worker_token_hashes(p_worker uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select to_jsonb(array(select jsonb_build_object('token_id', t.id, 'hash', t.hash)
    from private.live_tokens as t join public.workers as w on w.id = t.worker_id
    where t.worker_id = p_worker and w.removed_at is null order by t.created_at desc limit 2))
$$;
comment on function private.worker_token_hashes is
  'Hashes of a runner''s live tokens, two at most, to be verified outside of the database. Edge functions only.';

-- ## sessions
create table private.sessions (
  id uuid primary key default gen_random_uuid(),
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_id uuid not null references public.worker_instances (id) on delete cascade,
  token_id uuid references private.worker_tokens (id) on delete cascade,
  service_account_id uuid,
  account_version integer,
  epoch integer not null,
  boot_id uuid not null,
  opened_at timestamptz not null default now(),
  renewed_at timestamptz not null default now(),
  expires_at timestamptz,
  ended_at timestamptz,
  end_reason text
);
create unique index sessions_live_idx on private.sessions (instance_id) where ended_at is null;
create index sessions_worker_id_idx on private.sessions (worker_id) where ended_at is null;
create index sessions_token_id_idx on private.sessions (token_id) where ended_at is null;
create index sessions_expires_at_idx on private.sessions (expires_at) where ended_at is null and expires_at is not null;
create index sessions_ended_at_idx on private.sessions (ended_at) where ended_at is not null;
comment on table private.sessions is 'One life of an instance: each call checks this row, so ending it is immediate.';
comment on column private.sessions.id is 'The session''s id: the sid of the runner''s token.';
comment on column private.sessions.account_version is 'Which version of the account opened it: no other renews it.';
comment on column private.sessions.epoch is 'The instance''s epoch; the highest one is the rightful one.';
comment on column private.sessions.expires_at is 'When the token that opened it ends; rotating brings it nearer.';

-- Ends sessions of a runner, an instance, a token or a service account. Their next call is refused with the reason.
create function private.end_sessions(p_worker uuid, p_instance uuid, p_credential uuid, p_reason text) returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  -- Rows are locked in one order everywhere: the runner, its session and heartbeat, its instance, its jobs.
  perform from public.workers as w where w.id = p_worker for no key update;
  with ended as (
    update private.sessions as s set ended_at = now(), end_reason = p_reason
    where s.ended_at is null and s.worker_id = p_worker
      and (p_instance is null or s.instance_id = p_instance)
        and (p_credential is null or p_credential in (s.token_id, s.service_account_id))
    returning s.instance_id, s.id
  ), silenced as (
    delete from private.heartbeats as h using ended as e where h.instance_id = e.instance_id and h.session_id = e.id
  )
  update public.worker_instances as i set status = 'OFFLINE', disconnected_at = now() from ended as e
    where i.id = e.instance_id;
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;

-- ## opening
-- Whether the token of a session is still good, or its service account with the credentials of then.
create function private.is_credential_live(p_session private.sessions) returns boolean language sql stable as $$
  select exists (select from private.live_tokens as t where t.id = p_session.token_id)
    or exists (select from public.service_accounts as a join public.workers as w on w.service_account_id = a.id
      where a.id = p_session.service_account_id and w.id = p_session.worker_id and a.removed_at is null
        and not a.is_disabled and a.credential_version = p_session.account_version)
$$;

-- The session that an executor of an ended one speaks for, while its credential is good. Null where it ended, too.
create function private.attempt_session(p_session private.sessions, p_job bigint, p_attempt integer) returns uuid
language sql stable as $$
  -- A change belongs to its attempt, whatever became of the runner's process; before it, only the session that took
  -- the job over counts. Where the attempt has no job any more, the fence refuses it, and its state can be handed over.
  select case when q.job_id is null then p_session.id
    when q.has_touched or q.session_id = n.id then coalesce(q.session_id, n.id, p_session.id) end
  from (select) as one
  left join private.live_jobs as q
    on q.job_id = p_job and q.attempt = p_attempt and q.instance_id = p_session.instance_id
    and q.stage in ('RUNNING', 'HELD')
  left join lateral (
    select o.id from private.sessions as o where o.instance_id = p_session.instance_id and o.ended_at is null limit 1
  ) as n on true
  where p_job is not null and private.is_credential_live(p_session)
    and (q.job_id is not null or p_session.ended_at > now() - interval '7 days')
$$;

-- The session that the calling executor or engine speaks for although its own has ended. Null for everybody else.
create function private.executor_session() returns uuid language plpgsql stable as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if v_claims ->> 'role' in ('executor', 'engine') then
    return (
      select private.attempt_session(s, (v_claims ->> 'job')::bigint, (v_claims ->> 'att')::integer)
      from private.sessions as s where s.id = (v_claims ->> 'sid')::pg_catalog.uuid);
  end if;
  return null;
end;
$$;

-- Refuses a second process while the first is fresh. The same process (boot id) may always return.
create function private.refuse_second_process(p_worker public.workers, p_instance text, p_boot_id uuid) returns void
language plpgsql as $$
declare
  v_other pg_catalog.record;
begin
  select l.name, l.last_seen_at into v_other
  from private.sessions as s join private.instance_liveness as l on l.instance_id = s.instance_id
    and l.session_id = s.id
  where s.worker_id = p_worker.id and s.ended_at is null and s.boot_id <> p_boot_id and l.is_fresh
    and (l.name = p_instance or not p_worker.allow_multiple_instances)
  limit 1;
  if v_other.name is null then return; end if;
  perform private.fail('RY409', format('Another process is connected as instance "%s" of runner "%s".', p_instance,
    p_worker.name),
      'Stop it, or give this process a name of its own. It can take over 60 s after the other''s last heartbeat.')
  where v_other.name = p_instance;
  perform private.fail('RY409', format('Runner "%s" accepts one process, and "%s" is connected.', p_worker.name,
    v_other.name), 'Stop the other process, or allow multiple instances in the runner''s settings.');
end;
$$;

-- Ends the sessions that a new one replaces.
create function private.take_over(
  p_worker public.workers, p_instance public.worker_instances, p_session uuid, p_boot_id uuid
) returns void language plpgsql as $$
begin
  -- The same process keeps its jobs when it returns; another process does not inherit what it did not start.
  update private.live_jobs as q set session_id = p_session from private.sessions as s
  where q.stage = 'RUNNING' and q.instance_id = p_instance.id and s.id = q.session_id and s.boot_id = p_boot_id;
  -- … but has a lease's time to report what it found on disk (worker_recover).
  update private.live_jobs as q set lease_until = greatest(q.lease_until, now() + private.lease())
  where q.stage = 'RUNNING' and q.instance_id = p_instance.id and q.session_id <> p_session;
  perform private.end_sessions(p_worker.id, case when p_worker.allow_multiple_instances then p_instance.id end, null,
    format('another process took over (epoch %s)', p_instance.epoch + 1));
end;
$$;

-- Refuses facts about a host that cannot be read, or that are too much with what its instance told before.
create function private.check_facts(p_facts jsonb, p_instance uuid) returns void language plpgsql stable as $$
begin
  if jsonb_typeof(p_facts) <> 'object' or coalesce(p_facts ->> 'capacity', '1') !~ '^[0-9]{1,6}$'
    or jsonb_typeof(coalesce(nullif(p_facts -> 'engines', 'null'), '{}')) <> 'object'
    or coalesce(p_facts ->> 'clock_off', '0') !~ '^-?[0-9]{1,9}$'
    -- News are added to what is known: both together have one size, or they would grow with every heartbeat.
    or (select octet_length((i.facts || p_facts)::pg_catalog.text) from public.worker_instances as i
      where i.id = p_instance) > 65536 then
    perform private.fail('RY422', 'The runner''s facts about its host are not valid.',
      'All of it is an object of at most 64 KiB; capacity and clock_off are numbers, and engines an object of names '
      'and versions.');
  end if;
end;
$$;

-- Records the connection: instance, first heartbeat, status.
create function private.announce_instance(
  p_worker public.workers, p_instance uuid, p_session uuid, p_boot_id uuid, p_facts jsonb
) returns void language plpgsql as $$
begin
  perform private.check_facts(p_facts, p_instance);
  update public.worker_instances as i set
    epoch = i.epoch + 1, boot_id = p_boot_id, status = 'ONLINE', connected_at = now(), disconnected_at = null,
    last_error = null, hostname = coalesce(left(p_facts ->> 'hostname', 255), i.hostname),
    -- Another process may leave the number of its slots to the runner's record.
    facts = i.facts - 'capacity' || (p_facts - array['engines', 'engine_note', 'last_error']),
    engines = coalesce(nullif(p_facts -> 'engines', 'null'), i.engines),
      version = coalesce(left(p_facts ->> 'version', 50), i.version),
    capacity = private.slots_of(p_worker.capacity, p_facts)
  where i.id = p_instance;
  insert into private.heartbeats as h (instance_id, session_id, worker_id, last_seen_at, tick_at)
  values (p_instance, p_session, p_worker.id, now(), date_bin('15 minutes', now(), '2000-01-01 00:00+00'))
  on conflict (instance_id) do update set session_id = excluded.session_id, last_seen_at = excluded.last_seen_at,
    is_draining = false;
  if p_facts ->> 'version' is not null then
    update public.workers set version = left(p_facts ->> 'version', 50)
    where id = p_worker.id and version is distinct from left(p_facts ->> 'version', 50);
  end if;
  perform private.record_worker_event(p_worker.id, 'connected', null,
    (select i.name from public.worker_instances as i where i.id = p_instance));
  perform private.refresh_worker_status(p_worker.id);
end;
$$;

create function private.open_worker_session(
  p_worker uuid, p_instance text, p_boot_id uuid, p_facts jsonb default '{}', p_token uuid default null,
  p_service_account uuid default null, p_account_version integer default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers;
  v_instance public.worker_instances;
  v_session pg_catalog.uuid := gen_random_uuid();
begin
  -- As rotating does, the account before the runner: whichever comes second sees what the first one did.
  perform from public.service_accounts as a where a.id = p_service_account for key share;
  -- The states of the instance's jobs before the runner: a call that ends one of them may then change the runner.
  perform private.lock_job_states(array(
    select q.job_id from private.live_jobs as q join public.worker_instances as i on i.id = q.instance_id
    where i.worker_id = p_worker and i.name = p_instance and q.stage = 'RUNNING'));
  select * into v_worker from public.workers where id = p_worker and removed_at is null for no key update;
  perform private.fail('RY404', 'There is no such runner.', 'Check WORKER_ID; the runner may have been removed.')
  where v_worker.id is null;
  perform private.check_worker_credential(p_worker, p_token, p_service_account, p_account_version);
  perform private.fail('RY422', 'An instance name has 1 to 100 letters, digits, dots, hyphens or underscores.',
    'Set the instance''s name in the runner''s settings.')
  where coalesce(p_instance, '') !~ '^[A-Za-z0-9._-]{1,100}$' or p_boot_id is null;
  perform private.refuse_second_process(v_worker, p_instance, p_boot_id);
  insert into public.worker_instances as i (worker_id, org_id, is_shared, name)
  values (p_worker, v_worker.org_id, v_worker.is_shared, p_instance)
  on conflict (worker_id, name) do update set name = excluded.name returning * into v_instance;
  perform private.take_over(v_worker, v_instance, v_session, p_boot_id);
  insert into private.sessions (id, worker_id, instance_id, token_id, service_account_id, account_version, epoch,
    boot_id, expires_at)
  values (v_session, p_worker, v_instance.id, p_token, p_service_account, p_account_version, v_instance.epoch + 1,
    p_boot_id, (select t.expires_at from private.worker_tokens as t where t.id = p_token));
  update private.worker_tokens set last_used_at = now() where id = p_token;
  update public.service_accounts set last_used_at = now() where id = p_service_account;
  perform private.announce_instance(v_worker, v_instance.id, v_session, p_boot_id, coalesce(p_facts, '{}'));
  return jsonb_build_object(
    'session_id', v_session, 'instance_id', v_instance.id, 'instance_name', p_instance, 'epoch', v_instance.epoch + 1,
    'worker_id', p_worker, 'worker_name', v_worker.name, 'org_id', v_worker.org_id, 'is_shared', v_worker.is_shared,
    'org_slug', (select o.slug from public.organizations as o where o.id = v_worker.org_id),
    'labels', v_worker.labels, 'capacity', v_worker.capacity, 'lease_seconds',
    extract(epoch from private.lease())::integer, 'heartbeat_seconds', 15);
end;
$$;
comment on function private.open_worker_session is
  'Opens a session for a process whose token or service account was verified. Refuses a second process while the '
  'first is fresh. Edge functions only.';

create function private.renew_worker_session(p_session uuid, p_job bigint default null, p_attempt integer default null)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_session private.sessions;
begin
  update private.sessions as s set renewed_at = now()
  from public.workers as w
  where s.id = p_session and w.id = s.worker_id and w.removed_at is null and private.is_credential_live(s)
    and (s.ended_at is null or private.attempt_session(s, p_job, p_attempt) is not null)
  returning s.* into v_session;
  perform private.fail('RY401', 'This session has ended.', 'Open a new one with the runner''s token.')
  where v_session.id is null;
  return (
    select jsonb_build_object('session_id', v_session.id, 'instance_id', v_session.instance_id, 'epoch',
      v_session.epoch, 'worker_id', w.id, 'worker_name', w.name, 'org_id', w.org_id, 'is_shared', w.is_shared)
    from public.workers as w where w.id = v_session.worker_id);
end;
$$;
comment on function private.renew_worker_session is
  'Notes that a live session gets a new token; refuses one that ended (but for an executor whose attempt holds the '
  'job), or whose token or account is not good any more. Edge functions only.';

-- ## who is calling
create type private.runner as (
  session_id uuid, worker_id uuid, instance_id uuid, org_id uuid, worker_name text, worker_status public.worker_status,
  is_open boolean, is_for_one_job boolean
);
comment on type private.runner is
  'The runner that is calling, as its session says: who it is, whether it is neither disabled nor draining, and '
  'whether an executor or an engine speaks for it.';

-- The calling runner, from the session id in its token alone. Refuses ended sessions and removed runners; an executor
-- in the middle of a change outlives its session.
create function private.this_runner() returns private.runner language plpgsql stable as $$
declare
  v_runner private.runner;
  v_claims pg_catalog.jsonb := private.jwt();
  v_session pg_catalog.uuid := v_claims ->> 'sid';
  v_as pg_catalog.uuid;
  v_reason pg_catalog.text;
begin loop
    select coalesce(v_as, s.id), w.id, s.instance_id, w.org_id, w.name, w.status, not (w.is_disabled or w.is_draining),
      v_claims ->> 'role' in ('executor', 'engine')
    into v_runner
    from private.sessions as s
    join public.workers as w on w.id = s.worker_id
    where s.id = v_session and w.removed_at is null
      and (v_as is not null or s.ended_at is null and (s.expires_at is null or s.expires_at > now()));
    if v_runner.session_id is not null then return v_runner; end if;
    exit when v_as is not null;
    -- Nearly never: the second look is for an executor whose runner has another session by now.
    v_as := private.executor_session();
    exit when v_as is null;
  end loop;
  select coalesce(s.end_reason, case when s.expires_at <= now() then 'its token expired' end) into v_reason
  from private.sessions as s where s.id = v_session;
  perform private.fail('RY401', 'This session has ended: ' || coalesce(v_reason, 'it is not known') || '.',
    'Stop. If the runner should continue, open a new session with its token.');
  return null;
end;
$$;

create function private.worker_close_session(p_reason text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
begin
  -- A caller that waited must not end a successor's session: lock the row first, then check that this session is live.
  perform from public.workers as w where w.id = v_runner.worker_id for no key update;
  v_runner := private.this_runner();
  perform private.end_sessions(v_runner.worker_id, v_runner.instance_id, null,
    coalesce(nullif(left(trim(p_reason), 200), ''), 'process exited'));
  perform private.record_worker_event(v_runner.worker_id, 'disconnected', left(p_reason, 200), i.name)
  from public.worker_instances as i where i.id = v_runner.instance_id;
  perform private.refresh_worker_status(v_runner.worker_id);
  return jsonb_build_object('closed', true);
end;
$$;
comment on function private.worker_close_session is 'A runner''s process ends: it is OFFLINE at once, not after 60 s.';

-- ## the fence
-- The fence: which attempt of a job a caller may speak for. Every call of a runner or an executor about a job passes
-- it; it is what makes requeueing safe, and what lets an attempt that was out of contact return before a person
-- released it.
-- Refuses an executor (a process that a runner started for one job) or an engine (what that job runs) that names
-- another job or attempt than its token does. Asked of those alone: runner.is_for_one_job.
create function private.check_scope(p_job bigint, p_attempt integer) returns void language plpgsql stable as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  if (v_claims ->> 'job', v_claims ->> 'att') is distinct from (p_job::pg_catalog.text, p_attempt::pg_catalog.text) then
    perform private.fail('RY403', format('This credential is not for attempt %s of job %s.', p_attempt, p_job),
      'An executor or an engine works on the one job that it was started for.');
  end if;
end;
$$;

-- A job of the runner's organisation, or once given to it. Null for every other, as for one that does not exist.
create function private.known_job(p_runner private.runner, p_job bigint) returns public.provision_jobs
language sql stable as $$
  select j.* from public.provision_jobs as j
  where j.id = p_job and (j.org_id = p_runner.org_id or exists (
    select from public.job_events as e where e.job_id = j.id and e.event = 'claimed'
      and e.actor_id = p_runner.worker_id))
$$;

-- The attempt that holds a job has returned before a person released it: it continues, and its end counts.
create function private.resume_held(p_runner private.runner, p_job bigint, p_attempt integer) returns void
language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  -- Without waiting, because a heartbeat asks, too: a caller that must not miss it holds the row already.
  update private.live_jobs as q set
    stage = 'RUNNING', session_id = p_runner.session_id, unlisted_at = null, lease_until = now() + private.lease()
  where q.job_id = (
    select h.job_id from private.live_jobs as h
    where h.job_id = p_job and h.attempt = p_attempt and h.stage = 'HELD' and h.instance_id = p_runner.instance_id
      for update skip locked);
  if not found then return; end if;
  update public.provision_jobs set status = 'PROCESSING', error = null where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, 'resumed', 'NEEDS_ATTENTION', 'PROCESSING', 'worker', p_runner.worker_id,
    p_runner.worker_name, 'The runner is in contact again and still has this attempt.');
end;
$$;

-- Locks a job of this instance; the attempt that holds it continues, if it is the caller. Whether this session has
-- the attempt now: the fence for its end.
create function private.lock_attempt(p_runner private.runner, p_job bigint, p_attempt integer) returns boolean
language plpgsql as $$
declare
  v_attempt integer;
  v_stage private.job_stage;
  v_session pg_catalog.uuid;
begin
  -- The lock keeps sweep and cancel out until this call has written what it came to write. A job of somebody else is
  -- not touched: a caller that guesses numbers must not delay other runners.
  select q.attempt, q.stage, q.session_id into v_attempt, v_stage, v_session from private.live_jobs as q
  where q.job_id = p_job and q.instance_id = p_runner.instance_id for update;
  if v_stage = 'HELD' then
    perform private.resume_held(p_runner, p_job, p_attempt);
    select q.attempt, q.stage, q.session_id into v_attempt, v_stage, v_session from private.live_jobs as q
    where q.job_id = p_job;
  end if;
  return v_attempt = p_attempt and v_session = p_runner.session_id and v_stage = 'RUNNING';
end;
$$;

-- An attempt that the calling runner has; null when it has not. An executor may only name its own.
create function private.live_attempt(p_runner private.runner, p_job bigint, p_attempt integer) returns private.live_jobs
language plpgsql stable as $$
declare
  v_live private.live_jobs;
begin
  if p_runner.is_for_one_job then perform private.check_scope(p_job, p_attempt); end if;
  select * into v_live from private.live_jobs as q
  where q.job_id = p_job and q.attempt = p_attempt
    and (q.stage = 'RUNNING' and q.session_id = p_runner.session_id or q.stage = 'HELD'
      and q.instance_id = p_runner.instance_id);
  return v_live;
end;
$$;

-- The day on which this runner claimed an attempt, which is the day of its log; null if it never did.
create function private.claimed_day(p_runner private.runner, p_job bigint, p_attempt integer) returns date
language plpgsql stable as $$
begin
  return (select (e.at at time zone 'utc')::pg_catalog.date from public.job_events as e
    where e.job_id = p_job and e.attempt = p_attempt and e.event = 'claimed' and e.actor_id = p_runner.worker_id
    limit 1);
end;
$$;

-- The fence: the attempt that has the job, if it is this session's, or this instance's while a person has to decide.
create function private.fenced_job(p_runner private.runner, p_job bigint, p_attempt integer) returns private.live_jobs
language plpgsql stable as $$
declare
  v_live private.live_jobs := private.live_attempt(p_runner, p_job, p_attempt);
begin
  if v_live.job_id is null then
    perform private.fail('RY410', format('Attempt %s of job %s is not this runner''s any more.', p_attempt, p_job),
      'Stop working on it; what it wrote until now is kept.',
      (select jsonb_build_object('job', j.id, 'attempt', j.attempt, 'status', j.status)::pg_catalog.text
        from private.known_job(p_runner, p_job) as j where j.id is not null));
  end if;
  return v_live;
end;
$$;

-- The place of a lost attempt's log, for a week: a person who decides about its state reads what it did.
create function private.late_place(p_runner private.runner, p_job bigint, p_attempt integer, p_is_late boolean)
returns private.live_jobs language plpgsql stable as $$
declare
  v_place private.live_jobs;
begin
  v_place.log_day := private.claimed_day(p_runner, p_job, p_attempt);
  if not p_is_late or coalesce(v_place.log_day < (now() at time zone 'utc')::pg_catalog.date - 7, true) then
    return private.fenced_job(p_runner, p_job, p_attempt);
  end if;
  v_place.job_id := p_job;
  v_place.org_id := (select j.org_id from public.provision_jobs as j where j.id = p_job);
  return v_place;
end;
$$;

-- The running attempt behind the fence, locked for what the call has to write.
create function private.owned_job(p_runner private.runner, p_job bigint, p_attempt integer) returns private.live_jobs
language plpgsql as $$
begin
  perform private.lock_attempt(p_runner, p_job, p_attempt);
  return private.fenced_job(p_runner, p_job, p_attempt);
end;
$$;

create function private.worker_report(
  p_job bigint, p_attempt integer, p_phase public.job_phase, p_steps jsonb default null, p_plan_summary jsonb default
  null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs := private.owned_job(v_runner, p_job, p_attempt);
  v_job public.provision_jobs;
begin
  if p_phase is null then perform private.fail('RY422', 'A report needs a phase.'); end if;
  p_steps := private.report_steps(p_steps);
  p_plan_summary := private.report_object(p_plan_summary, 2097152, 'A plan''s summary');
  if p_phase in ('APPLY', 'DESTROY') and not v_live.has_touched then
    update private.live_jobs set has_touched = true where job_id = p_job;
  end if;
  select * into v_job from public.provision_jobs where id = p_job;
  update public.provision_jobs set status = 'PROCESSING', phase = p_phase, steps = coalesce(p_steps, steps),
    plan_summary = coalesce(p_plan_summary, plan_summary), started_at = coalesce(started_at, now())
  where id = p_job;
  if v_job.status = 'CLAIMED' then
    perform private.record_job_event(v_job, 'started', 'CLAIMED', 'PROCESSING', 'worker', v_runner.worker_id,
      v_runner.worker_name);
  end if;
  if v_job.phase is distinct from p_phase then
    perform private.record_job_event(v_job, 'phase', null, null, 'worker', v_runner.worker_id, v_runner.worker_name,
      null, jsonb_build_object('phase', p_phase));
  end if;
  return jsonb_build_object('cancel_kind', v_live.cancel_kind);
end;
$$;
comment on function private.worker_report is
  'Reports what a runner does; APPLY and DESTROY before they begin. Answers how to cancel, if asked.';
