-- State: the runner serves the engine's state backend on loopback, so no credential reaches the engine. Reading and
-- writing are bound to (job, attempt): a stale attempt can neither lock nor write. Every version is kept with its
-- serial. A state may contain secrets, so only admins read its text; everybody else sees serials, sizes, resources,
-- outputs and who holds the lock. An older version can become the newest again. lock_evidence answers "is it safe to
-- break the engine's lock?".

create table private.state_locks (
  module_id uuid primary key references public.modules (id) on delete cascade,
  lock_id text not null,
  info jsonb not null,
  job_id bigint not null,
  attempt integer not null,
  created_at timestamptz not null default now()
);
comment on table private.state_locks is 'The holder of a module''s state: a job and an attempt.';
comment on column private.state_locks.lock_id is 'The engine''s lock id; the proof that force-unlock asks for.';
comment on column private.state_locks.info is 'What the engine said about the lock.';

-- In two parts, because there are two indexes.
create view private.states_in_use as
select q.state_key from private.live_jobs as q where q.stage <> 'WAITING'
union all
select q.state_key from private.live_jobs as q where q.stage = 'WAITING';
comment on view private.states_in_use is 'States that a job is queued, running or held for.';

create view private.locked_states as
select l.module_id as state_key from private.state_locks as l
where not exists (select from private.live_jobs as q where q.job_id = l.job_id);
comment on view private.locked_states is 'States that a finished job left locked: until unlocked, no job begins.';

-- Whether a job is queued, running or held for a state.
create function private.is_state_in_use(p_state uuid) returns boolean language plpgsql stable as $$
begin
  return exists (select from private.states_in_use as u where u.state_key = p_state);
end;
$$;

-- The part of a state that pages show: its managed resources by address, and its outputs, with sensitive values masked.
create function private.state_contents(p_body text) returns jsonb language plpgsql immutable as $$
declare
  v_state pg_catalog.jsonb := p_body::pg_catalog.jsonb;
begin
  return jsonb_build_object('outputs', (
      -- As members see them; a sensitive one has a name and no value.
      select coalesce(jsonb_object_agg(o.name, jsonb_build_object('sensitive', o.is_secret, 'value',
        case when not o.is_secret then o.value end)), '{}') from private.read_outputs(v_state) as o), 'resources', (
    select coalesce(jsonb_agg(jsonb_build_object('address', r.address, 'type', r.type, 'id', left(r.id, 200))
      order by r.address), '[]')
    from (
      select * from private.terraform_resources(v_state) union all select * from private.pulumi_resources(v_state)
    ) as r where r.is_managed));
exception
  -- A state is kept whether or not it can be shown.
  when data_exception then return '{"outputs": {}, "resources": []}';
end;
$$;

create table private.states (
  module_id uuid primary key references public.modules (id) on delete cascade,
  serial bigint not null,
  lineage text,
  body text not null,
  sha256 text not null,
  job_id bigint,
  attempt integer,
  written_by text,
  updated_at timestamptz not null default now(),
  contents jsonb generated always as (private.state_contents(body)) stored
);
comment on table private.states is 'The current state of each module, as the engine wrote it.';
comment on column private.states.serial is 'The state''s serial; for engines without one, a counter.';
comment on column private.states.body is 'The file''s text. It may contain secrets: only admins read it, by version.';
comment on column private.states.contents is
  'What pages show of it, extracted once when it is written: a search must not parse megabytes per keystroke.';

create table private.state_versions (
  module_id uuid not null references public.modules (id) on delete cascade,
  serial bigint not null,
  lineage text,
  body text not null,
  sha256 text not null,
  job_id bigint,
  attempt integer,
  written_by text,
  created_at timestamptz not null default now(),
  primary key (module_id, serial)
);
comment on table private.state_versions is 'Every version of every state; the newest 100 of each module are kept.';

