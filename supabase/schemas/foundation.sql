-- Foundation: privileges before anything exists, and the helpers that every other topic uses. Hosted Supabase grants
-- every new object in `public` to anon, authenticated and service_role. Runyard revokes these defaults first: nothing
-- is reachable until access.sql or a line behind the object grants it. `private` holds secrets, sessions, scheduling
-- and the bodies of all functions; the API never exposes it. Wake-ups are here because the triggers of nearly every
-- table send them. A wake-up says "look again", the row is the truth: everything works, slower, without them. Busy
-- lanes and logs are rate-limited, so 1,000 jobs in a second are not 1,000 messages for each of 500 runners. A
-- suppressed wake-up is never the last word: the one before asks the listener to look once more after the pause
-- (again_ms).

alter default privileges in schema public revoke all on tables from public, anon, authenticated, service_role;
alter default privileges in schema public revoke all on sequences from public, anon, authenticated, service_role;
alter default privileges in schema public revoke all on functions from public, anon, authenticated, service_role;
alter default privileges revoke execute on functions from public;

create schema if not exists private;
comment on schema private is 'Secrets, sessions, scheduling and the bodies of all functions. Not exposed by the API.';

-- Runners sign in with a role of their own, so that a runner's key opens no door that is meant for a person. A runner's
-- dispatcher starts an executor to run one job; its role opens no more than that job needs. The role of the engine, and
-- of whatever else a job runs, reads its own module's state, and changes nothing.
do $$
declare
  v_role pg_catalog.text;
  v_setting pg_catalog.text;
begin
  foreach v_role in array array['worker', 'executor', 'engine'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = v_role) then
      execute format('create role %I nologin', v_role);
    end if;
    if exists (select from pg_catalog.pg_roles where rolname = 'authenticator') then
      execute format('grant %I to authenticator', v_role);
    end if;
    execute format('alter role %I set statement_timeout = %L', v_role, '15s');
    -- Every statement of a runner's call is an index lookup. A connection that lives for days must not keep the plan
    -- that was right when the table was empty, nor plan again for every call. (Before PostgreSQL 18 a scan that is
    -- switched off and taken all the same looks expensive enough to be compiled: therefore no JIT.)
    execute format('alter role %I set plan_cache_mode = force_generic_plan', v_role);
    foreach v_setting in array array['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin',
      'jit'] loop
      execute format('alter role %I set %I = off', v_role, v_setting);
    end loop;
  end loop;
  -- Realtime reads its messages table as the runner's role. On hosted Supabase only its own administrator may open that
  -- schema to a new role, but anon may already look in, and sees nothing of ours: so a worker is an anon with policies.
  grant anon to worker;
end;
$$;
grant usage on schema public to anon, authenticated, service_role, worker, executor, engine;
grant usage on schema private to authenticated, service_role, worker, executor, engine;

-- REST applies the settings of the role that a request runs as, hosted and embedded alike. Nobody keeps a transaction
-- open: an old snapshot keeps vacuum from removing what claims leave behind, and each claim would step over all of it.
-- Where a role is not the owner's to change, its administrator sets the same (stack/sql/10_roles.sql).
do $$
declare
  v_role pg_catalog.text;
begin
  foreach v_role in array array['authenticator', 'anon', 'authenticated', 'service_role', 'worker', 'executor',
    'engine'] loop
    begin
      execute format('alter role %I set idle_in_transaction_session_timeout = %L', v_role, '60s');
      if current_setting('server_version_num')::integer >= 170000 then
        execute format('alter role %I set transaction_timeout = %L', v_role, '5min');
      end if;
    exception
      when insufficient_privilege then raise notice 'The time limits of role % are for its administrator to set.',
        v_role;
    end;
  end loop;
end;
$$;
alter role current_user set idle_in_transaction_session_timeout = '10min';

-- Raises an error that a caller can act upon: code RYxxx, what happened, what to do next, machine-readable detail.
create function private.fail(p_code text, p_message text, p_hint text default null, p_detail text default null)
returns void language plpgsql as $$
begin
  raise exception using
    errcode = p_code,
    message = p_message,
    hint = coalesce(p_hint, case p_code
      when 'RY404' then 'It may have been removed, or belong to another organisation.'
      when 'RY422' then 'Correct it and try again.'
      else 'Look at it again.' end),
    detail = coalesce(p_detail, '');
