-- "Why is it waiting?" in the claim's own words: the same lane, the same rules (lane_fit), the same processes
-- (lane_instances), the same wants (shortfall), the same precedence (has_nearer). So the answer cannot disagree with
-- the claim, and a test holds it to that. All runners at once: thousands of them share a few distances and a few
-- offers, and each of those is asked once.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.lane_states(p_lane integer)
returns table (worker_id uuid, has_fresh boolean, has_named boolean, has_willing boolean, is_available boolean,
  lacks text)
language sql stable
set search_path = ''
as $$
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
comment on function private.lane_states(integer) is
  'How the processes that are there of each runner that may serve a lane are: called right, willing, with a slot, and '
  'what all of them lack.';

create function private.lane_verdicts(p_lane integer)
returns table (worker_id uuid, name text, status public.worker_status, code text, distance smallint, instance_name text)
language sql stable
set search_path = ''
as $$
  with fit as materialized (
    select f.* from private.lane_fit(p_lane, null) as f
  ), nearer as materialized (
    select d.distance, private.has_nearer(l, d.distance) as is_there
    from (select distinct f.distance from fit as f where f.reason is null) as d
    join private.lanes as l on l.id = p_lane
  )
  select f.worker_id, w.name, w.status, case
    when f.reason is not null then lower(f.reason)
    when s.is_available then case when n.is_there then 'nearer' else 'ok' end
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
  from fit as f
  join public.workers as w on w.id = f.worker_id
  join private.worker_prospects as p on p.worker_id = f.worker_id
  left join nearer as n on n.distance = f.distance
  left join private.lane_states(p_lane) as s on s.worker_id = f.worker_id
$$;
comment on function private.lane_verdicts(integer) is
  'For each runner that a lane''s jobs could concern: "ok", or the one reason why it does not take them now.';

create function private.verdict_words(p_code text, p_lane private.lanes, p_worker public.workers)
returns text[]
language sql stable
set search_path = ''
as $$
  select case p_code
    when 'ok' then array['Can take it now', '']
    when 'nearer' then array['A runner nearer to the module is available and goes first', '']
    when 'busy' then array[format('All slots are in use (%s per instance)', p_worker.capacity),
      'Wait, or raise its capacity']
    when 'draining' then array['Draining: ' || coalesce(p_worker.drain_reason, 'finishes what it has'), 'Resume it']
    when 'disabled' then array['Disabled', 'Enable it']
    when 'offline' then array['Offline: ' || p_worker.status_reason, 'Start it']
    when 'never_contacted' then array['Never contacted', 'Start it with its id and token']
    when 'no_credential' then array['Has no usable token or service account, so it cannot connect',
      'Rotate its token, or give it a service account that is enabled']
    when 'scaled_to_zero' then array['Asleep; it starts when a job needs it', '']
    when 'starting' then array['Starting', '']
    when 'instance_missing' then array[format('No instance called "%s" is connected', p_lane.pinned_instance_name),
      'Start that instance, or change the module''s pin']
    when 'not_assigned' then array['Not assigned to the module, its groups or all modules', 'Assign it']
    when 'labels_missing' then array[format('Lacks %s', (
      select string_agg(x, ', ') from unnest(p_lane.labels) as x where x <> all (p_worker.labels))),
        'Add the label, if it is true of the machine']
    when 'type_refused' then array['Does not accept this type of job', 'Change the types that it accepts']
    when 'pinned_elsewhere' then array['The job is pinned to another runner', 'Change the module''s pin']
    when 'is_target' then array['The job is about this runner itself', 'Another runner must do it']
    when 'shared_refused' then array['The organisation does not use shared runners',
      'Change that in the organisation''s settings']
    when 'shared_elsewhere' then array['The installation keeps this shared runner for other organisations', '']
    when 'degraded' then array['Degraded: ' || coalesce((
      select i.facts #>> '{degraded,reason}' from public.worker_instances as i
      where i.worker_id = p_worker.id and jsonb_typeof(i.facts -> 'degraded') = 'object' order by i.updated_at desc
        limit 1), 'it cannot run jobs just now'), 'Look at the runner''s page']
    when 'engine_preparing' then array[format('%s is still being prepared there', p_lane.engine), 'Wait a little']
    when 'engine_missing' then array[format('Has no %s', p_lane.engine), format('Install %s on the machine',
      p_lane.engine)]
    when 'engine_version' then array[format('Its %s is not %s', p_lane.engine, p_lane.engine_version),
      'Install that version, or change the module''s requirement']
    when 'cloud_missing' then array[format('Says that it cannot act in %s', p_lane.cloud),
      'Give it the rights; its doctor command says what is missing']
  end
$$;
comment on function private.verdict_words(text, private.lanes, public.workers) is
  'A verdict in words, and what would help.';

