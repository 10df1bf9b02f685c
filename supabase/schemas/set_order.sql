-- The order of sets: when the job of each member is placed.
--
-- A set goes in the order of its modules' dependencies, a DESTROY backwards: private.placeable_members is the rule. The
-- end of a job places what waited for it, in the same transaction; a failure leaves out what depends on it. A call that
-- changes members of an ordered set has the set's lock, which comes after routing and states: behind it, states are
-- locked only if they can be had at once, and the sweep places what could not be placed.
--
-- Plans of a set see what the plans before them would change: private.open_bindings is the rule. A plan that uses a
-- value that is only planned is a preview and is never applied; one whose value is not known yet waits for an apply.

-- ## order
-- Adds modules to a new set, with the order between them.
create function private.add_members(p_set public.job_sets, p_modules uuid[]) returns void language sql as $$
  with edge as materialized (
    select case when p_set.type = 'DESTROY' then d.producer_id else d.consumer_id end as after_id,
      case when p_set.type = 'DESTROY' then d.consumer_id else d.producer_id end as before_id
    from public.module_dependencies as d
    where d.org_id = p_set.org_id and d.consumer_id = any (p_modules) and d.producer_id = any (p_modules)
  ), member as (
    select m.id, null::pg_catalog.uuid as before_id, null::pg_catalog.uuid as after_id from unnest(p_modules) as m (id)
    union all select e.after_id, e.before_id, null from edge as e
    union all select e.before_id, null, e.after_id from edge as e
  )
  insert into private.set_members (set_id, module_id, org_id, waits_for, awaited_by)
  select p_set.id, m.id, p_set.org_id, array_remove(array_agg(m.before_id), null),
    array_remove(array_agg(m.after_id), null) from member as m group by m.id;
  update public.job_sets as s set is_ordered = true where s.id = p_set.id
    and exists (select from private.set_members as m where m.set_id = p_set.id and m.waits_for <> '{}')
$$;

-- The members of a set that wait for the apply of others, with those others, in words.
create function private.waits_for_apply(p_set uuid) returns table (consumer_id uuid, producer_id uuid, words text)
language sql stable as $$
  select o.consumer_id, o.producer_id, format('Waits for %s: %s.', p.path, string_agg(format('`%s` %s', o.output,
    o.words), ', ' order by o.output))
  from (select distinct o.consumer_id, o.producer_id, o.output, o.words from private.open_bindings as o
    where o.set_id = p_set and not o.is_known) as o
  join public.modules as p on p.id = o.producer_id group by o.consumer_id, o.producer_id, p.path
$$;

