-- The merge queue of GitHub: an entry is a commit that becomes the branch if its checks succeed. Its modules with the
-- mode merge_queue are planned at that commit; where every plan has the content and changes of the plan of the pull
-- request, and that one was approved, all are applied in their order, and only then does the check succeed. Everything
-- else fails the check with the reason, before anything is applied. Only a signed event announces an entry: a branch
-- that merely has such a name is never planned. An entry is planned when its base is the head of the branch, so it
-- waits for the entries before it.

create table private.merge_groups (
  connection_id uuid not null references public.git_connections (id) on delete cascade,
  head_commit text not null check (head_commit ~ '^[0-9a-f]{40,64}$'),
  org_id uuid not null references public.organizations (id) on delete cascade,
  ref text not null check (ref ~ '^refs/heads/.' and length(ref) <= 500),
  base text not null check (length(base) between 1 and 200),
  base_commit text not null check (base_commit ~ '^[0-9a-f]{40,64}$'),
  pull_request integer not null check (pull_request > 0),
  status text not null default 'WAITING'
    check (status in ('WAITING', 'PLANNING', 'APPLYING', 'PASSED', 'FAILED', 'ENDED')),
  problem text check (length(problem) <= 1000),
  set_id uuid,
  apply_set_id uuid,
  created_at timestamptz not null default now(),
  primary key (connection_id, head_commit)
);
create index merge_groups_org_id_idx on private.merge_groups (org_id);
create index merge_groups_set_id_idx on private.merge_groups (set_id);
create index merge_groups_apply_set_id_idx on private.merge_groups (apply_set_id);
create index merge_groups_created_at_idx on private.merge_groups (created_at);
comment on table private.merge_groups is 'Entries of merge queues, once each. Kept for 30 days.';
comment on column private.merge_groups.ref is 'The branch of the queue that has this commit.';
comment on column private.merge_groups.status is
  'WAITING for a runner or for entries before it · PLANNING · APPLYING · PASSED: may merge · FAILED · ENDED: it left.';

-- Moves an entry on, with its sets, and reports that at its commit. The caller has locked it.
create function private.move_group(p_group private.merge_groups, p_status text, p_problem text default null)
returns void language sql as $$
  update private.merge_groups set status = p_status, problem = left(p_problem, 1000), set_id = p_group.set_id,
    apply_set_id = p_group.apply_set_id
  where connection_id = p_group.connection_id and head_commit = p_group.head_commit;
  select private.request_report(p_group.org_id, p_group.connection_id, p_group.head_commit, null)
$$;

-- Plans the modules again from their branch that were applied for an entry which did not merge.
create function private.forget_group(p_group private.merge_groups) returns void language sql as $$
  update public.module_git as g set seen_fingerprint = null, seen_set_id = null
  from private.set_members as m join public.provision_jobs as j on j.id = m.job_id and j.status = 'SUCCEEDED'
  where m.set_id = p_group.apply_set_id and g.module_id = m.module_id
$$;

-- ## deciding
-- The entries that a runner reads, as pull requests whose ref is a branch.
create function private.queue_work(p_connection public.git_connections) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('number', g.pull_request, 'base', g.base, 'ref', g.ref)
    order by g.created_at, g.ref), '[]')
  from private.merge_groups as g where g.connection_id = p_connection.id and g.status = 'WAITING'
    and g.created_at > now() - interval '1 day'
$$;

-- Plans the modules of an entry that are applied in the queue and would have other content.
create function private.plan_group(p_connection public.git_connections, p_group private.merge_groups, p_found jsonb)
returns uuid language plpgsql as $$
declare
  v_modules pg_catalog.uuid[];
  v_contents pg_catalog.text[];
