-- Reviews: what members decide about the plan of a pull request, and what follows for its modules. After the merge the
-- merge commit is planned; where that plan has the content and changes of the reviewed one, the reviews count for its
-- apply. A module that is applied before the merge is locked to the pull request meanwhile.

create table private.plan_digests (
  job_id bigint primary key references public.provision_jobs (id) on delete cascade,
  digest text not null check (digest ~ '^[0-9a-f]{64}$')
);
comment on table private.plan_digests is
  'A digest of each plan of a commit or pull request: of what it changes and of the content that it was made from. '
  'Values are part of it, so nobody reads it.';
comment on column private.plan_digests.digest is
  'Equal for plans of the same content that change the same: a script that an apply runs is content, and no change.';

-- Keeps the digest of a plan apart from its result, which members read.
create function private.note_plan_digest(p_plan public.provision_jobs) returns void language sql as $$
  insert into private.plan_digests (job_id, digest)
  select p_plan.id, encode(sha256(convert_to(format('%s %s', p_plan.result ->> 'change_digest', m.fingerprint),
    'UTF8')), 'hex')
  from private.set_members as m where m.job_id = p_plan.id and m.fingerprint is not null
    and p_plan.result ->> 'change_digest' ~ '^[0-9a-f]{64}$' on conflict do nothing;
  update public.provision_jobs set result = result - 'change_digest' where id = p_plan.id
$$;

-- ## reviews
-- Notes what the caller decides about the plan of a pull request.
create function private.review_pull_plan(p_plan public.provision_jobs, p_decision text, p_comment text) returns void
language plpgsql as $$
declare
  v_pull public.pull_requests := private.pull_of(p_plan);
begin
  perform private.fail('RY409', 'Only the newest finished plan of an open pull request is reviewed.',
    'Look at the plan of its newest commit. Plans of forks are never applied, so a review of one would not count.')
  where p_plan.status <> 'SUCCEEDED' or not coalesce(v_pull.is_open, false) or v_pull.is_fork
    or (private.current_pull_plan(v_pull, p_plan.module_id)).id is distinct from p_plan.id;
  perform private.fail('RY403', 'You changed this pull request; somebody else reviews it.',
    'Ask another operator, admin or owner.') where private.is_own_change(p_plan, private.caller_id());
  insert into public.approvals (org_id, job_id, user_id, user_label, decision, comment, plan_sha256, signed_in)
  values (p_plan.org_id, p_plan.id, private.caller_id(), private.caller_label(p_plan.org_id), p_decision, p_comment,
    p_plan.plan_sha256, private.signed_in());
  perform private.audit(p_plan.org_id, 'job.reviewed', 'job', p_plan.number::pg_catalog.text,
    'PLAN ' || p_plan.module_path, jsonb_build_object('decision', p_decision, 'pull_request', v_pull.number));
end;
$$;

-- The approvals of a plan by members who still have the right, and have not changed what they reviewed.
create function private.reviews_of(p_plan bigint) returns setof public.approvals language sql stable as $$
  select a.* from public.approvals as a join public.provision_jobs as j on j.id = a.job_id
  where a.job_id = p_plan and a.decision = 'approve' and private.may('job.approve', a.org_id, j.module_path, a.user_id)
    and not private.is_own_change(j, a.user_id)
  order by a.created_at
$$;