create function private.best_words(p_job public.provision_jobs, p_code text)
returns text[]
language plpgsql stable
set search_path = ''
as $$
begin
  return case p_code
    when 'ok' then array['A runner can take it now.', 'It starts when that runner next asks for jobs.']
    when 'busy' then array['Every runner that may run it is busy.',
      'It starts when a slot is free; more capacity or another runner would help.']
    when 'nearer' then array['A nearer runner is available and takes it first.',
      'It starts when that runner next asks for jobs.']
    when 'draining' then array['The runners that may run it are draining.',
      'Resume one of them, or assign another runner.']
    when 'disabled' then array['The runners that may run it are disabled.', 'Enable one of them.']
    when 'scaled_to_zero' then array['The runner that may run it is asleep.', 'It is being started.']
    when 'starting' then array['The runner that may run it is starting.', 'It begins with that runner''s first look.']
    when 'offline' then array['The runners that may run it are offline.',
      'Start one of them, or assign another runner.']
    when 'never_contacted' then array['The runner that may run it has never connected.',
      'Start it with its id and token.']
    when 'no_credential'
      then array['The runner that may run it has no usable token or service account, so it cannot connect.',
        'Rotate its token, or give it a service account that is enabled.']
    when 'instance_missing' then array[format('It is pinned to instance "%s", which is not connected.',
      p_job.pinned_instance_name), 'Start that instance, or change the pin.']
    when 'labels_missing' then array[format('No assigned runner has the labels %s.',
      array_to_string(p_job.labels, ', ')), 'Add the labels to a runner that has what they say.']
    when 'type_refused' then array[format('No assigned runner accepts %s jobs.', p_job.type),
      'Change the types that a runner accepts.']
    when 'not_assigned' then array[format('No runner is assigned to %s.',
      coalesce(p_job.module_path, 'the organisation')),
        'Assign a runner to the module, a group above it, or all modules.']
    when 'pinned_elsewhere' then array['The runner that it is pinned to cannot run it.',
      'Change the pin, or assign that runner.']
    when 'is_target' then array['Only the runner that the job is about could run it.',
      'Add another runner, or use a shared one.']
    when 'shared_refused' then array['Only shared runners could run it, and the organisation does not use them.',
      'Add a runner, or change the organisation''s settings.']
    when 'shared_elsewhere' then array['Only shared runners that are kept for other organisations could run it.',
      'Add a runner, or ask whoever runs this installation.']
    when 'degraded' then array['The runners that may run it are degraded.', 'Their pages say what is wrong with them.']
    when 'engine_preparing' then array['The runner that may run it is still preparing the engine.',
      'It begins when the engine is there.']
    when 'engine_missing' then array[format('No runner that may run it has %s.', p_job.payload #>> '{module,engine}'),
      'Install the engine on one of them, or assign a runner that has it.']
    when 'engine_version' then array[format('No runner that may run it has %s %s.', p_job.payload #>> '{module,engine}',
      p_job.payload #>> '{module,engine_version}'),
        'Install that version on one of them, or change the module''s requirement.']
    when 'cloud_missing' then array[format('No runner that may run it can act in %s.',
      p_job.payload #>> '{lifecycle,identity,provider}'),
        'Give one of them the rights; its doctor command says what is missing.']
    else array['There is no runner.', 'Add a runner.'] end;
end;
$$;
comment on function private.best_words(public.provision_jobs, text) is
  'The verdict of the runner that comes nearest to taking a job, as the reason why the job waits, and what would help.';

create function private.queue_words(p_job public.provision_jobs, p_live private.live_jobs, p_code text)
returns text[]
language plpgsql stable
set search_path = ''
as $$
declare
  v_current private.live_jobs;
  v_seconds integer := greatest(1, ceil(extract(epoch from p_live.not_before_at - now())));
  v_words pg_catalog.text[];
  v_maintenance pg_catalog.jsonb := private.maintenance(p_job.org_id);
begin
  if v_maintenance is not null then
    return array[format('Maintenance of the %s until %s: %s', case v_maintenance ->> 'scope' when 'organization'
      then 'organisation'
      else 'installation' end, to_char((v_maintenance ->> 'until')::pg_catalog.timestamptz at time zone 'utc',
        'YYYY-MM-DD HH24:MI "UTC"'),
      v_maintenance ->> 'reason'), 'It starts when the maintenance ends.'];
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
        v_current.job_id), 'Resolve that job first.']
      else array[format('Job %s of the same module goes first: one job per state at a time.', v_current.job_id),
        'It starts when that one is done.'] end;
  end if;
  return private.best_words(p_job, p_code);
end;
$$;
comment on function private.queue_words(public.provision_jobs, private.live_jobs, text) is
  'Why a job waits, in one sentence, and what would help, in another.';

create function private.verdict_rank(p_code text)
returns integer
language sql immutable
set search_path = ''
as $$
  select array_position(array['ok', 'busy', 'nearer', 'engine_preparing', 'starting', 'scaled_to_zero', 'degraded',
    'draining', 'disabled', 'offline', 'never_contacted', 'no_credential', 'instance_missing', 'engine_version',
      'engine_missing', 'cloud_missing',
    'labels_missing', 'type_refused', 'is_target', 'shared_refused', 'shared_elsewhere',
    'pinned_elsewhere', 'not_assigned'], p_code)
$$;
comment on function private.verdict_rank(text) is
  'The nearer a verdict is to "ok", the lower: the lowest one says why a job waits.';

create function private.jobs_ahead(p_lane private.lanes, p_live private.live_jobs)
returns integer
language plpgsql stable
set search_path = ''
as $$
begin
  return (select count(*) from (
    select from private.lanes as l join private.live_jobs as q on q.lane_id = l.id and q.stage = 'READY'
    where l.org_id = p_lane.org_id and l.scope = p_lane.scope and l.labels = p_lane.labels
      and l.priority <= p_lane.priority
      and (l.job_type, l.pinned_worker_id, l.pinned_instance_name, l.excluded_worker_id, l.engine, l.engine_version,
        l.cloud)
        is not distinct from (p_lane.job_type, p_lane.pinned_worker_id, p_lane.pinned_instance_name,
          p_lane.excluded_worker_id, p_lane.engine, p_lane.engine_version, p_lane.cloud)
      and (q.priority, q.ready_seq) < (p_live.priority, p_live.ready_seq) limit 1000
  ) as a);
end;
$$;
comment on function private.jobs_ahead(private.lanes, private.live_jobs) is
  'How many ready jobs that want the same runners go before this one; counted up to a thousand.';

create function private.explain_queue(p_job bigint)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_live private.live_jobs;
  v_lane private.lanes;
  v_best pg_catalog.text;
  v_counts pg_catalog.jsonb;
  v_runners pg_catalog.jsonb;
  v_words pg_catalog.text[];
  v_maintenance pg_catalog.jsonb;
  v_ahead integer;
begin
  select * into v_job from public.provision_jobs where id = p_job and org_id in (select private.my_org_ids());
  if v_job.id is null then
    perform private.fail('RY404', format('There is no job %s.', p_job));
  end if;
  if v_job.status <> 'QUEUED' then
    return jsonb_build_object('job_id', p_job, 'status', v_job.status, 'claimable', false, 'summary',
      format('It does not wait for a runner: it is %s.', v_job.status),
      'help', '', 'position', null, 'ahead', 0, 'runners', '[]'::pg_catalog.jsonb, 'counts', '[]'::pg_catalog.jsonb);
  end if;
  perform private.lock_routing(v_job.org_id, false);
  select * into v_live from private.live_jobs where job_id = p_job;
  select * into v_lane from private.lanes where id = coalesce(v_live.lane_id, private.lane_of(v_job));
  v_ahead := private.jobs_ahead(v_lane, v_live);
  -- The best few in words, all of them in numbers: a page can show ten of five thousand.
  with verdict as materialized (
    select v.* from private.lane_verdicts(v_lane.id) as v
  ), reason as materialized (
    select c.code, c.n, private.verdict_rank(c.code) as rank
    from (select v.code, count(*) as n from verdict as v group by v.code) as c
  ), best as (
    select v.*, r.rank from verdict as v join reason as r on r.code = v.code
    order by r.rank, v.distance, v.name limit 20
  )
  select (select r.code from reason as r order by r.rank limit 1),
    (select coalesce(jsonb_agg(jsonb_build_object('reason_code', r.code, 'count', r.n) order by r.rank), '[]')
      from reason as r),
    (select coalesce(jsonb_agg(jsonb_build_object('worker_id', v.worker_id, 'name', v.name, 'status', v.status,
      'reason_code', v.code, 'reason', words.said[1], 'help', words.said[2], 'distance', v.distance) order by v.rank,
        v.distance, v.name), '[]')
      from best as v join public.workers as w on w.id = v.worker_id
      cross join lateral (select private.verdict_words(v.code, v_lane, w) as said) as words)
  into v_best, v_counts, v_runners;
  v_maintenance := private.maintenance(v_job.org_id);
  v_words := private.queue_words(v_job, v_live, v_best);
  return jsonb_build_object('job_id', p_job, 'status', v_job.status, 'maintenance', v_maintenance,
    'claimable', v_live.stage = 'READY' and v_best = 'ok' and v_maintenance is null,
    'summary', v_words[1], 'help', v_words[2], 'position', case when v_live.stage = 'READY' then v_ahead + 1 end,
      'ahead', v_ahead,
    'runners', v_runners, 'counts', v_counts);
end;
$$;
comment on function private.explain_queue(bigint) is 'Body of public.explain_queue.';
grant execute on function private.explain_queue(bigint) to authenticated;

revoke execute on all functions in schema private from public;
