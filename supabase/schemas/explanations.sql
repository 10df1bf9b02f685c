-- "Why is it waiting?" uses the claim's own rules: the same lane, lane_fit, lane_instances, shortfall and
-- preferred_runners, so the answer cannot disagree with the claim (a test compares them). Thousands of runners share a
-- few distances and offers, and each is evaluated once.

-- The fresh processes of each runner that may serve a lane: named right, willing, free, and what all of them lack.
create function private.lane_states(
  p_lane integer
) returns table (
  worker_id uuid, has_fresh boolean, has_named boolean, has_willing boolean, is_available boolean, lacks text
)
language sql stable as $$
  with instance as materialized (
    select n.* from private.lane_instances as n where n.lane_id = p_lane and n.is_fresh
  ), wanting as materialized (
    select o.offer, private.shortfall(l, o.offer) as lacks
    from (select distinct i.offer from instance as i) as o join private.lanes as l on l.id = p_lane
  )
  select i.worker_id, true, bool_or(i.is_named), bool_or(i.is_named and i.is_willing),
    bool_or(i.is_willing and i.free > 0 and w.lacks is null),
    case when not bool_or(w.lacks is null) then min(w.lacks) end
  from instance as i join wanting as w on w.offer = i.offer group by i.worker_id
$$;

-- For each runner that a lane's jobs could concern: "ok", or the one reason why it does not take them now.
create function private.lane_verdicts(p_lane integer)
returns table (worker_id uuid, name text, status public.worker_status, code text, distance smallint, instance_name text)
language sql stable as $$
  with fit as materialized (
    select f.* from private.lane_fit(array[p_lane], null) as f
  ), before as materialized (
    select d.distance, (
      select min(p.reason) from private.preferred_runners as p where p.lane_id = p_lane and p.distance < d.distance
    ) as reason
    from (select distinct f.distance from fit as f where f.reason is null) as d
  )
  select w.id, w.name, w.status, case
    when f.worker_id is null and l.pinned_worker_id <> w.id then 'pinned_elsewhere'
    when f.worker_id is null then 'not_assigned'
    when f.reason is not null then lower(f.reason)
    when s.is_available then coalesce(b.reason, 'ok')
    when w.is_disabled then 'disabled'
    when w.is_draining then 'draining'
    when not s.has_named then 'instance_missing'
    when not s.has_willing then 'draining'
    when s.lacks is not null then s.lacks
    when s.has_fresh then 'busy'
    when w.is_scaled_to_zero then 'scaled_to_zero'
    when p.is_starting then 'starting'
    when not p.has_credential then 'no_credential'
    when w.never_contacted then 'never_contacted'
    else 'offline'
  end, f.distance, f.instance_name
  from private.lanes as l
  join public.workers as w on (w.org_id = l.org_id or w.is_shared) and w.removed_at is null
  join private.worker_prospects as p on p.worker_id = w.id
  left join fit as f on f.worker_id = w.id
  left join before as b on b.distance = f.distance
  left join private.lane_states(p_lane) as s on s.worker_id = w.id
  where l.id = p_lane
$$;

create view private.verdicts as
select
  v.rank,
  v.code,
  v.reason,
  v.help,
  v.summary,
  v.next_step
