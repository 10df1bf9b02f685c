-- The state backend: the runner serves it to the engine on loopback, so no credential reaches the engine. Reading and
-- writing are bound to (job, attempt): a stale attempt can neither lock nor write. Every written version is kept in the
-- history with its serial.
-- A state may contain secrets, so its text is for admins; everybody else sees serials, sizes and who holds the lock.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table private.states (
  module_id uuid primary key references public.modules (id) on delete cascade,
  serial bigint not null,
  lineage text,
  body text not null,
  sha256 text not null,
  job_id bigint not null,
  attempt integer not null,
  updated_at timestamptz not null default now()
);
alter table private.states enable row level security;
comment on table private.states is 'The current state of each module, as the engine wrote it.';
comment on column private.states.serial is 'The state''s serial; for engines without one, a counter.';
comment on column private.states.body is
  'The state file''s text. It may contain secrets: only admins read it, version by version.';
comment on column private.states.sha256 is 'SHA-256 of the text (hex).';

create table private.state_versions (
  module_id uuid not null references public.modules (id) on delete cascade,
  serial bigint not null,
  lineage text,
  body text not null,
  sha256 text not null,
  job_id bigint not null,
  attempt integer not null,
  created_at timestamptz not null default now(),
  primary key (module_id, serial)
);
alter table private.state_versions enable row level security;
comment on table private.state_versions is 'Every version of every state; the newest 100 of each module are kept.';
comment on column private.state_versions.body is 'The state file''s text.';
comment on column private.state_versions.sha256 is 'SHA-256 of the text (hex).';

create function private.state_serial(p_module uuid)
returns bigint
language sql stable
set search_path = ''
as $$
  select coalesce((select s.serial from private.states as s where s.module_id = p_module), 0)
$$;
comment on function private.state_serial(uuid) is 'The serial of a module''s state; 0 while it has none.';

create function private.owned_module(p_job bigint, p_attempt integer)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid;
begin
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  select j.module_id into v_module from public.provision_jobs as j where j.id = p_job;
  if v_module is null then
    perform private.fail('RY422', 'This job acts on no module, so it has no state.');
  end if;
  return v_module;
end;
$$;
comment on function private.owned_module(bigint, integer) is 'The module whose state the calling attempt may use.';

create function private.is_inspection(p_job bigint)
returns boolean
language sql stable
set search_path = ''
as $$
  select j.payload #>> '{options,inspects}' is not null from public.provision_jobs as j where j.id = p_job
$$;
comment on function private.is_inspection(bigint) is
  'Whether a job only looks at what another left behind: it neither locks nor writes state.';

