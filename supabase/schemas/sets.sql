-- Sets: many jobs that were requested as one, by a person for a group or by a schedule. A set knows its modules from
-- the start; their jobs are placed in batches, by the call itself and then by the sweep, so a storm of a thousand due
-- schedules spreads over minutes. Jobs of sets come after those that people request one by one. A set's progress is
-- counted from its jobs, never stored: a retry takes the place of the job that it repeats.
--
-- A set goes in the order of its modules' dependencies, a DESTROY backwards: private.placeable_members is the rule. The
-- end of a job places what waited for it, in the same transaction; a failure leaves out what depends on it. A call that
-- changes members of an ordered set has the set's lock, which comes after routing and states: behind it, states are
-- locked only if they can be had at once, and the sweep places what could not be placed.
--
-- Plans of a set see what the plans before them would change: private.open_bindings is the rule. A plan that uses a
-- value that is only planned is a preview and is never applied; one whose value is not known yet waits for an apply.

create table public.job_sets (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  type public.job_type not null,
  path text not null,
  options jsonb not null default '{}',
  schedule_id uuid,
  cause_job_id bigint,
  idempotency_key text check (length(idempotency_key) between 1 and 200),
  created_by uuid,
  started_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  starts_at timestamptz,
  cancelled_at timestamptz,
  cancelled_by_label text,
  finished_at timestamptz
);
create index job_sets_org_id_idx on public.job_sets (org_id, created_at desc);
create index job_sets_finished_at_idx on public.job_sets (finished_at) where finished_at is not null;
create index job_sets_open_idx on public.job_sets (created_at) where finished_at is null;
create index job_sets_schedule_id_idx on public.job_sets (schedule_id, created_at desc) where schedule_id is not null;
create unique index job_sets_idempotency_key_idx on public.job_sets (org_id, idempotency_key) where idempotency_key
  is not null;
alter table public.job_sets enable row level security;
grant select on public.job_sets to authenticated, service_role;
create policy "Members see their organisation's sets" on public.job_sets
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.job_sets is
  'Many jobs as one thing: all modules at or below a path, at the request of a person or a schedule.';
comment on column public.job_sets.path is 'The module or group whose modules it has; "" is all modules.';
comment on column public.job_sets.schedule_id is 'The schedule that it is a run of.';
comment on column public.job_sets.cause_job_id is 'The apply whose outputs its modules depend on.';
comment on column public.job_sets.idempotency_key is 'The caller''s own key: asking again with it returns this set.';
comment on column public.job_sets.started_by is 'The member who ran a schedule now; a requester beside its owner.';
comment on column public.job_sets.created_by_label is 'Their name at that time, or the schedule in words.';
comment on column public.job_sets.starts_at is 'When its first job is placed, where that is later than its start.';
comment on column public.job_sets.finished_at is 'When none of its jobs was left to run.';
create trigger wake after insert or update on public.job_sets for each row execute function private.wake_for_row();

create table private.set_members (
  set_id uuid not null references public.job_sets (id) on delete cascade,
  module_id uuid not null,
  org_id uuid not null,
  job_id bigint,
  left_out text,
  because_of uuid,
  is_waiting_for_apply boolean not null default false,
  plan_job_id bigint,
  primary key (set_id, module_id)
);
create index set_members_job_id_idx on private.set_members (job_id) where job_id is not null;
create index set_members_pending_idx on private.set_members (set_id) where job_id is null and left_out is null;
alter table private.set_members enable row level security;
comment on table private.set_members is 'The modules of each set, and the job of each as soon as it is placed.';
comment on column private.set_members.job_id is 'Its newest job; null while it waits to be placed.';
comment on column private.set_members.left_out is 'Why it gets no job; "cancelled" where the rest of the set was.';
comment on column private.set_members.because_of is
  'The module of the set that failed or was left out, where that is why; placed after all when that one succeeds.';
comment on column private.set_members.is_waiting_for_apply is
  'Whether because_of was planned well, and what it plans is known only after its apply; placed after that apply.';
comment on column private.set_members.plan_job_id is 'The plan that was reviewed, which its job applies.';

create table private.set_edges (
  set_id uuid not null references public.job_sets (id) on delete cascade,
  after_id uuid not null,
  before_id uuid not null,
  primary key (set_id, after_id, before_id)
);
create index set_edges_before_idx on private.set_edges (set_id, before_id);
alter table private.set_edges enable row level security;
comment on table private.set_edges is 'The order in a set: the dependencies of its modules as they were at its start.';
comment on column private.set_edges.after_id is 'The module that waits for the other.';
comment on column private.set_edges.before_id is 'The module that goes first.';

