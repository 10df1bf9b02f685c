-- Authors: who made a change that came by git, as far as its host and its commits told. Everybody counts who opened the
-- pull request, pushed to it or to the branch, or is named in one of the commits; nobody is ever taken off that list,
-- whatever event follows. Where a module needs approvals, none of these people gives one. A name becomes a member when
-- that is wanted: by the links of logins, also those that have ended, or by the address of a commit. A host lets people
-- rename their account, so logins are compared by the number of the account wherever an event told it.

create table private.git_authors (
  connection_id uuid not null references public.git_connections (id) on delete cascade,
  change text not null check (length(change) between 2 and 64),
  identity text not null check (length(identity) <= 300),
  seen_at timestamptz not null default now(),
  primary key (connection_id, change, identity)
);
create index git_authors_seen_at_idx on private.git_authors (seen_at);
comment on table private.git_authors is 'People of changes, each written once. Kept for 400 days.';
comment on column private.git_authors.change is 'A pull request (#7), or the commit that a push led to.';
comment on column private.git_authors.identity is 'login:ann, id:11 (the account''s number at the host) or email:ann@…';

create table private.git_accounts (
  org_id uuid not null references public.organizations (id) on delete cascade,
  host text not null,
  login text not null check (length(login) <= 200),
  account_id text not null,
  primary key (org_id, host, login, account_id)
);
create index git_accounts_account_id_idx on private.git_accounts (org_id, host, account_id);
comment on table private.git_accounts is 'Which login had which account at a git host, as signed events told.';
comment on column private.git_accounts.account_id is 'The number of the account, which it keeps under another login.';

-- Notes people of a change. Some addresses are a host's own and name a login: 11+ann@users.noreply.github.com. An event
-- that names both connects them: account:11:ann.
create function private.note_authors(p_connection uuid, p_change text, p_people text[]) returns void language sql as $$
  insert into private.git_accounts (org_id, host, login, account_id)
  select distinct c.org_id, split_part(c.repository, '/', 1), n[2], n[1] from public.git_connections as c
  cross join lateral unnest(p_people) as p (identity)
  cross join lateral regexp_match(lower(p.identity), '^account:(\d{1,40}):(.{1,200})$') as n
  where c.id = p_connection and n is not null
  on conflict do nothing;
  insert into private.git_authors (connection_id, change, identity)
  select distinct p_connection, p_change, lower(i.identity) from unnest(p_people) as p (identity)
  cross join lateral regexp_match(p.identity, '^email:(?:(\d+)[+-])?([^@]+)@(?:users\.)?noreply\.') as n
  cross join lateral (values (p.identity), ('id:' || n[1]), ('login:' || n[2])) as i (identity)
  where length(i.identity) <= 300 and i.identity not like 'account:%'
  on conflict do nothing
$$;

-- Notes the addresses that a runner read in the commits of a change.
create function private.note_emails(p_connection uuid, p_change text, p_found jsonb) returns void language sql as $$
  select private.note_authors(p_connection, p_change, array(
    select 'email:' || e from unnest(private.text_list(p_found -> 'emails')) as e))
$$;

-- Notes who pushed a commit, and to which pull requests: a closed one may be opened again.
create function private.note_push(p_connection uuid, p_delivery jsonb) returns void language sql as $$
  select private.note_authors(p_connection, c.change, private.text_list(p_delivery -> 'people')) from (
    select p_delivery ->> 'after' as change
    union
    select '#' || r.number from public.pull_requests as r where r.connection_id = p_connection
      and r.merge_commit is null and not r.is_fork and 'refs/heads/' || r.head_branch = p_delivery ->> 'ref') as c
  where p_delivery ->> 'event' = 'push' and c.change is not null
$$;

-- Notes the people of what came to a pull request's branch before the request was opened: pushes, and other requests
-- that were merged there. Earlier merges of the branch are in the base already.
create function private.note_branch(p_pull public.pull_requests) returns void language sql as $$
  insert into private.git_authors (connection_id, change, identity, seen_at)
  select p_pull.connection_id, '#' || p_pull.number, a.identity, min(a.seen_at)
  from public.git_deliveries as d
  left join public.pull_requests as r on r.connection_id = d.connection_id and r.merge_commit = d.after_commit
  join private.git_authors as a on a.connection_id = d.connection_id
    and a.change in (d.after_commit, '#' || r.number, r.head_commit)
  where d.connection_id = p_pull.connection_id and d.event = 'push' and d.ref = 'refs/heads/' || p_pull.head_branch
    and not p_pull.is_fork and d.id > all (
      select min(h.id) from public.pull_requests as o join public.git_deliveries as h on h.event = 'push'
        and h.connection_id = o.connection_id and h.ref = d.ref and h.after_commit = o.head_commit
      where o.connection_id = p_pull.connection_id and o.head_branch = p_pull.head_branch and o.base = p_pull.base
        and o.number <> p_pull.number and o.merge_commit is not null group by o.number)
  group by a.identity
  on conflict do nothing
