-- Records of changes: when a job that may write a state has ended, one in-toto Statement with SLSA provenance names the
-- change and its causes. It is written in the transaction of the end, so none is lost; the edge function
-- job-identity signs it afterwards, so no apply waits for a signature. Each names the digest of the one before it of
-- the same module: one that is missing or was changed shows. Records stay when jobs are deleted.

create table private.change_records (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  module_id uuid not null,
  job_id bigint not null,
  sequence integer not null check (sequence > 0),
  statement text not null,
  sha256 text not null,
  key_id text,
  signature text,
  signed_at timestamptz,
  sign_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  unique (module_id, sequence),
  unique (job_id, module_id),
  check (num_nonnulls(key_id, signature, signed_at) in (0, 3))
);
create index change_records_org_id_idx on private.change_records (org_id);
create index change_records_unsigned_idx on private.change_records (sign_at) where signature is null;
comment on table private.change_records is
  'What each change of a module''s state was, and what led to it. Append only: a signature is added once.';
comment on column private.change_records.module_id is 'No foreign key, as for the job: records outlive both.';
comment on column private.change_records.sequence is 'Its place in the module''s chain, from 1.';
comment on column private.change_records.statement is 'The in-toto Statement, letter for letter as it is signed.';
comment on column private.change_records.signature is 'RS256 over the DSSE encoding of the statement, in base64.';
comment on column private.change_records.sign_at is 'Unsigned: when a signer may take it (again).';

-- Refuses to change or delete a record, for every caller; it goes with its organisation alone.
create function private.guard_change_record() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and old.signature is null and to_jsonb(new) - array['key_id', 'signature', 'signed_at', 'sign_at']
    = to_jsonb(old) - array['key_id', 'signature', 'signed_at', 'sign_at'] then
    return new;
  elsif tg_op = 'DELETE' and not exists (select from public.organizations as o where o.id = old.org_id) then
    return old;
  end if;
  perform private.fail('RY409', 'A record of a change is never changed or deleted.');
end;
$$;
create trigger guard before update or delete on private.change_records
  for each row execute function private.guard_change_record();

create trigger wake after update of signature on private.change_records
  for each row execute function private.wake_for_row();

-- ## what a record says
-- The module's state before and after a job: name, digest and serial; what the job was given where no state is kept.
create function private.record_subjects(p_job public.provision_jobs, p_module public.modules) returns jsonb
language sql stable as $$
  with written as (
    select min(v.serial) as first, max(v.serial) as last from private.state_versions as v
    where v.module_id = p_module.id and v.job_id = p_job.id
  ), found as (
    select 'before' as role, v.serial, v.sha256 from private.state_versions as v
    where v.module_id = p_module.id and v.serial = (select max(o.serial) from private.state_versions as o, written as w
      where o.module_id = p_module.id and (w.first is null or o.serial < w.first))
    union all
    select 'after', v.serial, v.sha256 from private.state_versions as v, written as w
    where v.module_id = p_module.id and v.serial = w.last
  )
  select coalesce(jsonb_agg(jsonb_build_object('name', format('%s/state/%s', p_module.path, f.serial), 'digest',
    jsonb_build_object('sha256', f.sha256), 'annotations', jsonb_build_object('role', f.role, 'serial', f.serial))
    order by f.serial), jsonb_build_array(jsonb_build_object('name', p_module.path || '/request', 'digest',
    jsonb_build_object('sha256', private.value_digest(p_job.payload)), 'annotations', '{"role": "request"}')))
  from found as f
$$;

-- The materials of a change: the commit, and the plan that was reviewed.
create function private.record_materials(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select to_jsonb(array(
    select jsonb_strip_nulls(jsonb_build_object('name', 'commit', 'uri', 'git+' || (p_job.payload
      #>> '{module,source,url}'), 'digest', jsonb_build_object('gitCommit', c.sha)))
    from (select coalesce(p_job.payload #>> '{options,git,commit}', p_job.payload #>> '{options,git,head_commit}',
      p_job.payload #>> '{module,source,commit}', p_job.result ->> 'commit') as sha) as c where c.sha is not null
    union all
    select jsonb_build_object('name', 'plan', 'digest', jsonb_build_object('sha256', p_job.plan_sha256))
    where p_job.plan_sha256 is not null))
$$;

-- Names and versions of the variables that a job was given, and the digests of none: a value may be a secret.
create function private.record_variables(p_job bigint) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('path', v.path, 'kind', v.kind, 'name', v.name,
    'version', v.version)) order by v.kind, v.name, v.path, v.version), '[]')
  from private.job_variables as g join public.variables as v on v.id = any (g.variables) where g.job_id = p_job
$$;

-- The approvals: by whom, of which plan, and how they had signed in.
create function private.record_approvals(p_job bigint) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('by', a.user_label, 'id', a.user_id, 'decision',
    a.decision, 'at', a.created_at, 'comment', nullif(a.comment, ''), 'is_override', a.is_override, 'plan_sha256',
    a.plan_sha256, 'signed_in', a.signed_in)) order by a.created_at, a.id), '[]')
  from public.approvals as a where a.job_id = p_job