from (values
  (1, 'ok', 'Can take it now', '', 'A runner can take it now.', 'It starts when that runner next asks for jobs.'),
  (2, 'busy', 'All slots are in use ({capacity} per instance)', 'Wait, or raise its capacity',
    'Every runner that may run it is busy.',
    'It starts when a slot is free; more capacity or another runner would help.'),
  (3, 'nearer', 'A runner nearer to the module is available and goes first', '',
    'A nearer runner is available and takes it first.', 'It starts when that runner next asks for jobs.'),
  (4, 'engine_preparing', '{preparing}', '',
    'The runner that may run it is still preparing the engine.', 'It begins when the engine is ready.'),
  (5, 'starting', 'Starting', '', 'The runner that may run it is starting.',
    'It begins with that runner''s first look.'),
  (6, 'scaled_to_zero', 'Asleep; it starts when a job needs it', '', 'The runner that may run it is asleep.',
    'It is being started.'),
  (7, 'degraded', 'Degraded: {degraded}', 'Look at the runner''s page', 'The runners that may run it are degraded.',
    'Their pages show what is wrong with them.'),
  (8, 'draining', 'Draining: {drain}', 'Resume it', 'The runners that may run it are draining.',
    'Resume one of them, or assign another runner.'),
  (9, 'disabled', 'Disabled', 'Enable it', 'The runners that may run it are disabled.', 'Enable one of them.'),
  (10, 'offline', 'Offline: {status}', 'Start it', 'The runners that may run it are offline.',
    'Start one of them, or assign another runner.'),
  (11, 'never_contacted', 'Never contacted', 'Start it with its id and token',
    'The runner that may run it was never in contact.', 'Start it: its page shows how, and makes a new token.'),
  (12, 'no_credential', 'Has no usable token or service account, so it cannot connect',
    'Rotate its token, or give it a service account that is enabled',
    'The runner that may run it has no usable token or service account, so it cannot connect.',
    'Rotate its token, or give it a service account that is enabled.'),
  (13, 'own_first', 'The organisation''s own runners come first, even while they are busy or away',
    'Let shared runners help when no own runner is available, in the organisation''s settings',
    'Only the organisation''s own runners may run it, and none of them is available.',
    'Start one of them.'),
  (14, 'instance_missing', 'No instance called "{instance}" is connected',
    'Start that instance, or change the module''s pin',
    'It is pinned to instance "{instance}", which is not connected.', 'Start that instance, or change the pin.'),
  (15, 'engine_version', 'Its {engine} is not {version}', 'Install that version, or change the module''s requirement',
    'No runner that may run it has {engine} {version}.',
    'Install that version on one of them, or change the module''s requirement.'),
  (16, 'engine_missing', 'Has no {engine}', 'Install {engine} on the machine',
    'No runner that may run it has {engine}.',
    'Install the engine on one of them, or assign a runner that has it.'),
  (17, 'cloud_missing', 'Says that it cannot act in {cloud}',
    'Give it the rights; its doctor command shows what is missing', 'No runner that may run it can act in {cloud}.',
    'Give one of them the rights; its doctor command shows what is missing.'),
  (18, 'labels_missing', 'Lacks {missing}', 'Add the label if the machine has it',
    'No assigned runner has the labels {labels}.', 'Add them to a runner whose machine has them.'),
  (19, 'type_refused', 'Does not accept this type of job', 'Change the types that it accepts',
    'No assigned runner accepts {type} jobs.', 'Change the types that a runner accepts.'),
  (20, 'is_target', 'The job is about this runner itself', 'Another runner must do it',
    'Only the runner that the job is about could run it.', 'Add another runner, or use a shared one.'),
  (21, 'shared_refused', 'The organisation does not use shared runners', 'Change that in the organisation''s settings',
    'Only shared runners could run it, and the organisation does not use them.',
    'Add a runner, or change the organisation''s settings.'),
  (22, 'shared_elsewhere', 'The installation keeps this shared runner for other organisations', '',
    'Only shared runners that are kept for other organisations could run it.',
    'Add a runner, or ask the administrator of this installation.'),
  (23, 'pinned_elsewhere', 'The job is pinned to another runner', 'Change the module''s pin',
    'The runner that it is pinned to cannot run it.', 'Change the pin, or assign that runner.'),
  (24, 'not_assigned', 'Not assigned to the module, its groups or all modules', 'Assign it',
    'No runner is assigned to {path}.', 'Assign a runner to the module, a group above it, or all modules.')
) as v (rank, code, reason, help, summary, next_step);
comment on view private.verdicts is
  'Why a runner does not take a job now: in words about the runner, and, for the verdict that is nearest to "ok", '
  'about the job. Names in braces are filled in.';