-- Leaves out what depends on a member that failed, was cancelled or was left out, or that waits for an apply, and
-- nothing else: what was left out because of one that is retried waits again. The caller has the set's lock.
create function private.settle_set(p_set uuid) returns void
-- Each join has as many rows as the set, of which statistics may know nothing. (No JIT: see the runners' roles.)
language plpgsql set search_path = '' set enable_nestloop = off set jit = off as $$
begin
  with recursive ended as materialized (
    select m.module_id, m.awaited_by, format('Because of %s.', coalesce('#' || j.number,
      (select o.path from public.modules as o where o.id = m.module_id))) as words
    from private.set_members as m
    left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
    where m.set_id = p_set and (j.status in ('FAILED', 'CANCELLED')
      or m.job_id is null and m.left_out is not null and m.because_of is null)
  ), below (module_id, root, words) as (
    select unnest(f.awaited_by), f.module_id, f.words from ended as f
    union
    select unnest(m.awaited_by), b.root, b.words from below as b cross join lateral (
      select * from private.set_members as m where m.set_id = p_set and m.module_id = b.module_id offset 0) as m
  ), wait as materialized (
    select * from private.waits_for_apply(p_set)
  ), later (module_id) as (
    select w.consumer_id from wait as w
    union
    select unnest(m.awaited_by) from later as l cross join lateral (
      select * from private.set_members as m where m.set_id = p_set and m.module_id = l.module_id offset 0) as m
  ), cause as materialized (
    select distinct on (c.module_id) c.* from (
      select b.module_id, 1 as rank, b.root, b.words from below as b
      union all select w.consumer_id, 2, w.producer_id, w.words from wait as w
      union all select unnest(m.awaited_by), 3, m.module_id, format('Waits for %s, which waits for an apply.',
          (select o.path from public.modules as o where o.id = m.module_id))
      from later as l join private.set_members as m on m.set_id = p_set and m.module_id = l.module_id) as c
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
create function private.follow_in_set(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_set public.job_sets;
begin
  select s.* into v_set from private.set_members as m join public.job_sets as s on s.id = m.set_id
  where m.job_id = p_job.id and m.awaited_by <> '{}';
  if v_set.id is null then return; end if;
  if p_job.status = 'SUCCEEDED' then
    -- Two that end together: the second one sees the first one's end behind this lock.
    perform private.lock_set(v_set.id);
    if exists (select from private.planned_outputs as o where o.set_id = v_set.id
      and o.module_id = p_job.module_id and not o.is_known) then
      perform private.settle_set(v_set.id);
    end if;
    perform private.place_members(v_set, 200, false, v_set.id);
  -- Of a cancelled set many jobs end in one call, which settles it once.
  elsif v_set.cancelled_at is null and private.try_lock_set(v_set.id) then
    -- One transaction may end jobs of several sets, so it waits for none of them: the sweep settles the others.
    perform private.settle_set(v_set.id);
  end if;
end;
$$;

-- Replaces a job by its retry in their sets.
create function private.follow_retry() returns trigger language plpgsql as $$
declare
  v_set pg_catalog.uuid := (select m.set_id from private.set_members as m where m.job_id = new.retry_of);
begin
  if v_set is null then return null; end if;
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
-- Whether a plan of a member is a preview: a plan of the set changes an input of it, or it is an output of a preview.
create function private.is_preview(p_set uuid, p_module uuid) returns boolean language plpgsql stable as $$
begin
  return exists (select from private.open_bindings as o where o.set_id = p_set and o.consumer_id = p_module) or exists (
    select from public.module_bindings as b
    where b.consumer_id = p_module and b.producer_id = any ((select a.waits_for from private.set_members as a
      where a.set_id = p_set and a.module_id = p_module)::pg_catalog.uuid[])
      and (select (select j.payload #> '{options,preview}' from public.provision_jobs as j where j.id = m.job_id)
        from private.set_members as m where m.set_id = p_set and m.module_id = b.producer_id) = 'true');
end;
$$;

-- Enqueues a job for each of these members, all of sets that ask for the same. The caller holds their states' locks.
create function private.add_set_jobs(p_like public.job_sets, p_sets uuid[], p_modules uuid[]) returns void
language plpgsql as $$
declare
  v_part pg_catalog.record;
  v_jobs bigint[];
begin
  perform private.refuse_locked_modules(p_modules) where p_like.type in ('APPLY', 'DESTROY');
  for v_part in
    select m.plan_job_id, m.is_preview, array_agg(m.set_id order by m.module_id) as sets,
      array_agg(m.module_id order by m.module_id) as modules
    from unnest(p_sets, p_modules) as w (set_id, module_id)
    cross join lateral (
      select m.*, p_like.type = 'PLAN' and private.is_preview(m.set_id, m.module_id) as is_preview
      from private.set_members as m where m.set_id = w.set_id and m.module_id = w.module_id offset 0) as m
    group by m.plan_job_id, m.is_preview loop
    perform private.check_saved_plan(p_like.org_id, p_like.type, v_part.modules[1], v_part.plan_job_id)
    where v_part.plan_job_id is not null;
    v_jobs := private.add_module_jobs(p_like.org_id, p_like.type, v_part.modules, null, p_like.options
      || jsonb_strip_nulls(jsonb_build_object('plan_job_id', v_part.plan_job_id, 'preview',
        nullif(v_part.is_preview, false)))
      || jsonb_build_object('created_by', p_like.created_by, 'created_by_label', p_like.created_by_label)
      || case when p_like.schedule_id is null then '{}' else '{"is_by_schedule": true}' end::pg_catalog.jsonb);
    perform private.place_jobs(p_like.org_id, v_jobs, coalesce(p_like.options ->> 'reason',
      case when p_like.schedule_id is not null then 'By schedule' end));
    for v_at in 1 .. cardinality(v_jobs) loop
      update private.set_members set job_id = v_jobs[v_at]
      where set_id = v_part.sets[v_at] and module_id = v_part.modules[v_at];
    end loop;
  end loop;
end;
$$;

-- Of these members, those that may still be placed: meanwhile somebody else may have placed or cancelled one. The
-- caller has the locks of their states.
create function private.still_placeable(p_sets uuid[], p_modules uuid[]) returns table (sets uuid[], modules uuid[])
language sql stable set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(array_agg(p.set_id order by p.module_id), '{}'), coalesce(array_agg(p.module_id order by p.module_id),
    '{}')
  from unnest(p_sets, p_modules) as w (set_id, module_id) cross join lateral (
    select p.* from private.placeable_members as p where p.set_id = w.set_id and p.module_id = w.module_id
      and (select s.cancelled_at from public.job_sets as s where s.id = p.set_id) is null offset 0) as p
$$;

-- Enqueues jobs for these members, or writes down why one can have none.
create function private.place_these(p_like public.job_sets, p_sets uuid[], p_modules uuid[]) returns void
language plpgsql as $$
declare
  v_member pg_catalog.record;
begin
  perform private.add_set_jobs(p_like, p_sets, p_modules);
exception when others then
  if sqlstate not like 'RY%' then raise; end if;
  for v_member in select * from unnest(p_sets, p_modules) as p (set_id, module_id) loop
    begin
      perform private.add_set_jobs(p_like, array[v_member.set_id], array[v_member.module_id]);
    exception when others then
      if sqlstate not like 'RY%' then raise; end if;
      update private.set_members as m set left_out = left(sqlerrm, 500)
      where m.set_id = v_member.set_id and m.module_id = v_member.module_id;
    end;
  end loop;
  perform private.settle_set(s.id) from public.job_sets as s where s.id = any (p_sets) and s.is_ordered;
end;
$$;

-- Enqueues jobs for placeable members, of this set or of all sets that ask for the same; returns how many it checked.
create function private.place_members(p_like public.job_sets, p_limit integer, p_waits boolean, p_set uuid default null)
returns integer language plpgsql as $$
declare
  v_member pg_catalog.record;
  v_sets pg_catalog.uuid[] := '{}';
  v_modules pg_catalog.uuid[] := '{}';
begin
  -- A module that two sets want is placed for one of them now and for the other with the next batch. The sweep waits
  -- for nobody: a state that somebody is at is left to the next one.
  for v_member in select distinct on (m.module_id) m.set_id, m.module_id, s.is_ordered
    from public.job_sets as s
    cross join lateral (select * from private.placeable_members as m where m.set_id = s.id offset 0) as m
    where s.finished_at is null and s.cancelled_at is null and (p_set is null or s.id = p_set)
      and coalesce(s.starts_at <= now(), true)
      and (s.org_id, s.type, s.options, s.created_by_label) = (p_like.org_id, p_like.type, p_like.options,
        p_like.created_by_label)
      and s.created_by is not distinct from p_like.created_by and (s.schedule_id is null) = (p_like.schedule_id is null)
    order by m.module_id, s.created_at limit p_limit loop
    continue when not p_waits and not (private.try_lock_state(p_like.org_id, v_member.module_id)
      and (not v_member.is_ordered or private.try_lock_set(v_member.set_id)));
    v_sets := v_sets || v_member.set_id;
    v_modules := v_modules || v_member.module_id;
  end loop;
  if p_waits then perform private.lock_module_states(p_like.org_id, v_modules); end if;
  select p.sets, p.modules into v_sets, v_modules from private.still_placeable(v_sets, v_modules) as p;
  if v_modules <> '{}' then perform private.place_these(p_like, v_sets, v_modules); end if;
  return cardinality(v_modules);
end;
$$;

-- Previews of a set that the apply of a module makes out of date: those of its outputs, and those of these previews.
create function private.outdated_previews(p_set uuid, p_applied uuid) returns setof public.provision_jobs
language sql stable as $$
  with recursive preview as materialized (
    select unnest(m.waits_for) as before_id, m.module_id as after_id, m.job_id from private.set_members as m
    where m.set_id = p_set
      and (select j.payload #> '{options,preview}' from public.provision_jobs as j where j.id = m.job_id) = 'true'
  ), again (id, job_id) as (
    select p.after_id, p.job_id from preview as p where p.before_id = p_applied
    union
    select p.after_id, p.job_id from again as a join preview as p on p.before_id = a.id
  )
  select j.* from again as a join public.provision_jobs as j on j.id = a.job_id order by j.module_id
$$;

-- Places members of a set as the sweep does: one that fails costs nobody else theirs.
create function private.try_place(p_set public.job_sets, p_limit integer) returns integer language plpgsql as $$
begin
  return private.place_members(p_set, p_limit, false);
exception when others then
  raise warning 'sweep of set %: %', p_set.id, sqlerrm;
  return 0;
end;
$$;