end;
$$;

-- ## callers
-- The claims of the caller's token, or null outside of a request.
create function private.jwt() returns jsonb language plpgsql stable as $$
begin
  return nullif(current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb;
end;
$$;

-- For how long a runner that sends no heartbeat is alive, and keeps its jobs.
create function private.lease() returns interval language sql immutable as $$
  select interval '60 seconds'
$$;

-- The signed-in user's id (for a runner: the runner's id).
create function private.caller_id() returns uuid language plpgsql stable as $$
begin
  return (private.jwt() ->> 'sub')::pg_catalog.uuid;
end;
$$;

-- The address from which the caller signed in or exchanged its token, or null if it is not a valid address.
create function private.caller_address() returns inet language plpgsql stable as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  -- Anybody may send a header, and the dashboard sends its own address: what Auth saw at the sign-in is looked up by
  -- the token's session, and tokens that our own function signed contain the one that it saw.
  return host(coalesce((v_claims ->> 'client_address')::pg_catalog.inet, (select s.ip from auth.sessions as s
    where s.id = (v_claims ->> 'session_id')::pg_catalog.uuid
      and s.user_id = (v_claims ->> 'sub')::pg_catalog.uuid)));
exception when invalid_text_representation then
  return null;
end;
$$;

-- ## checks
-- Whether every label reads like "gpu" or "gpu=true"; 32 at most, of 1,000 characters in all.
create function private.is_label_list(p_labels text[]) returns boolean language sql immutable as $$
  -- A thousand characters in all: they are part of the key of a lane, and an index has no room for much more.
  select cardinality(p_labels) <= 32 and length(array_to_string(p_labels, '')) <= 1000 and not exists (
    select from unnest(p_labels) as l (label)
    where l.label is null or l.label !~ '^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?(=[A-Za-z0-9._/-]{0,63})?$'
  )
$$;

-- The labels without repeats, in order, so that equal sets are equal arrays.
create function private.sorted_labels(p_labels text[]) returns text[] language sql immutable as $$
  select coalesce(array_agg(distinct l.label order by l.label), '{}') from unnest(p_labels) as l (label)
$$;

-- Whether a text is a path such as platform/network: lower case, at most 20 parts.
create function private.is_path(p_path text) returns boolean language sql immutable as $$
  select p_path ~ '^[a-z0-9]([a-z0-9_-]{0,62})(/[a-z0-9]([a-z0-9_-]{0,62})){0,19}$'
$$;

-- All paths at or above a path, from "" (everything) down to the path itself.
create function private.path_prefixes(p_path text) returns text[] language plpgsql immutable as $$
declare
  v_prefixes pg_catalog.text[] := array[''];
  v_prefix pg_catalog.text;
  v_part pg_catalog.text;
begin
  foreach v_part in array string_to_array(p_path, '/') loop
    v_prefix := concat_ws('/', v_prefix, v_part);
    v_prefixes := v_prefixes || v_prefix;
  end loop;
  return v_prefixes;
end;
$$;

-- Refuses a misspelt option instead of ignoring it.
create function private.refuse_unknown_keys(p_object jsonb, p_allowed text[]) returns void language sql immutable as $$
  select private.fail('RY422', 'The options must be a JSON object.', 'Send {} for none.')
  where jsonb_typeof(p_object) <> 'object';
  select private.fail('RY422', format('Unknown option: %s.', string_agg(k, ', ' order by k)),
    format('Known options: %s.', array_to_string(p_allowed, ', ')))
  from jsonb_object_keys(p_object) as k where k <> all (p_allowed) having count(*) > 0
$$;

-- A JSON list of strings as text[]; anything else as an empty list.
create function private.text_list(p_value jsonb) returns text[] language sql immutable as $$
  select case when jsonb_typeof(p_value) = 'array' then array(select jsonb_array_elements_text(p_value)) else '{}' end
$$;

-- The options of what people set up and request, those that are alike in one row: of a number the least and the most,
-- of a text its lengths, of a list its bytes. Where the type is any, the function that reads the option checks it.
create view private.options as
select
  o.object,
  n.option,
  o.type,
  o.least,
  o.most