comment on column private.verdicts.summary is 'About the job, when this is the verdict that is nearest to "ok".';
comment on column private.verdicts.rank is 'The nearer to "ok", the lower: the lowest one says why a job waits.';

-- A text with its names in braces filled in.
create function private.fill_in(p_text text, p_facts jsonb) returns text language plpgsql immutable as $$
declare
  v_fact pg_catalog.record;
begin
  for v_fact in select f.key, f.value from jsonb_each_text(p_facts) as f loop
    p_text := replace(p_text, '{' || v_fact.key || '}', coalesce(v_fact.value, ''));
  end loop;
  return p_text;
end;
$$;

-- The names that the sentences about a runner and a lane's jobs need.
create function private.verdict_facts(p_lane private.lanes, p_worker public.workers) returns jsonb
language sql stable as $$
  select jsonb_build_object('engine', p_lane.engine, 'version', p_lane.engine_version, 'cloud', p_lane.cloud,
    'instance', p_lane.pinned_instance_name, 'capacity', p_worker.capacity, 'status', p_worker.status_reason,
    'drain', coalesce(p_worker.drain_reason, 'finishes what it has'), 'missing', (
      select string_agg(x, ', ') from unnest(p_lane.labels) as x where x <> all (p_worker.labels)),
    'preparing', (
      select i.engine_note from public.worker_instances as i
      where i.worker_id = p_worker.id and i.engine_note is not null order by i.updated_at desc limit 1),
    'degraded', coalesce((
      select i.facts #>> '{degraded,reason}' from public.worker_instances as i
      where i.worker_id = p_worker.id and jsonb_typeof(i.facts -> 'degraded') = 'object'
      order by i.updated_at desc limit 1), 'it cannot run jobs just now'))
$$;

-- The verdict of the runner that comes nearest to taking a job, as the reason why the job waits, and what would help.
create function private.best_words(p_job public.provision_jobs, p_lane private.lanes, p_codes text[]) returns text[]
language plpgsql stable as $$
declare
  v_facts pg_catalog.jsonb := jsonb_build_object('engine', p_lane.engine, 'version', p_lane.engine_version,
    'cloud', p_lane.cloud, 'instance', p_lane.pinned_instance_name, 'labels', array_to_string(p_lane.labels, ', '),
    'type', p_job.type, 'path', coalesce(p_job.module_path, 'the organisation'));
  v_words pg_catalog.text[];
begin
  select array[private.fill_in(v.summary, v_facts), private.fill_in(v.next_step, v_facts) || case
    when 'own_first' = any (p_codes)
    then ' Shared runners could run it: let them help when no own runner is available, in the organisation''s settings.'
    else '' end]
  into v_words from private.verdicts as v where v.code = any (p_codes) order by v.rank limit 1;
  return coalesce(v_words, array['There is no runner.', 'Add a runner.']);
end;
$$;

-- Explains why no runner could claim a waiting job now, in one sentence, and what would help, in another; else null.
create function private.queue_words(p_job public.provision_jobs, p_live private.live_jobs) returns text[]
language plpgsql stable as $$
declare
  v_current private.live_jobs;
  v_seconds integer := greatest(1, ceil(extract(epoch from p_live.not_before_at - now())));
  v_words pg_catalog.text[];
  v_maintenance pg_catalog.jsonb := private.current_maintenance(p_job.org_id);