$$;

-- Which rules checked the plan, with which verdict, and who overrode one.
create function private.record_checks(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('name', c.name, 'path', c.path, 'level', c.level,
    'rules_sha256', c.bundle_sha256, 'verdict', c.verdict, 'overridden_by', c.overridden_label, 'overridden_at',
    c.overridden_at, 'reason', c.override_reason)) order by c.name, c.path), '[]')
  from public.policy_checks as c where c.job_id in (p_job.id, p_job.plan_job_id)
$$;

-- Where a change was made: the runner, its process, release and isolation.
create function private.record_runner(p_job public.provision_jobs) returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('id', p_job.worker_id, 'name', p_job.worker_name, 'instance',
    p_job.instance_name, 'release', i.version, 'isolation', i.facts ->> 'isolation'))
  from (select) as one left join public.worker_instances as i on i.id = p_job.instance_id
    and i.connected_at <= p_job.claimed_at
$$;

-- The statement about a job's change of a module, after the record with this digest.
create function private.record_statement(
  p_job public.provision_jobs, p_module public.modules, p_sequence integer, p_previous text
) returns jsonb language sql stable as $$
  select jsonb_build_object('_type', 'https://in-toto.io/Statement/v1', 'subject',
    private.record_subjects(p_job, p_module), 'predicateType', 'https://slsa.dev/provenance/v1', 'predicate',
    jsonb_build_object('buildDefinition', jsonb_build_object(
      'buildType', 'urn:runyard:change:v1',
      'externalParameters', jsonb_strip_nulls(jsonb_build_object('operation', lower(p_job.type::pg_catalog.text),
        'organization', jsonb_build_object('id', o.id, 'slug', o.slug),
        'module', jsonb_build_object('id', p_module.id, 'path', p_module.path),
        'pull_request', coalesce(p_job.payload #> '{options,git,pull_request}',
          p_job.payload #> '{options,git,queue}'),
        'request', jsonb_build_object('by', p_job.created_by_label, 'at', p_job.created_at, 'message', p_job.message),
        'variables', case when r.is_own then private.record_variables(p_job.id) end)),
      'internalParameters', jsonb_build_object('approvals', private.record_approvals(p_job.id),
        'approvals_required', p_job.approvals_required, 'checks', private.record_checks(p_job),
        'token_claims', case when r.is_own then private.identity_claims(p_job) end,
        'status', p_job.status, 'chain', jsonb_build_object('sequence', p_sequence, 'previous_sha256', p_previous)),
      'resolvedDependencies', case when r.is_own then private.record_materials(p_job) else '[]' end),
    'runDetails', jsonb_build_object('builder', jsonb_build_object('id', 'urn:runyard:runner:' || p_job.worker_id),
      'metadata', jsonb_build_object('invocationId', format('run %s, job %s, attempt %s', p_job.number, p_job.id,
        p_job.attempt), 'startedOn', p_job.started_at, 'finishedOn', p_job.finished_at),
      'runner', private.record_runner(p_job))))
    -- Of a move of resources the other module's chain has a record, too: its readers need not see the job's module.
    from public.organizations as o cross join (select p_job.module_id = p_module.id as is_own) as r
    where o.id = p_job.org_id
$$;

-- Writes the record of a job that has ended, if a runner had it. The caller has the state's lock: a chain never forks.
create function private.write_change_record(p_job public.provision_jobs, p_module uuid) returns void
language plpgsql as $$
declare
  v_module public.modules;
  v_sequence integer;
  v_previous pg_catalog.text;
  v_statement pg_catalog.text;
begin
  select * into v_module from public.modules where id = p_module;
  if v_module.id is null or p_job.worker_id is null then return; end if;
  select r.sequence, r.sha256 into v_sequence, v_previous from private.change_records as r
  where r.module_id = p_module order by r.sequence desc limit 1;
  v_sequence := coalesce(v_sequence, 0) + 1;
  v_statement := private.record_statement(p_job, v_module, v_sequence, v_previous)::pg_catalog.text;
  insert into private.change_records (org_id, module_id, job_id, sequence, statement, sha256)
  values (p_job.org_id, p_module, p_job.id, v_sequence, v_statement,
    encode(sha256(convert_to(v_statement, 'UTF8')), 'hex'))
  on conflict (job_id, module_id) do nothing;
end;
$$;

-- ## signing
create function private.has_unsigned_records() returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from private.change_records as r where r.signature is null and r.sign_at <= now())
$$;
comment on function private.has_unsigned_records is 'Whether a record waits to be signed. Service key only.';

