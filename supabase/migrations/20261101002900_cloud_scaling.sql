-- Scaling, as the runner that holds the cloud's rights does it: it asks for the numbers, decides by a pure planner,
-- sets the count in the cloud and writes down what it did. One runner decides for an organisation at a time, by a lease
-- that the next one takes over.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table public.scaling_decisions (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  worker_id uuid not null references public.workers (id) on delete cascade,
  at timestamptz not null default now(),
  from_count integer not null,
  to_count integer not null,
  reason text not null,
  detail jsonb not null default '{}',
  dry_run boolean not null default false
);
create index scaling_decisions_worker_id_idx on public.scaling_decisions (worker_id, id desc);
create index scaling_decisions_org_id_idx on public.scaling_decisions (org_id, id desc);
alter table public.scaling_decisions enable row level security;
grant select on public.scaling_decisions to authenticated, service_role;

create policy "Members see their organisation's scaling decisions" on public.scaling_decisions
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.scaling_decisions is 'Why a cloud-hosted runner was given more or fewer tasks, or none.';
comment on column public.scaling_decisions.from_count is 'Tasks before.';
comment on column public.scaling_decisions.to_count is 'Tasks after.';
comment on column public.scaling_decisions.reason is 'Why, in words.';
comment on column public.scaling_decisions.detail is 'The numbers that it was computed from.';
comment on column public.scaling_decisions.dry_run is 'Whether it was only computed, not carried out.';

-- ---------------------------------------------------------------------------------------------- scaling

create function private.scaling_inputs()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'worker_id', w.id, 'org_id', w.org_id, 'name', w.name, 'region', w.region, 'cloud', w.cloud,
    'limits', jsonb_build_object('minimum', coalesce((w.scaling ->> 'min')::integer, 0), 'maximum',
      coalesce((w.scaling ->> 'max')::integer, 1),
      'jobs_per_task', coalesce((w.scaling ->> 'jobs_per_task')::integer, w.capacity), 'idle_seconds',
        coalesce((w.scaling ->> 'idle_seconds')::integer, 300)),
    'load', jsonb_build_object('desired', w.desired_count, 'connected', l.connected, 'waiting', (
        select count(*) from private.lane_workers as lw join private.live_jobs as q on q.lane_id = lw.lane_id
          and q.stage = 'READY'
        join private.lanes as l on l.id = lw.lane_id
        where lw.worker_id = w.id and not private.has_nearer(l, lw.distance)),
      'running', l.running, 'busy_tasks', l.busy, 'takes_jobs', not (w.is_disabled or w.is_draining)),
    'last', (select to_jsonb(d) from public.scaling_decisions as d where d.worker_id = w.id order by d.id desc limit 1)
  ) order by w.created_at, w.id), '[]')
  from public.workers as w
  cross join lateral (
    select count(*) filter (where i.is_fresh) as connected, coalesce(sum(i.used), 0) as running,
      count(*) filter (where i.is_fresh and i.used > 0) as busy
    from private.instance_liveness as i where i.worker_id = w.id
  ) as l
  where w.type = 'cloud-hosted' and w.removed_at is null and not w.cloud ? 'is_gone'
$$;
comment on function private.scaling_inputs() is 'Body of public.scaling_inputs.';
grant execute on function private.scaling_inputs() to service_role;