begin
  if v_maintenance is not null then
    return array[format('Maintenance of the %s until %s: %s', case v_maintenance ->> 'scope' when 'organization'
      then 'organisation'
      else 'installation' end, to_char((v_maintenance ->> 'until')::pg_catalog.timestamptz at time zone 'utc',
      'YYYY-MM-DD HH24:MI "UTC"'), v_maintenance ->> 'reason'), 'It starts when the maintenance ends.'];
  end if;
  if p_live.stage = 'BACKOFF' then
    select case when e.event = 'returned' then array['A runner gave it back: ' || e.reason,
        format('It is tried again in %s s, by another runner if one is free.', v_seconds)]
      else array[format('Its runner was lost; it is tried again in %s s.', v_seconds), 'Nothing needs to be done.'] end
    into v_words from public.job_events as e
    where e.job_id = p_job.id and e.event in ('returned', 'lost') order by e.id desc limit 1;
    return v_words;
  end if;
  if p_live.stage = 'WAITING' then
    select * into v_current from private.live_jobs as q where q.state_key = p_live.state_key and q.stage <> 'WAITING';
    return case when v_current.job_id is null then array['The state is locked by a job that is over.',
      'Look at the state, then force-unlock it with the lock''s id.']
      when v_current.stage = 'HELD' then array[format('Job %s of the same module needs attention and holds the state.',
        private.job_number(v_current.job_id)), 'Resolve that job first.']
      else array[format('Job %s of the same module goes first: one job per state at a time.',
        private.job_number(v_current.job_id)), 'It starts when that one is done.'] end;
  end if;
  return null;
end;
$$;

-- Counts the ready jobs for the same runners that come before this one; counted up to a thousand.
create function private.jobs_ahead(p_lane private.lanes, p_live private.live_jobs) returns integer
language sql stable as $$
  select count(*) from (
    select from private.lanes as l join private.live_jobs as q on q.lane_id = l.id
    where l.org_id = p_lane.org_id and l.scope = p_lane.scope and l.labels = p_lane.labels
      and l.priority <= p_lane.priority
      and (l.job_type, l.pinned_worker_id, l.pinned_instance_name, l.excluded_worker_id, l.engine, l.engine_version,
        l.cloud)
        is not distinct from (p_lane.job_type, p_lane.pinned_worker_id, p_lane.pinned_instance_name,
          p_lane.excluded_worker_id, p_lane.engine, p_lane.engine_version, p_lane.cloud)
      and (q.priority, q.ready_seq) < (p_live.priority, p_live.ready_seq) limit 1000
  ) as a
$$;