create function private.lease_records(p_limit integer default 50) returns jsonb
language sql security definer set search_path = '' as $$
  select private.fail('RY422', 'A signer takes 1 to 100 records.') where coalesce(p_limit, 0) not between 1 and 100;
  with mine as (
    select r.id from private.change_records as r where r.signature is null and r.sign_at <= now()
    order by r.id limit p_limit for update skip locked
  ), taken as (
    update private.change_records as r set sign_at = now() + interval '1 minute' from mine as m
    where r.id = m.id returning r.id, r.statement
  )
  select coalesce(jsonb_agg(to_jsonb(t) order by t.id), '[]') from taken as t
$$;
comment on function private.lease_records is
  'Takes records that wait for a signature, for a minute: the signer that dies loses none. Service key only.';

create function private.sign_record(p_record bigint, p_key text, p_signature text) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  perform private.fail('RY422', 'A signature comes with the id of its key, in base64.')
  where coalesce(p_key, '') !~ '^[A-Za-z0-9_-]{1,200}$' or length(p_signature) not between 340 and 2000
    or coalesce(p_signature, '') !~ '^[A-Za-z0-9+/]+={0,2}$';
  update private.change_records set key_id = p_key, signature = p_signature, signed_at = now()
  where id = p_record and signature is null;
  return found;
end;
$$;
comment on function private.sign_record is 'Adds a record''s signature, once. Service key only.';

-- ## reading
-- A record as its envelope (DSSE), with its place; the envelope is null until it is signed.
create function private.record_json(p_record private.change_records) returns jsonb language sql stable as $$
  select jsonb_build_object('sequence', p_record.sequence, 'created_at', p_record.created_at, 'signed_at',
    p_record.signed_at, 'key_id', p_record.key_id, 'envelope', case when p_record.signature is not null then
    jsonb_build_object('payloadType', 'application/vnd.in-toto+json', 'payload',
      translate(encode(convert_to(p_record.statement, 'UTF8'), 'base64'), E'\n', ''), 'signatures',
      jsonb_build_array(jsonb_build_object('keyid', p_record.key_id, 'sig', p_record.signature))) end)
$$;

-- Refuses somebody who may not read the jobs of a module, also of one that was removed.
create function private.need_records_of(p_module uuid) returns void language plpgsql stable as $$
begin
  perform private.need('job.read', m.org_id, m.path) from public.modules as m
  where m.id = p_module and private.may_see(m.org_id, m.path);
  perform private.fail('RY404', 'There is no such module.') where not found;
end;
$$;

create function private.list_change_records(p_module uuid, p_after integer default 0) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_records_of(p_module);
  select to_jsonb(array(select private.record_json(r) from private.change_records as r
    where r.module_id = p_module and r.sequence > coalesce(p_after, 0) order by r.sequence limit 200))
$$;
comment on function private.list_change_records is
  'The records of a module''s changes, oldest first, 200 at a time after a place in the chain. Members.';

create function private.change_record(p_job bigint) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_record private.change_records;
begin
  -- A move of resources between two modules has two; the requested module comes first.
  select * into v_record from private.change_records as r where r.job_id = p_job
    and exists (select from public.modules as m where m.id = r.module_id and private.may_see(m.org_id, m.path))
  order by r.id limit 1;
  perform private.fail('RY404', 'There is no record of this run.',
    'Applies, destroys and changes of a state have one when they have ended.') where v_record.id is null;
  perform private.need_records_of(v_record.module_id);
  return private.record_json(v_record);
end;
$$;
comment on function private.change_record is 'The signed record of a run''s change; it outlives the run. Members.';

-- A record on its run's page: whether it is signed, and since when the newest hundred of the chain fit.
create function private.record_status(p_job bigint) returns jsonb language sql stable as $$
  with own as (
    select r.* from private.change_records as r where r.job_id = p_job order by r.id limit 1
  ), newest as (
    select r.sequence, r.created_at, r.statement, r.sha256 = encode(sha256(convert_to(r.statement, 'UTF8')), 'hex')
      as is_same, lag(r.sha256) over w as previous, lag(r.sequence, 1, case when o.sequence <= 100 then 0
      else r.sequence - 1 end) over w as before
    from private.change_records as r, own as o where r.module_id = o.module_id and r.sequence > o.sequence - 100
    window w as (order by r.sequence)
  )
  -- The statement may be anything that somebody wrote there: it is searched, not parsed.
  select jsonb_build_object('sequence', o.sequence, 'signed_at', o.signed_at, 'key_id', o.key_id,
    'since', (select min(n.created_at) from newest as n), 'broken_at', (select min(n.sequence) from newest as n
      where not n.is_same or n.before <> n.sequence - 1 or position(n.previous in n.statement) = 0))
  from own as o
$$;