begin
  select array_agg(m.id order by m.path), array_agg(f.value ->> 'fingerprint' order by m.path)
  into v_modules, v_contents
  from private.modules_of_connection(p_connection) as m
  join jsonb_array_elements(p_found -> 'modules') as f on f.value ->> 'id' = m.id::pg_catalog.text
  where f.value ->> 'fingerprint' <> f.value ->> 'base_fingerprint' and (private.apply_mode(m)).apply = 'merge_queue';
  if v_modules is null then
    perform private.move_group(p_group, 'PASSED');
    return null;
  elsif not exists (select from public.pull_requests as r where r.connection_id = p_connection.id
    and r.number = p_group.pull_request and not r.is_fork) then
    -- Its plan would run code that came from nobody knows where.
    perform private.move_group(p_group, 'FAILED', format('#%s comes from a fork, or was not announced.',
      p_group.pull_request));
    return null;
  end if;
  p_group.set_id := private.plan_commit(p_connection, v_modules, v_contents, jsonb_build_object('commit',
    p_group.head_commit, 'branch', p_group.base, 'queue', p_group.pull_request, 'base_commit', p_group.base_commit),
    jsonb_build_object('auto_apply', false, 'reason', format('#%s in the merge queue', p_group.pull_request)),
    format('git (merge queue, #%s@%s)', p_group.pull_request, left(p_group.head_commit, 7)));
  perform private.move_group(p_group, 'PLANNING');
  return p_group.set_id;
end;
$$;

-- Updates the entries of the queue after a reading of their repository.
create function private.decide_queue(p_job public.provision_jobs, p_connection public.git_connections) returns void
language plpgsql as $$
declare
  v_found pg_catalog.jsonb;
  v_group private.merge_groups;
  v_problem pg_catalog.text;
  v_set pg_catalog.uuid;
begin
  for v_found in select e from jsonb_path_query(p_job.result, 'strict $.git.pull_requests[*]', silent => true) as e
    where e ->> 'ref' like 'refs/heads/%' loop
    select * into v_group from private.merge_groups where connection_id = p_connection.id
      and ref = v_found ->> 'ref' and status = 'WAITING' order by created_at desc limit 1 for update;
    continue when v_group.head_commit is null;
    v_problem := coalesce(v_found ->> 'problem', case when v_found ->> 'head_commit' <> v_group.head_commit
      then 'The queue has another commit now.' end);
    v_set := null;
    if v_problem is not null then
      perform private.move_group(v_group, 'FAILED', v_problem);
    elsif v_found ->> 'base_commit' = v_group.base_commit then
      v_set := private.plan_group(p_connection, v_group, v_found);
    else
      v_problem := format('It waits until %s is at %s.', v_group.base, left(v_group.base_commit, 7));
    end if;
    update public.git_deliveries set decided_at = now(), verdict = case when v_set is null then 'NOTHING'
        else 'PLANNED' end, set_ids = array_remove(array[v_set], null), reason = left(coalesce(v_problem, case
        when v_set is null then 'Nothing to plan: no module that is applied in the merge queue would have other '
        'content.' else 'Planned at the commit of the queue.' end), 1000)
    where connection_id = p_connection.id and event = 'merge_group' and after_commit = v_group.head_commit
      and action = 'checks_requested';
  end loop;
end;
$$;

-- Returns why an entry whose plans have ended is not applied; null where it is.
create function private.group_problem(p_group private.merge_groups) returns text language sql stable as $$
  select format('%s: %s', o.path, w.words)
  from private.set_members as m join public.modules as o on o.id = m.module_id
  left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
  left join lateral private.reviewed_plan(j) as r on true
  cross join lateral (select case when j.id is null then coalesce(m.left_out, 'it was not planned.')
    when j.status <> 'SUCCEEDED' then format('plan %s %s.', j.number, case when j.status = 'CANCELLED'
      then 'was cancelled' else 'failed' end)
    when j.plan_summary -> 'has_changes' is distinct from 'true' then null
    when j.payload #> '{options,preview}' is not null
      then 'it depends on another module of the same pull request; use the mode after_merge.'
    when r.job_id is null then format('#%s has no plan of it.', p_group.pull_request)
    when not r.is_same then format('its content or its changes are not those of its plan on #%s.',
      p_group.pull_request)
    when r.is_rejected then format('its plan on #%s was rejected.', p_group.pull_request)
    when r.approvals < greatest(o.approvals_required, (not o.auto_apply)::integer)
      then format('its plan on #%s is not approved yet.', p_group.pull_request)
    when exists (select from public.module_locks as l where l.module_id = o.id) then 'it is locked.' end as words) as w
  where m.set_id = p_group.set_id and w.words is not null order by o.path limit 1
$$;