create view private.planned_outputs as
select
  m.set_id,
  m.module_id,
  j.id as job_id,
  o.value ->> 'name' as name,
  coalesce(o.value -> 'is_known' = 'true', false) as is_known,
  case when o.value ->> 'action' = 'delete' then 'is removed'
    when o.value -> 'is_sensitive' = 'true' then 'changes and is sensitive' else 'is known after apply' end as words
from private.set_members as m
inner join public.provision_jobs as j on j.id = m.job_id and j.type = 'PLAN' and j.status = 'SUCCEEDED'
cross join lateral jsonb_array_elements(case jsonb_typeof(j.plan_summary -> 'outputs') when 'array'
  then j.plan_summary -> 'outputs' else '[]' end) as o
where not exists (
  select from public.provision_jobs as a
  where a.module_id = m.module_id and a.type = 'APPLY' and a.status = 'SUCCEEDED' and a.finished_at >= j.finished_at
);
comment on view private.planned_outputs is
  'Outputs that plans of sets change, of modules that were not applied since.';
comment on column private.planned_outputs.is_known is 'Whether the plan has the value and may show it.';
comment on column private.planned_outputs.words is 'Why it may not, or has none.';

create view private.open_bindings as
select
  e.set_id,
  b.consumer_id,
  b.producer_id,
  b.input,
  b.output,
  o.job_id,
  o.is_known,
  o.words
from private.set_edges as e
inner join public.module_bindings as b on b.consumer_id = e.after_id and b.producer_id = e.before_id
inner join private.planned_outputs as o on o.set_id = e.set_id and o.module_id = e.before_id and o.name = b.output;
comment on view private.open_bindings is
  'Bound inputs of members of sets whose value the plan of another member changes: known, it makes a preview; unknown, '
  'the member waits for the apply.';
comment on column private.open_bindings.consumer_id is 'The module that has the input.';
comment on column private.open_bindings.producer_id is 'The module that has the output.';
comment on column private.open_bindings.input is 'The consumer''s variable.';
comment on column private.open_bindings.output is 'The producer''s output.';
comment on column private.open_bindings.job_id is 'The plan that changes the output.';
comment on column private.open_bindings.is_known is 'Whether the plan has the value and may show it.';
comment on column private.open_bindings.words is 'Why it may not, or has none.';

create view private.placeable_members as
select
  m.set_id,
  m.module_id
from private.set_members as m
where m.job_id is null and m.left_out is null and not exists (
  select from private.set_edges as e
  inner join private.set_members as b on b.set_id = e.set_id and b.module_id = e.before_id
  left join public.provision_jobs as j on j.id = b.job_id
  where e.set_id = m.set_id and e.after_id = m.module_id and j.status is distinct from 'SUCCEEDED'
) and not exists (
  select from private.open_bindings as o
  where o.set_id = m.set_id and o.consumer_id = m.module_id and not o.is_known
);
comment on view private.placeable_members is
  'Members of sets that may be placed: everything in the set that they depend on has succeeded, and no input waits for '
  'an apply.';

-- ## order

