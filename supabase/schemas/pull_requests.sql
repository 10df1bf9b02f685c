-- Pull requests: what a module would be if the request were merged now. The runner that reads the repository merges
-- head and base itself, and a module whose folders differ from the base is planned from that merge. Such a plan is
-- not applied, unless its module is applied before the merge, gets no identity, and ends when a newer one of the same
-- pull request takes its place. Nothing is run for forks, because a plan runs code: where the repository allows it, a
-- member requests the plan of one commit, once, which gets no secrets and no outputs of other modules, and is never
-- applied.

create table public.pull_requests (
  connection_id uuid not null references public.git_connections (id) on delete cascade,
  number integer not null check (number > 0),
  org_id uuid not null references public.organizations (id) on delete cascade,
  title text not null default '' check (length(title) <= 500),
  sender text check (length(sender) <= 200),
  base text not null check (length(base) between 1 and 200),
  head_commit text not null check (head_commit ~ '^[0-9a-f]{40,64}$'),
  head_branch text check (length(head_branch) <= 200),
  is_fork boolean not null default false,
  allowed_commit text,
  is_open boolean not null default true,
  problem text check (length(problem) <= 1000),
  planned jsonb not null default '{}',
  merge_commit text check (merge_commit ~ '^[0-9a-f]{40,64}$'),
  comment_id bigint,
  updated_at timestamptz not null default now(),
  primary key (connection_id, number)
);
create index pull_requests_org_id_idx on public.pull_requests (org_id, updated_at desc);
alter table public.pull_requests enable row level security;
grant select on public.pull_requests to authenticated, service_role;
create policy "Members see pull requests of their repositories" on public.pull_requests
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read'))));
comment on table public.pull_requests is 'Pull requests that were announced.';
comment on column public.pull_requests.head_branch is 'The branch that it comes from.';
comment on column public.pull_requests.is_fork is 'Whether that branch is in another repository.';
comment on column public.pull_requests.allowed_commit is
  'The commit of a fork that a member requested a plan of; null: none, or it was planned.';
comment on column public.pull_requests.connection_id is 'The repository.';
comment on column public.pull_requests.number is 'Its number at the provider.';
comment on column public.pull_requests.sender is 'Who opened it, or whose event came first.';
comment on column public.pull_requests.base is 'The branch that it would be merged into.';
comment on column public.pull_requests.head_commit is 'Its newest commit that was announced or read.';
comment on column public.pull_requests.title is 'Its title at the provider.';
comment on column public.pull_requests.is_open is 'Whether it is planned: open, and no draft.';
comment on column public.pull_requests.problem is 'Why it cannot be planned, such as a conflict; null: it can.';
comment on column public.pull_requests.planned is 'The fingerprint of each module that was planned for it.';
comment on column public.pull_requests.merge_commit is 'The commit that merged it, as the provider says.';
comment on column public.pull_requests.comment_id is 'The provider''s id of the comment with its results.';
create trigger touch before update on public.pull_requests for each row execute function private.touch_updated_at();
create trigger wake after insert or update on public.pull_requests
  for each row execute function private.wake_for_row();

create function private.fork_words(p_commit text) returns text
language sql immutable set search_path = '' as $$
  select format('It comes from a fork: nothing runs until a member requests a plan of its commit %s.', p_commit)
$$;

-- Notes a pull request as it was announced; ends the plans of one that is closed.
create function private.note_pull_request(p_connection public.git_connections, p_delivery jsonb) returns void
language plpgsql set search_path = '' as $$
declare
  v_pull pg_catalog.jsonb := p_delivery -> 'pull';
  v_number integer := v_pull ->> 'number';
  v_is_open boolean := v_pull -> 'is_open' = 'true' and v_pull -> 'is_draft' <> 'true';
begin
  insert into public.pull_requests as r (connection_id, number, org_id, title, sender, base, head_commit, is_open,
    merge_commit, head_branch, is_fork)
  values (p_connection.id, v_number, p_connection.org_id, left(coalesce(v_pull ->> 'title', ''), 500),
    left(coalesce(v_pull ->> 'author', p_delivery ->> 'sender'), 200), v_pull ->> 'base', v_pull ->> 'head_commit',
    v_is_open,
    v_pull ->> 'merge_commit', v_pull ->> 'head_branch', v_pull -> 'is_fork' = 'true')
  on conflict (connection_id, number) do update set title = excluded.title, base = excluded.base,
    head_commit = excluded.head_commit, is_open = excluded.is_open,
    merge_commit = coalesce(excluded.merge_commit, r.merge_commit), head_branch = excluded.head_branch,
    is_fork = excluded.is_fork, problem = case
      when excluded.is_fork and excluded.head_commit is distinct from r.allowed_commit
        then private.fork_words(excluded.head_commit)
      -- Commits that came just before the merge were reviewed by nobody.
      when excluded.merge_commit is not null and excluded.head_commit <> r.head_commit
        then 'It was merged at another commit than the one that was planned.'
      else r.problem end,
    planned = case when excluded.is_open then r.planned else '{}' end;
  perform private.note_authors(p_connection.id, '#' || v_number, private.text_list(p_delivery -> 'people'));
  perform private.note_branch(r) from public.pull_requests as r where r.connection_id = p_connection.id
    and (r.number = v_number or r.head_branch = v_pull ->> 'base' and r.merge_commit is null);
  if not v_is_open then
    perform private.supersede_plans(p_connection.org_id, array(select m.id
      from private.modules_of_connection(p_connection) as m), v_number::pg_catalog.text,
      'The pull request was closed.');
  end if;
  if v_pull -> 'is_open' <> 'true' then
    perform private.end_pull(p_connection, v_number);
  end if;