create function private.worker_state_get(p_job bigint, p_attempt integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_state private.states;
begin
  select * into v_state from private.states where module_id = v_module;
  return jsonb_build_object('exists', v_state.module_id is not null, 'serial', v_state.serial, 'lineage',
    v_state.lineage, 'body', v_state.body);
end;
$$;
comment on function private.worker_state_get(bigint, integer) is 'Body of public.worker_state_get.';
grant execute on function private.worker_state_get(bigint, integer) to worker;

create function private.state_fields(p_body text)
returns table (serial bigint, lineage text)
language plpgsql immutable
set search_path = ''
as $$
begin
  if p_body is null then
    perform private.fail('RY422', 'There is no state to write.', 'Send the state file''s text.');
  end if;
  return query select (p_body::pg_catalog.jsonb ->> 'serial')::bigint, p_body::pg_catalog.jsonb ->> 'lineage';
exception
  when data_exception then
    perform private.fail('RY422', 'The state is not JSON, or its serial is not a number.');
end;
$$;
comment on function private.state_fields(text) is
  'Serial and lineage of a state file; null for engines that have none.';

create function private.check_serial(p_serial bigint, p_stored bigint)
returns void
language plpgsql immutable
set search_path = ''
as $$
declare
  -- Far below the greatest number that fits, so that no write can leave the next one without a serial.
  v_most bigint := coalesce(p_stored + 1000000, 1000000000000000);
begin
  if p_serial not between 0 and v_most then
    perform private.fail('RY422', format('The state''s serial %s is not between 0 and %s.', p_serial, v_most),
      format('Set the serial in it to %s and write it again.', coalesce(p_stored + 1, 1)));
  end if;
end;
$$;
comment on function private.check_serial(bigint, bigint) is
  'Refuses a serial that is far beyond the stored one. A module''s first state may begin nearly anywhere.';

create function private.write_state(p_module uuid, p_serial bigint, p_lineage text, p_body text, p_job bigint,
  p_attempt integer)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  insert into private.states as s (module_id, serial, lineage, body, sha256, job_id, attempt)
  values (p_module, p_serial, p_lineage, p_body, v_sha, p_job, p_attempt)
  on conflict (module_id) do update set serial = excluded.serial, lineage = excluded.lineage, body = excluded.body,
    sha256 = excluded.sha256,
    job_id = excluded.job_id, attempt = excluded.attempt, updated_at = now();
  insert into private.state_versions (module_id, serial, lineage, body, sha256, job_id, attempt)
  values (p_module, p_serial, p_lineage, p_body, v_sha, p_job, p_attempt)
  on conflict (module_id, serial) do nothing;
  -- By number of versions, not by serial: an engine may leave some out.
  delete from private.state_versions as v where v.module_id = p_module and v.serial <= (
    select o.serial from private.state_versions as o where o.module_id = p_module order by o.serial desc offset 100
      limit 1);
end;
$$;
comment on function private.write_state(uuid, bigint, text, text, bigint, integer) is
  'Makes a text the current state of a module and adds it to the history. The caller has checked that it may be.';

create function private.worker_state_put(p_job bigint, p_attempt integer, p_body text, p_lock_id text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_old private.states;
  v_lock private.state_locks;
  v_new pg_catalog.record;
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  if private.is_inspection(p_job) then
    perform private.fail('RY409', 'This job only looks; it writes no state.',
      'Run it with -lock=false and -refresh-only.');
  end if;
  select * into v_lock from private.state_locks where module_id = v_module for update;
  if v_lock.module_id is not null and (v_lock.job_id, v_lock.attempt) <> (p_job, p_attempt)
    or v_lock.lock_id <> p_lock_id then
    perform private.fail('RY423', 'The state is locked by another job.',
      'Wait for it, or force-unlock the state with its lock id.', v_lock.info::pg_catalog.text);
  end if;
  select f.serial, f.lineage into v_new from private.state_fields(p_body) as f;
  select * into v_old from private.states where module_id = v_module for update;
  if v_old.sha256 = v_sha then
    return jsonb_build_object('serial', v_old.serial, 'is_unchanged', true);
  end if;
  v_new.serial := coalesce(v_new.serial, v_old.serial + 1, 1);
  if v_old.lineage <> v_new.lineage then
    perform private.fail('RY409', 'The state has another lineage than the one that is stored.',
      'It belongs to something else; make another module for it.');
  end if;
  if v_new.serial <= v_old.serial then
    perform private.fail('RY409', format('The state''s serial %s is not newer than %s.', v_new.serial, v_old.serial),
      'Read the state again.');
  end if;
  perform private.check_serial(v_new.serial, v_old.serial);
  perform private.write_state(v_module, v_new.serial, v_new.lineage, p_body, p_job, p_attempt);
  return jsonb_build_object('serial', v_new.serial, 'is_unchanged', false);
end;
$$;
comment on function private.worker_state_put(bigint, integer, text, text) is 'Body of public.worker_state_put.';
grant execute on function private.worker_state_put(bigint, integer, text, text) to worker;

create function private.worker_state_lock(p_job bigint, p_attempt integer, p_lock jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_lock private.state_locks;
begin
  if coalesce(p_lock ->> 'ID', '') = '' then
    perform private.fail('RY422', 'A lock needs an ID.');
  end if;
  if length(p_lock ->> 'ID') > 200 or pg_column_size(p_lock) > 16384 then
    perform private.fail('RY422', 'A lock has at most 16 KiB, and its ID 200 characters.');
  end if;
  if private.is_inspection(p_job) then
    return p_lock;
  end if;
  insert into private.state_locks (module_id, lock_id, info, job_id, attempt)
  values (v_module, p_lock ->> 'ID', p_lock, p_job, p_attempt) on conflict (module_id) do nothing
    returning * into v_lock;
  if v_lock.module_id is not null then
    return v_lock.info;
  end if;
  -- An earlier attempt of the same job is fenced: it can no longer write, so its lock protects nothing from this one.
  update private.state_locks as l set lock_id = p_lock ->> 'ID', info = p_lock, attempt = p_attempt, created_at = now()
  where l.module_id = v_module and l.job_id = p_job and (l.attempt < p_attempt or l.lock_id = p_lock ->> 'ID')
    returning * into v_lock;
  if v_lock.module_id is null then
    select * into v_lock from private.state_locks where module_id = v_module;
    perform private.fail('RY423', format('The state is locked by job %s.', v_lock.job_id),
      'Wait until that job is done, or force-unlock the state with its lock id.', v_lock.info::pg_catalog.text);
  end if;
  return v_lock.info;
end;
$$;
comment on function private.worker_state_lock(bigint, integer, jsonb) is 'Body of public.worker_state_lock.';
grant execute on function private.worker_state_lock(bigint, integer, jsonb) to worker;

create function private.worker_state_unlock(p_job bigint, p_attempt integer, p_lock_id text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_lock private.state_locks;
begin
  delete from private.state_locks as l where l.module_id = v_module and l.job_id = p_job and l.attempt = p_attempt
    and l.lock_id = p_lock_id;
  if not found then
    select * into v_lock from private.state_locks where module_id = v_module;
    if v_lock.module_id is not null and not private.is_inspection(p_job) then
      perform private.fail('RY423', 'That is not the lock that is held.', 'Unlock with the id that was locked with.',
        v_lock.info::pg_catalog.text);
    end if;
  end if;
  return jsonb_build_object('unlocked', true);
end;
$$;
comment on function private.worker_state_unlock(bigint, integer, text) is 'Body of public.worker_state_unlock.';
grant execute on function private.worker_state_unlock(bigint, integer, text) to worker;

create function private.state_info(p_module uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'viewer');
begin
  return (
    select jsonb_build_object(
      'serial', s.serial, 'lineage', s.lineage, 'size', octet_length(s.body), 'sha256', s.sha256, 'job_id', s.job_id,
        'updated_at', s.updated_at,
      'lock', (
        select jsonb_build_object('id', l.lock_id, 'info', l.info, 'job_id', l.job_id, 'attempt', l.attempt,
          'created_at', l.created_at)
        from private.state_locks as l where l.module_id = v_module.id),
      'versions', (
        select coalesce(jsonb_agg(jsonb_build_object('serial', v.serial, 'size', octet_length(v.body), 'sha256',
          v.sha256, 'job_id', v.job_id,
          'attempt', v.attempt, 'created_at', v.created_at) order by v.serial desc), '[]')
        from private.state_versions as v where v.module_id = v_module.id))
    from (values (1)) as one (n) left join private.states as s on s.module_id = v_module.id);
end;
$$;
comment on function private.state_info(uuid) is 'Body of public.state_info.';
grant execute on function private.state_info(uuid) to authenticated;

create function private.known_version(p_module uuid, p_serial bigint)
returns private.state_versions
language plpgsql stable
set search_path = ''
as $$
declare
  v_version private.state_versions;
begin
  select * into v_version from private.state_versions where module_id = p_module and serial = p_serial;
  if v_version.module_id is null then
    perform private.fail('RY404', format('There is no version %s of this state.', p_serial),
      'The newest 100 versions are kept.');
  end if;
  return v_version;
end;
$$;
comment on function private.known_version(uuid, bigint) is 'A version of a module''s state that is kept.';

create function private.state_version(p_module uuid, p_serial bigint)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_version private.state_versions := private.known_version(p_module, p_serial);
begin
  perform private.audit(v_module.org_id, 'state.read', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('serial', p_serial));
  return to_jsonb(v_version) - 'module_id';
end;
$$;
comment on function private.state_version(uuid, bigint) is 'Body of public.state_version.';
grant execute on function private.state_version(uuid, bigint) to authenticated;

-- ----------------------------------------------------------------------------------------- states that were not stored
-- States that were not stored. A runner writes each state to its own disk first and delivers in order. What it may not
-- store any more, because a person released the job meanwhile, is handed over all the same and kept here until a person
-- decides about it.

create table private.kept_states (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  module_id uuid not null references public.modules (id) on delete cascade,
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  attempt integer not null,
  number integer not null check (number > 0),
  serial bigint,
  lineage text,
  body text not null,
  sha256 text not null,
  reason text not null default '',
  worker_name text not null,
  written_at timestamptz not null,
  kept_at timestamptz not null default now(),
  stored_at timestamptz,
  discarded_at timestamptz,
  decided_by text,
  unique (job_id, attempt, number, sha256)
);
create index kept_states_module_id_idx on private.kept_states (module_id);
create index kept_states_org_id_idx on private.kept_states (org_id);
alter table private.kept_states enable row level security;
comment on table private.kept_states is
  'States that a runner wrote to its disk and could not store, because a person had released its job meanwhile. A '
  'person decides about each.';
comment on column private.kept_states.module_id is 'The module whose state it would have been.';
comment on column private.kept_states.attempt is 'The attempt that wrote it.';
comment on column private.kept_states.number is 'The how manieth write of that attempt it was.';
comment on column private.kept_states.serial is 'The serial in it; none for engines without one.';
comment on column private.kept_states.body is 'The state file''s text. It may contain secrets: only admins read it.';
comment on column private.kept_states.sha256 is 'SHA-256 of the text (hex).';
comment on column private.kept_states.reason is 'Why it was not stored.';
comment on column private.kept_states.written_at is 'When the engine wrote it, by the runner''s clock.';
comment on column private.kept_states.stored_at is 'When a person made it the module''s state.';
comment on column private.kept_states.discarded_at is
  'When a person decided that it is not needed; its text is gone then.';

create function private.kept_states(p_job bigint)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module pg_catalog.uuid;
begin
  select j.module_id into v_module from public.provision_jobs as j where j.id = p_job;
  perform private.my_module(v_module, 'viewer');
  return (
    select coalesce(jsonb_agg(to_jsonb(k) - 'body' - 'org_id' || jsonb_build_object('size', octet_length(k.body))
      order by k.attempt desc, k.number desc), '[]')
    from private.kept_states as k where k.job_id = p_job);
end;
$$;
comment on function private.kept_states(bigint) is 'Body of public.kept_states.';
grant execute on function private.kept_states(bigint) to authenticated;

create function private.check_kept_room(p_job bigint)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if (select count(*) from private.kept_states as k
    where k.job_id = p_job and k.stored_at is null and k.discarded_at is null) > 1000 then
    perform private.fail('RY429', format('1,000 states of job %s wait for a decision, which is the limit.', p_job),
      'Store or discard some of them on the job''s page.');
  end if;
end;
$$;
comment on function private.check_kept_room(bigint) is
  'Refuses a further kept state of a job while people have many to decide about.';

create function private.worker_state_keep(p_job bigint, p_attempt integer, p_number integer, p_body text,
  p_written_at timestamptz, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_job public.provision_jobs;
  v_new pg_catalog.record;
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  if v_runner.is_for_one_job then
    perform private.check_scope(p_job, p_attempt);
  end if;
  select * into v_job from public.provision_jobs where id = p_job;
  if v_job.module_id is null or not exists (
    select from public.job_events as e
    where e.job_id = p_job and e.attempt = p_attempt and e.event = 'claimed' and e.actor_id = v_runner.worker_id
  ) then
    perform private.fail('RY404', format('Attempt %s of job %s was never given to this runner.', p_attempt, p_job));
  end if;
  if coalesce(p_number, 0) < 1 then
    perform private.fail('RY422', 'A kept state needs the number that it had in its attempt.');
  end if;
  select f.serial, f.lineage into v_new from private.state_fields(p_body) as f;
  -- The answer to the write was lost, and it was stored after all.
  if exists (select from private.state_versions as v where v.module_id = v_job.module_id and v.sha256 = v_sha) then
    return jsonb_build_object('is_stored', true);
  end if;
  insert into private.kept_states (org_id, module_id, job_id, attempt, number, serial, lineage, body, sha256, reason,
    worker_name, written_at)
  values (v_job.org_id, v_job.module_id, p_job, p_attempt, p_number, v_new.serial, v_new.lineage, p_body, v_sha,
    left(coalesce(p_reason, ''), 1000), v_runner.worker_name, coalesce(p_written_at, now()))
  on conflict (job_id, attempt, number, sha256) do nothing;
  if found then
    perform private.check_kept_room(p_job);
    perform private.record_job_event(v_job, 'state_kept', null, null, 'worker', v_runner.worker_id,
      v_runner.worker_name, 'A state of this attempt was not stored.', jsonb_build_object('number', p_number, 'serial',
        v_new.serial));
  end if;
  return jsonb_build_object('is_stored', false);
end;
$$;
comment on function private.worker_state_keep(bigint, integer, integer, text, timestamptz, text) is
  'Body of public.worker_state_keep.';
grant execute on function private.worker_state_keep(bigint, integer, integer, text, timestamptz, text) to worker;

create function private.my_kept_state(p_id uuid, p_is_open boolean)
returns private.kept_states
language plpgsql
set search_path = ''
as $$
declare
  v_kept private.kept_states;
begin
  select * into v_kept from private.kept_states where id = p_id;
  perform private.my_module(v_kept.module_id, 'admin');
  if v_kept.discarded_at is not null or p_is_open and v_kept.stored_at is not null then
    perform private.fail('RY409', 'Somebody has decided about this state already.', 'Look at the job again.');
  end if;
  return v_kept;
end;
$$;
comment on function private.my_kept_state(uuid, boolean) is
  'A kept state for an admin of its organisation; open = nobody has decided about it.';

create function private.lock_kept_state(p_id uuid)
returns private.kept_states
language plpgsql
set search_path = ''
as $$
declare
  v_kept private.kept_states := private.my_kept_state(p_id, true);
begin
  perform private.lock_state(v_kept.org_id, v_kept.module_id);
  -- Somebody may have decided while this one waited: of two who decide at once, the second is refused.
  perform from private.kept_states as k where k.id = p_id for update;
  return private.my_kept_state(p_id, true);
end;
$$;
comment on function private.lock_kept_state(uuid) is
  'An open kept state for an admin who decides about it, with the lock of its state and its row held.';

create function private.has_writer(p_module uuid)
returns boolean
language sql stable
set search_path = ''
as $$
  select exists (
    select from private.live_jobs as q
    where q.state_key = p_module and (q.stage = 'RUNNING' or q.stage = 'HELD' and q.instance_id is not null))
$$;
comment on function private.has_writer(uuid) is
  'Whether a job may write a module''s state: it runs, or its runner may come back to it.';

create function private.kept_state(p_id uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_kept private.kept_states := private.my_kept_state(p_id, false);
begin
  perform private.audit(v_kept.org_id, 'state.read', 'job', v_kept.job_id::pg_catalog.text,
    format('kept state %s', v_kept.number), jsonb_build_object('kept_state', p_id, 'serial', v_kept.serial));
  return to_jsonb(v_kept) - 'org_id';
end;
$$;
comment on function private.kept_state(uuid) is 'Body of public.kept_state.';
grant execute on function private.kept_state(uuid) to authenticated;

create function private.store_kept_state(p_id uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_kept private.kept_states := private.lock_kept_state(p_id);
  v_old private.states;
  v_lock private.state_locks;
  v_serial bigint;
  v_body pg_catalog.text := v_kept.body;
begin
  select * into v_lock from private.state_locks where module_id = v_kept.module_id for update;
  if v_lock.job_id <> v_kept.job_id or private.has_writer(v_kept.module_id) then
    perform private.fail('RY423', 'A job is using the module''s state.', 'Wait until it is done, then decide again.',
      v_lock.info::pg_catalog.text);
  end if;
  select * into v_old from private.states where module_id = v_kept.module_id for update;
  if v_old.lineage <> v_kept.lineage then
    perform private.fail('RY409', 'The state has another lineage than the one that is stored.',
      'It belongs to something else.');
  end if;
  v_serial := greatest(v_kept.serial, v_old.serial + 1, 1);
  perform private.check_serial(v_serial, v_old.serial);
  if v_kept.serial is not null and v_serial <> v_kept.serial then
    -- An engine refuses a state that is older than what it knows: this one is the newest now.
    v_body := jsonb_set(v_body::pg_catalog.jsonb, '{serial}', to_jsonb(v_serial))::pg_catalog.text;
  end if;
  perform private.write_state(v_kept.module_id, v_serial, v_kept.lineage, v_body, v_kept.job_id, v_kept.attempt);
  update private.kept_states set stored_at = now(), decided_by = private.caller_label(v_kept.org_id) where id = p_id;
  perform private.audit(v_kept.org_id, 'state.stored', 'module', v_kept.module_id::pg_catalog.text,
    format('kept state of job %s', v_kept.job_id), jsonb_build_object('kept_state', p_id, 'serial', v_serial, 'before',
      v_old.serial));
  perform private.wake_org(v_kept.org_id, 'modules', v_kept.module_id::pg_catalog.text);
  return jsonb_build_object('serial', v_serial);
end;
$$;
comment on function private.store_kept_state(uuid) is 'Body of public.store_kept_state.';
grant execute on function private.store_kept_state(uuid) to authenticated;

create function private.discard_kept_state(p_id uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_kept private.kept_states := private.lock_kept_state(p_id);
begin
  update private.kept_states set discarded_at = now(), body = '', decided_by = private.caller_label(v_kept.org_id)
    where id = p_id;
  perform private.audit(v_kept.org_id, 'state.discarded', 'job', v_kept.job_id::pg_catalog.text,
    format('kept state %s', v_kept.number), jsonb_build_object('kept_state', p_id, 'serial', v_kept.serial, 'sha256',
      v_kept.sha256));
  return jsonb_build_object('discarded', true);
end;
$$;
comment on function private.discard_kept_state(uuid) is 'Body of public.discard_kept_state.';
grant execute on function private.discard_kept_state(uuid) to authenticated;

revoke execute on all functions in schema private from public;
