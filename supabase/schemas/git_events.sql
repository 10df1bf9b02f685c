-- News of a git host and their consequences: a webhook, a poll, a finished reading of a repository.

create function private.receive_git_delivery(p_connection uuid, p_delivery jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_connection public.git_connections;
  v_row public.git_deliveries;
  v_reason pg_catalog.text := private.early_verdict(p_delivery);
begin
  select * into v_connection from public.git_connections where id = p_connection and removed_at is null;
  perform private.fail('RY404', 'There is no such connection.', 'It may have been removed.')
  where v_connection.id is null;
  if v_connection.allows_forks and p_delivery #> '{pull,is_fork}' = 'true' and p_delivery #> '{pull,is_open}' = 'true'
    then
    v_reason := private.fork_words(p_delivery #>> '{pull,head_commit}');
  end if;
  -- Before any row: the end of a reading has this lock when it writes the same rows.
  perform private.lock_state(v_connection.org_id, p_connection);
  v_row := private.first_delivery(p_connection, p_delivery);
  if v_row.id is not null then
    return jsonb_build_object('is_new', false, 'verdict', v_row.verdict, 'reason', v_row.reason);
  end if;
  insert into public.git_deliveries (org_id, connection_id, delivery_id, event, action, ref, before_commit,
    after_commit, pull_request, sender, body_sha256, verdict, reason, decided_at)
  values (v_connection.org_id, p_connection, p_delivery ->> 'delivery_id', left(p_delivery ->> 'event', 100),
    left(p_delivery ->> 'action', 100), p_delivery ->> 'ref', p_delivery ->> 'before', p_delivery ->> 'after',
    coalesce(p_delivery #>> '{pull,number}', p_delivery #>> '{comment,number}')::integer,
    left(p_delivery ->> 'sender', 200), p_delivery ->> 'body_sha256',
    case when v_reason is null then 'PENDING' else 'IGNORED' end, v_reason, case when v_reason is not null then now()
      end) returning * into v_row;
  update public.git_connections set last_delivery_at = now() where id = p_connection;
  perform private.note_push(p_connection, p_delivery);
  perform private.note_pull_request(v_connection, p_delivery) where p_delivery -> 'pull' is not null;
  if v_reason is null then v_row := private.follow_delivery(v_connection, v_row, p_delivery); end if;
  return jsonb_build_object('is_new', true, 'verdict', v_row.verdict, 'reason', v_row.reason);
exception when check_violation or invalid_text_representation or not_null_violation or numeric_value_out_of_range then
  perform private.fail('RY422', 'The delivery has a field that is not valid.', sqlerrm);
end;
$$;
comment on function private.receive_git_delivery is
  'Writes down a delivery whose signature was checked, and queues the job that reads the repository. A repeated one '
  'changes nothing and gets the first verdict.';

-- Acts on a new delivery: runs a command; for everything else, a reading of the repository decides.
create function private.follow_delivery(
  p_connection public.git_connections, p_row public.git_deliveries, p_delivery jsonb
) returns public.git_deliveries language plpgsql as $$
declare
  v_done pg_catalog.text;
  v_job bigint;
begin
  if p_row.event = 'comment' then
    return private.run_command(p_connection, p_row, p_delivery -> 'comment');
  elsif p_row.event = 'merge_group' then
    v_done := private.note_group(p_connection, p_delivery);
  end if;
  if v_done is null then
    v_job := private.request_resolve(p_connection, coalesce('Pull request ' || p_row.pull_request,
      'A push to ' || substr(p_row.ref, 12), 'An event'));
  end if;
  update public.git_deliveries set job_id = v_job, verdict = case when v_done is not null then 'DONE'
      when v_job is null then 'NOTHING' else 'PENDING' end, decided_at = case when v_job is null then now() end,
    reason = coalesce(v_done, case when v_job is null then 'No module uses this repository.' end)
  where id = p_row.id returning * into p_row;
  return p_row;
end;
$$;

-- Queues the reading of repositories whose poll is due.
create function private.sweep_git(out v_count integer) language plpgsql as $$
declare
  v_connection public.git_connections;
begin
  v_count := 0;
  perform private.sweep_queue();
  for v_connection in select * from public.git_connections as c where c.removed_at is null and c.poll_seconds > 0
    and c.next_poll_at <= now() order by c.next_poll_at limit 200 for update skip locked loop
    update public.git_connections set next_poll_at = now() + make_interval(secs => poll_seconds)
    where id = v_connection.id;
    begin
      -- Where there is a token, the provider lists its open pull requests: a lost event is found so.
      insert into public.deliveries (org_id, rule_id, event, event_id, subject, title)
      select v_connection.org_id, v_connection.id, 'git.report', gen_random_uuid()::pg_catalog.text, 'pulls',
        'Open pull requests'
      where v_connection.has_token and v_connection.provider <> 'generic' and not exists (select
        from public.deliveries as d where d.rule_id = v_connection.id and d.subject = 'pulls' and d.status = 'PENDING');
      -- While one waits for a runner, another poll adds nothing; and the sweep waits for nobody.
      if private.try_lock_state(v_connection.org_id, v_connection.id)
        and not exists (select from private.live_jobs as q where q.state_key = v_connection.id) then
        v_count := v_count + (private.request_resolve(v_connection, 'Poll') is not null)::integer;
      end if;
    exception when others then raise warning 'poll of %: %', v_connection.id, sqlerrm;
    end;
  end loop;
end;
$$;

-- Notes how a report went: the id of a comment, and when the provider accepts the next one.
create function private.note_report(p_delivery public.deliveries, p_result jsonb) returns void language plpgsql as $$
begin
  -- First: the holder of the connection's lock may write its secrets.
  if p_delivery.subject = 'pulls' and p_delivery.status = 'DELIVERED' then
    perform private.note_listed_pulls(p_delivery.rule_id, p_result -> 'pulls');
    delete from public.deliveries where id = p_delivery.id;
  end if;
  update private.git_secrets set next_report_at = clock_timestamp()
    + make_interval(secs => greatest(1, (p_result ->> 'retry_seconds')::integer))
  where connection_id = p_delivery.rule_id;
  if p_result ? 'comment_id' then
    update public.pull_requests set comment_id = (p_result ->> 'comment_id')::bigint
    where connection_id = p_delivery.rule_id and 'pull:' || number = p_delivery.subject;
  end if;
end;
$$;

create function private.finish_delivery(p_delivery bigint, p_lease uuid, p_result jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_delivery public.deliveries;
  v_retry integer[] := (select n.retry_seconds from private.notifier as n);
  v_status pg_catalog.text := p_result ->> 'status';
begin
  perform private.refuse_unknown_keys(p_result, array['status', 'http_status', 'note', 'took_ms', 'retry_seconds',
    'comment_id', 'pulls']);
  perform private.fail('RY422',
    'A delivery ends as DELIVERED, KEPT or FAILED, with the receiver''s status and the milliseconds.')
  where v_status is null or v_status not in ('DELIVERED', 'KEPT', 'FAILED')
    or coalesce(p_result ->> 'http_status', '0') !~ '^\d{1,3}$' or coalesce(p_result ->> 'took_ms', '0') !~ '^\d{1,9}$'
    or coalesce(p_result ->> 'retry_seconds', '0') !~ '^\d{1,5}$'
    or coalesce(p_result ->> 'comment_id', '0') !~ '^\d{1,18}$';
  select * into v_delivery from public.deliveries where id = p_delivery and lease_id = p_lease
    and status = 'PENDING' for update;
  if v_delivery.id is null then return jsonb_build_object('status', 'GONE'); end if;
  if v_status = 'FAILED' and v_delivery.attempt <= cardinality(v_retry) then v_status := 'PENDING'; end if;
  update public.deliveries set
    status = v_status, http_status = (p_result ->> 'http_status')::integer, took_ms = (p_result ->> 'took_ms')::integer,
    note = left(p_result ->> 'note', 500), lease_id = null, lease_until = null, finished_at = case
      when v_status <> 'PENDING' then now() end,
    next_at = case when v_status = 'PENDING'
      then now() + make_interval(secs => coalesce((p_result ->> 'retry_seconds')::integer,
        v_retry[v_delivery.attempt] * (0.9 + random() * 0.2))) else next_at end
  where id = p_delivery returning * into v_delivery;
  if v_status = 'DELIVERED' then perform private.end_pauses(v_delivery.rule_id); end if;
  perform private.note_report(v_delivery, p_result);
  perform private.wake_org(v_delivery.org_id, 'deliveries', p_delivery::pg_catalog.text);
  return jsonb_build_object('status', v_delivery.status, 'next_at', v_delivery.next_at);
end;
$$;
comment on function private.finish_delivery is
  'Notes how a message that was leased went {status, http_status, note, took_ms, retry_seconds, comment_id, pulls}; a '
  'failure is tried again after a pause.';

-- The reading list of a runner: branches, folders and paths of the modules, and the commits that were applied.
create function private.resolve_work(p_connection public.git_connections) returns jsonb language sql stable as $$
  select jsonb_build_object('url', (array_agg(m.source ->> 'url' order by m.path))[1], 'pull_requests',
    private.pull_work(p_connection) || private.queue_work(p_connection),
    'modules', coalesce(jsonb_agg(jsonb_build_object('id', m.id, 'branch',
    coalesce(g.branch, m.source ->> 'ref'), 'folder', coalesce(m.source ->> 'subfolder', ''),
    'paths', coalesce(to_jsonb(g.paths), '[]'),
    'applied_commit', case when g.applied_fingerprint is null then g.applied_commit end, 'count_from',
    g.applied_commit) order by m.path)
    filter (where coalesce(g.is_on, true)), '[]'))
  from private.modules_of_connection(p_connection) as m left join public.module_git as g on g.module_id = m.id
$$;

create function private.worker_resolve(p_job bigint, p_attempt integer) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_live private.live_jobs := private.owned_job(private.this_runner(), p_job, p_attempt);
  v_connection public.git_connections;
  v_work pg_catalog.jsonb;
begin
  select c.* into v_connection from public.provision_jobs as j
  join public.git_connections as c on c.id = j.target_connection_id and c.removed_at is null
  where j.id = v_live.job_id and j.type = 'RESOLVE';
  perform private.fail('RY404', 'The repository was disconnected.', 'There is nothing to read.')
  where v_connection.id is null;
  v_work := private.resolve_work(v_connection);
  return v_work || jsonb_build_object('digest', md5(v_work::pg_catalog.text), 'known_heads',
    case when v_connection.work_digest = md5(v_work::pg_catalog.text) then v_connection.heads else '{}' end,
    -- Outside of the digest, which it would change with each reading.
    'seen', (select coalesce(jsonb_object_agg(g.module_id, jsonb_build_object('fingerprint', g.seen_fingerprint,
      'watched', g.watched, 'moved_to', g.moved_to)), '{}') from private.modules_of_connection(v_connection) as m
      join public.module_git as g on g.module_id = m.id where g.seen_fingerprint is not null));
end;
$$;
comment on function private.worker_resolve is
  'What a RESOLVE job reads: the URL, the modules with branch, folder, paths and applied commit, and the heads and '
  'contents that are known already.';

-- Notes a pull request as it was announced; ends the plans of one that is closed.
create function private.note_pull_request(p_connection public.git_connections, p_delivery jsonb) returns void
language plpgsql as $$
declare
  v_pull pg_catalog.jsonb := p_delivery -> 'pull';
  v_number integer := v_pull ->> 'number';
  v_is_open boolean := v_pull -> 'is_open' = 'true' and v_pull -> 'is_draft' <> 'true';
begin
  insert into public.pull_requests as r (connection_id, number, org_id, title, sender, base, head_commit, is_open,
    merge_commit, head_branch, is_fork)
  values (p_connection.id, v_number, p_connection.org_id, left(coalesce(v_pull ->> 'title', ''), 500),
    left(coalesce(v_pull ->> 'author', p_delivery ->> 'sender'), 200), v_pull ->> 'base', v_pull ->> 'head_commit',
    v_is_open, v_pull ->> 'merge_commit', v_pull ->> 'head_branch', v_pull -> 'is_fork' = 'true')
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
  perform private.supersede_plans(p_connection.org_id, array(select m.id
    from private.modules_of_connection(p_connection) as m), v_number::pg_catalog.text,
    'The pull request was closed.') where not v_is_open;
  if v_pull -> 'is_open' <> 'true' then perform private.end_pull(p_connection, v_number); end if;
end;
$$;

-- Notes one pull request that a provider lists, as its event would have done; nothing where it is known as it is.
create function private.note_listed_pull(p_connection public.git_connections, p_pull jsonb) returns void
language plpgsql as $$
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
create function private.note_listed_pulls(p_connection uuid, p_pulls jsonb) returns void language plpgsql as $$
declare
  v_connection public.git_connections;
begin
  select * into v_connection from public.git_connections where id = p_connection and removed_at is null;
  if v_connection.id is null or jsonb_typeof(p_pulls) is distinct from 'array' then return; end if;
  perform private.lock_state(v_connection.org_id, p_connection);
  perform private.note_listed_pull(v_connection, e.value) from jsonb_array_elements(p_pulls) as e;
exception when others then raise warning 'pull requests of %: %', p_connection, sqlerrm;
end;
$$;

-- Ends an entry that left the queue: what waits of it is cancelled, a running apply ends first.
create function private.end_group(p_group private.merge_groups, p_is_merged boolean) returns void language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  perform private.move_group(p_group, 'ENDED')
  where p_group.status not in ('FAILED', 'PASSED') or not p_is_merged and p_group.status = 'PASSED';
  if p_is_merged then return; end if;
  perform private.forget_group(p_group);
  update public.job_sets set cancelled_at = now() where id in (p_group.set_id, p_group.apply_set_id)
    and finished_at is null and cancelled_at is null;
  for v_job in
    select j.* from private.set_members as m
    cross join lateral (select * from public.provision_jobs as j where j.id = m.job_id offset 0) as j
    where m.set_id in (p_group.set_id, p_group.apply_set_id) and (j.type = 'PLAN'
      or j.status in ('QUEUED', 'AWAITING_APPROVAL')) and j.status in ('QUEUED', 'AWAITING_APPROVAL', 'CLAIMED',
      'PROCESSING')
    order by j.module_id loop
    perform private.try_cancel(v_job, 'system', 'git', 'The pull request left the merge queue.');
  end loop;
end;
$$;

-- Notes an entry as it was announced, or its end; the verdict on the delivery, null where a runner decides.
create function private.note_group(p_connection public.git_connections, p_delivery jsonb) returns text
language plpgsql as $$
declare
  v_queue pg_catalog.jsonb := p_delivery -> 'queue';
  v_group private.merge_groups;
begin
  if v_queue -> 'is_open' = 'true' then
    insert into private.merge_groups (connection_id, head_commit, org_id, ref, base, base_commit, pull_request)
    values (p_connection.id, p_delivery ->> 'after', p_connection.org_id, p_delivery ->> 'ref', v_queue ->> 'base',
      p_delivery ->> 'before', (v_queue ->> 'number')::integer)
    on conflict do nothing returning * into v_group;
    perform private.move_group(v_group, case when exists (select from private.modules_of_connection(p_connection))
      then 'WAITING' else 'PASSED' end) where v_group.head_commit is not null;
    return case when v_group.head_commit is null then 'The entry is known already.' end;
  end if;
  select * into v_group from private.merge_groups where connection_id = p_connection.id
    and head_commit = p_delivery ->> 'after' for update;
  if v_group.head_commit is not null then
    perform private.end_group(v_group, v_queue ->> 'reason' = 'merged');
    perform private.request_resolve(p_connection, 'An entry left the merge queue')
    where v_group.apply_set_id is not null;
  end if;
  return case when v_queue ->> 'reason' = 'merged' then 'The entry was merged.' else 'The entry left the queue.' end;
end;
$$;