end;
$$;

-- The pull requests that a runner merges.
create function private.pull_work(p_connection public.git_connections) returns jsonb
language sql stable set search_path = '' as $$
  select coalesce(jsonb_agg(jsonb_build_object('number', r.number, 'base', r.base, 'ref', format(
    case when p_connection.provider = 'gitlab' then 'refs/merge-requests/%s/head' else 'refs/pull/%s/head' end,
    r.number)) order by r.number), '[]')
  from public.pull_requests as r where r.connection_id = p_connection.id and r.is_open
    and (not r.is_fork or p_connection.allows_forks and r.allowed_commit is not null)
$$;

-- Judges a runner's findings about a pull request for each module of the repository.
create function private.judge_pull(
  p_connection public.git_connections, p_pull public.pull_requests, p_found jsonb
) returns setof private.git_finding
language sql stable set search_path = '' as $$
  select m.id, m.path, p_pull.base, p_pull.head_commit, f.value ->> 'fingerprint', 'never',
    p_found ->> 'problem' is null and f.value ->> 'fingerprint' <> f.value ->> 'base_fingerprint'
      and f.value ->> 'fingerprint' is distinct from p_pull.planned ->> m.id::pg_catalog.text,
    case when p_found ->> 'problem' is not null then left(p_found ->> 'problem', 500)
      when f.value -> 'is_missing' = 'true' then private.missing_words('The merge', coalesce(m.source ->> 'subfolder',
        ''), f.value ->> 'moved_to')
      when f.value is null then format('It does not follow %s, has no folder there, or is switched off.', p_pull.base)
      when f.value ->> 'fingerprint' = f.value ->> 'base_fingerprint' then 'Nothing under its folders changes.'
      when f.value ->> 'fingerprint' = p_pull.planned ->> m.id::pg_catalog.text
        then 'The same content was planned for this pull request.'
      else 'Its folders change.' end, f.value -> 'is_missing' = 'true'
  from private.modules_of_connection(p_connection) as m
  left join jsonb_array_elements(case when jsonb_typeof(p_found -> 'modules') = 'array' then p_found -> 'modules'
    else '[]' end) as f on f.value ->> 'id' = m.id::pg_catalog.text
$$;

-- Plans the merge of a pull request, in place of older plans of it; the set, or null where nothing is to be planned.
create function private.plan_pull(
  p_connection public.git_connections, p_pull public.pull_requests, p_findings private.git_finding[], p_found jsonb
) returns uuid
language plpgsql set search_path = '' as $$
declare
  v_modules pg_catalog.uuid[] := array(select f.module_id from unnest(p_findings) as f where f.is_planned
    order by f.path);
  v_number pg_catalog.text := p_pull.number;
begin
  -- Also of modules that it changes no more.
  perform private.supersede_plans(p_connection.org_id, array(select f.module_id from unnest(p_findings) as f
    where f.fingerprint is distinct from p_pull.planned ->> f.module_id::pg_catalog.text), v_number,
    'The pull request has other content now.');
  update public.pull_requests set problem = left(p_found ->> 'problem', 1000), head_commit = coalesce(
    p_found ->> 'head_commit', head_commit), planned = (select coalesce(jsonb_object_agg(f.module_id, f.fingerprint),
    '{}') from unnest(p_findings) as f where f.is_planned
      or f.fingerprint = p_pull.planned ->> f.module_id::pg_catalog.text)
  where connection_id = p_pull.connection_id and number = p_pull.number;
  if v_modules = '{}' then
    return null;
  end if;
  return private.plan_commit(p_connection, v_modules, jsonb_build_object('pull_request', p_pull.number, 'branch',
    p_pull.base, 'head_commit', p_found ->> 'head_commit', 'base_commit', p_found ->> 'base_commit', 'title',
    p_pull.title, 'author', p_pull.sender, 'is_fork', p_pull.is_fork, 'merge', jsonb_build_object('base',
      p_found ->> 'base_commit', 'head', p_found ->> 'head_commit', 'ref', p_found ->> 'ref')),
    jsonb_build_object('reason', format('#%s: %s', p_pull.number, p_pull.title))
      || case when p_pull.is_fork then '{"labels": ["untrusted=true"]}' else '{}' end::pg_catalog.jsonb,
    format('git (#%s@%s)', p_pull.number, left(p_found ->> 'head_commit', 7)));
