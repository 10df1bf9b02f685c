-- State changes: jobs of the type STATE move, remove and import resources of a state, and change no infrastructure. The
-- engine does it on a runner, as a person would with `state mv`. One module's state is written through the runner's
-- backend, as by every apply. A move between two modules is written in one call, so both states change or neither.

-- The module that resources are moved to, if that is another one.
create function private.other_module(p_change jsonb) returns uuid language sql immutable as $$
  select case when p_change ->> 'module' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    then (p_change ->> 'module')::pg_catalog.uuid end
$$;

-- Whether a text can be one argument of an engine: neither an option nor more than one line.
create function private.is_argument(p_text text) returns boolean language sql immutable as $$
  select coalesce(length(p_text) between 1 and 1000 and p_text !~ '^-' and p_text !~ '[[:cntrl:]]', false)
$$;

-- Refuses a change that no engine could carry out.
create function private.check_state_action(p_change jsonb) returns void language plpgsql immutable as $$
declare
  v_action pg_catalog.text := p_change ->> 'action';
  v_addresses pg_catalog.text[];
begin
  if jsonb_typeof(p_change) = 'object' and jsonb_typeof(p_change -> 'addresses') = 'array' then
    perform private.refuse_unknown_keys(p_change, array['action', 'addresses', 'to', 'id', 'module']);
    v_addresses := array(select jsonb_array_elements_text(p_change -> 'addresses'));
  end if;
  if v_addresses is null or v_action is null or v_action not in ('move', 'remove', 'import')
    or cardinality(v_addresses) not between 1 and (case when v_action = 'remove' then 100 else 1 end)
    or not (select bool_and(private.is_argument(a)) from unnest(v_addresses) as a)
    or p_change ? 'to' <> (v_action = 'move') or p_change ? 'to' and not private.is_argument(p_change ->> 'to')
    or p_change ? 'id' <> (v_action = 'import') or p_change ? 'id' and not private.is_argument(p_change ->> 'id')
    or p_change ? 'module' and (v_action <> 'move' or private.other_module(p_change) is null) then
    perform private.fail('RY422', 'The change of the state cannot be read.',
      'Write {"action": "move", "addresses": ["a.b"], "to": "c.d"}, with "module" for another module; {"action": '
      '"remove", "addresses": […]} of at most 100; or {"action": "import", "addresses": ["a.b"], "id": "…"}.');
  end if;
end;
$$;

-- Refuses a change of states that the caller may not write, that are not kept here, or that a job is using.
create function private.check_state_change(p_modules uuid[], p_change jsonb) returns void language plpgsql stable as $$
declare
  v_other pg_catalog.uuid := private.other_module(p_change);
  v_first public.modules := private.my_module(p_modules[1], 'state.write');
  v_module public.modules;
begin
  perform private.fail('RY422', 'One job changes the state of one module, or of two different ones.',
    'Name one module; a second one only to move resources there.')
  where cardinality(p_modules) > 1 or v_other = v_first.id;
  for v_module in select m.* from unnest(array_remove(p_modules || v_other, null)) as p (id)
    cross join lateral private.my_module(p.id, 'state.write') as m loop
    perform private.refuse_own_backend(v_module.id);
    perform private.fail('RY422', format('The state of "%s" is changed with Pulumi itself.', v_module.path),
      'Pull it, run "pulumi state" on it, and push it.')
    where v_module.engine = 'pulumi' or v_module.org_id <> v_first.org_id;
    perform private.fail('RY423', format('A job is using the state of "%s".', v_module.path),
      'Wait until it is done, then change the state.')
    where exists (select from private.state_locks as l where l.module_id = v_module.id)
      or private.has_writer(v_module.id);
  end loop;
  perform private.fail('RY409', format('Runyard has no state of "%s".', v_first.path), 'Bring it in, or apply first.')
  where p_change ->> 'action' <> 'import' and private.state_serial(v_first.id) < 0;
end;
$$;

