-- Git: from a push to a plan. An event is a hint: a delivery, or the poll, only queues a RESOLVE job, in which a runner
-- reads what the repository has now, with its own credentials, and reports for each module a fingerprint of its
-- folders. The decision is made here, when that job ends: content that is neither applied nor planned yet is planned
-- at that commit. So lost, repeated and forged events, force-pushes and squashes all lead to the same plans. Webhook
-- secrets and API tokens arrive sealed, as those of notifications do.

create table public.git_connections (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  provider text not null check (provider in ('github', 'gitlab', 'gitea', 'generic')),
  url text not null check (length(url) between 1 and 1000),
  repository text not null check (length(repository) between 1 and 1000),
  base_url text check (base_url ~ '^https?://[^\s]+$' and length(base_url) <= 500),
  has_token boolean not null default false,
  allows_forks boolean not null default false,
  allows_identities boolean not null default false,
  app_id uuid,
  installation_id bigint,
  poll_seconds integer not null default 300 check (poll_seconds = 0 or poll_seconds between 60 and 86400),
  next_poll_at timestamptz,
  last_delivery_at timestamptz,
  refused_at timestamptz,
  resolved_at timestamptz,
  error text,
  heads jsonb not null default '{}',
  work_digest text,
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz
);
create unique index git_connections_repository_idx on public.git_connections (org_id, repository)
  where removed_at is null;
create index git_connections_org_id_idx on public.git_connections (org_id, created_at);
create index git_connections_next_poll_at_idx on public.git_connections (next_poll_at)
  where removed_at is null and poll_seconds > 0;
comment on table public.git_connections is 'Repositories whose pushes plan modules: those with its URL as source.';
comment on column public.git_connections.url is 'The repository as the member who connected it wrote it.';
comment on column public.git_connections.repository is 'Host and path: the same for every spelling of the URL.';
comment on column public.git_connections.base_url is 'Where the provider''s API is; null: at the host of the URL.';
comment on column public.git_connections.allows_forks is
  'Whether members may request plans of single commits of forks; nothing is ever applied from them.';
comment on column public.git_connections.allows_identities is
  'Whether plans of pull requests, whose code nobody has reviewed yet, get their modules'' identities; of forks never.';
comment on column public.git_connections.app_id is 'The GitHub App that announces it and reports to it; null: none.';
comment on column public.git_connections.poll_seconds is 'How often it is read without an event; 0 is never.';
comment on column public.git_connections.refused_at is 'When a delivery with a wrong signature last came.';
comment on column public.git_connections.error is 'Why the last reading failed; null: it did not.';
comment on column public.git_connections.heads is 'The refs that were read last, each with its commit.';
comment on column public.git_connections.work_digest is 'The work requested then; with equal heads nothing is new.';

alter table public.provision_jobs add constraint provision_jobs_target_connection_id_fkey
  foreign key (target_connection_id) references public.git_connections (id);
create index provision_jobs_target_connection_id_idx on public.provision_jobs (target_connection_id, id desc)
  where target_connection_id is not null;

create table private.git_secrets (
  connection_id uuid primary key references public.git_connections (id) on delete cascade,
  webhook_secret text check (webhook_secret ~ '^s1\.[A-Za-z0-9_-]{40,}$' and length(webhook_secret) <= 8000),
  token text check (token ~ '^s1\.[A-Za-z0-9_-]{40,}$' and length(token) <= 8000),
  next_report_at timestamptz not null default now()
);
comment on table private.git_secrets is 'Webhook secrets and API tokens, sealed by an edge function with its own key.';
comment on column private.git_secrets.webhook_secret is
  'What deliveries are signed with; sealed. Null: none is accepted, and the repository is polled.';
comment on column private.git_secrets.token is 'What reports are written with; sealed.';
comment on column private.git_secrets.next_report_at is
  'When the next report may be written: a second after the last one, or when the provider said.';

