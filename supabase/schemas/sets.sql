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
grant execute on function private.is_seen_set to authenticated;
create policy "Members see their organisation's sets" on public.job_sets
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read')))
    or org_id = any(array(select private.my_org_ids()))
    and private.is_seen_set(id, array(select private.my_prefixes())));
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
create index set_members_pending_idx on private.set_members (set_id, module_id)
  where job_id is null and left_out is null;
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
-- The set comes last: an index that begins with it would be read whole where the key finds the edges of one member.
create index set_edges_before_idx on private.set_edges (before_id, set_id);
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
comment on column private.open_bindings.job_id is 'The plan that changes the output.';
comment on column private.open_bindings.is_known is 'Whether the plan has the value and may show it.';
comment on column private.open_bindings.words is 'Why it may not, or has none.';

create view private.placeable_members as
select
  m.set_id,
  m.module_id
from private.set_members as m
-- "offset 0": each member reads its own edges by their index. As a join, a set that was just written, of which the
-- statistics know nothing, is read whole for each member.
where m.job_id is null and m.left_out is null and not exists (
  select from private.set_edges as e
  inner join private.set_members as b on b.set_id = e.set_id and b.module_id = e.before_id
  left join public.provision_jobs as j on j.id = b.job_id
  where e.set_id = m.set_id and e.after_id = m.module_id
    and j.status is distinct from 'SUCCEEDED' offset 0 -- noqa: AM09
) and not exists (
  select from private.open_bindings as o
  where o.set_id = m.set_id and o.consumer_id = m.module_id and not o.is_known offset 0 -- noqa: AM09
);
comment on view private.placeable_members is
  'Members of sets that may be placed: everything in the set that they depend on has succeeded, and no input waits for '
  'an apply.';

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
    'with_changes', count(*) filter (where j.status = 'SUCCEEDED'
      and private.has_found_changes(j.type, j.payload, j.plan_summary)),
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
  select * into v_set from public.job_sets where id = p_set
    and org_id in (select private.my_org_ids()) and private.is_seen_set(id, private.seen(org_id));
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
declare
  v_seen pg_catalog.text[] := private.need_seen(p_org, p_path);
begin
  if coalesce(p_limit, 0) not between 1 and 100 then
    perform private.fail('RY422', 'A list has 1 to 100 sets.');
  end if;
  return (select coalesce(jsonb_agg(private.set_json(s) order by s.finished_at is not null, s.created_at desc), '[]')
    from (
    select * from public.job_sets as s where s.org_id = p_org and (p_path is null or s.path = p_path)
      and (v_seen is null or private.is_seen_set(s.id, v_seen))
    order by s.finished_at is not null, s.created_at desc limit p_limit) as s);
end;
$$;
comment on function private.list_sets is
  'Sets, the running ones first, with their counts, what failed, and about how long the rest takes. Members.';
grant execute on function private.list_sets to authenticated;

-- ## control of sets

-- Acts of people on sets: plan all below a group or check all for drift, cancel the rest, retry what failed; and what
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
  perform private.need(case when p_type = 'DESTROY' then 'job.destroy' else private.verb_to_run(p_type) end, p_org,
    p_path);
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
    -- Jobs that are locked now are left to the sweep; jobs that a runner claims meanwhile run.
    perform private.try_cancel(v_job, 'user', p_set.cancelled_by_label, 'The rest of the set was cancelled.');
  end loop;
  return v_count;
end;
$$;