end;
$$;

-- Answers the deliveries of a pull request; one that no delivery announced was found by the poll.
create function private.answer_pull(
  p_job public.provision_jobs, p_pull public.pull_requests, p_findings private.git_finding[], p_set uuid,
  p_problem text
) returns void
language plpgsql set search_path = '' as $$
begin
  if p_set is not null and not exists (select from public.git_deliveries as d where d.job_id = p_job.id
    and d.verdict = 'PENDING' and d.pull_request = p_pull.number) then
    insert into public.git_deliveries (org_id, connection_id, delivery_id, event, pull_request, job_id)
    values (p_job.org_id, p_job.target_connection_id, format('poll:%s:#%s', p_job.id, p_pull.number), 'poll',
      p_pull.number, p_job.id) on conflict do nothing;
  end if;
  update public.git_deliveries set decided_at = now(), verdict = case when p_set is null then 'NOTHING'
      else 'PLANNED' end, set_ids = case when p_set is null then '{}' else array[p_set] end,
    reason = case when p_problem is not null then left(p_problem, 1000) when p_set is null
      then coalesce(private.missing_summary(p_findings), 'Nothing to plan: no module would have other content.')
      else concat_ws(' ', format('Planned %s of %s modules.', (select count(*) from unnest(p_findings) as f
        where f.is_planned), cardinality(p_findings)), private.missing_summary(p_findings)) end,
    modules = (select coalesce(jsonb_agg(jsonb_build_object('path', f.path, 'verdict', case when f.is_planned
      then 'PLANNED' else 'NOTHING' end, 'reason', f.reason) order by f.path), '[]') from unnest(p_findings) as f)
  where job_id = p_job.id and verdict = 'PENDING' and pull_request = p_pull.number;
end;
$$;

-- Updates pull requests after a reading of their repository.
create function private.decide_pulls(p_job public.provision_jobs, p_connection public.git_connections) returns void
language plpgsql set search_path = '' as $$
declare
  v_found pg_catalog.jsonb;
  v_pull public.pull_requests;
  v_findings private.git_finding[];