create table public.git_deliveries (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  connection_id uuid not null references public.git_connections (id) on delete cascade,
  delivery_id text not null check (length(delivery_id) between 1 and 200),
  event text not null check (length(event) <= 100),
  action text check (length(action) <= 100),
  ref text check (length(ref) <= 500),
  before_commit text check (before_commit ~ '^[0-9a-f]{40,64}$'),
  after_commit text check (after_commit ~ '^[0-9a-f]{40,64}$'),
  pull_request integer check (pull_request > 0),
  sender text check (length(sender) <= 200),
  body_sha256 text check (body_sha256 ~ '^[0-9a-f]{64}$'),
  verdict text not null default 'PENDING' check (verdict in ('PENDING', 'PLANNED', 'NOTHING', 'IGNORED', 'FAILED',
    'DONE', 'REFUSED')),
  reason text check (length(reason) <= 2000),
  modules jsonb not null default '[]',
  job_id bigint,
  set_ids uuid[] not null default '{}',
  received_at timestamptz not null default now(),
  decided_at timestamptz,
  unique (connection_id, delivery_id)
);
create index git_deliveries_org_id_idx on public.git_deliveries (org_id, id desc);
create index git_deliveries_connection_id_idx on public.git_deliveries (connection_id, id desc);
create index git_deliveries_body_sha256_idx on public.git_deliveries (connection_id, body_sha256);
create index git_deliveries_job_id_idx on public.git_deliveries (job_id) where verdict = 'PENDING';
create index git_deliveries_received_at_idx on public.git_deliveries (received_at);
comment on table public.git_deliveries is 'Events of repositories, once each, and what they led to. Kept for 30 days.';
comment on column public.git_deliveries.delivery_id is
  'The provider''s id: a repeated one changes nothing, nor the same body with another unsigned id.';
comment on column public.git_deliveries.event is 'push, pull_request and so on; poll: found without an event.';
comment on column public.git_deliveries.action is 'What happened to the pull request, as its provider calls it.';
comment on column public.git_deliveries.ref is 'The branch that was pushed to, as refs/heads/…';
comment on column public.git_deliveries.body_sha256 is 'Digest of the body; the body itself is not kept.';
comment on column public.git_deliveries.verdict is
  'PENDING: a runner reads the repository first · PLANNED · NOTHING: nothing to plan · IGNORED: no such event is '
  'used · FAILED: the repository could not be read · DONE, REFUSED: a command in a comment.';
comment on column public.git_deliveries.modules is 'For each module of the repository {path, verdict, reason}.';

create table public.module_git (
  module_id uuid primary key references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  is_on boolean not null default true,
  branch text check (branch ~ '^[A-Za-z0-9_.][A-Za-z0-9_./@+-]{0,199}$'),
  paths text[] not null default '{}' check (cardinality(paths) <= 50),
  apply text check (private.is_apply_mode(apply)),
  seen_branch text,
  seen_commit text,
  seen_fingerprint text,
  seen_at timestamptz,
  seen_set_id uuid,
  watched text[] not null default '{}',
  pushes text[] not null default '{}',
  applied_commit text,
  applied_fingerprint text,
  applied_at timestamptz,
  commits_ahead integer check (commits_ahead >= 0),
  missing_folder text,
  moved_to text,
  updated_at timestamptz not null default now()
);
create index module_git_org_id_idx on public.module_git (org_id);
comment on table public.module_git is 'How a module follows its repository, and which commits of it are known.';
comment on column public.module_git.branch is 'The branch; null: the ref of its source, or the default branch.';
comment on column public.module_git.paths is 'More paths of the repository whose changes plan it.';
comment on column public.module_git.apply is
  'after_merge: a plan of its branch waits to be confirmed, or is applied with auto-apply · before_merge: '
  'also plans of pull requests are applied, on request · merge_queue: an entry of GitHub''s merge queue is applied '
  'before it merges · never: plans only · null: as the nearest group above has it, or after_merge.';
comment on column public.module_git.seen_fingerprint is 'Digest of its watched folders at that commit.';
comment on column public.module_git.applied_fingerprint is 'Digest of its watched folders there; null: not known yet.';
comment on column public.module_git.watched is 'The folders that counted then: its own, and its local modules''.';
comment on column public.module_git.pushes is
  'The commits that were pushed with content that is not applied yet: who pushed them approves none of it.';
comment on column public.module_git.applied_commit is 'The commit of the last apply; null after a destroy.';
comment on column public.module_git.commits_ahead is
  'How many commits its branch had since that one when it was last read, 100 at most; null: not known.';
comment on column public.module_git.missing_folder is
  'The folder of its source that its branch had no more when it was last read; it counts while the source names it.';
comment on column public.module_git.moved_to is 'The one other folder with its content, which a member may accept.';

create index modules_repository_idx on public.modules (org_id, private.repository_key(source ->> 'url'))
  where source_kind = 'git' and deleted_at is null;

