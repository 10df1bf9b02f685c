-- Moving in: what exists comes here. A runner reads a repository that nobody has connected yet, or an archive, and
-- reports its root modules; a member chooses, and the chosen ones become modules. Their states come in by plans with
-- the option bring_state, as for every other module.

-- The source of a reading, checked: an address with a ref, or an archive with its SHA-256; and a group for its modules.
create function private.survey_source(p_source jsonb) returns jsonb language plpgsql immutable as $$
declare
  v_url pg_catalog.text := nullif(trim(p_source ->> 'url'), '');
  v_name pg_catalog.text := substring(lower(coalesce(p_source ->> 'name', v_url)) from '([^/:]+?)(?:\.git)?/*$');
begin
  perform private.refuse_unknown_keys(p_source, array['url', 'ref', 'group', 'name', 'archive', 'sha256']);
  perform private.fail('RY422', 'A reading needs a group, and either a repository''s URL or an archive.',
    'Write {"group": "platform", "url": "https://…", "ref": "main"}.')
  where (v_url is null) = (p_source ->> 'archive' is null) or coalesce(p_source ->> 'group', '') = ''
    or length(p_source ->> 'ref') > 200;
  if v_url is not null then perform private.check_source('git', jsonb_build_object('url', v_url)); end if;
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
  -- Somebody looks at the page and waits for it.
  v_job := private.new_job(p_org, 'RESOLVE', 90);
  v_job.module_path := v_source ->> 'group';
  v_job.group_path := v_source ->> 'group';
  v_job.payload := jsonb_build_object('survey', v_source, 'git', jsonb_build_object('repository',
    coalesce(private.repository_key(v_source ->> 'url'), v_source ->> 'name')));
  v_job := private.add_job(v_job, 'To list its root modules.');
  if p_source ? 'archive' then
    v_body := decode(p_source ->> 'archive', 'base64');
    perform private.fail('RY422', 'The archive is not what its SHA-256 says, or larger than 25 MiB.', 'Send it again.')
    where encode(sha256(v_body), 'hex') is distinct from v_source ->> 'sha256' or octet_length(v_body) > 26214400;
    insert into private.artifacts (job_id, attempt, name, body, sha256)
    values (v_job.id, 0, 'source', v_body, v_source ->> 'sha256');
  end if;
  perform private.audit(p_org, 'job.enqueued', 'job', v_job.number::pg_catalog.text,
    'RESOLVE ' || (v_source ->> 'name'));
  return jsonb_build_object('id', v_job.id, 'number', v_job.number);
exception when invalid_parameter_value then
  perform private.fail('RY422', 'The archive is not base64.', 'Send it again.');
end;
$$;
comment on function private.request_survey is
  'Lists on a runner the root modules of a repository {group, url, ref} or of an archive {group, name, archive '
  '(base64), sha256}; they are in the result of the job. Operators.';

create function private.survey(p_org uuid, p_number bigint) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_job public.provision_jobs;
begin
  perform private.need_seen(p_org);
  select * into v_job from public.provision_jobs as j where j.org_id = p_org and j.number = p_number
    and j.payload ? 'survey' and private.sees_job(j);
  perform private.fail('RY404', format('Job %s lists no root modules.', p_number), 'Read the source again.')
  where v_job.id is null;
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

-- The specification of the module that a root becomes. An archive's files are kept in the module.
create function private.root_spec(p_job public.provision_jobs, p_root jsonb) returns jsonb language plpgsql stable as $$
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
  v_job public.provision_jobs := private.my_job(p_job, 'module.write');
  v_root pg_catalog.jsonb;
  v_parts pg_catalog.text[];
  v_done pg_catalog.jsonb := '[]';
begin
  perform private.fail('RY409', format('Job %s has not listed root modules.', v_job.number), 'Read the source again.')
  where v_job.status <> 'SUCCEEDED' or not v_job.payload ? 'survey' or v_job.result is null;
  for v_root in select r.root from jsonb_array_elements(v_job.result -> 'roots') with ordinality as r (root, place)
    where p_folders ? (r.root ->> 'folder') order by r.place loop
    perform private.fail('RY422', format('"%s" cannot come: %s', v_root ->> 'folder', v_root ->> 'problem'))
    where coalesce(v_root ->> 'problem', '') <> '';
    v_parts := regexp_match(v_root ->> 'path', '^(.*)/([^/]+)$');
    v_done := v_done || (private.create_module(v_job.org_id, v_parts[1], v_parts[2], private.root_spec(v_job, v_root))
      || jsonb_build_object('backend', v_root -> 'backend', 'reads', v_root -> 'reads'));
  end loop;
  perform private.propose(m, d -> 'reads') from jsonb_array_elements(v_done) as d
  join public.modules as m on m.id = (d ->> 'id')::pg_catalog.uuid where d -> 'reads' <> '[]';
  perform private.fail('RY422', 'A folder that was named is not a root module of this reading.', 'Read it again.')
  where jsonb_typeof(p_folders) is distinct from 'array' or jsonb_array_length(v_done) <> jsonb_array_length(p_folders);
  return (select jsonb_agg(jsonb_build_object('id', d -> 'id', 'path', d -> 'path', 'engine', d -> 'engine', 'backend',
    d -> 'backend')) from jsonb_array_elements(v_done) as d);
end;
$$;
comment on function private.bring_modules is
  'Creates a module for each of these folders (a list) of a reading, all or none, where the reading proposes it. '
  'Their states come in by enqueue_jobs with bring_state. Operators.';
