-- Moves: modules and states that come here, and resources that move between states.

-- ## moving in

-- Moving in: what exists comes here. A runner reads a repository that nobody has connected yet, or an archive, and
-- reports its root modules; a member chooses, and the chosen ones become modules. Their states come in by plans with
-- the option bring_state, as for every other module.

-- The source of a reading, checked: an address with a ref, or an archive with its SHA-256; and a group for its modules.
create function private.survey_source(p_source jsonb) returns jsonb
language plpgsql immutable set search_path = '' as $$
declare
  v_url pg_catalog.text := nullif(trim(p_source ->> 'url'), '');
  v_name pg_catalog.text := substring(lower(coalesce(p_source ->> 'name', v_url)) from '([^/:]+?)(?:\.git)?/*$');
begin
  perform private.refuse_unknown_keys(p_source, array['url', 'ref', 'group', 'name', 'archive', 'sha256']);
  if (v_url is null) = (p_source ->> 'archive' is null) or coalesce(p_source ->> 'group', '') = ''
    or length(p_source ->> 'ref') > 200 then
    perform private.fail('RY422', 'A reading needs a group, and either a repository''s URL or an archive.',
      'Write {"group": "platform", "url": "https://…", "ref": "main"}.');
  end if;
  if v_url is not null then
    perform private.check_source('git', jsonb_build_object('url', v_url));
  end if;
  return jsonb_strip_nulls(jsonb_build_object('url', v_url, 'ref', nullif(trim(p_source ->> 'ref'), ''), 'group',
    trim(both '/' from p_source ->> 'group'), 'name', left(coalesce(nullif(trim(both '-_' from regexp_replace(
      regexp_replace(v_name, '\.(tar(\.[a-z0-9]+)?|tgz|zip)$', ''), '[^a-z0-9_-]+', '-', 'g')), ''), 'main'), 63),
    'sha256', lower(p_source ->> 'sha256')));
end;
$$;