create function private.record_scaling_decision(p_worker uuid, p_to_count integer, p_reason text, p_detail jsonb,
  p_dry_run boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_worker public.workers;
  v_decision public.scaling_decisions;
begin
  select * into v_worker from public.workers where id = p_worker and type = 'cloud-hosted' and removed_at is null;
  if v_worker.id is null or p_to_count is null or p_to_count not between 0 and 1000 then
    perform private.fail('RY422', 'A decision needs a cloud-hosted runner and a count from 0 to 1,000.');
  end if;
  insert into public.scaling_decisions (org_id, worker_id, from_count, to_count, reason, detail, dry_run)
  values (v_worker.org_id, p_worker, v_worker.desired_count, p_to_count, p_reason, coalesce(p_detail, '{}'),
    coalesce(p_dry_run, false)) returning * into v_decision;
  if not v_decision.dry_run then
    update public.workers set desired_count = p_to_count, is_scaled_to_zero = p_to_count = 0 where id = p_worker;
    perform private.refresh_worker_status(p_worker);
  end if;
  perform private.ring_org(v_worker.org_id, 'scaling_decisions', v_decision.id::pg_catalog.text);
  return to_jsonb(v_decision);
end;
$$;
comment on function private.record_scaling_decision(uuid, integer, text, jsonb, boolean) is
  'Body of public.record_scaling_decision.';
grant execute on function private.record_scaling_decision(uuid, integer, text, jsonb, boolean) to service_role;

create table private.scaling_leases (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  session_id uuid not null,
  held_until timestamptz not null
);
alter table private.scaling_leases enable row level security;
comment on table private.scaling_leases is 'Which session decides about an organisation''s cloud-hosted runners.';
comment on column private.scaling_leases.held_until is 'Until when, unless it asks again.';

create table private.scaling_memory (
  worker_id uuid primary key references public.workers (id) on delete cascade,
  memory jsonb not null default '{}' check (jsonb_typeof(memory) = 'object'),
  verdict text,
  updated_at timestamptz not null default now()
);
alter table private.scaling_memory enable row level security;
comment on table private.scaling_memory is
  'What the planner has to remember of a runner from one decision to the next.';
comment on column private.scaling_memory.memory is
  'The planner''s own words: since when there are too many tasks, starts without a heartbeat.';
comment on column private.scaling_memory.verdict is 'What it last decided.';

create function private.need_lifecycle_runner()
returns private.runner
language plpgsql
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
begin
  if not exists (select from public.workers as w where w.id = v_runner.worker_id
    and w.accepted_job_types @> '{UPDATE_WORKER}') then
    perform private.fail('RY403', 'This runner does not accept jobs about runners.',
      'Let it accept UPDATE_WORKER jobs.');
  end if;
  return v_runner;
end;
$$;
comment on function private.need_lifecycle_runner() is 'The calling runner, if it may act on other runners.';

create function private.hold_scaling(p_runner private.runner, p_seconds integer, p_except uuid[])
returns setof uuid
language sql
set search_path = ''
as $$
  insert into private.scaling_leases as l (org_id, session_id, held_until)
  select distinct w.org_id, p_runner.session_id, now() + make_interval(secs => p_seconds)
  from public.workers as w
  where w.type = 'cloud-hosted' and w.removed_at is null and (p_runner.org_id is null or w.org_id = p_runner.org_id)
    and w.org_id <> all (p_except)
  on conflict (org_id) do update set session_id = excluded.session_id, held_until = excluded.held_until
  where l.session_id = excluded.session_id or l.held_until < now()
  returning l.org_id
$$;
comment on function private.hold_scaling(private.runner, integer, uuid[]) is
  'Takes or prolongs the lease of every organisation that is free; answers with those that are held now.';

create function private.worker_scaling_inputs(p_except uuid[])
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.need_lifecycle_runner();
  v_orgs pg_catalog.uuid[];
begin
  select array_agg(h) into v_orgs from private.hold_scaling(v_runner, 45, coalesce(p_except, '{}')) as h;
  return jsonb_build_object(
    'has_cloud', exists (select from public.workers as w where w.type = 'cloud-hosted' and w.removed_at is null
      and (v_runner.org_id is null or w.org_id = v_runner.org_id)),
    'workers', coalesce((
      select jsonb_agg(i.input || jsonb_build_object('memory', coalesce(m.memory, '{}'), 'verdict', m.verdict,
        'identity',
        jsonb_build_object(
        'account_id', c.account_id, 'role_arn', c.role_arn, 'external_id', c.external_id, 'network', c.network)))
      from jsonb_array_elements(private.scaling_inputs()) as i (input)
      join public.workers as w on w.id = (i.input ->> 'worker_id')::pg_catalog.uuid and w.org_id = any (v_orgs)
        and w.cloud ? 'service_arn'
      join public.cloud_identities as c on c.id = w.cloud_identity_id
      left join private.scaling_memory as m on m.worker_id = w.id
      where not private.is_state_in_use(w.id)
    ), '[]'));
end;
$$;
comment on function private.worker_scaling_inputs(uuid[]) is 'Body of public.worker_scaling_inputs.';
grant execute on function private.worker_scaling_inputs(uuid[]) to worker;

create function private.worker_scaling_decided(p_worker uuid, p_decision jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.need_lifecycle_runner();
  v_worker public.workers;
  v_before private.scaling_memory;
  v_count integer;
begin
  if p_decision ->> 'desired' !~ '^(1000|[0-9]{1,3})$' or jsonb_typeof(p_decision -> 'memory') <> 'object'
    or jsonb_typeof(p_decision -> 'dry_run') <> 'boolean' then
    perform private.fail('RY422', 'That is not a decision.',
      'Send {desired, verdict, reason, memory, dry_run}; desired is 0 to 1,000.');
  end if;
  v_count := (p_decision ->> 'desired')::integer;
  select w.* into v_worker from public.workers as w
  join private.scaling_leases as l on l.org_id = w.org_id and l.session_id = v_runner.session_id
    and l.held_until > now()
  where w.id = p_worker and w.type = 'cloud-hosted' and w.removed_at is null;
  if v_worker.id is null then
    perform private.fail('RY409', 'Another runner decides about this one now.', 'Ask for the numbers again.');
  end if;
  select * into v_before from private.scaling_memory where worker_id = p_worker;
  insert into private.scaling_memory (worker_id, memory, verdict)
    values (p_worker, coalesce(p_decision -> 'memory', '{}'),
    p_decision ->> 'verdict')
  on conflict (worker_id) do update set memory = excluded.memory, verdict = excluded.verdict, updated_at = now();
  if v_count <> v_worker.desired_count or (p_decision ->> 'verdict' = 'BROKEN' and v_before.verdict is distinct
    from 'BROKEN') then
    if v_count > v_worker.desired_count and not coalesce((p_decision ->> 'dry_run')::boolean, false) then
      update public.workers set cloud = cloud || jsonb_build_object('starting_at', now()) where id = p_worker;
    end if;
    return private.record_scaling_decision(p_worker, v_count, p_decision ->> 'reason',
      p_decision - array['memory', 'reason', 'dry_run'], coalesce((p_decision ->> 'dry_run')::boolean, false));
  end if;
  return null;
end;
$$;
comment on function private.worker_scaling_decided(uuid, jsonb) is 'Body of public.worker_scaling_decided.';
grant execute on function private.worker_scaling_decided(uuid, jsonb) to worker;

revoke execute on all functions in schema private from public;