from (values
  ('module', 'text', 0, 2000, array['description']),
  ('module', 'text', 0, 50, array['engine_version']),
  ('module', 'text', 1, 100, array['runner_instance_name']),
  ('module', 'integer', 0, 10, array['approvals_required']),
  ('module', 'integer', 60, 2592000, array['approval_timeout_seconds']),
  ('module', 'boolean', null, null, array['auto_apply', 'can_apply_uploads', 'is_temporary']),
  ('module', 'labels', null, null, array['labels']),
  ('module', 'any', null, null, array['source_kind', 'source', 'engine', 'backend', 'inputs', 'env', 'extra_files',
    'hooks', 'pinned_worker_id', 'time_limits', 'drift_ignores']),
  ('runner', 'integer', 1, 256, array['capacity']),
  ('runner', 'boolean', null, null, array['allow_multiple_instances', 'is_assigned_to_all_modules']),
  ('runner', 'labels', null, null, array['labels']),
  ('runner', 'id', null, null, array['service_account_id']),
  ('runner', 'any', null, null, array['name', 'accepted_job_types', 'assignments', 'token_expires_at', 'region',
    'scaling']),
  ('scaling', 'integer', 0, 1000, array['min']),
  ('scaling', 'integer', 1, 1000, array['max', 'jobs_per_task']),
  ('scaling', 'integer', 0, 86400, array['idle_seconds']),
  ('target', 'integer', 0, 1000, array['desired_count']),
  ('target', 'boolean', null, null, array['is_scaled_to_zero', 'is_draining']),
  ('target', 'any', null, null, array['cloud', 'drain_reason']),
  ('job', 'integer', 0, 1000, array['priority']),
  ('job', 'integer', 1, 20, array['max_attempts']),
  ('job', 'integer', 0, 10, array['approvals_required']),
  ('job', 'number', null, null, array['plan_job_id']),
  ('job', 'text', 1, 200, array['idempotency_key']),
  ('job', 'text', 1, 100, array['pinned_instance_name']),
  ('job', 'boolean', null, null, array['auto_apply', 'confirm', 'refresh_only', 'destroy', 'bring_state',
    'test_identities']),
  ('job', 'labels', null, null, array['labels']),
  ('job', 'set', null, 65536, array['targets', 'replace']),
  ('job', 'id', null, null, array['pinned_worker_id', 'upload_id']),
  ('job', 'any', null, null, array['reason', 'variables', 'state_change']),
  ('schedule', 'text', 0, 500, array['reason']),
  ('schedule', 'boolean', null, null, array['is_on']),
  ('schedule', 'any', null, null, array['path', 'type', 'cron', 'zone'])
) as o (object, type, least, most, options) cross join unnest(o.options) as n (option);
comment on view private.options is 'The options of modules, runners, their scaling and targets, jobs and schedules.';
comment on column private.options.type is
  'integer, number (of a job), text, boolean, object, list, set (of texts), labels, id or any; null is allowed.';
comment on column private.options.most is 'The greatest number, the longest text, or the largest list in bytes.';