-- Serialises what happens to the members of one ordered set.
create function private.lock_set(p_set uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(private.lock_key('set_order', p_set::pg_catalog.text));
end;
$$;

-- The same, if it can be had at once.
create function private.try_lock_set(p_set uuid) returns boolean
language plpgsql set search_path = '' as $$
begin
  return pg_try_advisory_xact_lock(private.lock_key('set_order', p_set::pg_catalog.text));
end;
$$;

-- Whether a set's modules depend on each other.
create function private.is_ordered(p_set uuid) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (select from private.set_edges as e where e.set_id = p_set);
end;
$$;

-- Adds modules to a new set, with the order between them.
create function private.add_members(p_set public.job_sets, p_modules uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  insert into private.set_members (set_id, module_id, org_id) select p_set.id, m, p_set.org_id
    from unnest(p_modules) as m;
  insert into private.set_edges (set_id, after_id, before_id)
  select p_set.id, case when p_set.type = 'DESTROY' then d.producer_id else d.consumer_id end,
    case when p_set.type = 'DESTROY' then d.consumer_id else d.producer_id end
  from public.module_dependencies as d
  where d.org_id = p_set.org_id and d.consumer_id = any (p_modules) and d.producer_id = any (p_modules);
end;
$$;

-- Which members of a set wait for the apply of which others, in words.
create function private.waits_for_apply(p_set uuid) returns table (consumer_id uuid, producer_id uuid, words text)
language sql stable set search_path = '' as $$
  select o.consumer_id, o.producer_id, format('Waits for %s: %s.', p.path, string_agg(format('`%s` %s', o.output,
    o.words), ', ' order by o.output))
  from (select distinct o.consumer_id, o.producer_id, o.output, o.words from private.open_bindings as o
    where o.set_id = p_set and not o.is_known) as o
  join public.modules as p on p.id = o.producer_id group by o.consumer_id, o.producer_id, p.path
$$;

-- Leaves out what depends on a member that failed, was cancelled or was left out, or that waits for an apply, and
-- nothing else: what was left out because of one that is retried waits again. The caller has the set's lock.
create function private.settle_set(p_set uuid) returns void
language plpgsql set search_path = '' as $$
begin
  with recursive ended as materialized (
    select m.module_id, format('Because of %s.', coalesce('#' || j.number, o.path)) as words
    from private.set_members as m
    left join public.provision_jobs as j on j.id = m.job_id
    left join public.modules as o on o.id = m.module_id
    where m.set_id = p_set and (j.status in ('FAILED', 'CANCELLED')
      or m.job_id is null and m.left_out is not null and m.because_of is null)
  ), below (module_id, root) as (
    select e.after_id, f.module_id from ended as f
    join private.set_edges as e on e.set_id = p_set and e.before_id = f.module_id
    union
    select e.after_id, b.root from below as b
    join private.set_edges as e on e.set_id = p_set and e.before_id = b.module_id
  ), wait as materialized (
    select * from private.waits_for_apply(p_set)
  ), later (module_id) as (
    select w.consumer_id from wait as w
    union
    select e.after_id from later as l join private.set_edges as e on e.set_id = p_set and e.before_id = l.module_id
  ), cause as materialized (
    select distinct on (c.module_id) c.* from (
      select b.module_id, 1 as rank, b.root, f.words from below as b join ended as f on f.module_id = b.root
      union all select w.consumer_id, 2, w.producer_id, w.words from wait as w
      union all select e.after_id, 3, o.id, format('Waits for %s, which waits for an apply.', o.path)
      from later as l join private.set_edges as e on e.set_id = p_set and e.before_id = l.module_id
      join public.modules as o on o.id = e.before_id) as c
    order by c.module_id, c.rank, c.root
  ), verdict as materialized (
    select m.module_id, c.root, c.words, coalesce(c.rank > 1, false) as is_waiting
    from private.set_members as m left join cause as c on c.module_id = m.module_id
    where m.set_id = p_set and m.job_id is null and (m.left_out is null or m.because_of is not null)
  )
  update private.set_members as m set left_out = v.words, because_of = v.root, is_waiting_for_apply = v.is_waiting
  from verdict as v
  where m.set_id = p_set and m.module_id = v.module_id
    and (m.left_out, m.because_of, m.is_waiting_for_apply) is distinct from (v.words, v.root, v.is_waiting);
end;
$$;

-- Continues a set after the end of a job: what waited for it is placed, or left out when it did not succeed. The caller
-- has the lock of the job's state.
create function private.follow_in_set(p_job public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_set public.job_sets;
begin
  select s.* into v_set from private.set_members as m join public.job_sets as s on s.id = m.set_id
  where m.job_id = p_job.id and exists (
    select from private.set_edges as e where e.set_id = m.set_id and e.before_id = m.module_id);
  if v_set.id is null then
    return;
  end if;
  if p_job.status = 'SUCCEEDED' then
    -- Two that end together: the second one sees the first one's end behind this lock.
    perform private.lock_set(v_set.id);
    if exists (select from private.planned_outputs as o where o.set_id = v_set.id
      and o.module_id = p_job.module_id and not o.is_known) then
      perform private.settle_set(v_set.id);
    end if;
    perform private.place_members(v_set, 200, false, v_set.id);
  elsif private.try_lock_set(v_set.id) then
    -- One transaction may end jobs of several sets, so it waits for none of them: the sweep settles the others.
    perform private.settle_set(v_set.id);
  end if;
end;
$$;

-- Replaces a job by its retry in their sets.
create function private.follow_retry() returns trigger
language plpgsql set search_path = '' as $$
declare
  v_set pg_catalog.uuid := (select m.set_id from private.set_members as m where m.job_id = new.retry_of);
begin
  if v_set is null then
    return null;
  end if;
  perform private.lock_set(v_set);
  update private.set_members set job_id = new.id where job_id = new.retry_of;
  update public.job_sets set finished_at = null where id = v_set and finished_at is not null;
  perform private.settle_set(v_set);
  return null;
end;
$$;
create trigger follow_retry after insert on public.provision_jobs for each row when (new.retry_of is not null)
  execute function private.follow_retry();

-- ## placing jobs

-- Enqueues a job for each of these members with the same options. The caller holds their states' locks.
create function private.add_alike_jobs(
  p_like public.job_sets, p_options jsonb, p_sets uuid[], p_modules uuid[]
) returns void
language plpgsql set search_path = '' as $$
declare
  v_jobs bigint[] := private.add_module_jobs(p_like.org_id, p_like.type, p_modules, null, p_options
    || jsonb_build_object('created_by', p_like.created_by, 'created_by_label', p_like.created_by_label)
    || case when p_like.schedule_id is null then '{}' else '{"is_by_schedule": true}' end::pg_catalog.jsonb);
begin
  perform private.place_jobs(p_like.org_id, v_jobs, coalesce(p_like.options ->> 'reason',
    case when p_like.schedule_id is not null then 'By schedule' end));
  update private.set_members as m set job_id = p.job_id
  from unnest(p_sets, p_modules, v_jobs) as p (set_id, module_id, job_id)
  where m.set_id = p.set_id and m.module_id = p.module_id;
end;
$$;

-- Whether a plan of a member is a preview: a plan of the set changes an input of it, or it is an output of a preview.
create function private.is_preview(p_set uuid, p_module uuid) returns boolean
language plpgsql stable set search_path = '' as $$
begin
  return exists (select from private.open_bindings as o where o.set_id = p_set and o.consumer_id = p_module) or exists (
    select from private.set_edges as e
    join public.module_bindings as b on b.consumer_id = e.after_id and b.producer_id = e.before_id
    join private.set_members as m on m.set_id = e.set_id and m.module_id = e.before_id
    join public.provision_jobs as j on j.id = m.job_id and j.payload #> '{options,preview}' = 'true'
    where e.set_id = p_set and e.after_id = p_module);
end;
$$;

-- Enqueues a job for each of these members, all of sets that ask for the same. The caller holds their states' locks.
create function private.add_set_jobs(p_like public.job_sets, p_sets uuid[], p_modules uuid[]) returns void
language plpgsql set search_path = '' as $$
declare
  v_part pg_catalog.record;
begin
  if p_like.type in ('APPLY', 'DESTROY') then
    perform private.refuse_locked_modules(p_modules);
  end if;
  for v_part in
    select m.plan_job_id, p.is_preview, array_agg(m.set_id order by m.module_id) as sets,
      array_agg(m.module_id order by m.module_id) as modules
    from unnest(p_sets, p_modules) as w (set_id, module_id)
    join private.set_members as m on m.set_id = w.set_id and m.module_id = w.module_id
    cross join lateral (select p_like.type = 'PLAN' and private.is_preview(m.set_id, m.module_id) as is_preview) as p
    group by m.plan_job_id, p.is_preview
  loop
    if v_part.plan_job_id is not null then
      perform private.check_saved_plan(p_like.org_id, p_like.type, v_part.modules[1], v_part.plan_job_id);
    end if;
    perform private.add_alike_jobs(p_like, p_like.options || jsonb_strip_nulls(jsonb_build_object('plan_job_id',
      v_part.plan_job_id, 'preview', nullif(v_part.is_preview, false))), v_part.sets, v_part.modules);
  end loop;
end;
$$;

-- Enqueues the job of one member, or writes down why it can have none.
create function private.place_alone(p_like public.job_sets, p_set uuid, p_module uuid) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.add_set_jobs(p_like, array[p_set], array[p_module]);
exception
  when others then
    if sqlstate not like 'RY%' then
      raise;
    end if;
    update private.set_members set left_out = left(sqlerrm, 500) where set_id = p_set and module_id = p_module;
end;
$$;

-- Of these members, those that may still be placed: meanwhile somebody else may have placed or cancelled one. The
-- caller has the locks of their states.
create function private.still_placeable(p_sets uuid[], p_modules uuid[]) returns table (sets uuid[], modules uuid[])
language sql stable set search_path = '' as $$
  select coalesce(array_agg(p.set_id order by p.module_id), '{}'), coalesce(array_agg(p.module_id order by p.module_id),
    '{}')
  from private.placeable_members as p join unnest(p_sets, p_modules) as w (set_id, module_id)
    on w.set_id = p.set_id and w.module_id = p.module_id
  join public.job_sets as s on s.id = p.set_id and s.cancelled_at is null
$$;

-- Enqueues jobs for these members, or writes down why one can have none.
create function private.place_these(p_like public.job_sets, p_sets uuid[], p_modules uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.add_set_jobs(p_like, p_sets, p_modules);
exception
  when others then
    if sqlstate not like 'RY%' then
      raise;
    end if;
    perform private.place_alone(p_like, p.set_id, p.module_id) from unnest(p_sets, p_modules) as p (set_id,
      module_id);
    perform private.settle_set(s) from (select distinct s from unnest(p_sets) as s) as s (s)
    where private.is_ordered(s);
end;
$$;

-- Enqueues jobs for members that may be placed, of this set alone or of all sets that ask for the same as this one;
-- returns how many were checked.
create function private.place_members(
  p_like public.job_sets, p_limit integer, p_waits boolean, p_set uuid default null
) returns integer
language plpgsql set search_path = '' as $$
declare
  v_member pg_catalog.record;
  v_sets pg_catalog.uuid[] := '{}';
  v_modules pg_catalog.uuid[] := '{}';
begin
  -- A module that two sets want is placed for one of them now and for the other with the next batch. The sweep waits
  -- for nobody: a state that somebody is at is left to the next one.
  for v_member in select distinct on (m.module_id) m.set_id, m.module_id
    from public.job_sets as s join private.placeable_members as m on m.set_id = s.id
    where s.finished_at is null and s.cancelled_at is null and (p_set is null or s.id = p_set)
      and coalesce(s.starts_at <= now(), true)
      and (s.org_id, s.type, s.options, s.created_by_label) = (p_like.org_id, p_like.type, p_like.options,
        p_like.created_by_label)
      and s.created_by is not distinct from p_like.created_by and (s.schedule_id is null) = (p_like.schedule_id is null)
    order by m.module_id, s.created_at limit p_limit loop
    continue when not p_waits and not (private.try_lock_state(p_like.org_id, v_member.module_id)
      and (not private.is_ordered(v_member.set_id) or private.try_lock_set(v_member.set_id)));
    v_sets := v_sets || v_member.set_id;
    v_modules := v_modules || v_member.module_id;
  end loop;
  if p_waits then
    perform private.lock_module_states(p_like.org_id, v_modules);
  end if;
  select p.sets, p.modules into v_sets, v_modules from private.still_placeable(v_sets, v_modules) as p;
  if v_modules <> '{}' then
    perform private.place_these(p_like, v_sets, v_modules);
  end if;
  return cardinality(v_modules);
end;
$$;

-- ## progress

-- A set as pages and commands show it: its counts, what failed, and about how long the rest takes.
create function private.set_json(p_set public.job_sets) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  v_counts pg_catalog.jsonb;
  v_done integer;
begin
  select jsonb_build_object(
    'total', count(*),
    'waiting', count(*) filter (where m.left_out is null and (j.id is null or j.status in ('QUEUED',
      'AWAITING_APPROVAL'))),
    'running', count(*) filter (where j.status in ('CLAIMED', 'PROCESSING')),
    'succeeded', count(*) filter (where j.status = 'SUCCEEDED'),
    'failed', count(*) filter (where j.status in ('FAILED', 'NEEDS_ATTENTION')
      or m.left_out <> 'cancelled' and m.because_of is null),
    'left_out', count(*) filter (where m.because_of is not null and not m.is_waiting_for_apply),
    'waiting_for_apply', count(*) filter (where m.is_waiting_for_apply),
    'cancelled', count(*) filter (where j.status = 'CANCELLED' or m.left_out = 'cancelled'),
    'with_changes', count(*) filter (where j.status = 'SUCCEEDED' and j.plan_summary -> 'has_changes' = 'true'),
    'failures', coalesce(jsonb_agg(jsonb_build_object('job_id', j.id, 'job_number', j.number, 'module_path',
      coalesce(j.module_path, o.path), 'status', j.status,
        'message', left(coalesce(j.error ->> 'message', m.left_out, ''), 500)) order by j.id)
      filter (where j.status in ('FAILED', 'NEEDS_ATTENTION') or m.left_out <> 'cancelled'
        and m.because_of is null), '[]'))
  into v_counts
  from private.set_members as m left join public.provision_jobs as j on j.id = m.job_id
  left join public.modules as o on o.id = m.module_id and m.job_id is null
  where m.set_id = p_set.id;
  v_done := (v_counts ->> 'total')::integer - (v_counts ->> 'waiting')::integer - (v_counts ->> 'running')::integer;
  return to_jsonb(p_set) - array['options', 'idempotency_key'] || v_counts || jsonb_build_object('done', v_done,
    'failures', (select coalesce(jsonb_agg(f.value order by f.ordinality), '[]')
      from jsonb_array_elements(v_counts -> 'failures') with ordinality as f where f.ordinality <= 50),
    'status', case when v_done < (v_counts ->> 'total')::integer then 'RUNNING' when p_set.cancelled_at is not null
      then 'CANCELLED'
      when (v_counts ->> 'failed')::integer + (v_counts ->> 'left_out')::integer > 0 then 'FAILED' else 'SUCCEEDED' end,
    'seconds_left', case when v_done between 1 and (v_counts ->> 'total')::integer - 1 then
      round(extract(epoch from now() - p_set.created_at) / v_done * ((v_counts ->> 'total')::integer - v_done)) end);
end;
$$;

-- A set that the caller may use in that role.
create function private.my_set(p_set uuid, p_verb text) returns public.job_sets
language plpgsql stable set search_path = '' as $$
declare
  v_set public.job_sets;
begin
  select * into v_set from public.job_sets where id = p_set and org_id in (select private.my_org_ids());
  if v_set.id is null then
    perform private.fail('RY404', 'There is no such set.');
  end if;
  perform private.need(p_verb, v_set.org_id, v_set.path);
  return v_set;
end;
$$;

create function private.set_progress(p_set uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  return private.set_json(private.my_set(p_set, 'job.read'));
end;
$$;
comment on function private.set_progress is
  'How far a set is: total, done, failed, running, waiting, what failed and why. Members.';
grant execute on function private.set_progress to authenticated;

create function private.list_sets(p_org uuid, p_path text default null, p_limit integer default 20) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform private.need('job.read', p_org, p_path);
  if coalesce(p_limit, 0) not between 1 and 100 then
    perform private.fail('RY422', 'A list has 1 to 100 sets.');
  end if;
  return (select coalesce(jsonb_agg(private.set_json(s) order by s.finished_at is not null, s.created_at desc), '[]')
    from (
    select * from public.job_sets as s where s.org_id = p_org and (p_path is null or s.path = p_path)
    order by s.finished_at is not null, s.created_at desc limit p_limit) as s);
end;
$$;
comment on function private.list_sets is
  'Sets, the running ones first, with their counts, what failed, and about how long the rest takes. Members.';
grant execute on function private.list_sets to authenticated;

-- ## control of sets

-- What people do with sets: plan all below a group or check all for drift, cancel the rest, retry what failed; and what
-- the sweep does with them.
-- Whether something of a set waits or runs.
create function private.is_set_open(p_set uuid) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from private.set_members as m left join public.provision_jobs as j on j.id = m.job_id
    where m.set_id = p_set and m.left_out is null
      and (j.id is null or j.status in ('QUEUED', 'AWAITING_APPROVAL', 'CLAIMED', 'PROCESSING')))
$$;

-- Refuses a set where one of the same kind runs that a person has started.
create function private.refuse_second_set(p_org uuid, p_type public.job_type, p_path text) returns void
language plpgsql stable set search_path = '' as $$
begin
  if exists (select from public.job_sets as s where s.org_id = p_org and s.path = p_path and s.type = p_type
    and s.schedule_id is null and s.cause_job_id is null and not s.options ? 'git' and s.finished_at is null
    and private.is_set_open(s.id)) then
    perform private.fail('RY409', 'Such a set is running here.', 'Wait for it, or cancel the rest of it.');
  end if;
end;
$$;

create function private.start_set(
  p_org uuid, p_type public.job_type, p_path text, p_options jsonb default '{}'
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_key pg_catalog.text := p_options ->> 'idempotency_key';
  v_set public.job_sets;
  v_modules pg_catalog.uuid[];
begin
  perform private.need(case when p_type = 'DESTROY' then 'job.destroy' else 'job.run' end, p_org, p_path);
  if p_type is null or p_type not in ('PLAN', 'DRIFT', 'APPLY', 'DESTROY') then
    perform private.fail('RY422', 'A set plans, applies or destroys its modules, or checks them for drift.',
      'Send PLAN, DRIFT, APPLY or DESTROY.');
  end if;
  perform private.refuse_unknown_keys(p_options, array['reason', 'labels', 'priority', 'pinned_worker_id',
    'idempotency_key']);
  perform private.check_job_options(p_org, p_type, null, p_options);
  perform private.need_target(p_org, p_path);
  perform pg_advisory_xact_lock(private.lock_key('set', p_org::pg_catalog.text));
  select * into v_set from public.job_sets where org_id = p_org and idempotency_key = v_key;
  if v_set.id is not null then
    return private.set_json(v_set);
  end if;
  perform private.refuse_second_set(p_org, p_type, p_path);
  insert into public.job_sets (org_id, type, path, options, idempotency_key, created_by, created_by_label)
  values (p_org, p_type, p_path, jsonb_build_object('priority', 150) || coalesce(p_options, '{}') - 'idempotency_key',
    v_key,
    private.caller_id(), private.caller_label(p_org)) returning * into v_set;
  v_modules := array(select private.modules_below(p_org, p_path));
  if v_modules = '{}' then
    perform private.fail('RY409', 'There is no module below this group.', 'Create one first, or choose another group.');
  end if;
  perform private.add_members(v_set, v_modules);
  -- As many as fit well into the time of one request; the sweep places the rest.
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audit(p_org, 'set.started', 'set', v_set.id::pg_catalog.text, p_type || ' '
    || coalesce(nullif(p_path, ''), 'all modules'),
    jsonb_build_object('modules', cardinality(v_modules)));
  return private.set_json(v_set);
end;
$$;
comment on function private.start_set is
  'Enqueues a PLAN, DRIFT, APPLY or DESTROY job for every module at or below a group ("" is all), as one thing with '
  'its progress, in the order of their dependencies; a DESTROY goes backwards. Idempotent by its key. Operators; '
  'admins to destroy.';
grant execute on function private.start_set to authenticated;

-- ## cancel, retry

-- Cancels a job that waits; asks one that runs to stop. Waits for nobody: what cannot be had at once stays as it is.
create function private.try_cancel(
  p_job public.provision_jobs, p_kind public.actor_kind, p_label text, p_reason text
) returns void
language plpgsql set search_path = '' as $$
begin
  if not private.try_lock_state(p_job.org_id, p_job.module_id) then
    return;
  end if;
  perform from private.live_jobs as q where q.job_id = p_job.id and (q.stage = 'RUNNING') = (p_job.status in ('CLAIMED',
    'PROCESSING')) for update skip locked;
  if not found and p_job.status <> 'AWAITING_APPROVAL' then
    return;
  end if;
  perform from public.provision_jobs as j where j.id = p_job.id and j.status = p_job.status
    for no key update skip locked;
  if not found then
    return;
  end if;
  if p_job.status in ('CLAIMED', 'PROCESSING') then
    perform private.request_stop(p_job.id, 'GRACEFUL', p_kind, null, p_label, p_reason);
  else
    perform private.end_job(p_job.id, 'CANCELLED', 'cancelled', p_kind, null, p_label, p_reason);
  end if;
end;
$$;

-- Cancels what waits of a set whose rest was cancelled, but no retry that was requested since. Running jobs finish.
-- Waits for nobody; returns how many jobs it looked at.
create function private.cancel_waiting(p_set public.job_sets, p_limit integer) returns integer
language plpgsql set search_path = '' as $$
declare
  v_job public.provision_jobs;
  v_count integer := 0;
begin
  if not private.try_lock_set(p_set.id) then
    return 0;
  end if;
  update private.set_members set left_out = 'cancelled' where set_id = p_set.id and job_id is null and left_out is null;
  for v_job in
    select j.* from private.set_members as m join public.provision_jobs as j on j.id = m.job_id
    where m.set_id = p_set.id and j.status in ('QUEUED', 'AWAITING_APPROVAL')
      and (j.retry_of is null or j.created_at <= p_set.cancelled_at) order by j.module_id limit p_limit
  loop
    v_count := v_count + 1;
    -- What cannot be had at once is left to the sweep; what a runner takes meanwhile, runs.
    perform private.try_cancel(v_job, 'user', p_set.cancelled_by_label, 'The rest of the set was cancelled.');
  end loop;
  return v_count;
end;
$$;

create function private.cancel_set(p_set uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.run');
begin
  if not private.is_set_open(p_set) then
    perform private.fail('RY409', 'Nothing of this set waits or runs.', 'Finished jobs cannot be cancelled.');
  end if;
  perform private.lock_set(p_set);
  -- Cancelled again, it takes with it what was retried since.
  update public.job_sets set cancelled_at = now(), cancelled_by_label = private.caller_label(v_set.org_id)
  where id = p_set returning * into v_set;
  perform private.cancel_waiting(v_set, 500);
  perform private.audit(v_set.org_id, 'set.cancelled', 'set', p_set::pg_catalog.text, v_set.type || ' ' || v_set.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.cancel_set is 'Cancels what waits of a set; what runs, finishes. Operators.';
grant execute on function private.cancel_set to authenticated;

-- What failed of a set and may be retried, as much as one call takes.
create function private.failed_jobs(p_set uuid) returns table (job_id bigint, module_id uuid)
language sql stable set search_path = '' as $$
  select j.id, j.module_id from private.set_members as m join public.provision_jobs as j on j.id = m.job_id
  join public.modules as o on o.id = j.module_id and o.deleted_at is null
  where m.set_id = p_set and j.status = 'FAILED' order by j.module_id limit 500
$$;

-- Retries a job of a set; where it cannot be retried, returns why and what to do, and costs the others nothing.
create function private.try_retry(p_job bigint) returns text[]
language plpgsql set search_path = '' as $$
declare
  v_hint pg_catalog.text;
begin
  perform private.retry_job(p_job, 'Retry of what failed in a set.');
  return null;
exception
  when others then
    if sqlstate not like 'RY%' then
      raise;
    end if;
    get stacked diagnostics v_hint = pg_exception_hint;
    return array[sqlerrm, v_hint];
end;
$$;

create function private.retry_set(p_set uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.run');
  v_modules pg_catalog.uuid[];
  v_job bigint;
  v_answer pg_catalog.text[];
  v_refusal pg_catalog.text[];
  v_retried integer := 0;
  v_left_out integer;
begin
  -- Another retry of the set comes after this one; and states come before rows, as in the retry of one job.
  perform pg_advisory_xact_lock(private.lock_key('set', v_set.org_id::pg_catalog.text));
  v_modules := array(select f.module_id from private.failed_jobs(p_set) as f);
  perform private.lock_states(v_set.org_id, v_modules);
  for v_job in select f.job_id from private.failed_jobs(p_set) as f where f.module_id = any (v_modules) loop
    v_answer := private.try_retry(v_job);
    v_retried := v_retried + (v_answer is null)::integer;
    v_refusal := coalesce(v_answer, v_refusal);
  end loop;
  perform private.lock_set(p_set);
  update private.set_members set left_out = null where set_id = p_set and left_out <> 'cancelled' and job_id is null
    and because_of is null;
  get diagnostics v_left_out = row_count;
  perform private.settle_set(p_set);
  if v_retried + v_left_out = 0 and v_refusal is null then
    perform private.fail('RY409', 'No job of this set failed.',
      'A job that needs attention is resolved on its own page.');
  elsif v_retried + v_left_out = 0 then
    perform private.fail('RY409', format('No job of this set can be retried: %s', v_refusal[1]), v_refusal[2]);
  end if;
  update public.job_sets set finished_at = null, cancelled_at = null, cancelled_by_label = null where id = p_set
    returning * into v_set;
  perform private.audit(v_set.org_id, 'set.retried', 'set', p_set::pg_catalog.text, v_set.type || ' ' || v_set.path,
    jsonb_build_object('jobs', v_retried + v_left_out));
  return private.set_json(v_set);
end;
$$;
comment on function private.retry_set is
  'Retries what failed of a set; the retries take the place of what they repeat. Operators.';
grant execute on function private.retry_set to authenticated;

-- ## what the sweep does

-- Places members of a set as the sweep does: one that fails costs nobody else theirs.
create function private.try_place(p_set public.job_sets, p_limit integer) returns integer
language plpgsql set search_path = '' as $$
begin
  return private.place_members(p_set, p_limit, false);
exception
  when others then
    raise warning 'sweep of set %: %', p_set.id, sqlerrm;
    return 0;
end;
$$;

-- Cancels what waits of a cancelled set, so many jobs at most, and closes one that is done; one that fails costs nobody
-- else theirs. Returns how many jobs it looked at.
create function private.try_close(p_set public.job_sets, p_limit integer) returns integer
language plpgsql set search_path = '' as $$
declare
  v_count integer := 0;
begin
  if p_set.cancelled_at is not null then
    v_count := private.cancel_waiting(p_set, least(p_limit, 200));
  end if;
  if private.is_ordered(p_set.id) and private.try_lock_set(p_set.id) then
    perform private.settle_set(p_set.id);
  end if;
  if not private.is_set_open(p_set.id) then
    update public.job_sets set finished_at = now() where id = p_set.id and finished_at is null;
  end if;
  return v_count;
exception
  when others then
    raise warning 'sweep of set %: %', p_set.id, sqlerrm;
    return 0;
end;
$$;

-- Places jobs of sets, a batch for each organisation, cancels what waits of cancelled ones, and closes those that are
-- done.
create function private.sweep_sets() returns integer
language plpgsql set search_path = '' as $$
declare
  v_set public.job_sets;
  v_count integer := 0;
  v_used pg_catalog.jsonb := '{}';
  v_left integer;
begin
  -- Fifty for each organisation, two hundred in all: people's own jobs are enqueued between two sweeps, and come first
  -- by their priority as well. In any order, so that each has its turn.
  for v_set in select o.* from (
    select distinct on (s.org_id, s.type, s.options, s.created_by, s.created_by_label) s.* from public.job_sets as s
    where s.finished_at is null and s.cancelled_at is null and coalesce(s.starts_at <= now(), true)
      and exists (select from private.placeable_members as m where m.set_id = s.id)
    order by s.org_id, s.type, s.options, s.created_by, s.created_by_label, s.created_at) as o order by random()
  loop
    v_left := least(50 - coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0), 200 - v_count);
    continue when v_left <= 0;
    v_left := private.try_place(v_set, v_left);
    v_count := v_count + v_left;
    v_used := v_used || jsonb_build_object(v_set.org_id::pg_catalog.text,
      coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0) + v_left);
  end loop;
  -- Each job that is checked may leave an advisory lock until the end, of which a server has not many.
  v_left := 500;
  for v_set in select * from public.job_sets as s where s.finished_at is null order by random() limit 1000 loop
    v_left := v_left - private.try_close(v_set, v_left);
  end loop;
  return v_count;
end;
$$;