create type private.git_apply as (apply text, apply_from text);
comment on type private.git_apply is 'How plans of a repository are applied, and the path that sets it.';

-- The mode of a module: its own, else that of the nearest group with one.
create function private.apply_mode(p_module public.modules) returns private.git_apply language sql stable as $$
  select coalesce(w.apply, 'after_merge'), w.path from (select) as one left join lateral (
    select g.apply, p_module.path from public.module_git as g where g.module_id = p_module.id and g.apply is not null
    union all
    select r.git_apply, r.path from public.groups as r where r.org_id = p_module.org_id
      and r.path = any (private.path_prefixes(p_module.group_path)) and r.git_apply is not null
    order by 2 desc limit 1) as w on true
$$;

-- The modules whose source is this repository, in a fixed order.
create function private.modules_of_connection(p_connection public.git_connections) returns setof public.modules
language sql stable as $$
  select m.* from public.modules as m
  where m.org_id = p_connection.org_id and m.deleted_at is null and m.source_kind = 'git'
    and private.repository_key(m.source ->> 'url') = p_connection.repository
  order by m.path
$$;

-- ## deciding
create type private.git_finding as (
  module_id uuid, path text, branch text, commit text, fingerprint text, apply text, is_planned boolean, reason text,
  is_missing boolean
);
comment on type private.git_finding is 'What is decided about one module, and why.';

-- The folder that a module's source names, which its branch had no more when it was last read.
create function private.missing_folder(p_module public.modules, p_git public.module_git) returns text
language sql immutable as $$
  select p_git.missing_folder where p_git.missing_folder = coalesce(p_module.source ->> 'subfolder', '')
$$;

create function private.missing_words(p_where text, p_folder text, p_moved_to text) returns text
language sql immutable as $$
  select left(format('%s has no folder "%s".', p_where, p_folder)
    || coalesce(' The same content is in "' || p_moved_to || '".', ''), 1000)
$$;

-- Returns why content that was seen before is not planned again.
create function private.seen_words(p_git public.module_git) returns text language sql stable as $$
  select format('Same content as %s', left(p_git.seen_commit, 7)) || coalesce((
    select ', planned in job ' || private.job_number(m.job_id) from private.set_members as m
    where m.set_id = p_git.seen_set_id and m.module_id = p_git.module_id), '') || '.'
$$;

-- Judges a runner's findings in the branches for each module of the repository.
create function private.judge_branches(p_connection public.git_connections, p_found jsonb)
returns setof private.git_finding language sql stable as $$
  select m.id, m.path, coalesce(f.value ->> 'branch', g.seen_branch, g.branch, m.source ->> 'ref'),
    f.value ->> 'commit', f.value ->> 'fingerprint', (private.apply_mode(m)).apply,
    coalesce(g.is_on, true) and f.value ->> 'fingerprint' is not null
      and (g.seen_fingerprint is not null or g.applied_commit is not null)
      and f.value ->> 'fingerprint' is distinct from g.seen_fingerprint
      and f.value ->> 'fingerprint' is distinct from coalesce(f.value ->> 'applied_fingerprint',
        g.applied_fingerprint),
    case when not coalesce(g.is_on, true) then 'Pushes do not plan it: it is switched off.'
      when n.is_missing then private.missing_words(coalesce(f.value ->> 'branch', g.seen_branch, 'The repository'),
        coalesce(m.source ->> 'subfolder', ''), case when f.value is null then g.moved_to
          else f.value ->> 'moved_to' end)
      when f.value is null and g.seen_commit is not null then private.seen_words(g)
      when f.value is null then 'It was added while the repository was read.'
      when f.value ->> 'problem' is not null then left(f.value ->> 'problem', 500)
      when f.value ->> 'fingerprint' = g.seen_fingerprint then private.seen_words(g)
      when f.value ->> 'fingerprint' = coalesce(f.value ->> 'applied_fingerprint', g.applied_fingerprint)
        then format('Same content as %s, which is applied.', left(g.applied_commit, 7))
      when g.seen_fingerprint is null and g.applied_commit is null
        then 'First reading: changes from here on are planned.'
      else format('Its folders changed at %s.', left(f.value ->> 'commit', 7)) end, n.is_missing
  from private.modules_of_connection(p_connection) as m left join public.module_git as g on g.module_id = m.id
  left join jsonb_path_query(p_found, 'strict $.modules[*]', silent => true) as f (value)
    on f.value ->> 'id' = m.id::pg_catalog.text
  cross join lateral (select case when f.value is null then private.missing_folder(m, g) is not null
    else f.value ->> 'commit' is not null and f.value ->> 'fingerprint' is null end as is_missing) as n
