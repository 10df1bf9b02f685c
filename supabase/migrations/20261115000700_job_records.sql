-- What is written down about jobs: events, logs, approvals. All three are append-only.
-- Logs are chunks, not lines (half the work, a third of the space), in one partition per day of the attempt's claim:
-- so (job, attempt, seq) stays unique, and retention is a dropped table. Partitions live in `private`; readers go
-- through the parent and its policy. Chunks are not published: a doorbell says how far the log has come.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- No foreign keys: the function that changes a job writes its event, and the checks would be a tenth of a claim's cost.
create table public.job_events (
  id bigint generated always as identity primary key,
  org_id uuid not null,
  job_id bigint not null,
  attempt integer not null default 0,
  at timestamptz not null default now(),
  actor_kind public.actor_kind not null,
  actor_id uuid,
  actor_label text not null,
  event text not null,
  from_status public.job_status,
  to_status public.job_status,
  reason text,
  detail jsonb not null default '{}'
);
create index job_events_job_id_idx on public.job_events (job_id, id);
create index job_events_org_id_idx on public.job_events (org_id, id desc);
alter table public.job_events enable row level security;
grant select on public.job_events to authenticated, service_role;
create policy "Members see their organisation's job events" on public.job_events
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.job_events is 'Every change of every job, with actor and reason. Replaying a job''s events gives its status.';
comment on column public.job_events.id is 'Order of the events.';
comment on column public.job_events.org_id is 'The organisation.';
comment on column public.job_events.job_id is 'The job.';
comment on column public.job_events.attempt is 'The attempt that it concerns; 0 before the first.';
comment on column public.job_events.at is 'When.';
comment on column public.job_events.actor_kind is 'What kind of actor.';
comment on column public.job_events.actor_id is 'The member, runner or service account.';
comment on column public.job_events.actor_label is 'Their name at that time.';
comment on column public.job_events.event is 'What happened.';
comment on column public.job_events.from_status is 'Status before; null when the job was made or the status stayed.';
comment on column public.job_events.to_status is 'Status after; null when the status stayed.';
comment on column public.job_events.reason is 'Why, in words.';
comment on column public.job_events.detail is 'More, for programs.';

-- Without check constraints: check_chunks has looked at every chunk, and they would be parsed again for every call.
create table public.job_log_chunks (
  log_day date not null,
  job_id bigint not null,
  attempt integer not null,
  seq integer not null,
  org_id uuid not null,
  step text not null default '',
  body text not null,
  line_count integer not null,
  bytes integer not null,
  created_at timestamptz not null default now(),
  primary key (job_id, attempt, seq, log_day)
) partition by range (log_day);
alter table public.job_log_chunks enable row level security;
grant select on public.job_log_chunks to authenticated, service_role;
create policy "Members read their organisation's job logs" on public.job_log_chunks
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.job_log_chunks is
  'Job logs in chunks of whole lines, in order of seq. Removed after the organisation''s retention.';
comment on column public.job_log_chunks.log_day is 'Day on which the attempt was claimed: the partition.';
comment on column public.job_log_chunks.job_id is 'The job.';
comment on column public.job_log_chunks.attempt is 'The attempt that wrote it.';
comment on column public.job_log_chunks.seq is 'Position in the attempt''s log, from 1 without gaps.';
comment on column public.job_log_chunks.org_id is 'The organisation.';
comment on column public.job_log_chunks.step is 'The step that wrote it.';
comment on column public.job_log_chunks.body is 'The text, at most 64 KiB.';
comment on column public.job_log_chunks.line_count is 'Lines in it.';
comment on column public.job_log_chunks.bytes is 'Bytes in it (UTF-8).';
comment on column public.job_log_chunks.created_at is 'When it arrived.';
do $$
begin
  alter table public.job_log_chunks alter column body set compression lz4;
exception
  when feature_not_supported then raise notice 'This server has no lz4; logs are compressed with pglz.';
end;
$$;

create function private.log_partition_name(p_day date)
returns text
language sql immutable
set search_path = ''
as $$
  select 'job_log_chunks_' || to_char(p_day, 'YYYYMMDD')
$$;
comment on function private.log_partition_name(date) is 'The name of a day''s log partition (in private).';