create function private.request_survey(p_org uuid, p_source jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_source pg_catalog.jsonb;
  v_body pg_catalog.bytea;
  v_job public.provision_jobs;
begin
  perform private.need('module.write', p_org, p_source ->> 'group');
  v_source := private.survey_source(p_source);
  v_job.org_id := p_org;
  v_job.type := 'RESOLVE';
  v_job.module_path := v_source ->> 'group';
  v_job.group_path := v_source ->> 'group';
  -- Somebody looks at the page and waits for it.
  v_job.priority := 90;
  v_job.approvals_required := 0;
  v_job.created_by := private.caller_id();
  v_job.created_by_label := private.caller_label(p_org);
  v_job.payload := jsonb_build_object('survey', v_source, 'git', jsonb_build_object('repository',
    coalesce(private.repository_key(v_source ->> 'url'), v_source ->> 'name')));
  v_job := private.add_job(v_job, 'To list its root modules.');
  if p_source ? 'archive' then
    v_body := decode(p_source ->> 'archive', 'base64');
    if encode(sha256(v_body), 'hex') is distinct from v_source ->> 'sha256' or octet_length(v_body) > 26214400 then
      perform private.fail('RY422', 'The archive is not what its SHA-256 says, or larger than 25 MiB.',
        'Send it again.');
    end if;
    insert into private.artifacts (job_id, attempt, name, body, sha256)
    values (v_job.id, 0, 'source', v_body, v_source ->> 'sha256');
  end if;
  perform private.audit(p_org, 'job.enqueued', 'job', v_job.number::pg_catalog.text,
    'RESOLVE ' || (v_source ->> 'name'));
  return jsonb_build_object('id', v_job.id, 'number', v_job.number);
exception
  when invalid_parameter_value then
    perform private.fail('RY422', 'The archive is not base64.', 'Send it again.');
end;
$$;
comment on function private.request_survey is
  'Lists on a runner the root modules of a repository {group, url, ref} or of an archive {group, name, archive '
  '(base64), sha256}; they are in the result of the job. Operators.';
grant execute on function private.request_survey to authenticated;

-- A finished reading that the caller may use.
create function private.my_survey(p_job bigint) returns public.provision_jobs
language plpgsql stable set search_path = '' as $$
declare
  v_job public.provision_jobs := private.my_job(p_job, 'module.write');
begin
  if v_job.status <> 'SUCCEEDED' or not v_job.payload ? 'survey' or v_job.result is null then
    perform private.fail('RY409', format('Job %s has not listed root modules.', v_job.number),
      'Read the source again.');
  end if;
  return v_job;
end;
$$;

create function private.survey(p_org uuid, p_number bigint) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_job public.provision_jobs;
begin
  perform private.need_seen(p_org);
  select * into v_job from public.provision_jobs as j where j.org_id = p_org and j.number = p_number
    and j.payload ? 'survey' and private.may_see(p_org, j.module_path);
  if v_job.id is null then
    perform private.fail('RY404', format('Job %s lists no root modules.', p_number), 'Read the source again.');
  end if;
  return jsonb_build_object('id', v_job.id, 'number', v_job.number, 'status', v_job.status, 'error', v_job.error,
    'runner', v_job.worker_name, 'source', v_job.payload -> 'survey', 'commit', v_job.result -> 'commit', 'roots', (
      select coalesce(jsonb_agg(r.root || jsonb_build_object('module_id', m.id, 'plan', p.plan) order by r.place), '[]')
      from jsonb_array_elements(v_job.result -> 'roots') with ordinality as r (root, place)
      left join public.modules as m on m.org_id = p_org and m.path = r.root ->> 'path' and m.deleted_at is null
      left join lateral (
        select jsonb_build_object('number', j.number, 'status', j.status, 'error', j.error, 'brought',
          j.result -> 'brought_state', 'summary', j.plan_summary - 'resources' - 'outputs') as plan
        from public.provision_jobs as j where j.module_id = m.id and j.type = 'PLAN' order by j.id desc limit 1
      ) as p on true));
end;
$$;
comment on function private.survey is
  'A reading by its number: its status, and its root modules with the paths that they would get, the modules that are '
  'at these paths, and the last plan of each with the state that it brought in. Members.';
grant execute on function private.survey to authenticated;

-- The specification of the module that a root becomes. An archive's files are kept in the module.
create function private.root_spec(p_job public.provision_jobs, p_root jsonb) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  v_survey pg_catalog.jsonb := p_job.payload -> 'survey';
  v_files pg_catalog.jsonb;
begin
  if not v_survey ? 'url' then
    select convert_from(a.body, 'UTF8')::pg_catalog.jsonb -> (p_root ->> 'folder') into v_files
    from private.artifacts as a where a.job_id = p_job.id and a.name = 'files.json' order by a.attempt desc limit 1;
  end if;
  return jsonb_build_object('engine', p_root -> 'engine', 'engine_version',
      case when length(p_root ->> 'required_version') between 1 and 50 then p_root -> 'required_version' end)
    || case when v_files is not null
      then jsonb_build_object('source_kind', 'inline', 'source', jsonb_build_object('files', v_files))
      else jsonb_build_object('source_kind', 'git', 'source', jsonb_strip_nulls(jsonb_build_object('url',
        v_survey -> 'url', 'ref', v_survey -> 'ref', 'subfolder', nullif(p_root ->> 'folder', '')))) end;
end;
$$;

create function private.bring_modules(p_job bigint, p_folders jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_job public.provision_jobs := private.my_survey(p_job);
  v_root pg_catalog.jsonb;
  v_parts pg_catalog.text[];
  v_done pg_catalog.jsonb := '[]';
begin
  for v_root in select r.root from jsonb_array_elements(v_job.result -> 'roots') with ordinality as r (root, place)
    where p_folders ? (r.root ->> 'folder') order by r.place
  loop
    if coalesce(v_root ->> 'problem', '') <> '' then
      perform private.fail('RY422', format('"%s" cannot come: %s', v_root ->> 'folder', v_root ->> 'problem'));
    end if;
    v_parts := regexp_match(v_root ->> 'path', '^(.*)/([^/]+)$');
    v_done := v_done || (private.create_module(v_job.org_id, v_parts[1], v_parts[2], private.root_spec(v_job, v_root))
      || jsonb_build_object('backend', v_root -> 'backend'));
  end loop;
  if jsonb_typeof(p_folders) is distinct from 'array'
    or jsonb_array_length(v_done) <> jsonb_array_length(p_folders) then
    perform private.fail('RY422', 'A folder that was named is not a root module of this reading.', 'Read it again.');
  end if;
  return (select jsonb_agg(jsonb_build_object('id', d -> 'id', 'path', d -> 'path', 'engine', d -> 'engine', 'backend',
    d -> 'backend')) from jsonb_array_elements(v_done) as d);
end;
$$;
comment on function private.bring_modules is
  'Creates a module for each of these folders (a list) of a reading, all or none, where the reading proposes it. '
  'Their states come in by enqueue_jobs with bring_state. Operators.';
grant execute on function private.bring_modules to authenticated;

-- ## state changes

-- State changes: jobs of the type STATE move, remove and import resources of a state, and change no infrastructure. The
-- engine does it on a runner, as a person would with `state mv`. One module's state is written through the runner's
-- backend, as by every apply. A move between two modules is written in one call, so both states change or neither.

-- The module that resources are moved to, if that is another one.
create function private.other_module(p_change jsonb) returns uuid
language sql immutable set search_path = '' as $$
  select case when p_change ->> 'module' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    then (p_change ->> 'module')::pg_catalog.uuid end
$$;

-- Whether a text can be one argument of an engine: neither an option nor more than one line.
create function private.is_argument(p_text text) returns boolean
language sql immutable set search_path = '' as $$
  select coalesce(length(p_text) between 1 and 1000 and p_text !~ '^-' and p_text !~ '[[:cntrl:]]', false)
$$;

-- Refuses a change that no engine could carry out.
create function private.check_state_action(p_change jsonb) returns void
language plpgsql immutable set search_path = '' as $$
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
create function private.check_state_change(p_modules uuid[], p_change jsonb) returns void
language plpgsql stable set search_path = '' as $$
declare
  v_other pg_catalog.uuid := private.other_module(p_change);
  v_first public.modules := private.my_module(p_modules[1], 'state.write');
  v_module public.modules;
begin
  if cardinality(p_modules) > 1 or v_other = v_first.id then
    perform private.fail('RY422', 'One job changes the state of one module, or of two different ones.',
      'Name one module; a second one only to move resources there.');
  end if;
  for v_module in select m.* from unnest(array_remove(p_modules || v_other, null)) as p (id)
    cross join lateral private.my_module(p.id, 'state.write') as m
  loop
    perform private.refuse_own_backend(v_module.id);
    if v_module.engine = 'pulumi' or v_module.org_id <> v_first.org_id then
      perform private.fail('RY422', format('The state of "%s" is changed with Pulumi itself.', v_module.path),
        'Pull it, run "pulumi state" on it, and push it.');
    end if;
    if exists (select from private.state_locks as l where l.module_id = v_module.id)
      or private.has_writer(v_module.id) then
      perform private.fail('RY423', format('A job is using the state of "%s".', v_module.path),
        'Wait until it is done, then change the state.');
    end if;
  end loop;
  if p_change ->> 'action' <> 'import' and private.state_serial(v_first.id) = 0 then
    perform private.fail('RY409', format('Runyard has no state of "%s".', v_first.path),
      'Bring it in, or apply first.');
  end if;
end;
$$;

-- Refuses a STATE job without a change, another job with one, and options that it has no use for.
create function private.check_state_job(p_type public.job_type, p_modules uuid[], p_options jsonb) returns void
language plpgsql stable set search_path = '' as $$
begin
  if p_type <> 'STATE' or not coalesce(p_options, '{}') ? 'state_change'
    or p_options ?| array['destroy', 'refresh_only', 'targets', 'replace', 'upload_id', 'auto_apply', 'confirm',
      'plan_job_id', 'bring_state'] then
    perform private.fail('RY422', 'A STATE job has a state_change, and no option of plans and applies.',
      'Enqueue a STATE with state_change.');
  end if;
  perform private.check_state_action(p_options -> 'state_change');
  perform private.check_state_change(p_modules, p_options -> 'state_change');
  perform private.refuse_locked_modules(array_remove(array[private.other_module(p_options -> 'state_change')], null));
end;
$$;

-- Describes a change of a state in one line of at most 500 characters.
create function private.state_change_words(p_change jsonb) returns text
language sql stable set search_path = '' as $$
  select left(case p_change ->> 'action'
    when 'move' then format('Move %s to %s', p_change #>> '{addresses,0}', p_change ->> 'to')
      || coalesce((select format(' of %s', m.path) from public.modules as m
        where m.id = private.other_module(p_change)), '')
    when 'import' then format('Import %s as %s', p_change ->> 'id', p_change #>> '{addresses,0}')
    else format('Remove %s from the state', (select string_agg(a, ', ')
      from jsonb_array_elements_text(p_change -> 'addresses') as a)) end, 500)
$$;

-- The module that the calling attempt moves resources to. Locks both states, always in the same order.
create function private.owned_destination(p_job bigint, p_attempt integer) returns uuid
language plpgsql set search_path = '' as $$
declare
  v_job public.provision_jobs;
  v_other pg_catalog.uuid;
begin
  select * into v_job from public.provision_jobs where id = p_job;
  v_other := private.other_module(v_job.payload #> '{options,state_change}');
  if v_other is not null then
    perform private.lock_module_states(v_job.org_id, array[v_job.module_id, v_other]);
  end if;
  perform private.owned_job(private.this_runner(), p_job, p_attempt);
  if v_other is null or v_job.type <> 'STATE' or not exists (select from public.modules as m
    where m.id = v_other and m.org_id = v_job.org_id and m.deleted_at is null) then
    perform private.fail('RY404', 'The module that the resources move to does not exist.', 'It may have been removed.');
  end if;
  return v_other;
end;
$$;

create function private.worker_destination_state(p_job bigint, p_attempt integer) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_other pg_catalog.uuid := private.owned_destination(p_job, p_attempt);
  v_state private.states;
begin
  select * into v_state from private.states where module_id = v_other;
  return jsonb_build_object('exists', v_state.module_id is not null, 'serial', v_state.serial, 'lineage',
    v_state.lineage, 'body', v_state.body);
end;
$$;
comment on function private.worker_destination_state is
  'The state of the module that a STATE job moves resources to.';
grant execute on function private.worker_destination_state to worker, executor;

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
  if (v_from ->> 'is_unchanged' = 'false' or v_to ->> 'is_unchanged' = 'false') and (private.has_writer(v_other)
    or exists (select from private.state_locks as l where l.module_id in (v_module, v_other))) then
    perform private.fail('RY423', 'A job is using one of the two states.', 'Wait until it is done, then move again.');
  end if;
  perform private.wake_org(m.org_id, 'modules', m.id::pg_catalog.text) from public.modules as m where m.id = v_other;
  return jsonb_build_object('from', v_from, 'to', v_to);
end;
$$;
comment on function private.worker_move_states is
  'Writes the states of both modules that a STATE job moves resources between: both or neither. Refused while another '
  'job uses one of them, and when one has changed since it was read.';
grant execute on function private.worker_move_states to worker, executor;