$$;

-- Writes down what was seen of each module. A missing folder keeps what was seen: it may be found elsewhere.
create function private.note_seen(p_connection public.git_connections, p_findings private.git_finding[], p_found jsonb)
returns void language sql as $$
  insert into public.module_git as g (module_id, org_id, missing_folder, moved_to)
  select f.module_id, p_connection.org_id, coalesce(m.source ->> 'subfolder', ''), e.value ->> 'moved_to'
  from unnest(p_findings) as f join public.modules as m on m.id = f.module_id
  join jsonb_array_elements(p_found -> 'modules') as e on e.value ->> 'id' = f.module_id::pg_catalog.text
  where f.is_missing
  on conflict (module_id) do update set missing_folder = excluded.missing_folder, moved_to = excluded.moved_to
  where (g.missing_folder, g.moved_to) is distinct from (excluded.missing_folder, excluded.moved_to);
  insert into public.module_git as g (module_id, org_id, seen_branch, seen_commit, seen_fingerprint, seen_at,
    applied_fingerprint, watched, commits_ahead)
  select f.module_id, p_connection.org_id, f.branch, f.commit, f.fingerprint, now(),
    e.value ->> 'applied_fingerprint', private.text_list(e.value -> 'watched'),
    case when e.value ->> 'ahead' ~ '^[0-9]{1,4}$' then (e.value ->> 'ahead')::integer end
  from unnest(p_findings) as f join jsonb_array_elements(p_found -> 'modules') as e
    on e.value ->> 'id' = f.module_id::pg_catalog.text
  where f.fingerprint is not null
  on conflict (module_id) do update set seen_commit = case when g.seen_fingerprint = excluded.seen_fingerprint
      then g.seen_commit else excluded.seen_commit end, seen_fingerprint = excluded.seen_fingerprint,
    seen_set_id = case when g.seen_fingerprint = excluded.seen_fingerprint then g.seen_set_id end,
    seen_branch = excluded.seen_branch, seen_at = now(), watched = excluded.watched,
    commits_ahead = excluded.commits_ahead, missing_folder = null, moved_to = null,
    pushes = case when excluded.seen_fingerprint is distinct from
      coalesce(excluded.applied_fingerprint, g.applied_fingerprint) then g.pushes else '{}' end,
    applied_fingerprint = coalesce(excluded.applied_fingerprint, g.applied_fingerprint)
  -- Each row that is written wakes the pages that show it, and a poll finds most as they were.
  where (g.seen_branch, g.seen_fingerprint, g.watched, g.commits_ahead) is distinct from (excluded.seen_branch,
      excluded.seen_fingerprint, excluded.watched, excluded.commits_ahead) or g.missing_folder is not null
    or g.applied_fingerprint is distinct from coalesce(excluded.applied_fingerprint, g.applied_fingerprint)
$$;

create function private.missing_summary(p_findings private.git_finding[]) returns text language sql immutable as $$
  select left(string_agg(format('%s: %s', f.path, f.reason), ' ' order by f.path), 1500) from unnest(p_findings) as f
  where f.is_missing
$$;

-- Answers the deliveries that waited for this reading: for each module why it was planned or not. A change
-- without a delivery was found by the poll, and gets a row of its own.
create function private.answer_deliveries(p_job public.provision_jobs, p_findings private.git_finding[], p_sets jsonb)
returns void language plpgsql as $$
declare
  v_branch pg_catalog.text;