create function private.ensure_log_partition(p_day date)
returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  v_name pg_catalog.text := private.log_partition_name(p_day);
begin
  if to_regclass('private.' || v_name) is not null then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('runyard:log_partition', 0));
  if to_regclass('private.' || v_name) is not null then
    return;
  end if;
  -- Attaching takes a weaker lock on the parent than "create … partition of": appends go on meanwhile.
  execute format('create table private.%I (like public.job_log_chunks including all)', v_name);
  execute format('alter table private.%I enable row level security', v_name);
  execute format('comment on table private.%I is %L', v_name, 'Job logs of attempts claimed on ' || p_day || '.');
  execute format('alter table public.job_log_chunks attach partition private.%I for values from (%L) to (%L)', v_name, p_day, p_day + 1);
end;
$$;
comment on function private.ensure_log_partition(date) is 'Makes a day''s log partition if it is not there.';
do $$
begin
  perform private.ensure_log_partition(current_date + d) from generate_series(0, 2) as d;
end;
$$;

create table public.approvals (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  user_id uuid not null,
  user_label text not null,
  decision text not null check (decision in ('approve', 'reject')),
  comment text not null default '' check (length(comment) <= 2000),
  created_at timestamptz not null default now(),
  unique (job_id, user_id)
);
create index approvals_org_id_idx on public.approvals (org_id, created_at desc);
alter table public.approvals enable row level security;
grant select on public.approvals to authenticated, service_role;
create policy "Members see their organisation's approvals" on public.approvals
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.approvals is 'What members decided about jobs that need approval; one decision per member and job.';
comment on column public.approvals.id is 'The decision''s id.';
comment on column public.approvals.org_id is 'The organisation.';
comment on column public.approvals.job_id is 'The job.';
comment on column public.approvals.user_id is 'The member.';
comment on column public.approvals.user_label is 'Their name at that time.';
comment on column public.approvals.decision is 'approve or reject.';
comment on column public.approvals.comment is 'What they said.';
comment on column public.approvals.created_at is 'When.';

create table public.worker_events (
  id bigint generated always as identity primary key,
  org_id uuid references public.organizations (id) on delete cascade,
  is_shared boolean not null default false,
  worker_id uuid not null references public.workers (id) on delete cascade,
  instance_name text,
  at timestamptz not null default now(),
  event text not null,
  reason text
);
create index worker_events_worker_id_idx on public.worker_events (worker_id, id desc);
create index worker_events_org_id_idx on public.worker_events (org_id, id desc);
alter table public.worker_events enable row level security;
grant select on public.worker_events to authenticated, service_role;
create policy "Members see events of their runners and of shared ones" on public.worker_events
  for select to authenticated using (is_shared or org_id = any(array(select private.my_org_ids())));
comment on table public.worker_events is 'What happened to runners: connected, offline, draining, settings changed. Append only.';
comment on column public.worker_events.id is 'Order of the events.';
comment on column public.worker_events.org_id is 'The organisation; null for a shared runner.';
comment on column public.worker_events.is_shared is 'Whether the runner is a shared one.';
comment on column public.worker_events.worker_id is 'The runner.';
comment on column public.worker_events.instance_name is 'The instance, where it concerns one.';
comment on column public.worker_events.at is 'When.';
comment on column public.worker_events.event is 'What happened.';
comment on column public.worker_events.reason is 'Why, in words.';

-- ---------------------------------------------------------------------------------------------- writing events

create function private.record_job_event(
  p_job public.provision_jobs, p_event text, p_from public.job_status, p_to public.job_status,
  p_kind public.actor_kind, p_actor uuid, p_label text, p_reason text default null, p_detail jsonb default '{}'
)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status, to_status, reason, detail)
  values (p_job.org_id, p_job.id, p_job.attempt, p_kind, p_actor, p_label, p_event, p_from, p_to, p_reason, coalesce(p_detail, '{}'));
end;
$$;
comment on function private.record_job_event(public.provision_jobs, text, public.job_status, public.job_status, public.actor_kind, uuid,
  text, text, jsonb) is
  'Writes one event of a job.';

create function private.record_worker_event(p_worker uuid, p_event text, p_reason text default null, p_instance text default null)
returns void
language sql
set search_path = ''
as $$
  insert into public.worker_events (org_id, is_shared, worker_id, instance_name, event, reason)
  select w.org_id, w.is_shared, w.id, p_instance, p_event, p_reason from public.workers as w where w.id = p_worker
$$;
comment on function private.record_worker_event(uuid, text, text, text) is 'Writes one event of a runner.';

revoke execute on all functions in schema private from public;