-- Refuses a STATE job without a change, another job with one, and options that it has no use for.
create function private.check_state_job(p_type public.job_type, p_modules uuid[], p_options jsonb) returns void
language sql stable as $$
  select private.fail('RY422', 'A STATE job has a state_change, and no option of plans and applies.',
    'Enqueue a STATE with state_change.')
  where p_type <> 'STATE' or not coalesce(p_options, '{}') ? 'state_change'
    or p_options ?| array['destroy', 'refresh_only', 'targets', 'replace', 'upload_id', 'auto_apply', 'confirm',
      'plan_job_id', 'bring_state'];
  select private.check_state_action(p_options -> 'state_change');
  select private.check_state_change(p_modules, p_options -> 'state_change');
  select private.refuse_locked_modules(array_remove(array[private.other_module(p_options -> 'state_change')], null))
$$;

-- Describes a change of a state in one line of at most 500 characters.
create function private.state_change_words(p_change jsonb) returns text language sql stable as $$
  select left(case p_change ->> 'action'
    when 'move' then format('Move %s to %s', p_change #>> '{addresses,0}', p_change ->> 'to')
      || coalesce((select format(' of %s', m.path) from public.modules as m
        where m.id = private.other_module(p_change)), '')
    when 'import' then format('Import %s as %s', p_change ->> 'id', p_change #>> '{addresses,0}')
    else format('Remove %s from the state', (select string_agg(a, ', ')
      from jsonb_array_elements_text(p_change -> 'addresses') as a)) end, 500)
$$;

-- The module that the calling attempt moves resources to. Locks both states, always in the same order.
create function private.owned_destination(p_job bigint, p_attempt integer, out v_other uuid) language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  select * into v_job from public.provision_jobs where id = p_job;
  v_other := private.other_module(v_job.payload #> '{options,state_change}');
  perform private.lock_module_states(v_job.org_id, array[v_job.module_id, v_other]) where v_other is not null;
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  perform private.fail('RY404', 'The module that the resources move to does not exist.', 'It may have been removed.')
  where v_other is null or v_job.type <> 'STATE' or not exists (select from public.modules as m
    where m.id = v_other and m.org_id = v_job.org_id and m.deleted_at is null);
end;
$$;

create function private.worker_destination_state(p_job bigint, p_attempt integer) returns jsonb
language sql security definer set search_path = '' as $$
  select private.state_json(private.owned_destination(p_job, p_attempt))
$$;
comment on function private.worker_destination_state is 'The state of the module that a STATE job moves resources to.';

create function private.worker_move_states(p_job bigint, p_attempt integer, p_from text, p_to text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_other pg_catalog.uuid := private.owned_destination(p_job, p_attempt);
  v_module pg_catalog.uuid := (select j.module_id from public.provision_jobs as j where j.id = p_job);
  v_from pg_catalog.jsonb;
  v_to pg_catalog.jsonb;
begin
  perform private.refuse_own_backend(m) from unnest(array[v_module, v_other]) as m;
  v_from := private.succeed_state(v_module, p_from, p_job, p_attempt);
  v_to := private.succeed_state(v_other, p_to, p_job, p_attempt);
  -- After the writes: a call that is repeated, because its answer was lost, has been carried out already.
  perform private.fail('RY423', 'A job is using one of the two states.', 'Wait until it is done, then move again.')
  where (v_from ->> 'is_unchanged' = 'false' or v_to ->> 'is_unchanged' = 'false') and (private.has_writer(v_other)
    or exists (select from private.state_locks as l where l.module_id in (v_module, v_other)));
  perform private.wake_org(m.org_id, 'modules', m.id::pg_catalog.text) from public.modules as m where m.id = v_other;
  return jsonb_build_object('from', v_from, 'to', v_to);
end;
$$;
comment on function private.worker_move_states is
  'Writes the states of both modules that a STATE job moves resources between: both or neither. Refused while another '
  'job uses one of them, and when one has changed since it was read.';
