-- Status of runners, and what people do to it: tokens, disable, drain, resume.
-- One view derives the status, from the heartbeats of the instances and the record's flags; sessions, sweep and
-- people's acts all end with it, so that the table, the API and the page cannot disagree.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.lock_worker(p_worker uuid, p_role public.member_role)
returns public.workers
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  select * into v_worker from public.workers where id = p_worker and removed_at is null
    and (is_shared or org_id in (select private.my_org_ids()));
  if v_worker.id is null then
    perform private.fail('RY404', 'There is no such runner.', 'It may have been removed.');
  end if;
  if v_worker.is_shared then
    perform private.fail('RY403', 'A shared runner belongs to the installation; no organisation can change it.',
      'Ask whoever runs this installation.');
  end if;
  perform private.need_role(v_worker.org_id, p_role);
  perform private.lock_routing(v_worker.org_id, true);
  -- What is gone from the cloud only waits for the sweep that retires its record.
  select * into v_worker from public.workers where id = p_worker and removed_at is null and not cloud ? 'is_gone'
  for no key update;
  if v_worker.id is null then
    perform private.fail('RY404', 'There is no such runner.', 'It was removed in this moment.');
  end if;
  return v_worker;
end;
$$;
comment on function private.lock_worker(uuid, public.member_role) is
  'Finds a runner that the caller may change, with the routing lock and its row held. Shared runners are refused.';

create function private.add_token(p_worker uuid, p_hash text, p_hint text, p_expires_at timestamptz)
returns uuid
language plpgsql
set search_path = ''
as $$
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
        'Make the token where you show it; send only its hash.');
end;
$$;
comment on function private.add_token(uuid, text, text, timestamptz) is 'Stores the hash of a new token.';

create view private.worker_prospects as
select
  w.id as worker_id,
  coalesce(w.desired_count > 0 and (w.cloud ->> 'starting_at')::timestamptz > now() - interval '10 minutes', false)
    as is_starting,
  -- What was deployed from here is given its token by the job that starts it.
  w.type = 'cloud-hosted' or exists (
    select from private.live_tokens as t where t.worker_id = w.id
  ) or exists (
    select from public.service_accounts as a
    where a.id = w.service_account_id and a.removed_at is null and not a.is_disabled
  ) as has_credential
from public.workers as w;
comment on view private.worker_prospects is 'Whether a runner that is not there could come.';
comment on column private.worker_prospects.is_starting is
  'Whether it is cloud-hosted, was told to start lately and may still say hello.';
comment on column private.worker_prospects.has_credential is
  'Whether it could sign in at all: it has a live token, or a service account that is not disabled.';

create view private.worker_liveness as
select
  w.id as worker_id,
  l.fresh,
  l.willing,
  l.last_seen_at,
  l.used,
  l.capacity,
  case when l.fresh = 0 then 'OFFLINE' when w.is_draining or l.willing = 0 then 'DRAINING'
    else 'ONLINE' end::public.worker_status as status
from public.workers as w
cross join lateral (
  select
    count(*) filter (where i.is_fresh) as fresh,
    count(*) filter (where i.is_fresh and not i.is_draining) as willing,
    max(i.last_seen_at) as last_seen_at,
    coalesce(sum(i.used) filter (where i.is_fresh), 0) as used,
    coalesce(sum(i.capacity) filter (where i.is_fresh), 0) as capacity
  from private.instance_liveness as i where i.worker_id = w.id
) as l;
comment on view private.worker_liveness is
  'What the heartbeats of its instances make of a runner now. The only place that decides its status.';
comment on column private.worker_liveness.fresh is 'Instances that are there.';
comment on column private.worker_liveness.willing is 'Of those, not draining.';
comment on column private.worker_liveness.used is 'Slots in use of the instances that are there.';
comment on column private.worker_liveness.capacity is 'Slots of the instances that are there.';
comment on column private.worker_liveness.status is 'ONLINE, DRAINING or OFFLINE.';

