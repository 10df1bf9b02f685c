-- Fills a database with an organisation, its runners and its jobs, without calling a function for each of a million rows.
-- Writes in bulk the rows that the functions would have written; the functions then work on them as on any others.
create schema bench;

create function bench.add_runners(p_count integer, p_capacity integer) returns void language plpgsql as $$
begin
  if not exists (select from public.organizations) then
    insert into public.organizations (slug, name) values ('bench', 'Bench');
  end if;
  with made as (
    insert into public.workers (org_id, name, status, status_reason, capacity, is_assigned_to_all_modules, never_contacted, version)
    select o.id, 'runner-' || gen_random_uuid(), 'ONLINE', 'Connected', p_capacity, true, false, '1.0.0'
    from public.organizations as o, generate_series(1, p_count) returning id, org_id
  ), instances as (
    insert into public.worker_instances (worker_id, org_id, name, status, capacity, epoch, version, engines)
    select id, org_id, 'one', 'ONLINE', p_capacity, 1, '1.0.0', '{"tofu": "1.10.3"}' from made returning id, worker_id
  ), opened as (
    insert into private.sessions (worker_id, instance_id, epoch, boot_id)
    select worker_id, id, 1, gen_random_uuid() from instances returning id, worker_id, instance_id
  )
  insert into private.heartbeats (instance_id, session_id, worker_id, last_seen_at, tick_at)
  select instance_id, id, worker_id, now(), date_bin('15 minutes', now(), '2000-01-01 00:00+00') from opened;
  -- A first heartbeat, as any runner has sent before it works; and then fresh for as long as the benchmark takes.
  perform bench.heartbeat_as(jsonb_build_object('role', 'worker', 'sid', h.session_id)::text) from private.heartbeats as h where h.tick_heartbeats = 0;
  update private.heartbeats set last_seen_at = now() + interval '1 day';
end $$;

create function bench.add_modules(p_count integer) returns void language sql as $$
  with g as (
    insert into public.groups (org_id, path) select id, 'bench' from public.organizations returning id, org_id
  )
  insert into public.modules (org_id, group_id, group_path, name, path, source_kind, source, engine)
  select g.org_id, g.id, 'bench', 'm' || n, 'bench/m' || n, 'inline', '{"files": {}}', 'tofu' from g, generate_series(1, p_count) as n
$$;

-- Partitions of the log for so many days back and three ahead, as an installation has after a month.
create function bench.add_log_days(p_days integer) returns void language sql as $$
  select private.ensure_log_partition(current_date - n) from generate_series(-2, p_days) as n
$$;

-- Jobs that are ready, with the log of their first attempt. Each has a state of its own, so that all of them may run; modules are shared by many.
create function bench.add_ready(p_count integer, p_priority smallint, p_pinned uuid) returns void language plpgsql as $$
declare
  v_job public.provision_jobs;
  v_lane integer;
begin
  select o.id, p_priority, p_pinned, '{}'::text[], 'PLAN', 'bench/m1', '{"module": {"engine": "tofu", "inputs": {"region": "eu-central-1"}}}'
  into v_job.org_id, v_job.priority, v_job.pinned_worker_id, v_job.labels, v_job.type, v_job.module_path, v_job.payload
  from public.organizations as o;
  v_lane := private.lane_of(v_job);
  with modules as materialized (
    select id, path, row_number() over (order by id) as n, count(*) over () as total from public.modules
  ), made as (
    insert into public.provision_jobs (org_id, type, module_id, module_path, group_path, priority, pinned_worker_id, queued_at, payload)
    select v_job.org_id, 'PLAN', m.id, m.path, 'bench', p_priority, p_pinned, now(), v_job.payload
    from generate_series(1, p_count) as s join modules as m on m.n = 1 + s % m.total returning id
  ), logged as (
    insert into public.job_log_chunks (log_day, job_id, attempt, seq, org_id, step, body, line_count, bytes)
    select (now() at time zone 'utc')::date, id, 1, 1, v_job.org_id, 'plan', 'No changes.', 1, 11 from made
  )
  insert into private.live_jobs (job_id, org_id, state_key, stage, priority, lane_id, ready_seq)
  select id, v_job.org_id, gen_random_uuid(), 'READY', p_priority, v_lane, nextval('private.ready_seq') from made;
end $$;