begin
  for v_found in select e.value from jsonb_array_elements(case when jsonb_typeof(
    p_job.result #> '{git,pull_requests}') = 'array' then p_job.result #> '{git,pull_requests}' else '[]' end) as e
    where e.value ->> 'ref' not like 'refs/heads/%' loop
    select * into v_pull from public.pull_requests where connection_id = p_connection.id and is_open
      and number = (v_found ->> 'number')::integer for update;
    continue when v_pull.number is null;
    perform private.note_emails(p_connection.id, '#' || v_pull.number, v_found);
    if v_pull.is_fork and v_found ->> 'head_commit' is distinct from v_pull.allowed_commit then
      v_found := v_found || jsonb_build_object('problem', private.fork_words(v_found ->> 'head_commit'));
    end if;
    -- A request is for one plan: a base that moves later starts none.
    update public.pull_requests set allowed_commit = null where connection_id = p_connection.id
      and number = v_pull.number and is_fork and allowed_commit = v_found ->> 'head_commit';
    v_findings := array(select f from private.judge_pull(p_connection, v_pull, v_found) as f);
    perform private.answer_pull(p_job, v_pull, v_findings, private.plan_pull(p_connection, v_pull, v_findings, v_found),
      v_found ->> 'problem');
  end loop;
  update public.git_deliveries set verdict = 'NOTHING', decided_at = now(),
    reason = 'Nothing has changed since the last reading.'
  where job_id = p_job.id and verdict = 'PENDING' and pull_request is not null;
end;
$$;

-- ## what the provider lists

-- Asks the provider for its open pull requests, where there is a token: a lost event is found by the poll.
create function private.request_pulls(p_connection public.git_connections) returns void
language sql set search_path = '' as $$
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title)
  select p_connection.org_id, p_connection.id, 'git.report', gen_random_uuid()::pg_catalog.text, 'pulls',
    'Open pull requests'
  where p_connection.has_token and p_connection.provider <> 'generic' and not exists (select from public.deliveries as d
    where d.rule_id = p_connection.id and d.subject = 'pulls' and d.status = 'PENDING')
$$;

-- Notes one pull request that a provider lists, as its event would have done; nothing where it is known as it is.
create function private.note_listed_pull(p_connection public.git_connections, p_pull jsonb) returns void
language plpgsql set search_path = '' as $$
declare
  v_delivery pg_catalog.jsonb := jsonb_build_object('event', 'pull_request', 'sender', p_pull -> 'author', 'people',
    p_pull -> 'people', 'pull', p_pull);
  v_reason pg_catalog.text := private.early_verdict(v_delivery);
begin
  if p_pull -> 'is_fork' = 'true' and not p_connection.allows_forks or exists (
    select from public.pull_requests as r where r.connection_id = p_connection.id
      and r.number = (p_pull ->> 'number')::integer and r.base = p_pull ->> 'base'
      and r.head_commit = p_pull ->> 'head_commit'
      and r.is_open = (p_pull -> 'is_open' = 'true' and p_pull -> 'is_draft' <> 'true')) then
    return;
  end if;
  perform private.note_pull_request(p_connection, v_delivery);
  insert into public.git_deliveries (org_id, connection_id, delivery_id, event, pull_request, sender, verdict, reason,
    decided_at, job_id)
  select p_connection.org_id, p_connection.id, format('poll:#%s:%s:%s', p_pull ->> 'number', p_pull ->> 'head_commit',
    p_pull ->> 'is_open'), 'poll', (p_pull ->> 'number')::integer, left(p_pull ->> 'author', 200), case
      when v_reason is null and r.job is not null then 'PENDING' else 'IGNORED' end, v_reason, case
      when v_reason is not null then now() end, r.job
  from (select case when v_reason is null then private.request_resolve(p_connection, 'Pull request '
    || (p_pull ->> 'number')) end as job) as r on conflict do nothing;
end;
$$;

-- Notes what a provider lists: open pull requests, and those that were known as open and are so no more.
create function private.note_listed_pulls(p_connection uuid, p_pulls jsonb) returns void
language plpgsql set search_path = '' as $$
declare
  v_connection public.git_connections;
begin
  select * into v_connection from public.git_connections where id = p_connection and removed_at is null;
  if v_connection.id is null or jsonb_typeof(p_pulls) is distinct from 'array' then
    return;
  end if;
  perform private.lock_state(v_connection.org_id, p_connection);
  perform private.note_listed_pull(v_connection, e.value) from jsonb_array_elements(p_pulls) as e;
exception
  when others then raise warning 'pull requests of %: %', p_connection, sqlerrm;
end;
$$;

create function private.plan_pull_request(
  p_connection uuid, p_number integer, p_module uuid default null, p_commit text default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections := private.my_connection(p_connection, 'git.read');
  v_pull public.pull_requests;
  v_module public.modules;
  v_job bigint;
begin
  perform private.need_anywhere('job.plan', v_connection.org_id);
  v_job := private.need_resolve(v_connection, format('Plan of #%s', p_number));
  select * into v_pull from public.pull_requests where connection_id = p_connection and number = p_number and is_open;
  if v_pull.number is null then
    perform private.fail('RY404', format('There is no open pull request #%s.', p_number),
      'It may be closed, a draft, or not known yet: the poll finds it.');
  end if;
  if v_pull.is_fork and (not v_connection.allows_forks or p_commit is distinct from v_pull.head_commit) then
    perform private.fail('RY409', 'It comes from a fork: a plan is for one commit, which you name.', format(
      'Read that code first, and name the whole commit: /runyard plan %s. An admin allows forks.', v_pull.head_commit));
  end if;
  for v_module in select m.* from private.modules_of_connection(v_connection) as m
    where (p_module is null or m.id = p_module) and private.may_see(m.org_id, m.path) loop
    perform private.need('job.plan', v_module.org_id, v_module.path);
    -- Its row stays; no content is like the empty one.
    v_pull.planned := v_pull.planned || case when v_pull.planned ? v_module.id::pg_catalog.text
      then jsonb_build_object(v_module.id, '') else '{}' end;
  end loop;
  update public.pull_requests set planned = v_pull.planned, allowed_commit = case when is_fork then p_commit end
  where connection_id = p_connection and number = p_number;
  -- The heads are the ones that are known, and are read all the same.
  update public.git_connections set work_digest = null where id = p_connection;
  perform private.audit(v_connection.org_id, 'git.pull_request_planned', 'git_connection',
    p_connection::pg_catalog.text, format('%s#%s', v_connection.repository, p_number),
    jsonb_build_object('commit', v_pull.head_commit, 'is_fork', v_pull.is_fork));
  return (select to_jsonb(j) from public.provision_jobs as j where j.id = v_job);
end;
$$;
comment on function private.plan_pull_request is
  'Plans a pull request again: the modules that it changes, or one of them. Of a fork only the commit that is named, '
  'where the repository allows forks. Operators.';
grant execute on function private.plan_pull_request to authenticated;
