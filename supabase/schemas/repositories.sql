-- Repositories: what people do with the connections of git.sql and with the way single modules follow them, and what
-- pages and commands show of both.

-- The link between a module and its repository, as pages and commands show it.
create function private.module_git_json(p_module public.modules) returns jsonb language sql stable as $$
  select jsonb_build_object('id', m.id, 'path', m.path, 'is_on', coalesce(g.is_on, true), 'branch', coalesce(g.branch,
    m.source ->> 'ref'), 'folder', coalesce(m.source ->> 'subfolder', ''), 'paths', coalesce(to_jsonb(g.paths), '[]'),
    'apply', a.apply, 'apply_from', a.apply_from, 'watched', coalesce(to_jsonb(g.watched), '[]'), 'seen_commit',
    g.seen_commit, 'seen_at', g.seen_at, 'applied_commit', g.applied_commit, 'applied_at', g.applied_at,
    'commits_ahead', g.commits_ahead, 'missing_folder', n.folder, 'moved_to', case when n.folder is not null
    then g.moved_to end, 'problem', case when n.folder is not null then private.missing_words(coalesce(g.seen_branch,
      'The repository'), n.folder, g.moved_to) end)
  from (select (p_module).*) as m left join public.module_git as g on g.module_id = m.id
  cross join lateral private.apply_mode(p_module) as a
  cross join lateral (select private.missing_folder(p_module, g) as folder) as n
$$;

-- A connection as pages and commands show it, with its modules.
create function private.connection_json(p_connection public.git_connections) returns jsonb language sql stable as $$
  select to_jsonb(p_connection) - array['heads', 'work_digest'] || jsonb_build_object('modules', (
    select coalesce(jsonb_agg(private.module_git_json(m) order by m.path), '[]')
    from private.modules_of_connection(p_connection) as m), 'last_report', (
    select jsonb_build_object('status', d.status, 'note', d.note, 'at', coalesce(d.finished_at, d.created_at))
    from public.deliveries as d where d.rule_id = p_connection.id order by d.id desc limit 1))
$$;

-- A connection that the caller may use so, locked as the end of a reading locks it: first its state, then its row.
create function private.my_connection(p_connection uuid, p_verb text, out v_connection public.git_connections)
language plpgsql as $$
declare
  v_seen pg_catalog.text[];
begin
  perform private.lock_state(c.org_id, c.id) from public.git_connections as c where c.id = p_connection
    and c.org_id in (select private.my_org_ids());
  select * into v_connection from public.git_connections where id = p_connection and removed_at is null
    and org_id in (select private.my_org_ids()) for update;
  v_seen := private.seen(v_connection.org_id);
  perform private.fail('RY404', 'There is no such connection.', 'It may have been removed.')
  where v_connection.id is null or v_seen is not null and not exists (
    select from private.modules_of_connection(v_connection) as m where private.is_seen(m.org_id, m.path, v_seen));
  perform private.need(p_verb, v_connection.org_id) where p_verb <> 'git.read';
end;
$$;

-- Writes a connection with the fields changed that a specification names.
create function private.save_connection(p_connection public.git_connections, p_spec jsonb)
returns public.git_connections language plpgsql as $$
declare
  v_new public.git_connections;
