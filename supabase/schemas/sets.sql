-- Sets: many jobs that were requested as one, by a person for a group or by a schedule. A set knows its modules from
-- the start; their jobs are placed in batches, by the call itself and then by the sweep, so a storm of a thousand due
-- schedules spreads over minutes. Jobs of sets come after those that people request one by one. A set's progress is
-- counted from its jobs, never stored: a retry takes the place of the job that it repeats.

create table public.job_sets (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  type public.job_type not null,
  path text not null,
  options jsonb not null default '{}',
  schedule_id uuid,
  cause_job_id bigint,
  idempotency_key text check (length(idempotency_key) between 1 and 200),
  is_ordered boolean not null default false,
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
create unique index job_sets_idempotency_key_idx on public.job_sets (org_id, path, idempotency_key)
  where idempotency_key is not null;
-- Whether the caller sees a set: its path and every module of it. A cascade has modules of other groups.
create function private.is_seen_set(p_set uuid, p_seen text[]) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return p_seen is null or exists (select from public.job_sets as s where s.id = p_set
    and private.is_seen(s.org_id, s.path, p_seen) and not exists (
      select from private.set_members as m join public.modules as o on o.id = m.module_id
      where m.set_id = p_set and not private.is_seen(o.org_id, o.path, p_seen)));
end;
$$;
create policy "Members see their organisation's sets" on public.job_sets
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read')))
    or org_id = any(array(select private.my_org_ids()))
    and private.is_seen_set(id, array(select private.my_prefixes())));
comment on table public.job_sets is 'Many jobs as one: all modules at or below a path, by a person or a schedule.';
comment on column public.job_sets.cause_job_id is 'The apply whose outputs its modules depend on.';
comment on column public.job_sets.idempotency_key is 'The caller''s own key: again, at that path, it finds this set.';
comment on column public.job_sets.is_ordered is 'Whether its modules depend on each other.';
comment on column public.job_sets.started_by is 'The member who ran a schedule now; a requester beside its owner.';
comment on column public.job_sets.starts_at is 'When its first job is placed, where that is later than its start.';

-- The order is in the rows of the members, which have one key. A table of edges is found from either end, by two: where
-- statistics know nothing of a set, the planner reads all of it for each member by the wrong one.
create table private.set_members (
  set_id uuid not null references public.job_sets (id) on delete cascade,
  module_id uuid not null,
  org_id uuid not null,
  waits_for uuid[] not null default '{}',
  awaited_by uuid[] not null default '{}',
  job_id bigint,
  left_out text,
  because_of uuid,
  is_waiting_for_apply boolean not null default false,
  plan_job_id bigint,
  fingerprint text,
  primary key (set_id, module_id)
);
create index set_members_job_id_idx on private.set_members (job_id) where job_id is not null;
create index set_members_pending_idx on private.set_members (set_id, module_id)
  where job_id is null and left_out is null;
comment on table private.set_members is 'The modules of each set, and the job of each as soon as it is placed.';
comment on column private.set_members.waits_for is
  'The modules of the set that come first: its dependencies as they were at the start, backwards for a DESTROY.';
comment on column private.set_members.awaited_by is 'The modules of the set that wait for it.';
comment on column private.set_members.left_out is 'Why it gets no job; "cancelled" where the rest of the set was.';
comment on column private.set_members.because_of is
  'The module of the set that failed or was left out, where that is why; placed after all when that one succeeds.';
comment on column private.set_members.is_waiting_for_apply is
  'Whether because_of was planned well, and what it plans is known only after its apply; placed after that apply.';
comment on column private.set_members.plan_job_id is 'The plan that was reviewed, which its job applies.';
comment on column private.set_members.fingerprint is
  'The content that it is planned from, as a runner read it: of a branch, a pull request or an entry of a queue.';

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
-- "offset 0", here and below: a look for each by its key, whatever the statistics, and never a join.
cross join lateral (select j.* from public.provision_jobs as j where j.id = m.job_id offset 0) as j -- noqa: AM09
cross join lateral jsonb_array_elements(case jsonb_typeof(j.plan_summary -> 'outputs') when 'array'
  then j.plan_summary -> 'outputs' else '[]' end) as o
