-- Locks, always in this order: routing, state, rows. A call that places a job shares the lock of the routing and takes
-- the lock of the job's state; a call that changes runners or assignments takes the lock of the routing alone.

-- Holds still what routing is computed from: shared for placing jobs, alone for changing runners.
create function private.lock_routing(p_org uuid, p_is_change boolean) returns void language plpgsql as $$
begin
  -- Putting a job into a lane shares the lock; changing runners or assignments takes it alone, so that no
  -- job lands in a lane that was computed from yesterday's assignments. A shared runner concerns every organisation.
  if p_is_change and p_org is null then
    perform pg_advisory_xact_lock(private.lock_key('routing'));
    return;
  end if;
  if p_is_change then
    perform pg_advisory_xact_lock_shared(private.lock_key('routing')),
      pg_advisory_xact_lock(private.lock_key('routing', p_org::pg_catalog.text));
  else
    perform pg_advisory_xact_lock_shared(private.lock_key('routing')),
      pg_advisory_xact_lock_shared(private.lock_key('routing', p_org::pg_catalog.text));
  end if;
end;
$$;

-- The same locks as lock_routing for one organisation, if they can be had at once.
create function private.try_lock_routing(p_org uuid, p_is_change boolean) returns boolean language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock_shared(private.lock_key('routing')) then
    return false;
  elsif p_is_change then
    return pg_try_advisory_xact_lock(private.lock_key('routing', p_org::pg_catalog.text));
  end if;
  return pg_try_advisory_xact_lock_shared(private.lock_key('routing', p_org::pg_catalog.text));
end;
$$;

-- Serialises what happens to the queues of these states of one organisation. Taken before any row of them.
create function private.lock_states(p_org uuid, p_states uuid[]) returns void language plpgsql as $$
begin
  -- The server's table of locks has room for a few thousand. Every state's lock comes after the routing lock, so one
  -- routing lock for the caller alone covers all states of the organisation.
  if cardinality(p_states) > 100 then
    perform private.lock_routing(p_org, true), set_config('runyard.locked_org', p_org::pg_catalog.text, true);
    return;
  end if;
  perform private.lock_routing(p_org, false);
  -- In one order everywhere, so that two who want the same states never wait for each other.
  perform pg_advisory_xact_lock(private.lock_key('state', s.id::pg_catalog.text))
  from (select distinct s as id from unnest(p_states) as s order by s) as s;
end;
$$;

-- The same for one state.
create function private.lock_state(p_org uuid, p_state uuid) returns void language plpgsql as $$
begin
  -- This transaction may have the lock of all states already: then 500 single ones would only fill the table of locks.
  if current_setting('runyard.locked_org', true) is distinct from p_org::pg_catalog.text then
    perform private.lock_routing(p_org, false),
      pg_advisory_xact_lock(private.lock_key('state', p_state::pg_catalog.text));
  end if;
end;
$$;

-- The same locks as lock_state, if they can be had at once.
create function private.try_lock_state(p_org uuid, p_state uuid) returns boolean language plpgsql as $$
begin
  return private.try_lock_routing(p_org, false)
    and pg_try_advisory_xact_lock(private.lock_key('state', p_state::pg_catalog.text));
end;
$$;

-- Serialises what happens to the queues of those of these modules that the organisation has.
create function private.lock_module_states(p_org uuid, p_modules uuid[]) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.lock_states(p_org, array(
    select m.id from unnest(p_modules) as p (id)
    cross join lateral (select m.id, m.org_id from public.modules as m where m.id = p.id offset 0) as m
    where m.org_id = p_org));
end;
$$;

-- Serialises what happens to the queues of these jobs' states.
create function private.lock_job_states(p_jobs bigint[]) returns void language plpgsql as $$
begin
  perform private.lock_states(q.org_id, q.states) from (
    select q.org_id, array_agg(q.state_key) as states from private.live_jobs as q where q.job_id = any (p_jobs)
    group by q.org_id order by q.org_id
  ) as q;
end;
$$;

-- Serialises every change of an organisation's dependencies. Taken before routing and states.
create function private.lock_dependencies(p_org uuid) returns void language sql as $$
  select pg_advisory_xact_lock(private.lock_key('dependencies', p_org::pg_catalog.text))
$$;

-- Lets one caller at a time change the variables of a path, so that versions count without gaps.
create function private.lock_variables(p_org uuid, p_path text) returns void language sql as $$
  select pg_advisory_xact_lock(private.lock_key('variables', p_org || p_path))
$$;

-- Serialises what happens to the members of one ordered set.
create function private.lock_set(p_set uuid) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(private.lock_key('set_order', p_set::pg_catalog.text));
end;
$$;

-- The same, if it can be had at once.
create function private.try_lock_set(p_set uuid) returns boolean language plpgsql as $$
begin
  return pg_try_advisory_xact_lock(private.lock_key('set_order', p_set::pg_catalog.text));
end;
$$;