-- The serial of a module's state; -1 while it has none, because 0 is a serial.
create function private.state_serial(p_module uuid) returns bigint language plpgsql stable as $$
begin
  return coalesce((select s.serial from private.states as s where s.module_id = p_module), -1);
end;
$$;

-- The module whose state the calling attempt may use.
create function private.owned_module(p_job bigint, p_attempt integer, out v_module uuid) language plpgsql as $$
begin
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  select j.module_id into v_module from public.provision_jobs as j where j.id = p_job;
  perform private.fail('RY422', 'This job acts on no module, so it has no state.') where v_module is null;
end;
$$;

-- Whether a job may write its module's state: it changes infrastructure or the state itself, or brings a state in.
create function private.writes_state(p_job bigint) returns boolean language sql stable as $$
  select j.type in ('APPLY', 'DESTROY', 'STATE')
    or j.type = 'PLAN' and coalesce(j.payload #> '{options,bring_state}' = 'true', false)
  from public.provision_jobs as j where j.id = p_job
$$;

-- Refuses to let a job write that only reads.
create function private.refuse_reader(p_job bigint) returns void language plpgsql stable as $$
begin
  perform private.fail('RY409', 'This job only reads; it writes no state.',
    'Queue an APPLY, DESTROY or STATE job. By hand: -lock=false and -refresh-only.')
  where not private.writes_state(p_job);
end;
$$;

-- The state of a module as its engine gets it.
create function private.state_json(p_module uuid) returns jsonb language sql stable as $$
  select jsonb_build_object('exists', s.module_id is not null, 'serial', s.serial, 'lineage', s.lineage, 'body', s.body)
  from (select) as one left join private.states as s on s.module_id = p_module
$$;

create function private.worker_state_get(p_job bigint, p_attempt integer) returns jsonb
language sql security definer set search_path = '' as $$
  select private.state_json(private.owned_module(p_job, p_attempt))
$$;
comment on function private.worker_state_get is 'The state of the job''s module.';

-- Serial and lineage of a state file; null for engines that have none.
create function private.state_fields(p_body text) returns table (serial bigint, lineage text)
language plpgsql immutable as $$
begin
  perform private.fail('RY422', 'There is no state to write.', 'Send the state file''s text.') where p_body is null;
  return query select (s.state ->> 'serial')::bigint, s.state ->> 'lineage'
  from (select p_body::pg_catalog.jsonb as state offset 0) as s;
exception
  when data_exception then
    perform private.fail('RY422', 'The state is not JSON, or its serial is not a number.');
  when statement_too_complex then
    perform private.fail('RY422', 'The state nests its values too deeply to be read.',
      'No engine writes such a state.');
end;
$$;

-- Refuses a serial that is far beyond the stored one. A module's first state may begin nearly anywhere.
create function private.check_serial(p_serial bigint, p_stored bigint) returns void language sql immutable as $$
  select private.fail('RY422', format('The state''s serial %s is not between 0 and %s.', p_serial, s.most),
    format('Set the serial in it to %s and write it again.', coalesce(p_stored + 1, 1)))
  -- Far below the greatest number that fits, so that no write can leave the next one without a serial.
  from (select coalesce(p_stored + 1000000, 1000000000000000) as most) as s where p_serial not between 0 and s.most
$$;

-- Makes a text the current state of a module and adds it to the history. The caller has checked that it may be.
create function private.write_state(
  p_module uuid, p_serial bigint, p_lineage text, p_body text, p_job bigint, p_attempt integer, p_by text default null
) returns void language plpgsql as $$
declare
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  insert into private.states as s (module_id, serial, lineage, body, sha256, job_id, attempt, written_by)
  values (p_module, p_serial, p_lineage, p_body, v_sha, p_job, p_attempt, p_by)
  on conflict (module_id) do update set serial = excluded.serial, lineage = excluded.lineage, body = excluded.body,
    sha256 = excluded.sha256,
    job_id = excluded.job_id, attempt = excluded.attempt, written_by = excluded.written_by, updated_at = now();
  insert into private.state_versions (module_id, serial, lineage, body, sha256, job_id, attempt, written_by)
  values (p_module, p_serial, p_lineage, p_body, v_sha, p_job, p_attempt, p_by)
  on conflict (module_id, serial) do nothing;
  -- By number of versions, not by serial: an engine may leave some out.
  delete from private.state_versions as v where v.module_id = p_module and v.serial <= (
    select o.serial from private.state_versions as o where o.module_id = p_module order by o.serial desc offset 100
      limit 1);
  perform private.note_outputs(p_module);
end;
$$;

-- Refuses to store a state of a module that keeps its own backend: there would be two.
create function private.refuse_own_backend(p_module uuid) returns void language plpgsql stable as $$
begin
  perform private.fail('RY409', format('"%s" keeps its own backend; Runyard stores no state of it.', m.path),
    'Push the state into that backend with its engine.')
  from public.modules as m where m.id = p_module and m.backend = 'own';
end;
$$;

-- Stores what an attempt wrote, if it follows the stored state. The same text twice is stored once.
create function private.succeed_state(p_module uuid, p_body text, p_job bigint, p_attempt integer) returns jsonb
language plpgsql as $$
declare
  v_old private.states;
  v_new pg_catalog.record;
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  select f.serial, f.lineage into v_new from private.state_fields(p_body) as f;
  select * into v_old from private.states where module_id = p_module for update;
  if v_old.sha256 = v_sha then return jsonb_build_object('serial', v_old.serial, 'is_unchanged', true); end if;
  -- A plan brings in the first state; one that came while it waited is not its to replace.
  perform private.fail('RY409', 'Runyard has a state of this module already.', 'Plan the module.')
  from public.provision_jobs as j where j.id = p_job and j.type = 'PLAN' and v_old.job_id is distinct from j.id
    and v_old.module_id is not null;
  v_new.serial := coalesce(v_new.serial, v_old.serial + 1, 1);
  perform private.fail('RY409', 'The state has another lineage than the one that is stored.',
    'It belongs to something else; make another module for it.') where v_old.lineage <> v_new.lineage;
  perform private.fail('RY409', format('The state''s serial %s is not newer than %s.', v_new.serial, v_old.serial),
    'Read the state again.') where v_new.serial <= v_old.serial;
  perform private.check_serial(v_new.serial, v_old.serial);
  perform private.write_state(p_module, v_new.serial, v_new.lineage, p_body, p_job, p_attempt);
  return jsonb_build_object('serial', v_new.serial, 'is_unchanged', false);
end;
$$;

create function private.worker_state_put(p_job bigint, p_attempt integer, p_body text, p_lock_id text default null)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_lock private.state_locks;
begin
  perform private.refuse_reader(p_job);
  perform private.refuse_own_backend(v_module);
  select * into v_lock from private.state_locks where module_id = v_module for update;
  perform private.fail('RY423', 'The state is locked by another job.',
    'Wait for it, or force-unlock the state with its lock id.', v_lock.info::pg_catalog.text)
  where v_lock.module_id is not null and (v_lock.job_id, v_lock.attempt) <> (p_job, p_attempt)
    or v_lock.lock_id <> p_lock_id;
  return private.succeed_state(v_module, p_body, p_job, p_attempt);
end;
$$;
comment on function private.worker_state_put is
  'Writes the state of the job''s module; refuses mere readers, stale attempts, older serials and others'' locks.';

create function private.worker_state_lock(p_job bigint, p_attempt integer, p_lock jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_lock private.state_locks;
begin
  perform private.fail('RY422', 'A lock needs an ID.') where coalesce(p_lock ->> 'ID', '') = '';
  perform private.fail('RY422', 'A lock has at most 16 KiB, and its ID 200 characters.')
  where length(p_lock ->> 'ID') > 200 or pg_column_size(p_lock) > 16384;
  -- It protects nothing: what it reads is replaced as a whole.
  if not private.writes_state(p_job) then return p_lock; end if;
  insert into private.state_locks (module_id, lock_id, info, job_id, attempt)
  values (v_module, p_lock ->> 'ID', p_lock, p_job, p_attempt) on conflict (module_id) do nothing
    returning * into v_lock;
  if v_lock.module_id is not null then return v_lock.info; end if;
  -- An earlier attempt of the same job is fenced: it can no longer write, so its lock protects nothing from this one.
  update private.state_locks as l set lock_id = p_lock ->> 'ID', info = p_lock, attempt = p_attempt, created_at = now()
  where l.module_id = v_module and l.job_id = p_job and (l.attempt < p_attempt or l.lock_id = p_lock ->> 'ID')
    returning * into v_lock;
  if v_lock.module_id is null then
    select * into v_lock from private.state_locks where module_id = v_module;
    perform private.fail('RY423', format('The state is locked by job %s.', private.job_number(v_lock.job_id)),
      'Wait until that job is done, or force-unlock the state with its lock id.', v_lock.info::pg_catalog.text);
  end if;
  return v_lock.info;
end;
$$;
comment on function private.worker_state_lock is 'Locks the state for this attempt; RY423 with another job''s lock.';

create function private.worker_state_unlock(p_job bigint, p_attempt integer, p_lock_id text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_lock private.state_locks;
begin
  delete from private.state_locks as l where l.module_id = v_module and l.job_id = p_job and l.attempt = p_attempt
    and l.lock_id = p_lock_id;
  if not found then
    select * into v_lock from private.state_locks where module_id = v_module;
    perform private.fail('RY423', 'That is not the lock that is held.', 'Unlock with the id that was locked with.',
      v_lock.info::pg_catalog.text) where v_lock.module_id is not null and private.writes_state(p_job);
  end if;
  return jsonb_build_object('unlocked', true);
end;
$$;
comment on function private.worker_state_unlock is 'Releases this attempt''s state lock; twice is not an error.';

create function private.state_info(p_module uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object(
    'serial', s.serial, 'lineage', s.lineage, 'size', octet_length(s.body), 'sha256', s.sha256, 'job_id', s.job_id,
    'updated_at', s.updated_at, 'lock', (
      select jsonb_build_object('id', l.lock_id, 'info', l.info, 'job_id', l.job_id, 'job_number',
        private.job_number(l.job_id), 'attempt', l.attempt, 'created_at', l.created_at)
      from private.state_locks as l where l.module_id = m.id),
    'versions', (
      select coalesce(jsonb_agg(jsonb_build_object('serial', v.serial, 'size', octet_length(v.body), 'sha256',
        v.sha256, 'job_id', v.job_id, 'job_number', private.job_number(v.job_id), 'attempt', v.attempt,
        'written_by', v.written_by, 'created_at', v.created_at) order by v.serial desc), '[]')
      from private.state_versions as v where v.module_id = m.id))
  from private.my_module(p_module, 'state.read') as m left join private.states as s on s.module_id = m.id
$$;
comment on function private.state_info is 'A module''s state without its text: serial, size, lock, history. Members.';

-- A version of a module's state that is kept.
create function private.known_version(p_module uuid, p_serial bigint, out v_version private.state_versions)
language plpgsql stable as $$
begin
  select * into v_version from private.state_versions where module_id = p_module and serial = p_serial;
  perform private.fail('RY404', format('There is no version %s of this state.', p_serial),
    'The newest 100 versions are kept.') where v_version.module_id is null;
end;
$$;

create function private.state_version(p_module uuid, p_serial bigint) returns jsonb
language sql security definer set search_path = '' as $$
  select private.audit(m.org_id, 'state.read', 'module', p_module::pg_catalog.text, m.path,
    jsonb_build_object('serial', p_serial)) from private.my_module(p_module, 'state.text') as m;
  select to_jsonb(v) - 'module_id' from private.known_version(p_module, p_serial) as v
$$;
comment on function private.state_version is 'The text of one version of a state (body); reading is audited. Admins.';

create function private.terraform_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean, id text) language sql immutable as $$
  select concat_ws('.', r.resource ->> 'module', case when r.resource ->> 'mode' = 'data' then 'data' end,
    r.resource ->> 'type', r.resource ->> 'name') || case jsonb_typeof(i.instance -> 'index_key')
      when 'number' then format('[%s]', i.instance ->> 'index_key')
      when 'string' then format('[%s]', i.instance -> 'index_key') else '' end,
    r.resource ->> 'type', r.resource ->> 'mode' is distinct from 'data',
    case when not coalesce(i.instance -> 'sensitive_attributes', '[]') @> '[[{"type": "get_attr", "value": "id"}]]'
      then i.instance #>> '{attributes,id}' end
  from jsonb_array_elements(case when jsonb_typeof(p_state -> 'resources') = 'array' then p_state -> 'resources'
    else '[]' end) as r (resource)
  cross join jsonb_array_elements(case when jsonb_typeof(r.resource -> 'instances') = 'array'
    then r.resource -> 'instances' else '[]' end) as i (instance)
$$;

create function private.pulumi_resources(p_state jsonb)
returns table (address text, type text, is_managed boolean, id text) language sql immutable as $$
  select r.resource ->> 'urn', r.resource ->> 'type', r.resource ->> 'type' not like 'pulumi:%',
    case when jsonb_typeof(r.resource -> 'id') = 'string' then r.resource ->> 'id' end
  from jsonb_array_elements(case when jsonb_typeof(p_state #> '{deployment,resources}') = 'array'
    then p_state #> '{deployment,resources}' else '[]' end) as r (resource)
$$;

-- The outputs in a state, with their values.
create function private.read_outputs(p_state jsonb) returns table (name text, value jsonb, is_secret boolean)
language sql immutable as $$
  -- Whatever is not plainly said to be open is kept back.
  select t.key, t.value -> 'value' as value, coalesce(t.value -> 'sensitive', 'false') <> 'false' as is_secret
  from jsonb_each(case when jsonb_typeof(p_state -> 'outputs') = 'object' then p_state -> 'outputs'
    else '{}' end) as t
  union all
  -- This key is how Pulumi marks an encrypted value.
  select p.key, p.value, p.value::pg_catalog.text like '%4dabf18193072939515e22adb298388d%'
  from jsonb_path_query_first(p_state, '$.deployment.resources[*] ? (@.type == "pulumi:pulumi:Stack").outputs') as s,
    jsonb_each(case when jsonb_typeof(s) = 'object' then s else '{}' end) as p
$$;

create function private.state_resources(p_module uuid, p_search text default '') returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.read');
  v_serial bigint;
  v_contents pg_catalog.jsonb;
  v_search pg_catalog.text := lower(coalesce(p_search, ''));
begin
  select s.serial, s.contents into v_serial, v_contents from private.states as s where s.module_id = v_module.id;
  return (
    with resource as materialized (
      select r.* from jsonb_to_recordset(v_contents -> 'resources')
        as r (address pg_catalog.text, type pg_catalog.text, id pg_catalog.text)
    ), found as materialized (
      select r.* from resource as r where position(v_search in lower(r.address)) > 0
    )
    select jsonb_build_object('serial', coalesce(v_serial, 0), 'total', (select count(*) from resource),
      'found', (select count(*) from found),
      'resources', to_jsonb(array(select to_jsonb(f) from found as f order by f.address limit 500)),
      'types', (select coalesce(jsonb_object_agg(t.type, t.number), '{}')
        from (select r.type, count(*) as number from resource as r where r.type is not null group by r.type) as t),
      'outputs', coalesce(v_contents -> 'outputs', '{}')));
end;
$$;
comment on function private.state_resources is
  'What a module''s state knows: how many resources, the first 500 by address that have these words in it, counts by '
  'type, and the outputs; sensitive values are masked. Members.';

-- Serial and lineage of a text that a person hands in as the state of a module; refuses a text that is none.
create function private.pushed_fields(p_engine public.engine, p_body text) returns table (serial bigint, lineage text)
language plpgsql immutable as $$
declare
  v_state pg_catalog.jsonb;
begin
  return query select f.serial, f.lineage from private.state_fields(p_body) as f;
  v_state := p_body::pg_catalog.jsonb;
  perform private.fail('RY422', format('This is not a state of %s.', p_engine),
    'Push what "state pull" or "pulumi stack export" printed.')
  where jsonb_typeof(v_state) <> 'object' or p_engine = 'pulumi' and not v_state ? 'deployment'
    or p_engine <> 'pulumi' and not (v_state ?& array['serial', 'lineage']
      and v_state ?| array['resources', 'encrypted_data']);
  if p_engine = 'pulumi' or v_state ? 'encrypted_data' then return; end if;
  -- Engines read the versions 1 to 3, too, but write 4. In a body of another version they find no resources.
  perform private.fail('RY422', format('The state has the version %s; only version 4 is stored.', coalesce(left(
    (v_state -> 'version')::pg_catalog.text, 20), 'null')),
    format('Run "%s state pull", which writes version 4, and push the result.', p_engine))
  where v_state -> 'version' is distinct from '4';
  if jsonb_typeof(v_state -> 'resources') <> 'array'
    or jsonb_path_exists(v_state, 'strict $.resources[*] ? (@.type() != "object")')
    or jsonb_typeof(v_state -> 'serial') <> 'number' or jsonb_typeof(v_state -> 'lineage') <> 'string'
    or length(v_state ->> 'lineage') > 200 or jsonb_typeof(coalesce(v_state -> 'outputs', '{}')) <> 'object' then
    perform private.fail('RY422', 'The state has not the shape of version 4: "resources" is a list of objects, '
      '"outputs" an object, "serial" a number and "lineage" a text.', 'Push what "state pull" printed.');
  end if;
end;
$$;

-- ## is it safe to break?
-- One line about a lock: whether it speaks for breaking it, against it, or leaves it unclear; and since when.
create function private.evidence(p_weighs text, p_text text, p_at timestamptz) returns jsonb
language sql immutable as $$
  select jsonb_build_object('weighs', p_weighs, 'text', p_text, 'at', p_at)
$$;

-- The status of the job that has a lock: a reason for or against opening it.
create function private.attempt_evidence(p_attempt integer, p_live private.live_jobs, p_job public.provision_jobs)
returns jsonb language sql stable as $$
  select case
    when p_live.stage = 'RUNNING' and p_live.attempt = p_attempt then private.evidence('against',
      format('Job %s is running on %s and writes this state.', p_job.number, p_job.worker_name), p_job.started_at)
    when p_live.job_id is null then private.evidence('for',
      format('Job %s has ended: %s.', p_job.number, p_job.status), p_job.finished_at)
    when p_live.stage = 'HELD' and p_job.error ->> 'code' = 'engine_killed' then private.evidence('unclear',
      format('The engine of job %s was killed: nothing writes any more, and the state may lack what it made.',
        p_job.number), p_job.updated_at)
    when p_live.stage = 'HELD' and p_live.instance_id is null then private.evidence('for',
      format('Attempt %s was released by a person: what it still writes is kept aside.', p_attempt), null)
    when p_live.stage = 'HELD' then private.evidence('unclear',
      format('Nobody knows how far job %s got.', p_job.number), p_job.updated_at)
    else private.evidence('for', format('Attempt %s has lost the job; it can no longer write.', p_attempt),
      null) end
$$;

create function private.lock_evidence(p_module uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.read');
  v_lock private.state_locks;
  v_job public.provision_jobs;
  v_live private.live_jobs;
  v_seen pg_catalog.timestamptz;
  v_kept bigint;
  v_found pg_catalog.jsonb := '[]';
begin
  select * into v_lock from private.state_locks where module_id = v_module.id;
  if v_lock.module_id is null then
    return jsonb_build_object('is_locked', false, 'verdict', 'free', 'evidence', v_found);
  end if;
  select * into v_job from public.provision_jobs where id = v_lock.job_id;
  select * into v_live from private.live_jobs where job_id = v_lock.job_id;
  select i.last_seen_at into v_seen from private.instance_liveness as i where i.instance_id = v_job.instance_id;
  select count(*) into v_kept from private.kept_states as k
  where k.job_id = v_lock.job_id and k.stored_at is null and k.discarded_at is null;
  v_found := v_found || private.attempt_evidence(v_lock.attempt, v_live, v_job);
  if v_live.stage = 'HELD' and v_live.instance_id is not null then
    v_found := v_found || case when v_seen > now() - private.lease() then private.evidence('against',
        format('%s is in contact, and may return to it.', v_job.worker_name), v_seen)
      else private.evidence('unclear',
        format('%s is out of contact. Its engine may continue without us, and its state is kept there.',
          v_job.worker_name), v_seen) end;
  end if;
  if v_kept > 0 then
    v_found := v_found || private.evidence('unclear',
      format('%s of its states were written and not stored. Decide about them first.', v_kept), null);
  end if;
  return jsonb_build_object('is_locked', true, 'lock_id', v_lock.lock_id, 'job_id', v_lock.job_id, 'job_number',
    v_job.number, 'attempt', v_lock.attempt, 'evidence', v_found, 'verdict',
      case when v_found @> '[{"weighs": "against"}]' then 'unsafe'
      when v_found @> '[{"weighs": "unclear"}]' then 'unclear' else 'safe' end);
end;
$$;
comment on function private.lock_evidence is
  'Whether it is safe to break a state''s lock: what is known about the attempt that holds it, and a verdict (free, '
  'safe, unclear, unsafe). Members.';

-- ## outputs for other modules
-- Outputs of one module for the jobs of another, by grant. A job's programs read them with its own token
-- (TF_TOKEN_<host>, terraform_remote_state), and gets the outputs alone: resources and their attributes stay with their
-- module.
create table public.output_grants (
  module_id uuid not null references public.modules (id) on delete cascade,
  reader_id uuid not null references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  created_by uuid,
  created_at timestamptz not null default now(),
  primary key (module_id, reader_id),
  check (module_id <> reader_id)
);
create index output_grants_reader_id_idx on public.output_grants (reader_id);
create index output_grants_org_id_idx on public.output_grants (org_id);
comment on table public.output_grants is 'Which module''s jobs may read the outputs of which other module.';

create function private.grant_outputs(p_module uuid, p_reader uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.write');
  v_reader public.modules := private.my_module(p_reader, 'state.write');
begin
  perform private.fail('RY404', 'There is no such module.', 'Both must belong to one organisation.')
  where v_module.org_id <> v_reader.org_id;
  perform private.fail('RY422', 'A module reads its own state without a grant.', 'Name another module.')
  where p_module = p_reader;
  insert into public.output_grants (module_id, reader_id, org_id, created_by)
  values (p_module, p_reader, v_module.org_id, private.caller_id()) on conflict do nothing;
  perform private.audited(to_jsonb(v_module), 'module.outputs_granted', v_module.path,
    jsonb_build_object('reader', v_reader.path));
  return jsonb_build_object('module', v_module.path, 'reader', v_reader.path);
end;
$$;
comment on function private.grant_outputs is 'Grants the jobs of one module access to the outputs of another. Admins.';

create function private.revoke_outputs(p_module uuid, p_reader uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.write');
  v_reader pg_catalog.text := (select m.path from public.modules as m where m.id = p_reader
    and m.org_id = v_module.org_id);
begin
  delete from public.output_grants where module_id = p_module and reader_id = p_reader;
  perform private.fail('RY404', 'There is no such grant.', 'Look at the module''s grants again.') where not found;
  perform private.audited(to_jsonb(v_module), 'module.outputs_revoked', v_module.path,
    jsonb_build_object('reader', v_reader));
  return jsonb_build_object('module', v_module.path, 'reader', v_reader);
end;
$$;
comment on function private.revoke_outputs is 'Takes that away again, at once. Admins.';

create function private.worker_outputs_get(p_job bigint, p_attempt integer, p_org text, p_path text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_reader pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_module pg_catalog.uuid;
  v_state pg_catalog.jsonb;
begin
  -- One refusal for missing and for not granted: a job learns nothing about what else there is.
  select m.id into v_module from public.modules as r
  join public.organizations as o on o.id = r.org_id and o.slug = p_org
  join public.modules as m on m.org_id = r.org_id and m.path = p_path and m.deleted_at is null
  where r.id = v_reader and (m.id = v_reader or exists (
    select from public.output_grants as g where g.module_id = m.id and g.reader_id = v_reader
    union all
    select from public.module_bindings as b where b.producer_id = m.id and b.consumer_id = v_reader));
  perform private.fail('RY403', format('This job may not read the outputs of "%s".', p_path),
    format('An admin grants it: runyard modules grant %s --to %s.', p_path,
      (select r.path from public.modules as r where r.id = v_reader)))
  where v_module is null;
  select s.body::pg_catalog.jsonb into v_state from private.states as s where s.module_id = v_module;
  perform private.fail('RY422', format('The state of "%s" is encrypted by its engine.', p_path),
    'Only that module''s own jobs can read it.') where v_state ? 'encrypted_data';
  return jsonb_build_object('id', v_module, 'path', p_path, 'exists', v_state is not null, 'state', jsonb_build_object(
    'version', 4, 'terraform_version', coalesce(v_state ->> 'terraform_version', '1.0.0'),
    'serial', coalesce((v_state ->> 'serial')::bigint, 0), 'lineage', coalesce(v_state ->> 'lineage', ''),
    'outputs', coalesce(v_state -> 'outputs', '{}'), 'resources', '[]'::pg_catalog.jsonb));
end;
$$;
comment on function private.worker_outputs_get is 'Outputs of a module that grants them, as a state without resources.';

-- Whether a job may write a module's state: it runs, or its runner may return to it.
create function private.has_writer(p_module uuid) returns boolean language sql stable as $$
  select exists (
    select from private.live_jobs as q
    where q.state_key = p_module and (q.stage = 'RUNNING' or q.stage = 'HELD' and q.instance_id is not null))
$$;

create function private.value_digest(p_value jsonb) returns text language sql immutable as $$
  select encode(sha256(convert_to(p_value::pg_catalog.text, 'UTF8')), 'hex')
$$;

create function private.state_digests(p_body text) returns jsonb language plpgsql immutable as $$
begin
  return (select coalesce(jsonb_object_agg(o.name, private.value_digest(o.value)), '{}')
    from private.read_outputs(p_body::pg_catalog.jsonb) as o);
exception
  -- A state is kept whether or not its outputs can be read.
  when data_exception then return '{}';
end;
$$;

-- Keeps the digests of a module's outputs, if another module takes some of them.
create function private.note_outputs(p_module uuid) returns void language plpgsql as $$
begin
  if exists (select from public.module_bindings as b where b.producer_id = p_module) then
    insert into private.output_digests as d (module_id, digests)
    select s.module_id, private.state_digests(s.body) from private.states as s where s.module_id = p_module
    on conflict (module_id) do update set digests = excluded.digests where d.digests <> excluded.digests;
    if found then
      perform private.wake_org(b.org_id, 'modules', b.consumer_id::pg_catalog.text)
      from (select distinct b.org_id, b.consumer_id from public.module_bindings as b
        where b.producer_id = p_module) as b;
    end if;
  end if;
end;
$$;