-- Whether a value is of a type and within these bounds.
create function private.is_of_type(
  p_value jsonb, p_type text, p_least integer default null, p_most integer default null
) returns boolean language sql immutable as $$
  select case p_type when 'any' then true when 'boolean' then jsonb_typeof(p_value) = 'boolean'
    when 'number' then p_value::pg_catalog.text ~ '^[0-9]{1,18}$'
    when 'object' then jsonb_typeof(p_value) = 'object' when 'list' then jsonb_typeof(p_value) = 'array'
    when 'text' then jsonb_typeof(p_value) = 'string'
      and (p_most is null or length(p_value #>> '{}') between p_least and p_most)
    when 'id' then p_value #>> '{}' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    -- As it is written: "300.0" is a whole number too, but no integer.
    when 'integer' then p_value::pg_catalog.text ~ '^-?[0-9]{1,9}$'
      and (p_value #>> '{}')::integer between coalesce(p_least, -999999999) and coalesce(p_most, 999999999)
    else jsonb_typeof(p_value) = 'array' and not jsonb_path_exists(p_value, 'strict $[*] ? (@.type() != "string")')
      and pg_column_size(p_value) <= coalesce(p_most, 4194304)
      and (p_type = 'set' or private.is_label_list(private.text_list(p_value))) end
$$;

create function private.type_words(p_type text, p_least integer default null, p_most integer default null) returns text
language sql immutable as $$
  select case p_type when 'text' then 'a text' when 'boolean' then 'true or false' when 'integer' then 'a whole number'
    when 'number' then 'a number' when 'object' then 'an object' when 'list' then 'a list' when 'id' then 'an id'
    when 'labels' then 'a list of at most 32 labels like "gpu" or "gpu=true", of 1,000 characters in all'
    else 'a list of texts' end || case when p_most is null then '' when p_type = 'integer'
    then format(' from %s to %s', p_least, p_most) when p_type = 'text'
    then format(' of %s to %s characters', p_least, p_most) else format(' of at most %s bytes', p_most) end
$$;

create function private.options_of(p_object text) returns text[] language sql stable as $$
  select array(select o.option from private.options as o where o.object = p_object)
$$;

-- Refuses options that this object does not have, and values of another type or out of range.
create function private.check_options(p_object text, p_options jsonb) returns void language plpgsql stable as $$
begin
  perform private.refuse_unknown_keys(p_options, private.options_of(p_object));
  perform private.fail('RY422', format('"%s" is not %s.', o.option, private.type_words(o.type, o.least, o.most)),
    'Change it, or leave it out.')
  from private.options as o
  where o.object = p_object and coalesce(p_options -> o.option, 'null') <> 'null'
    and not private.is_of_type(p_options -> o.option, o.type, o.least, o.most);
end;
$$;

-- Refuses a reason that is longer than the pages, events and heartbeats that repeat it should carry.
create function private.check_reason(p_reason text) returns void language sql immutable strict as $$
  select private.fail('RY422', 'A reason has at most 1,000 characters.', 'Write less, and link to the rest.')
  where length(p_reason) > 1000
$$;

-- The key of an advisory lock. The only place that makes one.
create function private.lock_key(p_kind text, p_id text default '') returns bigint language plpgsql immutable as $$
begin
  return hashtextextended('runyard:' || p_kind || ':' || p_id, 0);
end;
$$;

create function private.touch_updated_at() returns trigger language plpgsql as $$
begin
  new.updated_at := now();
  return new;
end;
$$;

-- ## versions
-- A text that sorts (collation "C") as versions do: 1.9.0 < 1.10.0-rc.1 < 1.10.0; null when it is not a version.
create function private.version_key(p_version text) returns text language plpgsql immutable as $$
declare
  v_match pg_catalog.text[];
  v_pre pg_catalog.text;
begin
  v_match := regexp_match(lower(p_version),
    '^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?'
    '(?:-([a-z0-9][a-z0-9.-]*)|[.]?((?:a|b|rc|dev|post)\d*))?(?:\+[0-9a-z.-]+)?$');
  if v_match is null then return null; end if;
  -- PEP 440 writes 1.2.0rc1 for what SemVer writes 1.2.0-rc.1: a number that follows letters is a part of its own.
  v_pre := coalesce(v_match[4], regexp_replace(v_match[5], '^([a-z]+)(\d+)', '\1.\2'));
  return lpad(v_match[1], 9, '0') || '.' || lpad(coalesce(v_match[2], '0'), 9, '0') || '.'
    || lpad(coalesce(v_match[3], '0'), 9, '0') || case
      when v_pre is null then '~'
      when v_pre like 'post%' then '~' || v_pre
      else ' ' || (
        select string_agg(
          case when i.part ~ '^\d+$' then '0' || lpad(i.part, 18, '0') when i.part = 'dev' then '!'
            else '1' || i.part end,
          ' ' order by i.n
        )
        from regexp_split_to_table(v_pre, '\.') with ordinality as i (part, n)
      ) end;
end;
$$;

-- Whether the left version comes before the right one; null when either is not a version.
create function private.is_version_less(p_left text, p_right text) returns boolean language sql immutable as $$
  select private.version_key(p_left) collate "C" < private.version_key(p_right) collate "C"
$$;

create unlogged table private.wake_ups (
  key text primary key,
  sent_at timestamptz not null
) with (fillfactor = 50);
comment on table private.wake_ups is 'When each rate-limited wake-up was sent. UNLOGGED: losing it costs a message.';

-- Sends a private broadcast where Realtime exists; does nothing elsewhere.
create function private.wake(p_topic text, p_event text, p_payload jsonb) returns void language plpgsql as $$
begin
  if to_regprocedure('realtime.send(jsonb,text,text,boolean)') is not null then
    perform realtime.send(p_payload, p_event, p_topic, true);
  end if;
end;
$$;

-- Whether this wake-up may be sent now: at most once in the given time. Never waits.
create function private.may_wake(p_key text, p_every interval) returns boolean language plpgsql as $$
begin
  -- clock_timestamp, because one transaction may wake twice.
  if exists (select from private.wake_ups as r where r.key = p_key and r.sent_at > clock_timestamp() - p_every) then
    return false;
  end if;
  -- Nobody waits for a wake-up: the transaction that holds it sends it with its commit, which is soon enough for both.
  if not pg_try_advisory_xact_lock(private.lock_key('wake_up', p_key)) then return false; end if;
  insert into private.wake_ups as r (key, sent_at) values (p_key, clock_timestamp())
  on conflict (key) do update set sent_at = excluded.sent_at;
  return true;
end;
$$;

-- Asks a runner for a heartbeat at once, because there is something for it to learn.
create function private.wake_worker(p_worker uuid) returns void language sql as $$
  select private.wake('worker:' || p_worker, 'directive', '{}')
$$;

-- Tells open pages that a row of an unpublished table has changed.
create function private.wake_org(p_org uuid, p_table text, p_id text) returns void language sql as $$
  select private.wake('org:' || p_org, 'changed', jsonb_build_object('table', p_table, 'id', p_id))
    where p_org is not null
$$;

-- Rings the organisation's pages for a changed row of an unpublished table.
create function private.wake_for_row() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_row pg_catalog.jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
begin
  perform private.wake_org((v_row ->> 'org_id')::pg_catalog.uuid, tg_table_name,
    coalesce(v_row ->> 'id', v_row ->> 'user_id', v_row ->> 'module_id'));
  return null;
end;
$$;

-- ## periodic work
create unlogged table private.clocks (
  name text primary key,
  ran_at timestamptz not null
);
comment on table private.clocks is 'When periodic work last ran. UNLOGGED: after a crash it just runs again.';

-- Whether something is due again; if so, it is noted as run. Never waits for another run.
create function private.is_due(p_name text, p_every interval) returns boolean language plpgsql as $$
begin
  -- A run in the future means that the clock jumped: do not wait for that time.
  if exists (select from private.clocks as c where c.name = p_name and c.ran_at > now() - p_every
    and c.ran_at < now() + interval '1 minute')
    or not pg_try_advisory_xact_lock(private.lock_key('clock', p_name)) then
    return false;
  end if;
  insert into private.clocks as c (name, ran_at) values (p_name, now())
  on conflict (name) do update set ran_at = excluded.ran_at
    where c.ran_at <= now() - p_every or c.ran_at >= now() + interval '1 minute';
  return found;
end;
$$;

create unlogged table private.rate_limits (
  key text primary key,
  window_started_at timestamptz not null,
  used integer not null
) with (fillfactor = 50);
comment on table private.rate_limits is 'Counters of attempts per address and per runner. UNLOGGED: a crash forgives.';

create function private.rate_limit(p_key text, p_limit integer, p_window_seconds integer) returns boolean
language sql security definer set search_path = '' as $$
  select private.fail('RY422', 'A limit needs a key, a number and a time.', 'Send all three.')
  where num_nulls(p_key, p_limit, p_window_seconds) > 0;
  insert into private.rate_limits as r (key, window_started_at, used) values (left(p_key, 500), now(), 1)
  on conflict (key) do update set
    window_started_at = case when r.window_started_at < now() - make_interval(secs => p_window_seconds) then now()
      else r.window_started_at end,
    used = case when r.window_started_at < now() - make_interval(secs => p_window_seconds) then 1 else least(r.used + 1,
      1000000) end
  returning used <= p_limit
$$;
comment on function private.rate_limit is 'Counts an attempt; true up to the limit of the window. Edge functions only.';

-- Refuses a time zone that is not known by its name.
create function private.check_zone(p_zone text) returns void language sql stable as $$
  -- PostgreSQL would take "Nowhere5" for a zone five hours from UTC.
  select private.fail('RY422', format('There is no time zone "%s".', left(p_zone, 100)),
    'Write it as Europe/Lisbon, or UTC.')
  where p_zone is null or not exists (select from pg_catalog.pg_timezone_names as z where z.name = p_zone)
    or p_zone like 'posix/%' or p_zone like 'right/%'
$$;
