-- Reports of git results: one status for each commit and one comment for each pull request, at the provider. They are
-- deliveries of the outbox whose rule is the connection. A delivery only names its commit or pull request; the content
-- is read when a sender leases it, so the newest state wins and waiting reports of the same thing become one. Reports
-- contain paths, counts and results, never a value. A failed report changes no job.

create index job_sets_git_idx on public.job_sets ((options #>> '{git,connection_id}'),
  (coalesce(options #>> '{git,commit}', '#' || (options #>> '{git,pull_request}')))) where options ? 'git';

create type private.report_row as (
  path text, job bigint, result text, state text, to_add integer, to_change integer, to_destroy integer
);
comment on type private.report_row is 'The result of one module in a report.';

-- ## writing reports
-- Queues a report of a commit, and of the pull requests that it belongs to.
create function private.request_report(p_org uuid, p_connection uuid, p_commit text, p_pull integer) returns void
language plpgsql as $$
begin
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title)
  select c.org_id, c.id, 'git.report', gen_random_uuid()::pg_catalog.text, w.subject, w.title
  from public.git_connections as c cross join lateral (
    select 'commit:' || p_commit as subject, 'Status of ' || left(p_commit, 7) as title where p_commit is not null
    union
    select 'commit:' || r.head_commit, 'Status of ' || left(r.head_commit, 7) from public.pull_requests as r
    where r.connection_id = c.id and r.number = p_pull and (not r.is_fork or r.allowed_commit = r.head_commit)
    union
    select 'pull:' || r.number, 'Comment on #' || r.number from public.pull_requests as r
    where r.connection_id = c.id and (r.number = p_pull or r.merge_commit = p_commit)
      and (not r.is_fork or r.allowed_commit = r.head_commit)) as w
  where c.id = p_connection and c.org_id = p_org and c.has_token and c.removed_at is null
    and c.provider <> 'generic'
  order by w.subject;
exception
  -- A report is never a reason for a job or a delivery to fail.
  when others then raise warning 'report of %: %', p_connection, sqlerrm;
end;
$$;

-- Reports what an event led to: pull requests from their announcement on, pushes that were decided about.
create function private.report_decision() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.pull_request is not null then
    perform private.request_report(new.org_id, new.connection_id, null, new.pull_request);
  else
    perform private.request_report(new.org_id, new.connection_id, w.commit, null) from (
      select s.options #>> '{git,commit}' as commit from public.job_sets as s where s.id = any (new.set_ids)
      union
      select c.heads ->> new.ref from public.git_connections as c where c.id = new.connection_id
        and new.verdict = 'NOTHING' and exists (select from public.module_git as g where g.org_id = new.org_id
          and 'refs/heads/' || g.seen_branch = new.ref)) as w
    where w.commit is not null;
  end if;
  return null;
end;
$$;
create trigger report after update of verdict on public.git_deliveries for each row
  when (old.verdict = 'PENDING' and new.verdict <> 'PENDING') execute function private.report_decision();

-- Reports a pull request that was announced or has another head, problem or merge; its older head gets an end, too.
create function private.report_pull() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform private.request_report(new.org_id, new.connection_id, case when tg_op = 'UPDATE' then case
    when old.head_commit <> new.head_commit then old.head_commit end end, new.number);
  return null;
end;
$$;
create trigger report_new after insert on public.pull_requests for each row
  when (new.is_open) execute function private.report_pull();
create trigger report after update on public.pull_requests for each row
  when ((old.head_commit, old.problem, old.is_open, old.merge_commit)
    is distinct from (new.head_commit, new.problem, new.is_open, new.merge_commit))
  execute function private.report_pull();

-- Reports what is open of a repository that can be read again, or that can be reported to from now on.
create function private.report_again() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform private.request_report(new.org_id, new.id, null, r.number) from public.pull_requests as r
  where r.connection_id = new.id and r.is_open;
  return null;
end;
$$;
create trigger report after update on public.git_connections for each row
  when (new.has_token and (old.error is not null and new.error is null or not old.has_token))
  execute function private.report_again();

-- ## what a report contains
-- The outcome of a module's plan or apply: words for people, and the state of a status.
create function private.report_words(p_is_apply boolean, p_status public.job_status, p_has_changes boolean)
returns table (result text, state text) language sql immutable as $$
  select case
      when p_is_apply then case p_status when 'SUCCEEDED' then 'applied' when 'AWAITING_APPROVAL'
        then 'waits for approval' when 'CANCELLED' then 'not applied' when 'FAILED' then 'apply failed'
        when 'NEEDS_ATTENTION' then 'apply needs attention' else 'applying' end
      else case p_status when 'SUCCEEDED' then case when p_has_changes then 'planned' else 'no changes' end
        when 'CANCELLED' then 'plan cancelled' when 'FAILED' then 'plan failed'
        when 'NEEDS_ATTENTION' then 'plan needs attention' else 'planning' end end,
    case when p_status = 'SUCCEEDED' or p_is_apply and p_status in ('AWAITING_APPROVAL', 'CANCELLED') then 'success'
      when p_status in ('FAILED', 'CANCELLED', 'NEEDS_ATTENTION') then 'failure' else 'pending' end
$$;

-- The results of the modules that were planned for a commit, or for a pull request (#7): of each the newest.
create function private.report_rows(p_connection uuid, p_key text) returns setof private.report_row
language sql stable as $$
  select o.path, coalesce(a.number, j.number), case when j.id is not null or m.left_out is null then w.result
      when m.is_waiting_for_apply then 'waits for an apply' else 'left out' end,
    case when j.id is not null or m.left_out is null then w.state when m.is_waiting_for_apply then 'success'
      else 'failure' end,
    private.plan_count(j.plan_summary, '{create,replace}'), private.plan_count(j.plan_summary, '{update}'),
    private.plan_count(j.plan_summary, '{delete,replace}')
  from (
    select distinct on (m.module_id) m.* from public.job_sets as s join private.set_members as m on m.set_id = s.id
    where s.options ? 'git' and s.options #>> '{git,connection_id}' = p_connection::pg_catalog.text
      and coalesce(s.options #>> '{git,commit}', '#' || (s.options #>> '{git,pull_request}')) = p_key
    order by m.module_id, s.created_at desc, s.id) as m
  join public.modules as o on o.id = m.module_id
  left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
  left join lateral (select * from public.provision_jobs as a where a.plan_job_id = j.id order by -a.id limit 1)
    as a on true
  cross join lateral private.report_words(a.id is not null, coalesce(a.status, j.status),
    j.plan_summary -> 'has_changes' = 'true') as w
  -- An open pull request may have stopped to change a module.
  where p_key not like '#%' or exists (select from public.pull_requests as r where r.connection_id = p_connection
    and '#' || r.number = p_key and (not r.is_open or r.planned ? m.module_id::pg_catalog.text))
  order by o.path
$$;

-- Returns why there is no result of a pull request yet, or cannot be one; null where its plans are the result.
create function private.pull_trouble(p_connection public.git_connections, p_pull public.pull_requests)
returns table (state text, words text) language sql stable as $$
  select t.state, t.words from (
    select d.verdict from public.git_deliveries as d where d.connection_id = p_connection.id
      and d.pull_request = p_pull.number order by d.id desc limit 1) as d
  cross join lateral (values
    (p_pull.is_open and d.verdict = 'PENDING', 'pending', 'A runner reads the repository first.'),
    (p_pull.is_open and d.verdict = 'FAILED' and p_connection.error is not null, 'failure',
      'The repository could not be read.'),
    (p_pull.problem is not null, 'failure', p_pull.problem)) as t (is_so, state, words)
  where t.is_so limit 1
$$;

create function private.sum_report(p_rows private.report_row[]) returns jsonb language sql stable as $$
  select jsonb_build_object('state', case when s.pending > 0 then 'pending' when s.failed > 0 then 'failure'
      else 'success' end,
    'description', case when s.n = 0 then 'Nothing to plan.'
      when s.pending > 0 then format('%s of %s modules done', s.n - s.pending, s.n)
      else format('%s module%s: %s to add, %s to change, %s to destroy', s.n, case when s.n > 1 then 's' else '' end,
        s.to_add, s.to_change, s.to_destroy) || case when s.applied > 0 then format(', %s applied', s.applied) else ''
        end || case when s.failed > 0 then format(', %s failed', s.failed) else '' end end,
    'job', jsonb_build_object('number', s.job), 'rows', to_jsonb(p_rows))
  from (
    select count(*) as n, count(*) filter (where r.state = 'pending') as pending,
      count(*) filter (where r.state = 'failure') as failed, count(*) filter (where r.result = 'applied') as applied,
      coalesce(sum(r.to_add), 0) as to_add, coalesce(sum(r.to_change), 0) as to_change,
      coalesce(sum(r.to_destroy), 0) as to_destroy,
      (array_agg(r.job order by r.state = 'failure' desc, r.state = 'pending' desc, r.path)
        filter (where r.job is not null))[1] as job
    from unnest(p_rows) as r) as s
$$;

-- The result of a commit {commit, state, description, job, rows}: of its own plans, or of its pull request.
create function private.commit_report(p_connection public.git_connections, p_commit text) returns jsonb
language plpgsql stable as $$
declare
  v_rows private.report_row[] := array(select r from private.report_rows(p_connection.id, p_commit) as r);
  v_pull public.pull_requests;
  v_report pg_catalog.jsonb;
begin
  if v_rows = '{}' then
    select * into v_pull from public.pull_requests where connection_id = p_connection.id and head_commit = p_commit
    order by is_open desc, updated_at desc limit 1;
    v_rows := array(select r from private.report_rows(p_connection.id, '#' || v_pull.number) as r);
  end if;
  v_report := private.sum_report(v_rows) || jsonb_build_object('commit', p_commit)
    || coalesce(private.queue_report(p_connection.id, p_commit), '{}');
  if v_pull.number is not null then
    return v_report || coalesce((select jsonb_build_object('state', t.state, 'description', t.words)
      from private.pull_trouble(p_connection, v_pull) as t), '{}');
  end if;
  if v_rows = '{}' and exists (select from public.job_sets as s where s.options ? 'git'
    and s.options #>> '{git,connection_id}' = p_connection.id::pg_catalog.text
    and s.options #>> '{git,head_commit}' = p_commit) then
    return v_report || '{"state": "failure", "description": "A newer commit took its place."}';
  end if;
  return v_report;
end;
$$;

-- The report that a sender writes at the provider {provider, url, base_url, kind, …}.
create function private.report_body(p_delivery public.deliveries) returns jsonb language plpgsql stable as $$
declare
  v_connection public.git_connections;
  v_pull public.pull_requests;
  v_where pg_catalog.jsonb;
begin
  select * into v_connection from public.git_connections where id = p_delivery.rule_id;
  v_where := jsonb_build_object('connection', v_connection.id, 'provider', v_connection.provider, 'url',
    v_connection.url, 'base_url', v_connection.base_url, 'app', (
      select jsonb_build_object('number', a.number, 'installation', v_connection.installation_id)
      from public.git_apps as a where a.id = v_connection.app_id));
  if p_delivery.subject = 'pulls' then
    return v_where || jsonb_build_object('kind', 'pulls', 'known', array(select r.number from public.pull_requests as r
      where r.connection_id = v_connection.id and r.is_open order by r.number limit 50));
  end if;
  if p_delivery.subject like 'command:%' then
    return v_where || (select jsonb_build_object('kind', 'answer', 'id', c.delivery_id, 'number', c.pull_request,
      'comment_id', c.comment_id, 'reaction', case when c.is_done then '+1' else 'confused' end, 'answer', c.answer)
      from private.git_commands as c where c.delivery_id = substr(p_delivery.subject, 9)::bigint);
  end if;
  if p_delivery.subject like 'commit:%' then
    return v_where || jsonb_build_object('kind', 'status')
      || (private.commit_report(v_connection, substr(p_delivery.subject, 8)) - 'rows');
  end if;
  select * into v_pull from public.pull_requests where connection_id = v_connection.id
    and 'pull:' || number = p_delivery.subject;
  return v_where || jsonb_build_object('kind', 'comment', 'number', v_pull.number, 'comment_id', v_pull.comment_id)
    || private.commit_report(v_connection, case when exists (select from private.report_rows(v_connection.id,
      v_pull.merge_commit)) then v_pull.merge_commit else v_pull.head_commit end);
end;
$$;

-- Changes: what a commit or a pull request leads to, for the page and the command that show it.

-- The modules of a change, each with its newest job.
create function private.change_rows(p_connection public.git_connections, p_key text) returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(to_jsonb(r) || jsonb_build_object('job_id', j.id, 'status', j.status, 'started_at',
    j.started_at, 'finished_at', j.finished_at, 'problem', j.error ->> 'message',
    'apply', (private.apply_mode(m)).apply, 'is_locked', l.module_id is not null,
    'reviews', (select count(*) from public.approvals as a
      where a.job_id = j.id and a.decision = 'approve')) order by r.path), '[]')
  from private.report_rows(p_connection.id, p_key) as r
  left join public.provision_jobs as j on j.org_id = p_connection.org_id and j.number = r.job
  left join public.modules as m on m.org_id = p_connection.org_id and m.path = r.path and m.deleted_at is null
  left join public.module_locks as l on l.module_id = m.id and l.connection_id = p_connection.id
    and '#' || l.pull_request = p_key
$$;

create function private.git_change(p_connection uuid, p_commit text default null, p_number integer default null)
returns jsonb language plpgsql stable security definer set search_path = '' as $$
declare
  v_connection public.git_connections;
  -- The pull request of the number, else the one that became the commit.
  v_pull public.pull_requests := (
    select r from public.pull_requests as r where r.connection_id = p_connection
      and (r.number = p_number or p_number is null and p_commit in (r.merge_commit, r.head_commit))
    order by r.merge_commit = p_commit desc nulls last, r.number desc limit 1);
  v_key pg_catalog.text := coalesce('#' || p_number, p_commit);
  v_git pg_catalog.jsonb;
begin
  select * into v_connection from public.git_connections where id = p_connection
    and org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such change.', 'The repository may have been disconnected.')
  where v_connection.id is null or p_number is not null and v_pull.number is null;
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
    'rows', private.change_rows(v_connection, v_key), 'deliveries', to_jsonb(array(
      select private.delivery_json(d) - 'modules' from public.git_deliveries as d where d.connection_id = p_connection
        and (d.pull_request = v_pull.number or d.after_commit = p_commit) order by d.id desc limit 10)),
    'reports', (
      select coalesce(jsonb_agg(jsonb_build_object('title', d.title, 'status', d.status, 'note', d.note, 'at',
        coalesce(d.finished_at, d.created_at)) order by d.id desc), '[]') from (
        select distinct on (d.subject) * from public.deliveries as d where d.rule_id = p_connection and d.subject in (
          'commit:' || coalesce(p_commit, v_pull.head_commit), 'pull:' || v_pull.number)
        order by d.subject, d.id desc) as d));
end;
$$;
comment on function private.git_change is
  'What a commit or a pull request led to: modules with results, counts and jobs, its events and its reports. Members.';

-- Builds the check of a queued commit {state, description}; null where the commit is not in a queue.
create function private.queue_report(p_connection uuid, p_commit text) returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('state', case when g.status = 'PASSED' then 'success'
      when g.status in ('FAILED', 'ENDED') then 'failure' else 'pending' end,
    'description', case when g.status = 'FAILED' then left(g.problem, 140) when g.status = 'ENDED'
      then 'It left the merge queue.' when g.status = 'WAITING' then 'Waits for a runner, or for the entries before it.'
      end))
  from private.merge_groups as g where g.connection_id = p_connection and g.head_commit = p_commit
$$;

-- Announces a job that got to a status which somebody waits for: to people, and to the git host where it is about a
-- commit or a pull request. One trigger for both: each would read the job and have its condition parsed again.
create function private.announce_job() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_type public.job_type;
  v_git pg_catalog.jsonb;
begin
  select j.type, j.payload #> '{options,git}' into v_type, v_git from public.provision_jobs as j
  where j.id = new.job_id;
  -- A plan that succeeds is not worth a message.
  if new.to_status in ('AWAITING_APPROVAL', 'NEEDS_ATTENTION', 'FAILED')
    or new.to_status = 'SUCCEEDED' and v_type in ('APPLY', 'DESTROY') then
    perform private.notify_job(new);
  end if;
  if v_git is not null then
    perform private.request_report(new.org_id, (v_git ->> 'connection_id')::pg_catalog.uuid, v_git ->> 'commit',
      (v_git ->> 'pull_request')::integer);
  end if;
  return null;
end;
$$;

-- A function, because every statement that writes an event parses the condition again, as long as it is.
-- Whether somebody waits for a job to get here: anything but that its runner began.
create function private.is_announced(p_status public.job_status) returns boolean language plpgsql immutable as $$
begin
  return p_status not in ('CLAIMED', 'PROCESSING');
end;
$$;
create trigger announce after insert on public.job_events for each row
  when (private.is_announced(new.to_status)) execute function private.announce_job();

create function private.lease_deliveries(p_limit integer default 20) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_leased bigint[];
begin
  perform private.fail('RY422', 'A sender takes 1 to 100 messages.') where coalesce(p_limit, 0) not between 1 and 100;
  -- Written by an event at the moment when the rule was removed.
  update public.deliveries as d set status = 'FAILED', finished_at = now(), note = case d.event
    when 'git.report' then 'The token was removed.' else 'The rule was removed.' end
  where d.status = 'PENDING' and d.next_at <= now()
    and not exists (select from private.notification_secrets as s where s.rule_id = d.rule_id)
    and not exists (select from private.git_secrets as g where g.connection_id = d.rule_id and g.token is not null);
  with mine as (
    select d.id from public.deliveries as d join private.due_deliveries() as u on u.id = d.id
    where d.status = 'PENDING' and (d.lease_until is null or d.lease_until <= now())
    order by u.turn, d.next_at, d.id limit p_limit for update of d skip locked
  ), taken as (
    update public.deliveries as d set lease_id = gen_random_uuid(), attempt = d.attempt + 1,
      lease_until = now() + make_interval(secs => (select n.lease_seconds from private.notifier as n))
    from mine as m where d.id = m.id returning d.id
  )
  select coalesce(array_agg(t.id), '{}') into v_leased from taken as t;
  update private.git_secrets as g set next_report_at = d.lease_until
  from public.deliveries as d where d.id = any (v_leased) and g.connection_id = d.rule_id;
  delete from public.deliveries as o where o.id in (
    select w.id from public.deliveries as w join public.deliveries as d on d.rule_id = w.rule_id
      and d.subject = w.subject and d.event = 'git.report'
    where d.id = any (v_leased) and w.status = 'PENDING' and w.id <> all (v_leased)
    for update of w skip locked);
  return (
    select coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'lease', d.lease_id, 'org', d.org_id, 'event', d.event,
      'event_id', d.event_id,
      'title', d.title, 'body', case when g.token is null then d.body else private.report_body(d) end,
      'at', d.created_at, 'attempt', d.attempt, 'channel', coalesce(r.channel, 'git'), 'address', s.address,
      'secret', coalesce(g.token, s.secret), 'organization', o.name) order by d.id), '[]')
    from public.deliveries as d join public.organizations as o on o.id = d.org_id
    left join public.notification_rules as r on r.id = d.rule_id
    left join private.notification_secrets as s on s.rule_id = d.rule_id
    left join private.git_secrets as g on g.connection_id = d.rule_id
    where d.id = any (v_leased) and (s.address is not null or g.token is not null));
end;
$$;
comment on function private.lease_deliveries is
  'Takes messages that are due, for the sender: the oldest of each rule and subject, with sealed addresses, and '
  'reports of git results as they are now.';
