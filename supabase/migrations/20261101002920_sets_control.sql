-- What people do with sets: plan all below a group or check all for drift, cancel the rest, retry what failed; and what
-- the sweep does with them.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.modules_below(p_org uuid, p_path text)
returns setof uuid
language sql stable
set search_path = ''
as $$
  select m.id from public.modules as m
  where m.org_id = p_org and m.deleted_at is null and (p_path = '' or m.path = p_path or starts_with(m.path, p_path
    || '/'))
$$;
comment on function private.modules_below(uuid, text) is
  'The modules at or below a path; "" is all of an organisation''s.';

create function private.need_target(p_org uuid, p_path text)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if p_path is null or p_path <> '' and not exists (select from public.groups as g where g.org_id = p_org
    and g.path = p_path)
    and not exists (select from public.modules as m where m.org_id = p_org and m.path = p_path and m.deleted_at is null)
      then
    perform private.fail('RY404', format('There is no module or group "%s".', left(p_path, 200)),
      'Write its whole path, such as platform/network; "" is all modules.');
  end if;
end;
$$;
comment on function private.need_target(uuid, text) is 'Refuses a path at which there is neither a module nor a group.';

create function private.start_set(p_org uuid, p_type public.job_type, p_path text, p_options jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_key pg_catalog.text := p_options ->> 'idempotency_key';
  v_set public.job_sets;
  v_members integer;
begin
  perform private.need_role(p_org, 'operator');
  if p_type is null or p_type not in ('PLAN', 'DRIFT') then
    perform private.fail('RY422', 'A set plans its modules, or checks them for drift.',
      'Ask for PLAN or DRIFT; apply what a plan found one by one.');
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
  if exists (select from public.job_sets as s where s.org_id = p_org and s.path = p_path and s.type = p_type
    and s.schedule_id is null and s.finished_at is null and private.is_set_open(s.id)) then
    perform private.fail('RY409', 'Such a set is running here.', 'Wait for it, or cancel the rest of it.');
  end if;
  insert into public.job_sets (org_id, type, path, options, idempotency_key, created_by, created_by_label)
  values (p_org, p_type, p_path, jsonb_build_object('priority', 150) || coalesce(p_options, '{}') - 'idempotency_key',
    v_key,
    private.caller_id(), private.caller_label(p_org)) returning * into v_set;
  insert into private.set_members (set_id, module_id, org_id) select v_set.id, m, p_org
    from private.modules_below(p_org, p_path) as m;
  get diagnostics v_members = row_count;
  if v_members = 0 then
    perform private.fail('RY409', 'There is no module below this group.', 'Create one first, or choose another group.');
  end if;
  -- Each of them holds an advisory lock until the end; the sweep places the rest.
  perform private.place_members(v_set, 1000, true);
  perform private.audit(p_org, 'set.started', 'set', v_set.id::pg_catalog.text, p_type || ' '
    || coalesce(nullif(p_path, ''), 'all modules'),
    jsonb_build_object('modules', v_members));
  return private.set_json(v_set);
end;
$$;
comment on function private.start_set(uuid, public.job_type, text, jsonb) is 'Body of public.start_set.';
grant execute on function private.start_set(uuid, public.job_type, text, jsonb) to authenticated;

create function private.is_set_open(p_set uuid)
returns boolean
language sql stable
set search_path = ''
as $$
  select exists (
    select from private.set_members as m left join public.provision_jobs as j on j.id = m.job_id
    where m.set_id = p_set and m.left_out is null
      and (j.id is null or j.status in ('QUEUED', 'AWAITING_APPROVAL', 'CLAIMED', 'PROCESSING')))
$$;
comment on function private.is_set_open(uuid) is 'Whether something of a set waits or runs.';

-- ---------------------------------------------------------------------------------------------- cancel, retry

create function private.cancel_waiting(p_set public.job_sets, p_limit integer)
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_job pg_catalog.record;
  v_count integer := 0;
begin
  update private.set_members set left_out = 'cancelled' where set_id = p_set.id and job_id is null and left_out is null;
  for v_job in
    select j.id, j.module_id, j.status from private.set_members as m join public.provision_jobs as j on j.id = m.job_id
    where m.set_id = p_set.id and j.status in ('QUEUED', 'AWAITING_APPROVAL') order by j.module_id limit p_limit
  loop
    -- What cannot be had at once is left to the sweep; what a runner takes meanwhile, runs.
    continue when not private.try_lock_state(p_set.org_id, v_job.module_id);
    perform from private.live_jobs as q where q.job_id = v_job.id and q.stage <> 'RUNNING' for update skip locked;
    continue when v_job.status = 'QUEUED' and not found;
    perform from public.provision_jobs as j where j.id = v_job.id
      and j.status = v_job.status for no key update skip locked;
    continue when not found;
    perform private.end_job(v_job.id, 'CANCELLED', 'cancelled', 'user', null, p_set.cancelled_by_label,
      'The rest of the set was cancelled.');
    v_count := v_count + 1;
  end loop;
  return v_count;
end;
$$;
comment on function private.cancel_waiting(public.job_sets, integer) is
  'Cancels what waits of a set whose rest was cancelled. What runs, finishes. Waits for nobody.';

create function private.cancel_set(p_set uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'operator');
begin
  if not private.is_set_open(p_set) then
    perform private.fail('RY409', 'Nothing of this set waits or runs.', 'What is done cannot be cancelled.');
  end if;
  update public.job_sets set cancelled_at = coalesce(cancelled_at, now()),
    cancelled_by_label = coalesce(cancelled_by_label, private.caller_label(v_set.org_id))
  where id = p_set returning * into v_set;
  perform private.cancel_waiting(v_set, 500);
  perform private.audit(v_set.org_id, 'set.cancelled', 'set', p_set::pg_catalog.text, v_set.type || ' ' || v_set.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.cancel_set(uuid) is 'Body of public.cancel_set.';
grant execute on function private.cancel_set(uuid) to authenticated;

create function private.retry_set(p_set uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_set public.job_sets := private.my_set(p_set, 'operator');
  v_failed bigint[];
  v_left_out integer;
begin
  v_failed := array(
    select j.id from private.set_members as m join public.provision_jobs as j on j.id = m.job_id
    join public.modules as o on o.id = j.module_id and o.deleted_at is null
    where m.set_id = p_set and j.status = 'FAILED' order by j.module_id limit 500);
  update private.set_members set left_out = null where set_id = p_set and left_out <> 'cancelled' and job_id is null;
  get diagnostics v_left_out = row_count;
  if v_failed = '{}' and v_left_out = 0 then
    perform private.fail('RY409', 'No job of this set failed.',
      'A job that needs attention is resolved on its own page.');
  end if;
  update public.job_sets set finished_at = null, cancelled_at = null, cancelled_by_label = null where id = p_set
    returning * into v_set;
  perform private.retry_job(f, 'Retry of what failed in a set.') from unnest(v_failed) as f;
  perform private.audit(v_set.org_id, 'set.retried', 'set', p_set::pg_catalog.text, v_set.type || ' ' || v_set.path,
    jsonb_build_object('jobs', cardinality(v_failed) + v_left_out));
  return private.set_json(v_set);
end;
$$;
comment on function private.retry_set(uuid) is 'Body of public.retry_set.';
grant execute on function private.retry_set(uuid) to authenticated;

-- ---------------------------------------------------------------------------------------------- what the sweep does

create function private.sweep_sets()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_set public.job_sets;
  v_count integer := 0;
  v_used pg_catalog.jsonb := '{}';
  v_left integer;
begin
  -- Fifty for each organisation, two hundred in all: people's own jobs are enqueued between two sweeps, and come first
  -- by their priority as well.
  for v_set in
    select distinct on (s.org_id, s.type, s.options, s.created_by, s.created_by_label) s.* from public.job_sets as s
    where s.finished_at is null and s.cancelled_at is null and exists (
      select from private.set_members as m where m.set_id = s.id and m.job_id is null and m.left_out is null)
    order by s.org_id, s.type, s.options, s.created_by, s.created_by_label, s.created_at
  loop
    v_left := least(50 - coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0), 200 - v_count);
    continue when v_left <= 0;
    v_left := private.place_members(v_set, v_left, false);
    v_count := v_count + v_left;
    v_used := v_used || jsonb_build_object(v_set.org_id::pg_catalog.text,
      coalesce((v_used ->> v_set.org_id::pg_catalog.text)::integer, 0) + v_left);
  end loop;
  for v_set in select * from public.job_sets as s where s.finished_at is null order by s.created_at limit 1000 loop
    if v_set.cancelled_at is not null then
      perform private.cancel_waiting(v_set, 200);
    end if;
    if not private.is_set_open(v_set.id) then
      update public.job_sets set finished_at = now() where id = v_set.id and finished_at is null;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_sets() is
  'Places jobs of sets, a batch for each organisation, cancels what waits of cancelled ones, and closes those that '
  'are done.';

revoke execute on all functions in schema private from public;
