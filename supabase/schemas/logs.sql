-- Logs, artifacts and uploads. Every call of a runner carries (job, attempt) and is refused when its session no longer
-- has that attempt: this fence makes requeueing safe. Logs are chunks, not lines (half the work, a third of the space),
-- in one partition per day of the attempt's claim: so (job, attempt, seq) stays unique, and retention drops a table.
-- Partitions live in `private`; readers go through the parent and its policy, and name the day (`log_day` of the job),
-- so that they lock and read one partition of 400. Chunks are not published: a wake-up has the log's newest number.

-- Without check constraints: check_chunks has checked every chunk, and they would be parsed again for every call.
create table public.job_log_chunks (
  log_day date not null,
  job_id bigint not null,
  attempt integer not null,
  seq integer not null,
  org_id uuid not null,
  step text not null default '',
  body text not null,
  line_count integer not null,
  bytes integer not null,
  is_late boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (job_id, attempt, seq, log_day)
) partition by range (log_day);
comment on table public.job_log_chunks is 'Logs in chunks of whole lines, by seq. Removed after the retention.';
comment on column public.job_log_chunks.log_day is 'Day on which the attempt was claimed: the partition.';
comment on column public.job_log_chunks.seq is 'Position in the attempt''s log, from 1 without gaps.';
comment on column public.job_log_chunks.is_late is 'Whether it came after a person had released the attempt.';
comment on column public.job_log_chunks.body is 'The text, at most 64 KiB.';
comment on column public.job_log_chunks.line_count is 'Lines in it.';
comment on column public.job_log_chunks.bytes is 'Bytes in it (UTF-8).';

do $$
begin
  alter table public.job_log_chunks alter column body set compression lz4;
exception when feature_not_supported then raise notice 'This server has no lz4; logs are compressed with pglz.';
end;
$$;

-- A day that has no partition of its own yet, because no sweep ran for days: a runner's call makes no tables.
create table private.job_log_chunks_rest partition of public.job_log_chunks default;
comment on table private.job_log_chunks_rest is 'Logs of days without a partition; empty while the sweep runs.';

-- Today in UTC, whatever the time zone of the session.
create function private.utc_day() returns date language sql stable as $$
  select (now() at time zone 'utc')::pg_catalog.date
$$;

create function private.log_partition_name(p_day date) returns text language sql immutable as $$
  select 'job_log_chunks_' || to_char(p_day, 'YYYYMMDD')
$$;

-- Makes a day's log partition if it is not there. A day with chunks already stays in the partition for the rest.
create function private.ensure_log_partition(p_day date) returns void
language plpgsql security definer set search_path = '' as $$
declare
  v_name pg_catalog.text := private.log_partition_name(p_day);
begin
  if to_regclass('private.' || v_name) is not null then return; end if;
  perform pg_advisory_xact_lock(private.lock_key('log_partition'));
  if to_regclass('private.' || v_name) is not null
    or exists (select from private.job_log_chunks_rest as c where c.log_day = p_day) then
    return;
  end if;
  -- Attaching takes a weaker lock on the parent than "create … partition of": appends continue meanwhile.
  execute format('create table private.%I (like public.job_log_chunks including all)', v_name);
  execute format('alter table private.%I enable row level security', v_name);
  execute format('comment on table private.%I is %L', v_name, 'Job logs of attempts claimed on ' || p_day || '.');
  execute format('alter table public.job_log_chunks attach partition private.%I for values from (%L) to (%L)', v_name,
    p_day, p_day + 1);
end;
$$;

do $$
begin
  perform private.ensure_log_partition(private.utc_day() + d) from generate_series(0, 2) as d;
end;
$$;

-- ## logs
-- Refuses chunks of a log that could not be stored.
create function private.check_chunks(p_chunks jsonb) returns void language plpgsql immutable as $$
begin
  if jsonb_typeof(p_chunks) is distinct from 'array' or jsonb_array_length(p_chunks) not between 1 and 500 then
    perform private.fail('RY422', 'Send 1 to 500 chunks at a time.');
  end if;
  -- All of it together below the limit of one, as it usually is, needs no look at each.
  if jsonb_path_exists(p_chunks,
    '$[*] ? (!(@.seq.type() == "number" && @.seq >= 1 && @.seq <= 1000000 && @.seq == @.seq.floor()
      && @.body.type() == "string"))')
    or jsonb_path_exists(p_chunks, 'strict $[*] ? (@.type() != "object")')
    or pg_column_size(p_chunks) > 65536 and exists (select from jsonb_array_elements(p_chunks) as c
      where octet_length(c ->> 'body') > 65536) then
    perform private.fail('RY422', 'A chunk needs a sequence number from 1 and a text of at most 64 KiB.',
      'Split it at line ends.');
  end if;