create function private.explain_queue(p_job bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs := private.seen_job(p_job);
  v_live private.live_jobs;
  v_lane private.lanes;
  v_codes pg_catalog.text[];
  v_counts pg_catalog.jsonb;
  v_runners pg_catalog.jsonb;
  v_words pg_catalog.text[];
  v_maintenance pg_catalog.jsonb;
  v_ahead integer;
  v_workers pg_catalog.uuid[];
begin
  if v_job.status <> 'QUEUED' then
    return jsonb_build_object('job_id', p_job, 'status', v_job.status, 'claimable', false, 'summary',
      coalesce((select private.plan_promotion_problem(p) from public.provision_jobs as p
        where p.id = v_job.plan_job_id and v_job.status = 'AWAITING_APPROVAL'),
        format('It does not wait for a runner: it is %s.', v_job.status)),
      'help', '', 'position', null, 'ahead', 0, 'runners', '[]'::pg_catalog.jsonb, 'counts', '[]'::pg_catalog.jsonb);
  end if;
  perform private.lock_routing(v_job.org_id, false);
  select * into v_live from private.live_jobs where job_id = p_job;
  select * into v_lane from private.lanes where id = coalesce(v_live.lane_id, private.lane_of(v_job));
  -- A place in line would count the jobs of others.
  v_workers := private.seen_workers(v_job.org_id);
  v_ahead := case when private.seen(v_job.org_id) is null then private.jobs_ahead(v_lane, v_live) end;
  -- The best few in words, all of them in numbers: a page can show ten of five thousand.
  with verdict as materialized (
    select v.* from private.lane_verdicts(v_lane.id) as v
    where v_workers is null or v.worker_id = any (v_workers)
      or v.worker_id in (select w.id from public.workers as w where w.is_shared)
  ), reason as materialized (
    select c.code, c.n, r.rank, r.reason, r.help
    from (select v.code, count(*) as n from verdict as v group by v.code) as c
    join private.verdicts as r on r.code = c.code
  ), best as (
    select v.*, r.rank, r.reason, r.help from verdict as v join reason as r on r.code = v.code
    order by r.rank, v.distance, v.name limit 20
  )
  select (select array_agg(r.code order by r.rank) from reason as r),
    (select coalesce(jsonb_agg(jsonb_build_object('reason_code', r.code, 'count', r.n) order by r.rank), '[]')
      from reason as r),
    (select coalesce(jsonb_agg(jsonb_build_object('worker_id', v.worker_id, 'name', v.name, 'status', v.status,
      'reason_code', v.code, 'reason', private.fill_in(v.reason, f.facts), 'help', private.fill_in(v.help, f.facts),
      'distance', v.distance) order by v.rank, v.distance, v.name), '[]')
      from best as v join public.workers as w on w.id = v.worker_id
      cross join lateral (select private.verdict_facts(v_lane, w) as facts offset 0) as f)
  into v_codes, v_counts, v_runners;
  v_maintenance := private.current_maintenance(v_job.org_id);
  v_words := coalesce(private.queue_words(v_job, v_live), private.best_words(v_job, v_lane, v_codes));
  return jsonb_build_object('job_id', p_job, 'status', v_job.status, 'maintenance', v_maintenance,
    'claimable', v_live.stage = 'READY' and v_codes[1] = 'ok' and v_maintenance is null,
    'summary', v_words[1], 'help', v_words[2], 'position', case when v_live.stage = 'READY' then v_ahead + 1 end,
    'ahead', v_ahead, 'runners', v_runners, 'counts', v_counts);
end;
$$;
comment on function private.explain_queue is
  'Why a job waits: the best 20 runners with reasons, counts per reason, its place in line, what would help. Members.';

create function private.explain_set(p_set uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.my_set(p_set, 'job.read');
  with waiting as materialized (
    select m.waits_for, o.path, m.left_out, m.because_of is not null as is_because, m.is_waiting_for_apply
    from private.set_members as m join public.modules as o on o.id = m.module_id
    where m.set_id = p_set and m.job_id is null order by o.path limit 500
  )
  select jsonb_build_object('waiting', coalesce((
      select jsonb_agg(jsonb_build_object('module_path', w.path, 'waits_for', (
        select coalesce(jsonb_agg(jsonb_build_object('module_path', b.path, 'job_number', j.number, 'status',
          j.status) order by b.path), '[]')
        from unnest(w.waits_for) as e (id)
        cross join lateral (select b.path from public.modules as b where b.id = e.id offset 0) as b
        left join lateral (select t.job_id from private.set_members as t
          where t.set_id = p_set and t.module_id = e.id offset 0) as t on true
        left join lateral (select * from public.provision_jobs as j where j.id = t.job_id offset 0) as j on true
        where j.status is distinct from 'SUCCEEDED'))
        order by w.path)
      from waiting as w where w.left_out is null), '[]'),
    'left_out', coalesce((
      select jsonb_agg(jsonb_build_object('module_path', w.path, 'message', w.left_out) order by w.path)
      from waiting as w where w.is_because and not w.is_waiting_for_apply), '[]'),
    'waiting_for_apply', coalesce((
      select jsonb_agg(jsonb_build_object('module_path', w.path, 'message', w.left_out) order by w.path)
      from waiting as w where w.is_waiting_for_apply), '[]'))
$$;
comment on function private.explain_set is
  'Why modules of a set have no job yet: which modules and jobs each one waits for, which wait for an apply of which '
  'outputs, and which were left out because of a failure; the first 500. Members.';