begin
  for v_branch in select k from jsonb_object_keys(p_sets) as k where not exists (
    select from public.git_deliveries as d where d.job_id = p_job.id and d.verdict = 'PENDING'
      and d.pull_request is null and (d.ref is null or d.ref = 'refs/heads/' || k)) loop
    insert into public.git_deliveries (org_id, connection_id, delivery_id, event, ref, job_id)
    values (p_job.org_id, p_job.target_connection_id, format('poll:%s:%s', p_job.id, v_branch), 'poll',
      'refs/heads/' || v_branch, p_job.id) on conflict do nothing;
  end loop;
  update public.git_deliveries as d set decided_at = now(),
    set_ids = array(select e::pg_catalog.uuid from jsonb_array_elements_text(s.sets) as e),
    verdict = case when s.sets <> '[]' then 'PLANNED' else 'NOTHING' end,
    reason = case when s.sets <> '[]' then concat_ws(' ', format('Planned %s of %s modules.', s.planned,
        cardinality(p_findings)), s.missing)
      when s.own = 0 then format('No module follows %s.', coalesce(substr(d.ref, 12), 'the repository'))
      else coalesce(s.missing, 'Nothing to plan: no module has other content than before.') end,
    modules = s.modules
  from public.git_deliveries as o cross join lateral (
    select coalesce(p_sets -> substr(o.ref, 12), case when o.ref is null then (select jsonb_agg(e) from jsonb_each(
        p_sets) as b cross join lateral jsonb_array_elements(b.value) as e) end, '[]') as sets,
      count(*) filter (where f.is_planned and v.is_own) as planned,
      count(*) filter (where v.is_own) as own, private.missing_summary(array_agg(f) filter (where v.is_own)) as missing,
      coalesce(jsonb_agg(jsonb_build_object('path', f.path, 'verdict', case when not v.is_own then 'OTHER_BRANCH'
        when f.is_planned then 'PLANNED' else 'NOTHING' end, 'reason', case when v.is_own then f.reason
        else format('It follows %s; this push was to %s.', f.branch, substr(o.ref, 12)) end) order by f.path), '[]')
      as modules
    from unnest(p_findings) as f
    cross join lateral (select o.ref is null or o.ref = 'refs/heads/' || f.branch as is_own) as v
  ) as s
  where d.id = o.id and o.job_id = p_job.id and o.verdict = 'PENDING' and o.pull_request is null;
end;
$$;

create function private.refuse_git_delivery(p_connection uuid) returns void
language sql security definer set search_path = '' as $$
  -- Anybody may send a wrong signature, so it costs one write in ten seconds at most.
  update public.git_connections set refused_at = now()
  where id = p_connection and coalesce(refused_at, '-infinity') < now() - interval '10 seconds'
$$;
comment on function private.refuse_git_delivery is 'Notes that a delivery with a wrong signature came.';

-- The verdict on a delivery that needs no look at the repository; null where it needs one.
create function private.early_verdict(p_delivery jsonb) returns text language sql stable as $$
  select case when p_delivery ->> 'event' = 'pull_request' then case
      when p_delivery -> 'pull' is null then 'The event has no pull request that can be read.'
      when p_delivery #> '{pull,is_fork}' = 'true' then 'It comes from a fork, so nothing is run for it.'
      when p_delivery #> '{pull,is_open}' <> 'true' then 'The pull request is closed.'
      when p_delivery #> '{pull,is_draft}' = 'true' then 'It is a draft.' end
    when p_delivery ->> 'event' = 'comment' then case when p_delivery -> 'comment' is null
      then 'Only new comments on pull requests that begin with /runyard are commands.'
      -- Until then its first delivery is kept, by which a repeated one is known; a host's clock may be ahead.
      when (p_delivery #>> '{comment,created_at}')::pg_catalog.timestamptz < now() - interval '29 days'
      then 'The comment is older than events are kept. Write the command again.' end
    when p_delivery ->> 'event' = 'merge_group' then case when p_delivery -> 'queue' is null
      then 'Only entries of the merge queue that request checks or end are used.' end
    when p_delivery ->> 'event' is distinct from 'push'
      then format('Events of the kind "%s" start nothing.', left(p_delivery ->> 'event', 100))
    when p_delivery ->> 'ref' not like 'refs/heads/%' then 'Only pushes to branches plan modules.'
    when p_delivery -> 'is_deleted' = 'true' then 'The branch was deleted.' end
$$;

-- Finds the delivery that this one repeats. Where the id is not signed, the same body is the same event, except a push
-- after another push to that branch, which may have led back.
create function private.first_delivery(p_connection uuid, p_delivery jsonb) returns public.git_deliveries
language sql stable as $$
  select d from public.git_deliveries as d where d.connection_id = p_connection and (
    d.delivery_id = p_delivery ->> 'delivery_id'
    or p_delivery -> 'has_signed_id' is distinct from 'true' and d.body_sha256 = p_delivery ->> 'body_sha256'
      and d.event = p_delivery ->> 'event' and not exists (
        select from public.git_deliveries as o where o.connection_id = p_connection and o.id > d.id
          and o.event = 'push' and o.ref = d.ref and o.body_sha256 <> d.body_sha256))
  order by d.id limit 1
$$;