where j.type = 'PLAN' and j.status = 'SUCCEEDED' and not exists (
  select from public.provision_jobs as a
  where a.module_id = m.module_id and a.type = 'APPLY' and a.status = 'SUCCEEDED' and a.finished_at >= j.finished_at
  offset 0 -- noqa: AM09
);
comment on view private.planned_outputs is 'Outputs that plans of sets change, of modules that were not applied since.';
comment on column private.planned_outputs.is_known is 'Whether the plan has the value and may show it.';
comment on column private.planned_outputs.words is 'Why it may not, or has none.';

create view private.open_bindings as
select
  m.set_id,
  m.module_id as consumer_id,
  b.producer_id,
  b.input,
  b.output,
  o.job_id,
  o.is_known,
  o.words
from private.set_members as m
cross join lateral (
  select b.* from public.module_bindings as b
  where b.consumer_id = m.module_id and b.producer_id = any(m.waits_for) offset 0 -- noqa: AM09
) as b
cross join lateral (
  select o.* from private.planned_outputs as o
  where o.set_id = m.set_id and o.module_id = b.producer_id and o.name = b.output offset 0 -- noqa: AM09
) as o;
comment on view private.open_bindings is
  'Bound inputs of members of sets whose value the plan of another member changes: known, it makes a preview; unknown, '
  'the member waits for the apply.';

create view private.placeable_members as
select
  m.set_id,
  m.module_id
from private.set_members as m
where m.job_id is null and m.left_out is null and not exists (
  select from unnest(m.waits_for) as w (id)
  where (
    select (select j.status from public.provision_jobs as j where j.id = b.job_id)
    from private.set_members as b where b.set_id = m.set_id and b.module_id = w.id
  ) is distinct from 'SUCCEEDED'
) and not exists (
  select from private.open_bindings as o
  where o.set_id = m.set_id and o.consumer_id = m.module_id and not o.is_known offset 0 -- noqa: AM09
);
comment on view private.placeable_members is
  'Members of sets that may be placed: all that they depend on has succeeded, and no input waits for an apply.';

-- ## progress
-- A set as pages and commands show it: its counts, what failed, and about how long the rest takes.
create function private.set_json(p_set public.job_sets) returns jsonb language plpgsql stable as $$
declare
  v_counts pg_catalog.jsonb;
  v_done integer;
begin
  select jsonb_build_object(
    'total', count(*),
    'waiting', count(*) filter (where m.left_out is null and (j.id is null or j.status in ('QUEUED',
    'AWAITING_APPROVAL'))), 'running', count(*) filter (where j.status in ('CLAIMED', 'PROCESSING')),
    'succeeded', count(*) filter (where j.status = 'SUCCEEDED'),
    'failed', count(*) filter (where j.status in ('FAILED', 'NEEDS_ATTENTION')
      or m.left_out <> 'cancelled' and m.because_of is null),
    'left_out', count(*) filter (where m.because_of is not null and not m.is_waiting_for_apply),
    'waiting_for_apply', count(*) filter (where m.is_waiting_for_apply),
    'cancelled', count(*) filter (where j.status = 'CANCELLED' or m.left_out = 'cancelled'),
    'with_changes', count(*) filter (where j.status = 'SUCCEEDED'
      and private.has_found_changes(j.type, j.payload, j.plan_summary)),
    'failures', coalesce(jsonb_agg(jsonb_build_object('job_id', j.id, 'job_number', j.number, 'module_path',
      coalesce(j.module_path, o.path), 'status', j.status,
        'message', left(coalesce(j.error ->> 'message', m.left_out, ''), 500)) order by j.id)
      filter (where j.status in ('FAILED', 'NEEDS_ATTENTION') or m.left_out <> 'cancelled'
        and m.because_of is null), '[]'))
  into v_counts
  from private.set_members as m
  left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
  left join lateral (select o.path from public.modules as o where o.id = m.module_id offset 0) as o on m.job_id is null
  where m.set_id = p_set.id;
  v_done := (v_counts ->> 'total')::integer - (v_counts ->> 'waiting')::integer - (v_counts ->> 'running')::integer;
  return to_jsonb(p_set) - array['options', 'idempotency_key', 'is_ordered'] || v_counts || jsonb_build_object(
    'done', v_done, 'failures', (select coalesce(jsonb_agg(f.value order by f.ordinality), '[]')
      from jsonb_array_elements(v_counts -> 'failures') with ordinality as f where f.ordinality <= 50),
    'status', case when v_done < (v_counts ->> 'total')::integer then 'RUNNING' when p_set.cancelled_at is not null
      then 'CANCELLED'
      when (v_counts ->> 'failed')::integer + (v_counts ->> 'left_out')::integer > 0 then 'FAILED' else 'SUCCEEDED' end,
    'seconds_left', case when v_done between 1 and (v_counts ->> 'total')::integer - 1 then
      round(extract(epoch from now() - p_set.created_at) / v_done * ((v_counts ->> 'total')::integer - v_done)) end);