$$;

-- The changes that a job would apply: its own commit or pull request, and what was pushed before and is not applied
-- yet. Of a module that pushes do not plan, and until a push was read, nobody knows which modules it changes: it counts
-- for each of the branch.
create function private.changes_of(p_job public.provision_jobs, p_connections uuid[]) returns setof text
language sql stable as $$
  with own as (
    select o.change from (select p_job.payload #> '{options,git}' as git) as g cross join lateral (values
      (g.git ->> 'commit'), (p_job.payload #>> '{module,source,commit}'), ('#' || (g.git ->> 'pull_request')),
      ('#' || (g.git ->> 'queue'))) as o (change)
    union
    -- But not the merge itself: a reviewer may merge.
    select p.commit from public.module_git as g cross join lateral unnest(g.pushes) as p (commit)
    where g.module_id = p_job.module_id and not exists (select from public.pull_requests as r
      where r.connection_id = any (p_connections) and r.merge_commit = p.commit
        and r.number::pg_catalog.text = p_job.payload #>> '{options,git,pull_request}')
    union
    select d.after_commit from public.modules as m left join public.module_git as g on g.module_id = m.id
    join public.git_deliveries as d on d.connection_id = any (p_connections) and d.event = 'push'
      and d.ref = 'refs/heads/' || coalesce(g.branch, m.source ->> 'ref', g.seen_branch, substr(d.ref, 12))
      and (d.verdict = 'PENDING' or not g.is_on and d.received_at > coalesce(g.applied_at, '-infinity'))
    where m.id = p_job.module_id and p_job.payload #> '{options,git}' is null
  )
  select o.change from own as o
  union
  select c.change from public.pull_requests as r cross join lateral (values ('#' || r.number), (r.head_commit))
    as c (change)
  where r.connection_id = any (p_connections) and exists (select from own as o
    where o.change in ('#' || r.number, r.merge_commit))
$$;

-- The names by which people appear in changes at a host: logins with their accounts' numbers, former logins of the same
-- accounts, also of links that have ended, and every address of an account. A name of a link that an admin corrected
-- counts for what was seen until then.
create function private.names_of_members(p_org uuid, p_host text)
returns table (user_id uuid, name text, ended_at timestamptz) language sql stable as $$
  with link as (
    select l.user_id, l.login, l.account_id, 'infinity'::pg_catalog.timestamptz as ended_at
    from public.git_logins as l where l.org_id = p_org and l.host = p_host
    union all
    select l.user_id, l.login, nullif(l.account_id, ''), l.ended_at from private.ended_git_logins as l
    where l.org_id = p_org and l.host = p_host
  ), account as (
    select l.user_id, l.login, coalesce(l.account_id, s.account_id) as account_id, l.ended_at from link as l
    left join private.git_accounts as s on s.org_id = p_org and s.host = p_host and s.login = l.login
      and l.account_id is null
  )
  select a.user_id, n.name, a.ended_at from account as a
  left join private.git_accounts as s on s.org_id = p_org and s.host = p_host and s.account_id = a.account_id
  cross join lateral (values ('login:' || a.login), ('id:' || a.account_id), ('login:' || s.login)) as n (name)
  union
  select m.user_id, 'email:' || lower(e.email), 'infinity' from public.memberships as m
  cross join lateral (
    select m.email union all select u.email from auth.users as u where u.id = m.user_id
    union all select i.identity_data ->> 'email' from auth.identities as i where i.user_id = m.user_id) as e (email)
  where m.org_id = p_org
$$;

-- The members who made the changes that a job would apply. A repository that was connected again is the same one.
create function private.change_makers(p_job public.provision_jobs) returns setof uuid language plpgsql stable as $$
declare
  v_repository pg_catalog.text := private.repository_key(p_job.payload #>> '{module,source,url}');
  v_connections pg_catalog.uuid[] := array(select c.id from public.git_connections as c where c.org_id = p_job.org_id
    and (c.repository = v_repository or c.id = (p_job.payload #>> '{options,git,connection_id}')::pg_catalog.uuid));
begin
  if p_job.payload #>> '{module,source_kind}' is distinct from 'git' then return; end if;
  return query select m.user_id from private.changes_of(p_job, v_connections) as c
  join private.git_authors as a on a.connection_id = any (v_connections) and a.change = c
  join private.names_of_members(p_job.org_id, split_part(v_repository, '/', 1)) as n on n.name = a.identity
    and n.ended_at >= a.seen_at
  join public.memberships as m on m.org_id = p_job.org_id and m.user_id = n.user_id;
end;
$$;

-- Whether others than this member have to approve a change, because the member made it.
create function private.is_own_change(p_plan public.provision_jobs, p_user uuid) returns boolean
language sql stable as $$
  select exists (select from public.modules as m join public.organizations as o on o.id = m.org_id
      and not o.can_approve_own_jobs where m.id = p_plan.module_id and m.approvals_required > 0)
    and p_user in (select private.change_makers(p_plan))
$$;
