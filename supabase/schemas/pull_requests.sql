-- Pull requests: what a module would be if the request were merged now. The runner that reads the repository merges
-- head and base itself, and a module whose folders differ from the base is planned from that merge. Such a plan is not
-- applied, unless its module is applied before the merge, gets no identity, and ends when a newer one of the same pull
-- request takes its place. Nothing is run for forks, because a plan runs code: where the repository allows it, a member
-- requests the plan of one commit, once, which gets no secrets and no outputs of other modules, and is never applied.

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
comment on table public.pull_requests is 'Pull requests that were announced.';
comment on column public.pull_requests.is_fork is 'Whether that branch is in another repository.';
comment on column public.pull_requests.allowed_commit is 'A fork''s commit that a member wants planned; null: none.';
comment on column public.pull_requests.head_commit is 'Its newest commit that was announced or read.';
comment on column public.pull_requests.is_open is 'Whether it is planned: open, and no draft.';
comment on column public.pull_requests.planned is 'The fingerprint of each module that was planned for it.';
comment on column public.pull_requests.merge_commit is 'The commit that merged it, as the provider says.';
comment on column public.pull_requests.comment_id is 'The provider''s id of the comment with its results.';

create function private.fork_words(p_commit text) returns text language sql immutable as $$
  select format('It comes from a fork: nothing runs until a member requests a plan of its commit %s.', p_commit)
$$;

-- The pull requests that a runner merges.
create function private.pull_work(p_connection public.git_connections) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('number', r.number, 'base', r.base, 'ref', format(
    case when p_connection.provider = 'gitlab' then 'refs/merge-requests/%s/head' else 'refs/pull/%s/head' end,
    r.number)) order by r.number), '[]')
  from public.pull_requests as r where r.connection_id = p_connection.id and r.is_open
    and (not r.is_fork or p_connection.allows_forks and r.allowed_commit is not null)
$$;

-- Judges a runner's findings about a pull request for each module of the repository.
create function private.judge_pull(p_connection public.git_connections, p_pull public.pull_requests, p_found jsonb)
returns setof private.git_finding language sql stable as $$
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
  left join jsonb_path_query(p_found, 'strict $.modules[*]', silent => true) as f (value)
    on f.value ->> 'id' = m.id::pg_catalog.text
$$;

-- Answers the deliveries of a pull request; one that no delivery announced was found by the poll.
create function private.answer_pull(
  p_job public.provision_jobs, p_pull public.pull_requests, p_findings private.git_finding[], p_set uuid, p_problem text
) returns void language plpgsql as $$
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

create function private.pull_of(p_job public.provision_jobs) returns public.pull_requests language sql stable as $$
  select r from public.pull_requests as r
  where r.connection_id = (p_job.payload #>> '{options,git,connection_id}')::pg_catalog.uuid
    and r.number = (p_job.payload #>> '{options,git,pull_request}')::integer
$$;

-- The newest finished plan of a module for a pull request; null where that plan is not of what it has now.
create function private.current_pull_plan(p_pull public.pull_requests, p_module uuid) returns public.provision_jobs
language sql stable as $$
  select j from public.provision_jobs as j
  where j.org_id = p_pull.org_id and j.module_id = p_module and j.type = 'PLAN'
    and j.payload #>> '{options,git,pull_request}' = p_pull.number::pg_catalog.text
    and j.payload #>> '{options,git,connection_id}' = p_pull.connection_id::pg_catalog.text
    and p_pull.planned ->> p_module::pg_catalog.text <> ''
  order by j.id desc limit 1
$$;

-- Whether a job belongs to a pull request whose module is applied before the merge.
create function private.is_applied_unmerged(p_job public.provision_jobs) returns boolean language sql stable as $$
  select coalesce(p_job.payload #> '{options,git,is_fork}', 'false') <> 'true' and exists (
    select from public.modules as m where m.id = p_job.module_id and (private.apply_mode(m)).apply = 'before_merge')
$$;

-- Refuses to apply the plan of a pull request, unless its module is applied before the merge and the plan is current.
create function private.refuse_unmerged(p_plan bigint) returns void language plpgsql stable as $$
declare
  v_plan public.provision_jobs;
  v_pull public.pull_requests;
begin
  select * into v_plan from public.provision_jobs where id = p_plan;
  if v_plan.payload #>> '{options,git,pull_request}' is null then return; end if;
  perform private.fail('RY409', format('Job %s planned a pull request, and is never applied.', v_plan.number),
    'Merge the pull request: the merged commit is planned, and that plan can be applied.')
  where not private.is_applied_unmerged(v_plan);
  v_pull := private.pull_of(v_plan);
  perform private.fail('RY409', format('Job %s is not the newest plan of an open pull request.', v_plan.number),
    'Plan the pull request again, and apply that plan.')
  where not coalesce(v_pull.is_open, false) or v_pull.problem is not null
    or (private.current_pull_plan(v_pull, v_plan.module_id)).id is distinct from p_plan;
end;
$$;