end;
$$;

-- A set that the caller may use in that role. That of a cascade acts at its modules, not at the module that caused it.
create function private.my_set(p_set uuid, p_verb text, out v_set public.job_sets) language plpgsql stable as $$
begin
  select * into v_set from public.job_sets where id = p_set
    and org_id in (select private.my_org_ids()) and private.is_seen_set(id, private.seen(org_id));
  perform private.fail('RY404', 'There is no such set.') where v_set.id is null;
  perform private.need(p_verb, v_set.org_id, p.path) from (
    select v_set.path where v_set.cause_job_id is null
    union all
    select o.path from private.set_members as m join public.modules as o on o.id = m.module_id
    where m.set_id = p_set and v_set.cause_job_id is not null) as p;
end;
$$;

create function private.set_progress(p_set uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.set_json(private.my_set(p_set, 'job.read'))
$$;
comment on function private.set_progress is 'How far a set is: total, done, failed, running, waiting, why. Members.';

create function private.list_sets(p_org uuid, p_path text default null, p_limit integer default 20) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org, p_path);
  select private.fail('RY422', 'A list has 1 to 100 sets.') where coalesce(p_limit, 0) not between 1 and 100;
  select to_jsonb(array(select private.set_json(s)
    from private.seen(p_org) as n (seen) cross join public.job_sets as s
    where s.org_id = p_org and (p_path is null or s.path = p_path)
      and (n.seen is null or private.is_seen_set(s.id, n.seen))
    order by s.finished_at is not null, s.created_at desc limit p_limit))
$$;
comment on function private.list_sets is
  'Sets, the running ones first, with their counts, what failed, and about how long the rest takes. Members.';

-- Whether something of a set waits or runs.
create function private.is_set_open(p_set uuid) returns boolean language sql stable as $$
  select exists (
    select from private.set_members as m
    left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
    where m.set_id = p_set and m.left_out is null
      and (j.id is null or j.status in ('QUEUED', 'AWAITING_APPROVAL', 'CLAIMED', 'PROCESSING')))
$$;

-- Refuses a set where one of the same kind runs that a person has started.
create function private.refuse_second_set(p_org uuid, p_type public.job_type, p_path text) returns void
language sql stable as $$
  select private.fail('RY409', 'Such a set is running here.', 'Wait for it, or cancel the rest of it.')
  where exists (select from public.job_sets as s where s.org_id = p_org and s.path = p_path and s.type = p_type
    and s.schedule_id is null and s.cause_job_id is null and not s.options ? 'git' and s.finished_at is null
    and private.is_set_open(s.id))
$$;