create function private.degraded_words(p_worker uuid)
returns text
language sql stable
set search_path = ''
as $$
  select 'Degraded: ' || left(min(i.facts #>> '{degraded,reason}'), 300)
  from public.worker_instances as i join private.instance_liveness as l on l.instance_id = i.id and l.is_fresh
  where i.worker_id = p_worker having bool_and(coalesce(jsonb_typeof(i.facts -> 'degraded') = 'object', false))
$$;
comment on function private.degraded_words(uuid) is
  'What keeps a runner from taking jobs when all of its instances that are heard say that they lack something. Else '
  'null.';

create function private.derive_worker_status(p_worker uuid)
returns table (status public.worker_status, reason text)
language sql stable
set search_path = ''
as $$
  select
    l.status,
    case
      when l.fresh > 0 and w.is_draining then coalesce(w.drain_reason, 'Drain requested')
      when l.fresh > 0 and l.willing = 0 then 'Requested by the runner itself'
      when l.fresh > 0 then case when w.is_disabled then 'Disabled: gets no new jobs' else
        coalesce(private.degraded_words(w.id), 'Ready') end
      when w.is_scaled_to_zero then 'Scaled to zero: starts when a job needs it'
      when p.is_starting then 'Starting'
      when not p.has_credential then 'No usable token or service account'
      when w.never_contacted then 'Never contacted'
      else coalesce((
        select 'Stopped: ' || s.end_reason from private.sessions as s
        where s.worker_id = w.id and s.ended_at > w.status_changed_at - interval '1 minute'
          and not exists (select from private.sessions as o where o.worker_id = w.id and o.ended_at is null)
        order by s.ended_at desc limit 1
      ), 'No heartbeat for 60 s')
    end
  from public.workers as w
  join private.worker_liveness as l on l.worker_id = w.id
  join private.worker_prospects as p on p.worker_id = w.id
  where w.id = p_worker
$$;
comment on function private.derive_worker_status(uuid) is 'The status of a runner, and why.';

create function private.refresh_worker_status(p_worker uuid)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_new pg_catalog.record;
begin
  select * into v_worker from public.workers where id = p_worker for no key update;
  select * into v_new from private.derive_worker_status(p_worker);
  -- Why a runner went offline stays as it was said then; asleep, starting and without a credential are about now.
  if v_worker.status = v_new.status and (v_worker.status_reason = v_new.reason or v_new.status = 'OFFLINE'
    and v_worker.status_reason !~ '^(Starting|Scaled to zero|No usable)'
      and v_new.reason !~ '^(Starting|Scaled to zero|No usable)') then
    return;
  end if;
  update public.workers set
    status = v_new.status, status_reason = v_new.reason,
    status_changed_at = case when status = v_new.status then status_changed_at else now() end,
    never_contacted = never_contacted and v_new.status = 'OFFLINE',
    first_seen_at = case when v_new.status = 'OFFLINE' then first_seen_at else coalesce(first_seen_at, now()) end,
    -- A task that is being stopped still sends heartbeats, and says that it drains: that is not waking up.
    is_scaled_to_zero = is_scaled_to_zero and (v_new.status = 'OFFLINE' or desired_count = 0)
  where id = p_worker;
  if v_worker.status <> v_new.status then
    perform private.record_worker_event(p_worker, lower(v_new.status::pg_catalog.text), v_new.reason);
  end if;
end;
$$;
comment on function private.refresh_worker_status(uuid) is
  'Writes a runner''s status where it has changed, with an event. Nothing is written otherwise.';

create function private.end_sessions(p_worker uuid, p_instance uuid, p_credential uuid, p_reason text)
returns integer
language plpgsql
set search_path = ''
as $$
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
comment on function private.end_sessions(uuid, uuid, uuid, text) is
  'Ends live sessions of a runner, of one instance, or opened with one token or service account. Their next call is '
  'refused with the reason.';

-- -------------------------------------------------------------------------------------------------------------- tokens

create function private.token_json(p_token private.worker_tokens)
returns jsonb
language sql stable
set search_path = ''
as $$
  select to_jsonb(p_token) - 'hash' || jsonb_build_object('is_live',
    exists (select from private.live_tokens as t where t.id = p_token.id))
$$;
comment on function private.token_json(private.worker_tokens) is 'A token''s record without its hash.';

create function private.expire_tokens(p_worker uuid, p_at timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update private.worker_tokens as t set expires_at = least(t.expires_at, p_at)
  where t.worker_id = p_worker and t.revoked_at is null;
  update private.sessions as s set expires_at = t.expires_at from private.worker_tokens as t
  where s.worker_id = p_worker and s.ended_at is null and t.id = s.token_id
    and s.expires_at is distinct from t.expires_at;
end;
$$;
comment on function private.expire_tokens(uuid, timestamptz) is
  'Lets a runner''s tokens, and the sessions that they opened, end at a time, where they do not end before it.';

create function private.rotate_worker_token(p_worker uuid, p_token_hash text, p_token_hint text,
  p_overlap_seconds integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_token private.worker_tokens;
begin
  v_worker := private.lock_worker(p_worker, 'admin');
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
comment on function private.rotate_worker_token(uuid, text, text, integer) is 'Body of public.rotate_worker_token.';
grant execute on function private.rotate_worker_token(uuid, text, text, integer) to authenticated;

create function private.revoke_worker_token(p_token uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_token private.worker_tokens;
  v_worker public.workers;
begin
  select t.* into v_token from private.worker_tokens as t join public.workers as w on w.id = t.worker_id
  where t.id = p_token and w.removed_at is null and (w.is_shared or w.org_id in (select private.my_org_ids()));
  if v_token.id is null then
    perform private.fail('RY404', 'There is no such token.');
  end if;
  v_worker := private.lock_worker(v_token.worker_id, 'admin');
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
comment on function private.revoke_worker_token(uuid) is 'Body of public.revoke_worker_token.';
grant execute on function private.revoke_worker_token(uuid) to authenticated;

create function private.list_worker_tokens(p_worker uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.need_role(w.org_id, 'admin') from public.workers as w
  where w.id = p_worker and not w.is_shared and w.org_id in (select private.my_org_ids());
  if not found then
    perform private.fail('RY404', 'There is no such runner.');
  end if;
  return (select coalesce(jsonb_agg(private.token_json(t) order by t.created_at desc), '[]')
    from private.worker_tokens as t
    where t.worker_id = p_worker);
end;
$$;
comment on function private.list_worker_tokens(uuid) is 'Body of public.list_worker_tokens.';
grant execute on function private.list_worker_tokens(uuid) to authenticated;

-- --------------------------------------------------------------------------------------------------------------- flags

create function private.set_worker_flags(p_worker public.workers, p_action text, p_reason text)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_reason pg_catalog.text := nullif(trim(p_reason), '');
begin
  perform private.check_reason(v_reason);
  update public.workers set
    is_disabled = case p_action when 'disabled' then true when 'enabled' then false else is_disabled end,
    is_draining = case p_action when 'drained' then true when 'resumed' then false else is_draining end,
    drain_reason = case p_action when 'drained' then coalesce(v_reason, 'Drain requested') when 'resumed' then null
      else drain_reason end
  where id = p_worker.id;
  perform private.refresh_worker_status(p_worker.id);
  perform private.record_worker_event(p_worker.id, p_action,
    coalesce(v_reason, 'By ' || case when p_worker.is_shared then 'the administrator'
      else private.caller_label(p_worker.org_id) end));
  perform private.audit(p_worker.org_id, 'worker.' || p_action, 'worker', p_worker.id::pg_catalog.text, p_worker.name,
    jsonb_build_object('reason', v_reason));
  perform private.wake_worker(p_worker.id);
  perform private.wake_lanes_of(p_worker.id);
  return (select to_jsonb(w) from public.workers as w where w.id = p_worker.id);
end;
$$;
comment on function private.set_worker_flags(public.workers, text, text) is
  'Lets a runner, which is locked, be drained, resumed, disabled or enabled, and tells everybody concerned; '
  'sessions_ended only tells them.';

create function private.set_worker_disabled(p_worker uuid, p_disabled boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  if p_disabled is null then
    perform private.fail('RY422', 'Say whether the runner is to be disabled: true or false.');
  end if;
  return private.set_worker_flags(private.lock_worker(p_worker, 'admin'), case when p_disabled then 'disabled'
    else 'enabled' end, null);
end;
$$;
comment on function private.set_worker_disabled(uuid, boolean) is 'Body of public.set_worker_disabled.';
grant execute on function private.set_worker_disabled(uuid, boolean) to authenticated;

create function private.drain_worker(p_worker uuid, p_reason text)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_worker_flags(private.lock_worker(p_worker, 'operator'), 'drained', p_reason) $$;
comment on function private.drain_worker(uuid, text) is 'Body of public.drain_worker.';
grant execute on function private.drain_worker(uuid, text) to authenticated;

create function private.resume_worker(p_worker uuid)
returns jsonb language sql security definer set search_path = ''
as $$ select private.set_worker_flags(private.lock_worker(p_worker, 'operator'), 'resumed', null) $$;
comment on function private.resume_worker(uuid) is 'Body of public.resume_worker.';
grant execute on function private.resume_worker(uuid) to authenticated;

create function private.check_worker_credential(p_worker uuid, p_token uuid, p_service_account uuid,
  p_account_version integer)
returns void
language plpgsql stable security definer
set search_path = ''
as $$
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
comment on function private.check_worker_credential(uuid, uuid, uuid, integer) is
  'Body of public.check_worker_credential.';
grant execute on function private.check_worker_credential(uuid, uuid, uuid, integer) to service_role;

revoke execute on all functions in schema private from public;