-- The plan that was reviewed on the pull request which became this plan's commit, and whether both have the same
-- content and change the same: who merges may resolve a conflict, or add something. Only its newest plan counts.
create function private.reviewed_plan(p_plan public.provision_jobs)
returns table (job_id bigint, pull_request integer, is_same boolean, approvals bigint, is_rejected boolean)
language sql stable as $$
  select j.id, r.number, coalesce((select d.digest from private.plan_digests as d where d.job_id = j.id)
    = (select d.digest from private.plan_digests as d where d.job_id = p_plan.id), false), (
      select count(*) from private.reviews_of(j.id)), exists (select from public.approvals as a where a.job_id = j.id
      and a.decision = 'reject')
  from public.pull_requests as r cross join lateral (
    select j.id, j.status from public.provision_jobs as j
    where j.org_id = r.org_id and j.module_id = p_plan.module_id and j.type = 'PLAN'
      and j.payload #>> '{options,git,pull_request}' = r.number::pg_catalog.text
      and j.payload #>> '{options,git,connection_id}' = r.connection_id::pg_catalog.text
    order by j.id desc limit 1) as j
  where r.connection_id = (p_plan.payload #>> '{options,git,connection_id}')::pg_catalog.uuid and not r.is_fork
    and r.problem is null and j.status = 'SUCCEEDED' and (r.merge_commit = p_plan.payload #>> '{options,git,commit}'
      and exists (select from public.approvals as a where a.job_id = j.id)
      or r.number = (p_plan.payload #>> '{options,git,queue}')::integer)
  order by r.number desc limit 1
$$;

-- Counts the reviews of a pull request for the apply of its merge commit, where its plan is the same and nobody
-- rejected it. The caller holds the state's lock.
create function private.count_reviews(p_apply public.provision_jobs, p_plan public.provision_jobs) returns void
language plpgsql as $$
declare
  v_reviewed pg_catalog.record;
  v_review public.approvals;
  v_words pg_catalog.text;
begin
  if p_apply.status <> 'AWAITING_APPROVAL' or p_plan.payload #>> '{options,git,commit}' is null
    or exists (select from public.module_locks as l where l.module_id = p_apply.module_id)
    or private.policy_problem(p_plan.id) is not null then
    return;
  end if;
  select * into v_reviewed from private.reviewed_plan(p_plan);
  if v_reviewed.job_id is null then return; end if;
  if not v_reviewed.is_same or v_reviewed.is_rejected then
    perform private.record_job_event(p_apply, 'review_open', null, null, 'system', null, 'system', case
      when v_reviewed.is_same then format('Its plan was rejected on #%s: it waits for a new review.',
        v_reviewed.pull_request)
      else format('Its content or its changes are not those that were reviewed on #%s: it waits for a new review.',
        v_reviewed.pull_request) end);
    return;
  end if;
  v_words := format('Reviewed on #%s, with the same content and changes.', v_reviewed.pull_request);
  for v_review in
    select * from private.reviews_of(v_reviewed.job_id) loop
    exit when p_apply.status <> 'AWAITING_APPROVAL';
    insert into public.approvals (org_id, job_id, user_id, user_label, decision, comment, plan_sha256, signed_in)
    values (p_apply.org_id, p_apply.id, v_review.user_id, v_review.user_label, 'approve', v_words, p_apply.plan_sha256,
      v_review.signed_in)
    on conflict do nothing;
    if found then p_apply := private.count_approval(p_apply.id, false, v_review.user_label, v_words); end if;
  end loop;
end;
$$;

-- The applies of a pull request's merge commit that wait for approval.
create function private.waiting_merges(p_pull public.pull_requests) returns setof public.provision_jobs
language sql stable as $$
  select j.* from public.provision_jobs as j
  where j.org_id = p_pull.org_id and j.status = 'AWAITING_APPROVAL' and j.type = 'APPLY'
    and j.payload #>> '{options,git,connection_id}' = p_pull.connection_id::pg_catalog.text
    and j.payload #>> '{options,git,commit}' = p_pull.merge_commit
  order by j.module_id
$$;

-- Acts on the end of a pull request: its locks end, the reviews of one that was merged count for applies that
-- wait already, and modules that it was applied to without a merge are planned from their branch again.
create function private.end_pull(p_connection public.git_connections, p_number integer) returns void
language plpgsql as $$
declare
  v_pull public.pull_requests;
begin
  select * into v_pull from public.pull_requests where connection_id = p_connection.id and number = p_number;
  perform private.lock_module_states(v_pull.org_id, array(
    select l.module_id from public.module_locks as l where l.connection_id = p_connection.id
      and l.pull_request = p_number
    union
    select a.module_id from private.waiting_merges(v_pull) as a));
  with freed as (
    delete from public.module_locks as l where l.connection_id = p_connection.id and l.pull_request = p_number
    returning l.module_id
  )
  update public.module_git as g set seen_fingerprint = null, seen_set_id = null from freed as f
  where g.module_id = f.module_id and v_pull.merge_commit is null;
  perform private.count_reviews(j, p) from private.waiting_merges(v_pull) as j
  join public.provision_jobs as p on p.id = j.plan_job_id;
end;
$$;

-- ## before the merge
create function private.apply_pull_request(p_connection uuid, p_number integer, p_module uuid default null)
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections := private.my_connection(p_connection, 'git.read');
  v_pull public.pull_requests;
  v_module public.modules;
  v_plan public.provision_jobs;
  v_jobs pg_catalog.jsonb := '[]';
begin
  perform private.need_anywhere('job.apply', v_connection.org_id);
  select * into v_pull from public.pull_requests where connection_id = p_connection and number = p_number;
  perform private.lock_module_states(v_connection.org_id, array(select m.id
    from private.modules_of_connection(v_connection) as m where v_pull.planned ? m.id::pg_catalog.text));
  for v_module in select m.* from private.modules_of_connection(v_connection) as m
    where v_pull.planned ? m.id::pg_catalog.text and private.may_see(m.org_id, m.path)
      and (m.id = p_module or p_module is null
      and (private.apply_mode(m)).apply = 'before_merge') loop
    v_plan := private.current_pull_plan(v_pull, v_module.id);
    continue when p_module is null and not coalesce(v_plan.status = 'SUCCEEDED'
      and v_plan.plan_summary -> 'has_changes' = 'true', false);
    perform private.need('job.apply', v_module.org_id, v_module.path);
    perform private.refuse_unmerged(v_plan.id);
    perform private.lock_state(v_pull.org_id, v_module.id);
    insert into public.module_locks (module_id, org_id, reason, user_id, user_label, connection_id, pull_request)
    values (v_module.id, v_pull.org_id, format('Pull request #%s is applied before its merge.', v_pull.number),
      private.caller_id(), private.caller_label(v_pull.org_id), v_pull.connection_id, v_pull.number)
    on conflict do nothing;
    perform private.wake_org(v_pull.org_id, 'modules', v_module.id::pg_catalog.text);
    v_jobs := v_jobs || private.enqueue_job(v_module.org_id, 'APPLY', v_module.id,
      jsonb_build_object('plan_job_id', v_plan.id, 'reason', format('Pull request #%s, before its merge', p_number)));
  end loop;
  perform private.fail('RY409', format('Nothing of pull request #%s can be applied.', p_number),
    'Its modules need the mode before_merge, and finished plans with changes.') where v_jobs = '[]';
  return v_jobs;
end;
$$;
comment on function private.apply_pull_request is
  'Applies the plans of an open pull request, of one module or of all that are applied before the merge, and locks '
  'these modules to it until it is merged or closed. Operators.';

-- Notes which commit a module has now, after an apply or a destroy that succeeded.
create function private.note_applied(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_commit pg_catalog.text := case when p_job.type = 'APPLY'
    then coalesce(p_job.result ->> 'commit', p_job.payload #>> '{module,source,commit}') end;
begin
  if p_job.status = 'SUCCEEDED' and p_job.payload #>> '{module,source_kind}' = 'git' then
    insert into public.module_git as g (module_id, org_id, applied_commit, applied_at)
    values (p_job.module_id, p_job.org_id, v_commit, now())
    on conflict (module_id) do update set applied_commit = v_commit, applied_at = now(), commits_ahead = null,
      -- Content that was applied before a merge is that of the merge: its commit has nothing to plan.
      applied_fingerprint = case when p_job.payload #> '{options,git,pull_request}' is not null
        then (private.pull_of(p_job)).planned ->> p_job.module_id::pg_catalog.text
        when g.seen_commit = v_commit then g.seen_fingerprint end,
      pushes = case when g.seen_commit = v_commit then '{}' else g.pushes end;
  end if;
end;
$$;

create function private.plan_pull_request(
  p_connection uuid, p_number integer, p_module uuid default null, p_commit text default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections := private.my_connection(p_connection, 'git.read');
  v_pull public.pull_requests;
  v_module public.modules;
  v_job bigint;
begin
  perform private.need_anywhere('job.plan', v_connection.org_id);
  v_job := private.need_resolve(v_connection, format('Plan of #%s', p_number));
  select * into v_pull from public.pull_requests where connection_id = p_connection and number = p_number and is_open;
  perform private.fail('RY404', format('There is no open pull request #%s.', p_number),
    'It may be closed, a draft, or not known yet: the poll finds it.') where v_pull.number is null;
  perform private.fail('RY409', 'It comes from a fork: a plan is for one commit, which you name.', format(
    'Read that code first, and name the whole commit: /runyard plan %s. An admin allows forks.', v_pull.head_commit))
  where v_pull.is_fork and (not v_connection.allows_forks or p_commit is distinct from v_pull.head_commit);
  -- The commit of a fork is planned for every module that it changes, whichever was named.
  for v_module in select m.* from private.modules_of_connection(v_connection) as m
    where (p_module is null or m.id = p_module or v_pull.is_fork) and private.may_see(m.org_id, m.path) loop
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