begin
  perform private.refuse_unknown_keys(p_spec, array['provider', 'url', 'base_url', 'webhook_secret', 'token',
    'poll_seconds', 'allows_forks', 'allows_identities']);
  v_new := jsonb_populate_record(p_connection, coalesce(p_spec, '{}') - array['webhook_secret', 'token']);
  perform private.check_source('git', jsonb_build_object('url', v_new.url));
  perform private.check_address(v_new.base_url);
  insert into public.git_connections as c (id, org_id, provider, url, repository, base_url, has_token, poll_seconds,
    allows_forks, allows_identities, next_poll_at, created_by, created_by_label)
  values (coalesce(p_connection.id, gen_random_uuid()), v_new.org_id, v_new.provider, trim(v_new.url),
    private.repository_key(v_new.url), v_new.base_url, case when p_spec ? 'token'
      then p_spec ->> 'token' is not null
      -- A token is for the place that it was written for.
      else coalesce(p_connection.has_token, false) and (p_connection.provider, p_connection.url, p_connection.base_url)
        is not distinct from (v_new.provider, v_new.url, v_new.base_url) end, v_new.poll_seconds,
    coalesce(v_new.allows_forks, false), coalesce(v_new.allows_identities, false), now(),
    private.caller_id(), private.caller_label(v_new.org_id))
  on conflict (id) do update set provider = excluded.provider, url = excluded.url, repository = excluded.repository,
    base_url = excluded.base_url, has_token = excluded.has_token, poll_seconds = excluded.poll_seconds,
    allows_forks = excluded.allows_forks, allows_identities = excluded.allows_identities, next_poll_at = now()
  returning * into v_new;
  insert into private.git_secrets as s (connection_id, webhook_secret, token) values (v_new.id, coalesce(
    p_spec ->> 'webhook_secret', (select o.webhook_secret from private.git_secrets as o
      where o.connection_id = v_new.id)), p_spec ->> 'token')
  on conflict (connection_id) do update set webhook_secret = excluded.webhook_secret,
    token = case when p_spec ? 'token' then excluded.token when v_new.has_token then s.token end;
  return v_new;
exception
  when unique_violation then
    perform private.fail('RY409', 'This repository is connected already.', 'Change that connection instead.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'The connection is not valid.', 'It needs provider (github, gitlab, gitea, '
      'generic), url and a webhook secret that the project''s function notify has sealed; base_url is http(s), '
      'poll_seconds 0 or 60 to 86400.');
end;
$$;

create function private.connect_repository(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_new public.git_connections;
begin
  perform private.need('git.manage', p_org);
  perform private.fail('RY413', 'An organisation has at most 1,000 repositories.', 'Disconnect some first.')
  where (select count(*) from public.git_connections as c where c.org_id = p_org and c.removed_at is null) >= 1000;
  v_new := private.save_connection(jsonb_populate_record(null::public.git_connections,
    jsonb_build_object('org_id', p_org, 'poll_seconds', 300)), p_spec);
  perform private.audit(p_org, 'git.connected', 'git_connection', v_new.id::pg_catalog.text, v_new.repository);
  return private.connection_json(v_new);
end;
$$;
comment on function private.connect_repository is
  'Connects a repository {provider, url, base_url, webhook_secret, token, poll_seconds, allows_forks, '
  'allows_identities}; secret and token come sealed by the function notify. Admins.';

create function private.update_git_connection(p_connection uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.git_connections := private.my_connection(p_connection, 'git.manage');
  v_new public.git_connections := private.save_connection(v_old, p_spec);
begin
  -- Its installation is at the place that it was proved for.
  if v_old.app_id is not null and (v_old.provider, v_old.url, v_old.base_url)
    is distinct from (v_new.provider, v_new.url, v_new.base_url) then
    update public.git_connections set app_id = null, installation_id = null where id = p_connection
    returning * into v_new;
    perform private.audit(v_new.org_id, 'git.app_ended', 'git_connection', p_connection::pg_catalog.text,
      v_new.repository, jsonb_build_object('reason', 'The GitHub App was for the former address of the repository.'));
  end if;
  perform private.audit(v_new.org_id, 'git.updated', 'git_connection', p_connection::pg_catalog.text,
    v_new.repository, jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_new))));
  return private.connection_json(v_new);
end;
$$;
comment on function private.update_git_connection is
  'Changes the fields of a connection that are named; a new webhook secret counts at once, another provider, url or '
  'base_url ends its GitHub App. Admins.';

