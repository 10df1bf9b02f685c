-- Changes: what a commit or a pull request leads to, for the page and the command that show it.

-- The modules of a change, each with its newest job.
create function private.change_rows(p_connection public.git_connections, p_key text) returns jsonb
language sql stable set search_path = '' as $$
  select coalesce(jsonb_agg(to_jsonb(r) || jsonb_build_object('job_id', j.id, 'status', j.status, 'started_at',
    j.started_at, 'finished_at', j.finished_at, 'problem', j.error ->> 'message', 'apply', (
    private.apply_mode(m)).apply, 'is_locked', l.module_id is not null, 'reviews', (select count(*) from public.approvals as a
      where a.job_id = j.id and a.decision = 'approve')) order by r.path), '[]')
  from private.report_rows(p_connection.id, p_key) as r
  left join public.provision_jobs as j on j.org_id = p_connection.org_id and j.number = r.job
  left join public.modules as m on m.org_id = p_connection.org_id and m.path = r.path and m.deleted_at is null
  left join public.module_locks as l on l.module_id = m.id and l.connection_id = p_connection.id
    and '#' || l.pull_request = p_key
$$;

-- Which commit and pull request a change is about: the pull request of a number, else the one that became the commit.
create function private.change_pull(p_connection uuid, p_commit text, p_number integer) returns public.pull_requests
language sql stable set search_path = '' as $$
  select r from public.pull_requests as r where r.connection_id = p_connection
    and (r.number = p_number or p_number is null and p_commit in (r.merge_commit, r.head_commit))
  order by r.merge_commit = p_commit desc nulls last, r.number desc limit 1
$$;

create function private.git_change(p_connection uuid, p_commit text default null, p_number integer default null)
returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_connection public.git_connections;
  v_pull public.pull_requests := private.change_pull(p_connection, p_commit, p_number);
  v_key pg_catalog.text := coalesce('#' || p_number, p_commit);
  v_git pg_catalog.jsonb;
begin
  select * into v_connection from public.git_connections where id = p_connection
    and org_id in (select private.my_org_ids());
  if v_connection.id is null or p_number is not null and v_pull.number is null then
    perform private.fail('RY404', 'There is no such change.', 'The repository may have been disconnected.');
  end if;
  perform private.need('git.read', v_connection.org_id);
  select s.options -> 'git' into v_git from public.job_sets as s where s.options ? 'git'
    and s.options #>> '{git,connection_id}' = p_connection::pg_catalog.text
    and coalesce(s.options #>> '{git,commit}', '#' || (s.options #>> '{git,pull_request}')) = v_key
  order by s.created_at desc limit 1;
  return jsonb_build_object('connection', jsonb_build_object('id', v_connection.id, 'repository',
      v_connection.repository, 'provider', v_connection.provider, 'url', v_connection.url), 'pull', to_jsonb(v_pull)
      - array['planned', 'comment_id'], 'commit', coalesce(p_commit, v_pull.head_commit), 'git', v_git,
    'is_behind', v_pull.is_open and v_git ->> 'base_commit' is distinct from coalesce(v_connection.heads
      ->> ('refs/heads/' || v_pull.base), v_git ->> 'base_commit'),
    'report', private.commit_report(v_connection, coalesce(p_commit, v_pull.head_commit)) - array['rows', 'job'],
    'rows', private.change_rows(v_connection, v_key), 'deliveries', (
      select coalesce(jsonb_agg(private.delivery_json(d) - 'modules' order by d.id desc), '[]') from (
        select * from public.git_deliveries as d where d.connection_id = p_connection
          and (d.pull_request = v_pull.number or d.after_commit = p_commit) order by d.id desc limit 10) as d),
    'reports', (
      select coalesce(jsonb_agg(jsonb_build_object('title', d.title, 'status', d.status, 'note', d.note, 'at',
        coalesce(d.finished_at, d.created_at)) order by d.id desc), '[]') from (
        select distinct on (d.subject) * from public.deliveries as d where d.rule_id = p_connection and d.subject in (
          'commit:' || coalesce(p_commit, v_pull.head_commit), 'pull:' || v_pull.number)
        order by d.subject, d.id desc) as d));
end;
$$;
comment on function private.git_change is
  'What a commit or a pull request led to: its modules with results, counts and jobs, its events and its reports. '
  'Members.';
grant execute on function private.git_change to authenticated;