end;
$$;

create function private.worker_append_logs(
  p_job bigint, p_attempt integer, p_chunks jsonb, p_is_late boolean default false
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  -- Without a lock: a chunk that slips in while the attempt is being lost is still that attempt's own log.
  v_live private.live_jobs := private.live_attempt(v_runner, p_job, p_attempt);
  v_is_late boolean := v_live.job_id is null;
  v_last integer;
begin
  if v_is_late then v_live := private.late_place(v_runner, p_job, p_attempt, p_is_late); end if;
  perform private.check_chunks(p_chunks);
  v_last := p_chunks -> -1 ->> 'seq';
  -- A crash may lose the last chunks: the finish call names the missing ones, and the runner still has them on disk.
  perform set_config('synchronous_commit', 'off', true);
  insert into public.job_log_chunks (log_day, job_id, attempt, seq, org_id, step, body, line_count, bytes, is_late)
  select v_live.log_day, p_job, p_attempt, c.seq, v_live.org_id, left(coalesce(c.step, ''), 100), c.body,
    octet_length(c.body) - octet_length(replace(c.body, chr(10), '')) + (c.body <> ''
      and right(c.body, 1) <> chr(10))::integer,
    octet_length(c.body), v_is_late
  from jsonb_to_recordset(p_chunks) as c (seq integer, step pg_catalog.text, body pg_catalog.text)
  on conflict do nothing;
  -- Open pages learn how far the log has come, at most four times a second.
  if private.may_wake('log:' || p_job, interval '250 milliseconds') then
    perform private.wake('org:' || v_live.org_id, 'log', jsonb_build_object('job_id', p_job, 'attempt', p_attempt,
      'seq', v_last, 'again_ms', 300));
  end if;
  return jsonb_build_object('last_seq', v_last);
end;
$$;
comment on function private.worker_append_logs is
  'Appends log chunks [{seq, step, body}]. A chunk that is already there is left as it is, so repeating a call is '
  'harmless. With p_is_late an attempt that lost its job fills the gaps that its late report was answered with.';

-- The reads of a log are planned for their day: a runner's calls have generic plans, which lock every partition.
-- Ranges of chunks that have not arrived: [[from, to], …].
create function private.log_gaps(p_job bigint, p_attempt integer, p_day date, p_last integer) returns jsonb
language plpgsql stable set search_path = '' set plan_cache_mode = force_custom_plan as $$
begin
  -- From the stored chunks, not from the announced number, which anyone can send.
  return (
    select coalesce(jsonb_agg(jsonb_build_array(g.before + 1, g.seq - 1) order by g.seq), '[]')
    from (
      select c.seq, coalesce(lag(c.seq) over (order by c.seq), 0) as before from (
        select k.seq from public.job_log_chunks as k
        where k.log_day = p_day and k.job_id = p_job and k.attempt = p_attempt and k.seq <= p_last
        union all select p_last + 1
      ) as c
    ) as g
    where g.seq > g.before + 1);
end;
$$;

-- The stored part of an attempt's log: chunks up to a number, bytes and SHA-256; the digest only up to 16 MiB, so that
-- a finish call stays short. A loop, because it reads the log once and keeps no more than that; a query that does the
-- same takes twice as long to plan.
create function private.stored_log(
  p_job bigint, p_attempt integer, p_day date, p_last integer, out chunks bigint, out bytes bigint, out sha256 text
) language plpgsql stable set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  v_chunk pg_catalog.record;
  v_bodies pg_catalog.text[] := '{}';
begin
  chunks := 0;
  bytes := 0;
  for v_chunk in
    select c.seq, c.bytes, c.body from public.job_log_chunks as c
    where c.log_day = p_day and c.job_id = p_job and c.attempt = p_attempt order by c.seq loop
    chunks := chunks + (v_chunk.seq <= p_last)::integer;
    bytes := bytes + v_chunk.bytes;
    if bytes <= 16777216 then v_bodies := v_bodies || v_chunk.body; end if;
  end loop;
  if bytes <= 16777216 then
    sha256 := encode(sha256(convert_to(array_to_string(v_bodies, ''), 'UTF8')), 'hex');
  end if;
end;
$$;

-- ## artifacts
create table private.artifacts (
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  attempt integer not null,
  name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  body bytea not null check (octet_length(body) <= 33554432),
  sha256 text not null,
  expires_at timestamptz not null default now() + interval '30 days',
  primary key (job_id, attempt, name)
);
create index artifacts_expires_at_idx on private.artifacts (expires_at);
comment on table private.artifacts is 'Files that a job leaves for another, such as the saved plan that an apply uses.';
comment on column private.artifacts.expires_at is 'A saved plan: one day after its apply.';

-- The bytes of something that was sent in base64 with its SHA-256.
create function private.checked_bytes(p_what text, p_base64 text, p_sha256 text, out v_body bytea)
language plpgsql immutable as $$
begin
  v_body := decode(p_base64, 'base64');
  if encode(sha256(v_body), 'hex') is distinct from lower(coalesce(p_sha256, '')) then
    perform private.fail('RY422', format('The %s is not what its SHA-256 says.', p_what), 'Send it again.');
  end if;
end;
$$;

create function private.worker_put_artifact(
  p_job bigint, p_attempt integer, p_name text, p_body_base64 text, p_sha256 text
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
  v_body pg_catalog.bytea;
begin
  v_body := private.checked_bytes('artifact', p_body_base64, p_sha256);
  insert into private.artifacts (job_id, attempt, name, body, sha256)
  values (v_live.job_id, p_attempt, p_name, v_body, lower(p_sha256))
  on conflict (job_id, attempt, name) do update set body = excluded.body, sha256 = excluded.sha256;
  return jsonb_build_object('name', p_name, 'bytes', octet_length(v_body), 'sha256', lower(p_sha256));
exception when check_violation or not_null_violation or invalid_parameter_value then
  perform private.fail('RY422', 'The artifact is too large, its name is not valid, or it is not base64.',
    'At most 32 MiB.');
end;
$$;
comment on function private.worker_put_artifact is 'Stores a file of a job, such as its saved plan.';

create function private.worker_get_artifact(p_job bigint, p_attempt integer, p_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
  v_artifact private.artifacts;
begin
  -- Its own or its plan's; a retry has the files of what it repeats, however often that was repeated.
  with recursive line as (
    select coalesce(j.plan_job_id, j.id) as job_id, 0 as steps from public.provision_jobs as j
    where j.id = v_live.job_id
    union all
    select j.retry_of, l.steps + 1 from line as l join public.provision_jobs as j on j.id = l.job_id
    where j.retry_of is not null
  )
  select a.* into v_artifact from line as l join private.artifacts as a on a.job_id = l.job_id
  where a.name = p_name order by l.steps, a.attempt desc limit 1;
  perform private.fail('RY404', format('There is no artifact "%s" for job %s.', p_name, p_job),
    'It may be past its retention period; plan again.') where v_artifact.job_id is null;
  return jsonb_build_object('name', p_name, 'job', v_artifact.job_id, 'sha256', v_artifact.sha256, 'body_base64',
    translate(encode(v_artifact.body, 'base64'), chr(10), ''));
end;
$$;
comment on function private.worker_get_artifact is 'Reads a file of the job, or of the saved plan that it applies.';

-- ## uploads
-- A plan of what is on somebody's disk: the folder comes as an archive, becomes a file of the plan's job, and is the
-- job's source. Such a plan is read only; its apply is the module's to allow.
create table private.uploads (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  module_id uuid not null references public.modules (id) on delete cascade,
  body bytea check (octet_length(body) between 1 and 26214400),
  sha256 text check ((sha256 is null) = (body is null)),
  created_by uuid,
  created_at timestamptz not null default now()
);
create index uploads_org_id_idx on private.uploads (org_id, created_at);
create index uploads_module_id_idx on private.uploads (module_id);
comment on table private.uploads is 'Folders that were sent to be planned, until a job takes them or an hour is over.';
comment on column private.uploads.body is 'A tar archive, packed; at most 25 MiB. Null: it is still to come.';

-- Refuses an upload that is not there, or not there any more. Volatile: what never changes is computed while a call is
-- planned, whatever its condition.
create function private.refuse_upload() returns void language sql as $$
  select private.fail('RY404', 'There is no such upload for this module.', 'Uploads wait for an hour: send it again.')
$$;

create function private.start_upload(p_module uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'job.plan');
  v_id pg_catalog.uuid;
begin
  delete from private.uploads where org_id = v_module.org_id and created_at < now() - interval '1 hour';
  perform private.fail('RY429', 'Twenty uploads wait for their jobs already.', 'Try again in a few minutes.')
  where (select count(*) from private.uploads where org_id = v_module.org_id) >= 20;
  insert into private.uploads (org_id, module_id, created_by) values (v_module.org_id, p_module, private.caller_id())
  returning id into v_id;
  return jsonb_build_object('id', v_id);
end;
$$;
comment on function private.start_upload is 'Announces a module''s folder; upload_source brings it. Operators.';

create function private.upload_status(p_upload uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_upload private.uploads;
begin
  select u.* into v_upload from private.uploads as u join public.modules as m on m.id = u.module_id
  where u.id = p_upload and private.may_see(m.org_id, m.path);
  perform private.refuse_upload() where v_upload.id is null;
  perform private.need('job.plan', v_upload.org_id, m.path) from public.modules as m where m.id = v_upload.module_id;
  return jsonb_build_object('id', p_upload, 'module_id', v_upload.module_id,
    'is_complete', v_upload.body is not null);
end;
$$;
comment on function private.upload_status is 'Whether an upload that waits for its job has arrived. Operators.';

create function private.upload_source(p_module uuid, p_body_base64 text, p_sha256 text, p_upload uuid default null)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'job.plan');
  v_body pg_catalog.bytea;
  v_id pg_catalog.uuid;
begin
  v_body := private.checked_bytes('upload', p_body_base64, p_sha256);
  v_id := coalesce(p_upload, (private.start_upload(p_module) ->> 'id')::pg_catalog.uuid);
  update private.uploads set body = v_body, sha256 = lower(p_sha256)
  where id = v_id and module_id = v_module.id and body is null;
  perform private.fail('RY409', 'This upload has arrived already, or does not wait any more.', 'Start another one.')
  where not found;
  return jsonb_build_object('id', v_id, 'bytes', octet_length(v_body), 'sha256', lower(p_sha256));
exception when check_violation or not_null_violation or invalid_parameter_value then
  perform private.fail('RY422', 'The upload is empty, too large, or not base64.', 'At most 25 MiB, packed.');
end;
$$;
comment on function private.upload_source is
  'Takes a packed folder to be planned as the module''s code (option upload_id); it waits for an hour. Operators.';

create function private.check_upload(
  p_org uuid, p_type public.job_type, p_module uuid, p_upload uuid, p_is_applied boolean
) returns void language sql stable as $$
  select private.fail('RY403', format('A folder on somebody''s disk may not be applied to %s.', m.path),
    'Plan it without applying it; or set can_apply_uploads on the module, which admins may.')
  from public.modules as m where m.id = p_module and not m.can_apply_uploads and p_is_applied;
  select private.fail('RY422', 'A folder that was uploaded can only be planned.',
    'Plan it; apply that plan where the module allows it (can_apply_uploads).') where p_type <> 'PLAN';
  select private.refuse_upload()
  where not exists (select from private.uploads as u where u.id = p_upload and u.org_id = p_org
    and u.module_id = p_module and u.body is not null)
$$;

-- Makes an upload a file of the job that plans it; refuses one that was removed.
create function private.take_upload(p_job bigint, p_upload uuid) returns void language plpgsql as $$
begin
  with taken as (delete from private.uploads where id = p_upload and body is not null returning body, sha256)
  insert into private.artifacts (job_id, attempt, name, body, sha256)
  select p_job, 0, 'source', t.body, t.sha256 from taken as t;
  -- Looked for before, and removed meanwhile because its hour was over.
  perform private.refuse_upload() where not found;
end;
$$;