create function bench.add_finished(p_count integer) returns void language sql as $$
  with modules as materialized (
    select id, path, org_id, row_number() over (order by id) as n, count(*) over () as total from public.modules
  ), made as (
    insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, attempt, queued_at, claimed_at, finished_at)
    select m.org_id, 'PLAN', 'SUCCEEDED', m.id, m.path, 'bench', 1, now(), now(), now()
    from generate_series(1, p_count) as s join modules as m on m.n = 1 + s % m.total returning id, org_id
  )
  insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_label, event, from_status, to_status)
  select org_id, id, 1, 'worker', 'runner', 'succeeded', 'CLAIMED', 'SUCCEEDED' from made
$$;

-- One round trip per heartbeat, with the token's claims set for the call as REST does.
create function bench.heartbeat_as(p_claims text) returns void language plpgsql as $$
begin
  perform set_config('request.jwt.claims', p_claims, true);
  perform public.worker_heartbeat('ONLINE', '1.0.0', '[]', null);
end $$;

-- The ways of others: a durable row that a heartbeat updates by its key; a row for each line of a log, behind the same fence.
create table bench.heartbeats (id integer primary key, last_seen_at timestamptz not null) with (fillfactor = 50);
insert into bench.heartbeats select n, now() from generate_series(1, 1000) as n;

create table bench.log_lines (
  job_id bigint, attempt integer, seq integer, org_id uuid not null, line text not null, created_at timestamptz not null default now(),
  primary key (job_id, attempt, seq)
);
create function bench.append_lines(p_job bigint, p_attempt integer, p_first integer, p_lines text[]) returns integer
language plpgsql security definer as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
begin
  insert into bench.log_lines (job_id, attempt, seq, org_id, line)
  select p_job, p_attempt, p_first + n, v_live.org_id, line from unnest(p_lines) with ordinality as l (line, n) on conflict do nothing;
  return p_first + cardinality(p_lines);
end $$;
-- Logs past their time, both ways: chunks in the partition of their day, and rows of a job that is to go.
create function bench.add_old_logs(p_chunks integer, p_lines integer) returns void language plpgsql as $$
declare
  v_day date := current_date - 400;
  v_line text := 'module.network.aws_subnet.private: Still creating... ';
begin
  perform private.ensure_log_partition(v_day);
  insert into public.job_log_chunks (log_day, job_id, attempt, seq, org_id, step, body, line_count, bytes)
  select v_day, -1, 1, n, o.id, 'apply', c.body, p_lines, octet_length(c.body)
  from public.organizations as o, generate_series(1, p_chunks) as n
  cross join lateral (select string_agg(v_line || md5((n * p_lines + l)::text), chr(10)) as body from generate_series(1, p_lines) as l) as c;
  insert into bench.log_lines (job_id, attempt, seq, org_id, line)
  select -1, 1, n, o.id, v_line || md5(n::text) from public.organizations as o, generate_series(1, p_chunks * p_lines) as n;
end $$;
grant usage on schema bench to worker, authenticator;
grant execute on all functions in schema bench to worker;
grant select, update on bench.heartbeats to worker;

-- An organisation of many groups: modules in each, most runners assigned to one group, a few to all modules; half of each group's are away.
create function bench.add_groups(p_groups integer, p_modules integer, p_runners integer) returns void language plpgsql as $$
begin
  with made as (
    insert into public.groups (org_id, path) select o.id, 'team-' || n from public.organizations as o, generate_series(1, p_groups) as n
    returning id, org_id, path
  )
  insert into public.modules (org_id, group_id, group_path, name, path, source_kind, source, engine)
  select m.org_id, m.id, m.path, 'm' || n, m.path || '/m' || n, 'inline', '{"files": {}}', 'tofu'
  from made as m, generate_series(1, p_modules) as n;
  perform bench.add_runners(p_runners, 4);
  insert into public.worker_assignments (org_id, worker_id, path)
  select w.org_id, w.id, 'team-' || 1 + w.n % p_groups
  from (select w.*, row_number() over (order by w.id) as n from public.workers as w where w.capacity = 4) as w where w.n > p_runners / 50;
  update public.workers as w set is_assigned_to_all_modules = false
  where exists (select from public.worker_assignments as a where a.worker_id = w.id);
  update private.heartbeats as h set last_seen_at = now() - interval '1 hour'
  from (select a.worker_id, row_number() over (partition by a.path order by a.worker_id) as n from public.worker_assignments as a) as a
  where a.worker_id = h.worker_id and a.n % 2 = 0;
end $$;