create function private.cancel_set(p_set uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.cancel');
begin
  if not private.is_set_open(p_set) then
    perform private.fail('RY409', 'Nothing of this set waits or runs.', 'Finished jobs cannot be cancelled.');
  end if;
  perform private.lock_set(p_set);
  -- Cancelled again, it takes with it what was retried since.
  update public.job_sets set cancelled_at = now(), cancelled_by_label = private.caller_label(v_set.org_id)
  where id = p_set returning * into v_set;
  perform private.cancel_waiting(v_set, 500);
  perform private.settle_set(p_set);
  perform private.audit(v_set.org_id, 'set.cancelled', 'set', p_set::pg_catalog.text, v_set.type || ' ' || v_set.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.cancel_set is 'Cancels what waits of a set; what runs, finishes. Operators.';
grant execute on function private.cancel_set to authenticated;

-- The failed jobs of a set that may be retried, as many as one call accepts.
create function private.failed_jobs(p_set uuid) returns table (job_id bigint, module_id uuid)
language sql stable set search_path = '' as $$
  select j.id, j.module_id from private.set_members as m join public.provision_jobs as j on j.id = m.job_id
  join public.modules as o on o.id = j.module_id and o.deleted_at is null
  where m.set_id = p_set and j.status = 'FAILED' order by j.module_id limit 500
$$;

create function private.retry_set(p_set uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.plan');
  v_modules pg_catalog.uuid[];
  v_job bigint;
  v_refusal pg_catalog.text;
  v_hint pg_catalog.text;
  v_retried integer := 0;
  v_left_out integer;
begin
  perform private.need(private.verb_to_run(v_set.type), v_set.org_id, v_set.path);
  -- Another retry of the set comes after this one; and states come before rows, as in the retry of one job.
  perform pg_advisory_xact_lock(private.lock_key('set', v_set.org_id::pg_catalog.text));
  v_modules := array(select f.module_id from private.failed_jobs(p_set) as f);
  perform private.lock_states(v_set.org_id, v_modules);
  for v_job in select f.job_id from private.failed_jobs(p_set) as f where f.module_id = any (v_modules) loop
    begin
      perform private.retry_job(v_job, 'Retry of what failed in a set.');
      v_retried := v_retried + 1;
    exception
      when others then
        if sqlstate not like 'RY%' then
          raise;
        end if;
        get stacked diagnostics v_hint = pg_exception_hint;
        v_refusal := sqlerrm;
    end;
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
    perform private.fail('RY409', format('No job of this set can be retried: %s', v_refusal), v_hint);
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

-- ## reviews

-- Reviews: all plans of a set on one page, in the steps of their order. A member applies all of them or some: the saved
-- plans become one ordered set of applies, each of exactly the plan that was reviewed. Jobs of a set that wait for
-- approval are approved in the same act. An apply of a plan continues the set of plans: its previews and what waited
-- for it are planned for real.

-- The members of a set with their step, their plan or other job, the apply of that plan, and what may be decided:
-- approve (a job waits for somebody) or apply (a saved plan can be applied).
create function private.review_rows(p_set public.job_sets) returns table (
  module_id uuid, module_path text, step integer, job_id bigint, job_number bigint, status public.job_status,
  summary jsonb, is_preview boolean, message text, awaited_id bigint, apply_number bigint,
  apply_status public.job_status, decision text)
language sql stable set search_path = '' as $$
  with recursive place (id, step) as (
    select m.module_id, 1 from private.set_members as m where m.set_id = p_set.id
    union
    select e.after_id, p.step + 1 from place as p join private.set_edges as e on e.set_id = p_set.id
      and e.before_id = p.id
  ), step as materialized (
    select p.id, max(p.step) as step from place as p group by p.id
  )
  select m.module_id, coalesce(j.module_path, o.path), s.step, j.id, j.number, j.status, coalesce(j.plan_summary,
      (select p.plan_summary from public.provision_jobs as p where p.id = j.plan_job_id)),
    coalesce(j.payload #> '{options,preview}' = 'true', false), coalesce(m.left_out, j.error ->> 'message', w.problem),
    coalesce(a.id, j.id), a.number, a.status,
    case when w.problem is not null then null when coalesce(a.status, j.status) = 'AWAITING_APPROVAL' then 'approve'
      when p_set.type = 'PLAN' and j.status = 'SUCCEEDED' and private.is_applied_next(j.payload, j.plan_summary)
        and coalesce(a.status, 'FAILED') in ('FAILED', 'CANCELLED')
        and j.planned_serial = private.state_serial(m.module_id) then 'apply' end
  from private.set_members as m
  join step as s on s.id = m.module_id
  left join public.provision_jobs as j on j.id = m.job_id
  left join public.modules as o on o.id = m.module_id
  left join lateral (select a.id, a.number, a.status from public.provision_jobs as a where a.plan_job_id = j.id
    order by a.id desc limit 1) as a on p_set.type = 'PLAN'
  left join lateral (select private.plan_promotion_problem(j) as problem) as w
    on j.type = 'PLAN' and private.is_applied_next(j.payload, j.plan_summary)
  where m.set_id = p_set.id
$$;

create function private.set_review(p_org uuid, p_set uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.read');
begin
  if v_set.org_id <> p_org then
    perform private.fail('RY404', 'There is no such set.');
  end if;
  return private.set_json(v_set) || jsonb_build_object('rows', (
    select coalesce(jsonb_agg(jsonb_build_object('module_id', r.module_id, 'module_path', r.module_path, 'step', r.step,
      'job_number', r.job_number, 'status', r.status, 'is_preview', r.is_preview, 'message', left(r.message, 500),
      'counts', (select jsonb_object_agg(n, private.plan_count(r.summary, array[n]))
        from unnest('{create,update,replace,delete}'::pg_catalog.text[]) as n),
      'has_changes', r.summary -> 'has_changes' = 'true', 'apply_number', r.apply_number,
      'apply_status', r.apply_status, 'decision', r.decision) order by r.step, r.module_path), '[]')
    from private.review_rows(v_set) as r));
end;
$$;
comment on function private.set_review is
  'All jobs of a set by the steps of their order: what each plan changes, whether it is a preview, what each module '
  'waits for, the apply of the plan, and what may be decided: approve or apply. Members.';
grant execute on function private.set_review to authenticated;

-- Starts an ordered set that applies these reviewed plans of another set.
create function private.apply_plans(p_plans public.job_sets, p_modules uuid[], p_jobs bigint[]) returns public.job_sets
language plpgsql set search_path = '' as $$
declare
  v_set public.job_sets;
begin
  perform private.refuse_second_set(p_plans.org_id, 'APPLY', p_plans.path);
  insert into public.job_sets (org_id, type, path, options, created_by, created_by_label)
  values (p_plans.org_id, 'APPLY', p_plans.path, jsonb_build_object('priority', 150, 'reason',
    'Reviewed with its set.'), private.caller_id(), private.caller_label(p_plans.org_id)) returning * into v_set;
  perform private.add_members(v_set, p_modules);
  update private.set_members as m set plan_job_id = p.job_id
  from unnest(p_modules, p_jobs) as p (module_id, job_id) where m.set_id = v_set.id and m.module_id = p.module_id;
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audit(v_set.org_id, 'set.started', 'set', v_set.id::pg_catalog.text, 'APPLY '
    || coalesce(nullif(v_set.path, ''), 'all modules'), jsonb_build_object('modules', cardinality(p_modules), 'plans',
      p_plans.id));
  return v_set;
end;
$$;

create function private.confirm_set(p_set uuid, p_modules uuid[] default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'job.apply');
  v_row pg_catalog.record;
  v_refusals pg_catalog.jsonb := '[]';
  v_approved integer := 0;
  v_modules pg_catalog.uuid[] := '{}';
  v_plans bigint[] := '{}';
  v_applies public.job_sets;
begin
  perform pg_advisory_xact_lock(private.lock_key('set', v_set.org_id::pg_catalog.text));
  -- States before rows, as for a decision about one job.
  perform private.lock_module_states(v_set.org_id, array(select r.module_id from private.review_rows(v_set) as r
    where r.decision is not null and (p_modules is null or r.module_id = any (p_modules))));
  for v_row in select r.* from private.review_rows(v_set) as r
    where r.decision is not null and (p_modules is null or r.module_id = any (p_modules)) order by r.step, r.module_id
  loop
    if v_row.decision = 'apply' then
      v_modules := v_modules || v_row.module_id;
      v_plans := v_plans || v_row.job_id;
      continue;
    end if;
    begin
      perform private.approve_job(v_row.awaited_id, 'approve');
      v_approved := v_approved + 1;
    exception
      when others then
        if sqlstate not like 'RY%' then
          raise;
        end if;
        v_refusals := v_refusals || jsonb_build_object('module_path', v_row.module_path, 'message', sqlerrm);
    end;
  end loop;
  if v_modules <> '{}' then
    v_applies := private.apply_plans(v_set, v_modules, v_plans);
  elsif v_approved = 0 then
    perform private.fail('RY409', format('%s', coalesce(v_refusals #>> '{0,message}',
        'No chosen plan of this set can be applied.')),
      'Look at the review again: a plan without changes, a preview and an applied plan cannot be applied.');
  end if;
  return jsonb_build_object('approved', v_approved, 'applying', cardinality(v_modules), 'refused', v_refusals,
    'set_id', v_applies.id);
end;
$$;
comment on function private.confirm_set is
  'Decides about jobs of a set, all or those of some modules: approves what waits for it, and applies saved plans as '
  'one ordered set, each exactly as it was reviewed. Operators.';
grant execute on function private.confirm_set to authenticated;