create function private.disconnect_repository(p_connection uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections := private.my_connection(p_connection, 'git.manage');
begin
  update public.git_connections set removed_at = now(), has_token = false where id = p_connection;
  delete from private.git_secrets where connection_id = p_connection;
  perform private.audit(v_connection.org_id, 'git.disconnected', 'git_connection', p_connection::pg_catalog.text,
    v_connection.repository);
  return private.connection_json(v_connection);
end;
$$;
comment on function private.disconnect_repository is
  'Removes a connection with its secrets: its deliveries are refused from now on. Modules and jobs stay. Admins.';

create function private.poll_repository(p_connection uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections := private.my_connection(p_connection, 'git.poll');
  v_job bigint := private.need_resolve(v_connection, 'Poll requested');
begin
  perform private.audit(v_connection.org_id, 'git.polled', 'git_connection', p_connection::pg_catalog.text,
    v_connection.repository);
  return (select to_jsonb(j) from public.provision_jobs as j where j.id = v_job);
end;
$$;
comment on function private.poll_repository is 'Queues the job that reads a repository, unless one is. Operators.';

create function private.list_git_connections(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('git.read', p_org);
  select coalesce(jsonb_agg(private.connection_json(c) order by c.repository), '[]')
  from public.git_connections as c where c.org_id = p_org and c.removed_at is null
$$;
comment on function private.list_git_connections is
  'Repositories with their state and their modules: branch, watched paths, the commits seen and applied. Members.';

-- A delivery as pages and commands show it: with the numbers of the job that decided it, and of those that it led to.
create function private.delivery_json(p_delivery public.git_deliveries) returns jsonb language sql stable as $$
  select to_jsonb(p_delivery) || jsonb_build_object('job_number', private.job_number(p_delivery.job_id), 'jobs', array(
    select private.job_number(m.job_id) from private.set_members as m
    where m.set_id = any (p_delivery.set_ids) and m.job_id is not null order by 1 limit 100))
$$;

create function private.list_git_deliveries(
  p_org uuid, p_connection uuid default null, p_before bigint default null, p_limit integer default 50
) returns jsonb language sql stable security definer set search_path = '' as $$
  select private.need('git.read', p_org);
  select private.fail('RY422', 'A page has 1 to 200 deliveries of a repository.', 'Send a limit in that range.')
  where coalesce(p_limit, 0) not between 1 and 200;
  select to_jsonb(array(select private.delivery_json(d) || jsonb_build_object('repository', c.repository)
    from public.git_deliveries as d join public.git_connections as c on c.id = d.connection_id
    where d.org_id = p_org and (p_connection is null or d.connection_id = p_connection)
      and d.id < coalesce(p_before, 9223372036854775807) order by d.id desc limit p_limit))
$$;
comment on function private.list_git_deliveries is
  'Events of repositories, newest first, what they led to, with the numbers of those jobs, and why. Members.';

create function private.set_module_git(p_module uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.write');
  v_old public.module_git;
  v_new public.module_git;
begin
  perform private.refuse_unknown_keys(p_spec, array['is_on', 'branch', 'paths', 'apply']);
  insert into public.module_git (module_id, org_id) values (p_module, v_module.org_id) on conflict do nothing;
  select * into v_old from public.module_git where module_id = p_module for update;
  v_new := jsonb_populate_record(v_old, p_spec);
  perform private.need('job.apply', v_module.org_id, v_module.path) where v_new.apply is distinct from v_old.apply;
  perform private.fail('RY422', format('"%s" is not a path inside of a repository.', left(p, 100)),
    'Write it from the root of the repository, such as modules/network.')
  from unnest(v_new.paths) as p where p is null or p !~ '^[^/\s].*$' or length(p) > 400 or p ~ '(^|/)\.\.?(/|$)';
  -- With other paths or another branch, what was seen compares with nothing.
  update public.module_git as g set is_on = v_new.is_on, branch = v_new.branch, paths = v_new.paths,
    apply = v_new.apply, seen_fingerprint = case when s.is_same then g.seen_fingerprint end,
    applied_fingerprint = case when s.is_same then g.applied_fingerprint end
  from (select (v_new.paths = v_old.paths and v_new.branch is not distinct from v_old.branch) as is_same) as s
  where module_id = p_module returning g.* into v_new;
  perform private.audited(to_jsonb(v_module), 'module.git', v_module.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_new))));
  return to_jsonb(v_new);
exception when check_violation or not_null_violation or invalid_text_representation or invalid_parameter_value
  or array_subscript_error then
  perform private.fail('RY422', 'A setting is not valid.',
    'is_on is true or false, branch a name, paths a list of at most 50, apply after_merge, before_merge, '
    'merge_queue, never, or null for the mode of its group.');
end;
$$;
comment on function private.set_module_git is 'How a module follows git: {is_on, branch, paths, apply}. Operators.';

create function private.move_module_folder(p_module uuid, p_folder text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.write');
  v_connection public.git_connections;
begin
  select c.* into v_connection from public.git_connections as c join public.module_git as g on g.module_id = p_module
  where c.org_id = v_module.org_id and c.removed_at is null and g.moved_to = p_folder
    and c.repository = private.repository_key(v_module.source ->> 'url')
    and private.missing_folder(v_module, g) is not null;
  perform private.fail('RY409', format('The content of "%s" was not found in "%s".', v_module.path, p_folder),
    'Read the repository again, or write the subfolder into the source of the module.')
  where v_connection.id is null;
  -- Its plan shows whether anything but the name has changed.
  perform private.request_resolve(v_connection, format('The folder of %s has moved', v_module.path));
  return private.update_module(p_module, jsonb_build_object('source', v_module.source - 'subfolder'
    || case when p_folder = '.' then '{}' else jsonb_build_object('subfolder', p_folder) end));
end;
$$;
comment on function private.move_module_folder is
  'Makes a module use the folder in which a runner found its content, and reads the repository. State, history and '
  'settings of the module stay. Operators.';

-- Describes the link between a module and its connected repository; null where its repository is not connected.
create function private.module_repository(p_module public.modules) returns jsonb language sql stable as $$
  select private.module_git_json(p_module) || jsonb_build_object('repository', c.repository, 'error', c.error,
    'connection_id', c.id)
  from public.git_connections as c where c.org_id = p_module.org_id and c.removed_at is null
    and p_module.source_kind = 'git' and c.repository = private.repository_key(p_module.source ->> 'url')
$$;

-- The RESOLVE job that will read the repository after this moment: one that is queued, or a new one. Null where no
-- module uses the repository. Routed as the jobs of its first module: that runner fetches the repository anyway.
create function private.request_resolve(p_connection public.git_connections, p_reason text) returns bigint
language plpgsql as $$
declare
  v_module public.modules;
  v_job public.provision_jobs;
begin
  perform private.lock_state(p_connection.org_id, p_connection.id);
  -- A job that nobody has claimed has fetched nothing yet.
  select j.* into v_job from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
  where q.state_key = p_connection.id and q.stage in ('WAITING', 'BACKOFF', 'READY') limit 1;
  if v_job.id is not null then return v_job.id; end if;
  select * into v_module from private.modules_of_connection(p_connection) limit 1;
  if v_module.id is null then return null; end if;
  -- It takes seconds, and people wait for what follows from it.
  v_job := private.new_job(p_connection.org_id, 'RESOLVE', 90);
  v_job.target_connection_id := p_connection.id;
  v_job.module_path := v_module.path;
  v_job.group_path := v_module.group_path;
  v_job.labels := v_module.labels;
  v_job.pinned_worker_id := v_module.pinned_worker_id;
  v_job.pinned_instance_name := v_module.runner_instance_name;
  v_job.payload := jsonb_build_object('git', jsonb_build_object('connection_id', p_connection.id, 'repository',
    p_connection.repository));
  return (private.add_job(v_job, p_reason)).id;
end;
$$;

-- The same for somebody who waits for it: refused where no module uses the repository.
create function private.need_resolve(p_connection public.git_connections, p_reason text, out v_job bigint)
language plpgsql as $$
begin
  v_job := private.request_resolve(p_connection, p_reason);
  perform private.fail('RY409', 'No module uses this repository.',
    'Create a module whose git source has its URL first.') where v_job is null;
end;
$$;

-- Plans modules at a commit as one set, each from this fingerprint's content; the sweep places those in use.
create function private.plan_commit(
  p_connection public.git_connections, p_modules uuid[], p_contents text[], p_git jsonb, p_options jsonb, p_label text
) returns uuid language plpgsql as $$
declare
  v_set public.job_sets;
begin
  insert into public.job_sets (org_id, type, path, options, created_by_label)
  values (p_connection.org_id, 'PLAN', '', jsonb_build_object('priority', 120, 'git', p_git || jsonb_build_object(
    'connection_id', p_connection.id, 'repository', p_connection.repository)) || p_options,
    p_label) returning * into v_set;
  perform private.add_members(v_set, p_modules);
  update private.set_members as m set fingerprint = c.fingerprint
  from unnest(p_modules, p_contents) as c (module_id, fingerprint)
  where m.set_id = v_set.id and m.module_id = c.module_id;
  perform private.try_place(v_set, 2000);
  return v_set.id;
end;
$$;