-- Counts the reviews of the pull request for waiting applies of an entry. States in use wait for the next sweep.
create function private.approve_group(p_group private.merge_groups) returns void language sql as $$
  select private.count_reviews(a, p) from private.set_members as m
  join public.provision_jobs as a on a.id = m.job_id and a.status = 'AWAITING_APPROVAL'
  join public.provision_jobs as p on p.id = a.plan_job_id
  where m.set_id = p_group.apply_set_id and private.try_lock_state(a.org_id, a.module_id)
$$;

-- Applies the plans of an entry as one ordered set.
create function private.apply_group(p_group private.merge_groups) returns void language plpgsql as $$
declare
  v_set public.job_sets;
begin
  insert into public.job_sets (org_id, type, path, options, created_by_label)
  values (p_group.org_id, 'APPLY', '', jsonb_build_object('priority', 120, 'reason', format('#%s in the merge queue',
    p_group.pull_request)), format('git (merge queue, #%s@%s)', p_group.pull_request, left(p_group.head_commit, 7)))
  returning * into v_set;
  perform private.add_members(v_set, array(select m.module_id from private.set_members as m
    join public.provision_jobs as j on j.id = m.job_id and j.plan_summary -> 'has_changes' = 'true'
    where m.set_id = p_group.set_id));
  update private.set_members as m set plan_job_id = p.job_id from private.set_members as p
  where m.set_id = v_set.id and p.set_id = p_group.set_id and p.module_id = m.module_id;
  p_group.apply_set_id := v_set.id;
  perform private.move_group(p_group, 'APPLYING');
  perform private.place_members(v_set, 2000, false, v_set.id);
  perform private.approve_group(p_group);
end;
$$;

-- Moves an entry on where its plans, or its applies, have all ended.
create function private.advance_group(p_group private.merge_groups) returns void language plpgsql as $$
declare
  v_set pg_catalog.uuid := coalesce(p_group.apply_set_id, p_group.set_id);
  v_problem pg_catalog.text;
begin
  if p_group.status = 'APPLYING' then perform private.approve_group(p_group); end if;
  if private.is_set_open(v_set) then return; end if;
  if p_group.status = 'PLANNING' then
    v_problem := private.group_problem(p_group);
    if v_problem is null and exists (select from private.set_members as m join public.provision_jobs as j
      on j.id = m.job_id and j.plan_summary -> 'has_changes' = 'true' where m.set_id = v_set) then
      perform private.apply_group(p_group);
      return;
    end if;
  else
    v_problem := (select format('%s: %s', o.path, coalesce(format('apply %s %s.', j.number, case j.status
        when 'CANCELLED' then 'was cancelled' when 'FAILED' then 'failed' else 'needs attention' end), m.left_out))
      from private.set_members as m join public.modules as o on o.id = m.module_id
      left join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j on true
      where m.set_id = v_set and j.status is distinct from 'SUCCEEDED' order by o.path limit 1);
  end if;
  perform private.move_group(p_group, case when v_problem is null then 'PASSED' else 'FAILED' end, v_problem);
end;
$$;

-- Updates an entry after the end of one of its jobs. The caller has the lock of the job's state, so it waits
-- for no entry: the sweep moves on those that somebody is at.
create function private.follow_group(p_job public.provision_jobs) returns void language plpgsql as $$
declare
  v_group private.merge_groups;
begin
  select * into v_group from private.merge_groups where head_commit = p_job.payload #>> '{options,git,commit}'
    and connection_id = (p_job.payload #>> '{options,git,connection_id}')::pg_catalog.uuid for update skip locked;
  if v_group.status in ('PLANNING', 'APPLYING') then
    perform private.advance_group(v_group);
  elsif v_group.status = 'ENDED' and p_job.type = 'APPLY' then
    perform private.forget_group(v_group);
  end if;
exception
  -- Never a reason for the end of a job to fail.
  when others then raise warning 'merge queue, job %: %', p_job.id, sqlerrm;
end;
$$;

-- Moves on the entries whose jobs ended while somebody was at them.
create function private.sweep_queue() returns void language plpgsql as $$
declare
  v_group private.merge_groups;
begin
  for v_group in select * from private.merge_groups where status in ('PLANNING', 'APPLYING')
    order by created_at limit 200 for update skip locked loop
    begin
      perform private.advance_group(v_group);
    exception when others then raise warning 'merge queue, %: %', v_group.head_commit, sqlerrm;
    end;
  end loop;
  delete from private.merge_groups where created_at < now() - interval '30 days';
end;
$$;
