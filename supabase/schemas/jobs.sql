-- Jobs: `provision_jobs` is the record: published, wide, kept. `private.live_jobs` has one narrow row for each job that
-- is queued, running or in need of attention; the claim reads only that table, so its cost does not grow with finished
-- jobs, and promoting or re-routing a queued job sends no message. Transitions and events are append-only.

create type public.job_status as enum (
  'AWAITING_APPROVAL', 'QUEUED', 'CLAIMED', 'PROCESSING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'NEEDS_ATTENTION'
);
comment on type public.job_status is 'Where a job is. SUCCEEDED, FAILED and CANCELLED are final.';

create type public.job_phase as enum ('PREPARE', 'FETCH', 'INPUTS', 'INIT', 'PLAN', 'APPLY', 'DESTROY', 'OUTPUT',
  'REPORT');
comment on type public.job_phase is 'What a running job does. From APPLY or DESTROY on it may have changed something.';

create type public.cancel_kind as enum ('AFTER_STEP', 'GRACEFUL', 'KILL');
comment on type public.cancel_kind is
  'AFTER_STEP: stop after the current step · GRACEFUL: one SIGINT · KILL: at once, whatever it leaves behind.';

-- A constraint is parsed again by every statement that writes, as long as it is: a call is short, and its body stays
-- compiled.
-- Whether a job is about one thing. A reading for move-in is about a new repository, a test of policies about plans.
create function private.is_about_one_thing(
  p_type public.job_type, p_module uuid, p_worker uuid, p_identity uuid, p_connection uuid
) returns boolean language plpgsql immutable as $$
begin
  return num_nonnulls(p_module, p_worker, p_identity, p_connection) = 1
    or p_type in ('RESOLVE', 'POLICY_TEST') and num_nonnulls(p_module, p_worker, p_identity, p_connection) = 0;
end;
$$;

-- worker_id and instance_id have no foreign keys: a claim writes its own caller's, which it has just read.
create table public.provision_jobs (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  number bigint not null,
  type public.job_type not null,
  status public.job_status not null default 'QUEUED',
  phase public.job_phase,
  module_id uuid,
  module_path text,
  group_path text,
  target_worker_id uuid references public.workers (id),
  target_identity_id uuid references public.cloud_identities (id),
  target_connection_id uuid,
  payload jsonb not null default '{}',
  pinned_worker_id uuid references public.workers (id),
  pinned_instance_name text,
  labels text[] not null default '{}',
  priority smallint not null default 100,
  attempt integer not null default 0,
  max_attempts integer not null default 3,
  worker_id uuid,
  worker_name text,
  instance_id uuid,
  instance_name text,
  cancel_kind public.cancel_kind,
  cancel_requested_at timestamptz,
  cancel_requested_by text,
  steps jsonb not null default '[]',
  plan_summary jsonb,
  result jsonb,
  error jsonb,
  approvals_required integer not null default 0,
  approvals_received integer not null default 0,
  approval_deadline_at timestamptz,
  needs_confirmation boolean not null default false,
  planned_serial bigint,
  plan_sha256 text check (plan_sha256 ~ '^[0-9a-f]{64}$'),
  message text check (length(message) <= 2000),
  plan_job_id bigint references public.provision_jobs (id) on delete set null,
  is_followed boolean not null default false,
  retry_of bigint references public.provision_jobs (id) on delete set null,
  rollout_id uuid,
  idempotency_key text,
  is_quarantined boolean not null default false,
  late_report jsonb,
  last_log_seq integer not null default 0,
  log_day date,
  not_before_at timestamptz,
  created_by uuid,
  created_by_label text not null default 'system',
  created_at timestamptz not null default now(),
  queued_at timestamptz,
  claimed_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  slimmed_at timestamptz,
  updated_at timestamptz not null default now(),
  constraint provision_jobs_module_fkey foreign key (org_id, module_id) references public.modules (org_id, id),
  constraint provision_jobs_one_target check (private.is_about_one_thing(type, module_id, target_worker_id,
    target_identity_id, target_connection_id))
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  -- Counts by status come from an index alone only where vacuum has been.
  autovacuum_vacuum_insert_scale_factor = 0.02);

-- A plan and the apply that follows it share a number; nothing else does.
create unique index provision_jobs_number_idx on public.provision_jobs (org_id, number, (plan_job_id is null));
-- With the type: lists and counts by status and type come from the index alone, also of a type that few jobs have.
-- By the negative number: no other index has that order. For a status or type that few jobs have, the planner would
-- read everybody's jobs by their key, from the newest on, wherever vacuum is behind.
create index provision_jobs_org_id_status_idx on public.provision_jobs (org_id, status, type, (-id))
  include (id, is_followed);
create index provision_jobs_org_id_idx on public.provision_jobs (org_id, id desc);
create index provision_jobs_module_id_idx on public.provision_jobs (module_id, id desc) where module_id is not null;
-- A module's badge is read for every row of the tree, and plans may be many.
create index provision_jobs_module_change_idx on public.provision_jobs (module_id, id desc)
  where module_id is not null and type in ('APPLY', 'DESTROY', 'DRIFT');
create index provision_jobs_target_identity_id_idx on public.provision_jobs (target_identity_id, id desc)
  where target_identity_id is not null;
create index provision_jobs_target_worker_id_idx on public.provision_jobs (target_worker_id)
  where target_worker_id is not null;
create index provision_jobs_retry_of_idx on public.provision_jobs (retry_of) where retry_of is not null;
create index provision_jobs_worker_id_idx on public.provision_jobs (worker_id, id desc) where worker_id is not null;
create index provision_jobs_finished_at_idx on public.provision_jobs (org_id, finished_at)
  where finished_at is not null;
create index provision_jobs_plan_job_id_idx on public.provision_jobs (plan_job_id) where plan_job_id is not null;
create index provision_jobs_rollout_id_idx on public.provision_jobs (rollout_id) where rollout_id is not null;
create unique index provision_jobs_idempotency_key_idx on public.provision_jobs (module_id, idempotency_key)
  where idempotency_key is not null;
-- For a runner that is removed and for the sweep, which know no organisation: jobs that only one runner may take, and
-- approvals that run out.
create index provision_jobs_pinned_worker_id_idx on public.provision_jobs (pinned_worker_id, status)
  where pinned_worker_id is not null;
create index provision_jobs_approval_deadline_at_idx on public.provision_jobs (approval_deadline_at)
  where status = 'AWAITING_APPROVAL';
-- A reading of a repository is about all its modules, wherever its runner is.
create policy "Members see their organisation's jobs" on public.provision_jobs
  for select to authenticated using (org_id = any(array(select private.my_org_ids('module.read')))
    or org_id = any(array(select private.my_org_ids()))
    and target_connection_id is null and private.is_seen(org_id, module_path, array(select private.my_prefixes())));
comment on table public.provision_jobs is 'Jobs: one row per unit of work, request to end. Written by functions only.';
comment on column public.provision_jobs.id is 'Internal: calls, folders and containers have it. People see the number.';
comment on column public.provision_jobs.number is
  'The number of its run in the organisation, from 1; a plan and the apply that follows it have the same.';
comment on column public.provision_jobs.module_path is
  'The module''s path then; of a RESOLVE job, the module whose runners may do it; of a POLICY_TEST, the plans'' path.';
comment on column public.provision_jobs.payload is 'All that the runner needs, frozen at the request. No secrets.';
comment on column public.provision_jobs.priority is 'Lower runs sooner; 100 is usual.';
comment on column public.provision_jobs.attempt is 'The number of the current or last try; runners'' writes have it.';
comment on column public.provision_jobs.steps is
  'Steps of the attempt: [{name, title, phase, status, started_at, finished_at, first_seq, last_seq}].';
comment on column public.provision_jobs.error is 'Why it failed: {code, message, hint}.';
comment on column public.provision_jobs.needs_confirmation is
  'Whether it waits for a member to confirm its plan, where no approval is needed either.';
comment on column public.provision_jobs.planned_serial is
  'Of a finished plan: the serial of the state that it was made against, -1 for none. It is applied only to that.';
comment on column public.provision_jobs.plan_sha256 is
  'Digest of the plan file: of a finished plan, the one that its runner sealed; of an apply, the one that it applies.';
comment on column public.provision_jobs.message is 'Why it was requested; an apply has its plan''s.';
comment on column public.provision_jobs.is_followed is 'Whether an apply with its number followed: lists show that.';
comment on column public.provision_jobs.idempotency_key is 'The caller''s own key: again, it returns this job.';
comment on column public.provision_jobs.is_quarantined is 'Whether it was taken out after two runners died of it.';
comment on column public.provision_jobs.late_report is 'What an attempt reported after it had lost the job.';
comment on column public.provision_jobs.last_log_seq is 'The last chunk of the log, as the finish call announced it.';
comment on column public.provision_jobs.log_day is
  'Day (UTC) on which its attempt was claimed: the log''s partition. Earlier attempts'' days are not after it.';
comment on column public.provision_jobs.slimmed_at is
  'When payload, steps, plan and result were removed: 90 days after its end. It cannot be retried from then on.';

-- ## numbers
-- The counter of an organisation's runs is its own sequence: a counter in a row would be locked until the call
-- that enqueues commits, and one that enqueues for several modules would hold it while it waits for their states.
create function private.job_counter(p_org uuid) returns regclass language plpgsql as $$
declare
  v_name pg_catalog.text := 'private.job_numbers_' || translate(p_org::pg_catalog.text, '-', '_');
begin
  -- Rows that were restored without their triggers have no counter yet.
  if to_regclass(v_name) is null then
    perform pg_advisory_xact_lock(private.lock_key('numbers', p_org::pg_catalog.text));
    execute format('create sequence if not exists %s start %s', v_name, (
      select coalesce(max(j.number), 0) + 1 from public.provision_jobs as j where j.org_id = p_org));
  end if;
  return v_name::pg_catalog.regclass;
end;
$$;

create function private.make_job_counter() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform private.job_counter(new.id);
  return null;
end;
$$;
create trigger make_job_counter after insert on public.organizations
  for each row execute function private.make_job_counter();

-- Numbers a new job: the apply that follows a plan has the plan's number, every other job the next one. A second apply
-- of the same plan and a retry are runs of their own.
create function private.number_job() returns trigger language plpgsql as $$
begin
  if new.plan_job_id is not null and new.retry_of is null then
    update public.provision_jobs as p set is_followed = true
    where p.id = new.plan_job_id and p.org_id = new.org_id and not p.is_followed returning p.number into new.number;
  end if;
  new.number := coalesce(new.number, nextval(private.job_counter(new.org_id)));
  return new;
end;
$$;
-- A thousand jobs at once bring their numbers: a call for each would be a fifth of their cost.
create trigger number before insert on public.provision_jobs
  for each row when (new.number is null) execute function private.number_job();

-- The number of a job, for texts that people read.
create function private.job_number(p_job bigint) returns bigint language sql stable as $$
  select j.number from public.provision_jobs as j where j.id = p_job
$$;

create view public.last_jobs with (security_invoker = true) as
select
  m.id as module_id,
  m.org_id,
  m.path,
  j.id,
  j.number,
  j.type,
  j.status
from public.modules as m
cross join lateral (
  select
    j.id,
    j.number,
    j.type,
    j.status
  from public.provision_jobs as j
  where j.module_id = m.id and j.type in ('APPLY', 'DESTROY', 'DRIFT') order by j.id desc limit 1
) as j
where m.deleted_at is null;
comment on view public.last_jobs is 'The newest apply, destroy or drift check of each module that has one.';

-- ## scheduling
create type private.job_stage as enum ('WAITING', 'BACKOFF', 'READY', 'RUNNING', 'HELD');
comment on type private.job_stage is
  'WAITING: behind another of its state · BACKOFF: next, not yet · READY to be claimed · RUNNING · HELD for attention.';

create sequence private.ready_seq;
comment on sequence private.ready_seq is 'Order in which jobs became ready.';

create table private.live_jobs (
  job_id bigint primary key,
  org_id uuid not null,
  state_key uuid not null,
  stage private.job_stage not null,
  priority smallint not null,
  lane_id integer,
  ready_seq bigint,
  attempt integer not null default 0,
  worker_id uuid,
  instance_id uuid,
  session_id uuid,
  claim_request_id uuid,
  claimed_at timestamptz,
  lease_until timestamptz,
  log_day date,
  has_touched boolean not null default false,
  cancel_kind public.cancel_kind,
  unlisted_at timestamptz,
  returned integer not null default 0,
  aged_from integer,
  not_before_at timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0);

-- The index of the claim: the lane (which has the priority), then the order of becoming ready. Only jobs that may run
-- have a lane; of those in a stage, a planner with statistics of an empty queue reads all in the index below. Its pages
-- are kept short: a look at one job reads the entries of a whole page.
create index live_jobs_ready_idx on private.live_jobs (lane_id, ready_seq) with (fillfactor = 30)
  where lane_id is not null;

-- One job per state at a time: at most one that is next, running or held.
create unique index live_jobs_next_idx on private.live_jobs (state_key) where stage <> 'WAITING';
create index live_jobs_waiting_idx on private.live_jobs (state_key, priority, job_id) where stage = 'WAITING';
create index live_jobs_instance_id_idx on private.live_jobs (instance_id) where stage = 'RUNNING';
create index live_jobs_aged_from_idx on private.live_jobs (aged_from) where aged_from is not null;
create index live_jobs_not_before_at_idx on private.live_jobs (not_before_at) where stage = 'BACKOFF';
comment on table private.live_jobs is 'What the claim knows: a narrow row for each queued, running or held job.';
comment on column private.live_jobs.job_id is 'The job. No foreign key: the same function writes both rows.';
comment on column private.live_jobs.state_key is 'What one job at a time may act on: a module, a runner it deploys.';
comment on column private.live_jobs.lane_id is 'Which runners may take it; set while it is ready.';
comment on column private.live_jobs.ready_seq is 'When it became ready, as a number: fairness between modules.';
comment on column private.live_jobs.session_id is 'The session that has it: the third part of the fence.';
comment on column private.live_jobs.claim_request_id is 'The claim that took it: a repeated one gets the same answer.';
comment on column private.live_jobs.lease_until is 'The lease as claimed; the instance''s heartbeats prolong it.';
comment on column private.live_jobs.has_touched is 'Whether a person decides if it dies: it may have changed things.';
comment on column private.live_jobs.unlisted_at is 'Since when its runner''s heartbeats do not mention it.';
comment on column private.live_jobs.returned is 'How many attempts were given back; they do not count for the limit.';
comment on column private.live_jobs.aged_from is 'The lane that it left after ten minutes, for the usual priority.';

-- A function, as is_about_one_thing is: as six conditions they were a tenth of a claim.
-- Whether a row has what its stage needs and nothing that belongs to another.
create function private.is_stage_whole(p_live private.live_jobs) returns boolean language plpgsql immutable as $$
begin
  -- One condition for each stage: what is not reached is not prepared, and a claim writes RUNNING alone.
  if p_live.stage = 'RUNNING' then
    return p_live.lane_id is null and p_live.attempt > 0 and p_live.returned >= 0
      and num_nulls(p_live.worker_id, p_live.instance_id, p_live.session_id, p_live.claim_request_id,
        p_live.claimed_at, p_live.log_day) = 0;
  elsif p_live.stage = 'READY' then
    return least(p_live.attempt, p_live.returned) >= 0 and num_nulls(p_live.lane_id, p_live.ready_seq) = 0
      and num_nonnulls(p_live.instance_id, p_live.session_id) = 0;
  elsif p_live.stage = 'HELD' then
    return least(p_live.attempt, p_live.returned) >= 0 and p_live.lane_id is null;
  end if;
  return least(p_live.attempt, p_live.returned) >= 0
    and num_nonnulls(p_live.lane_id, p_live.instance_id, p_live.session_id) = 0
    and (p_live.stage <> 'BACKOFF' or p_live.not_before_at is not null);
end;
$$;

alter table private.live_jobs add constraint live_jobs_stage_check check (private.is_stage_whole(live_jobs));

-- ## transitions
create table private.job_transitions (
  from_status public.job_status not null,
  to_status public.job_status not null,
  event text not null,
  description text not null,
  primary key (from_status, to_status, event)
);
comment on table private.job_transitions is 'Every allowed change of status, with its events. Others are refused.';
insert into private.job_transitions (from_status, to_status, event, description) values
('AWAITING_APPROVAL', 'QUEUED', 'approved', 'Enough members approved.'),
('AWAITING_APPROVAL', 'QUEUED', 'confirmed', 'A member confirmed its plan.'),
('AWAITING_APPROVAL', 'CANCELLED', 'outdated', 'The state has moved on since its plan.'),
('AWAITING_APPROVAL', 'CANCELLED', 'rejected', 'A member rejected it.'),
('AWAITING_APPROVAL', 'CANCELLED', 'approval_expired', 'Nobody approved it in time.'),
('AWAITING_APPROVAL', 'CANCELLED', 'cancelled',
  'A member cancelled it, or the runner that it is pinned to was removed.'),
('QUEUED', 'CLAIMED', 'claimed', 'A runner took it.'),
('QUEUED', 'CANCELLED', 'cancelled', 'A member cancelled it before a runner took it.'),
('QUEUED', 'CANCELLED', 'outdated', 'The state has moved on since its plan.'),
('QUEUED', 'FAILED', 'failed', 'It can never run: the runner that it is pinned to was removed.'),
('CLAIMED', 'PROCESSING', 'started', 'The runner reported its first phase.'),
('CLAIMED', 'QUEUED', 'returned', 'The runner gave it back before it began.'),
('CLAIMED', 'QUEUED', 'lost', 'The runner was lost before it began; tried again after a pause.'),
('CLAIMED', 'SUCCEEDED', 'succeeded', 'The runner finished it without a phase report.'),
('CLAIMED', 'FAILED', 'failed', 'The runner could not begin.'),
('CLAIMED', 'FAILED', 'exhausted', 'The runner was lost and no attempt was left.'),
('CLAIMED', 'FAILED', 'quarantined', 'It took down two different runners.'),
('CLAIMED', 'CANCELLED', 'cancelled', 'Stopped before it began.'),
('PROCESSING', 'SUCCEEDED', 'succeeded', 'The runner finished it.'),
('PROCESSING', 'FAILED', 'failed', 'The runner reported a failure.'),
('PROCESSING', 'FAILED', 'exhausted', 'The runner was lost and no attempt was left.'),
('PROCESSING', 'FAILED', 'quarantined', 'It took down two different runners.'),
('PROCESSING', 'CANCELLED', 'cancelled', 'Stopped because a member asked for it.'),
('PROCESSING', 'QUEUED', 'returned', 'The runner gave it back before it changed infrastructure.'),
('PROCESSING', 'QUEUED', 'lost', 'The runner was lost before infrastructure changed; tried again after a pause.'),
('PROCESSING', 'NEEDS_ATTENTION', 'attention', 'The runner was lost while it was changing infrastructure.'),
('PROCESSING', 'NEEDS_ATTENTION', 'engine_killed', 'The engine was killed while it was changing infrastructure.'),
('NEEDS_ATTENTION', 'PROCESSING', 'resumed',
  'The runner is in contact again before anybody released the job, and continues.'),
('QUEUED', 'FAILED', 'unfit', 'Three runners gave it back for lack of the same thing.'),
('NEEDS_ATTENTION', 'QUEUED', 'retried', 'A member decided to run it again.'),
('NEEDS_ATTENTION', 'FAILED', 'marked_failed', 'A member decided that it failed.');

-- Refuses every change of status that private.job_transitions does not list, for every caller; keeps updated_at true.
create function private.guard_job() returns trigger language plpgsql as $$
begin
  new.updated_at := now();
  -- In two steps: the table is read only when the status changes.
  if old.status = new.status then return new; end if;
  if not exists (
    select from private.job_transitions as t where t.from_status = old.status and t.to_status = new.status
  ) then
    perform private.fail('RY409', format('A job cannot go from %s to %s.', old.status, new.status),
      'Look at the job again: it has changed in the meantime.',
      jsonb_build_object('job', old.id, 'status', old.status)::pg_catalog.text);
  end if;
  return new;
end;
$$;
create trigger guard before update on public.provision_jobs for each row execute function private.guard_job();

-- Jobs that wait for a person are few, and every page shows them: without it, finding none reads all that ever were.
create index provision_jobs_needs_you_idx on public.provision_jobs (org_id, id desc)
where status in ('AWAITING_APPROVAL', 'NEEDS_ATTENTION');

-- Jobs about runners are few: a search for those that wait finds them by their status, whichever runner or type.
create index provision_jobs_lifecycle_idx on public.provision_jobs (status, id) where target_worker_id is not null;

-- No foreign keys: the function that changes a job writes its event, and the checks would be a tenth of a claim's cost.
create table public.job_events (
  id bigint generated always as identity,
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
  detail jsonb not null default '{}',
  primary key (job_id, id)
);
create index job_events_org_id_idx on public.job_events (org_id, at desc, id desc);
comment on table public.job_events is 'Every change of every job, with actor and reason: replayed, its status.';

-- Deletes jobs with their events and logs. Logs are found by job and day: no index of theirs has the organisation.
create function private.delete_jobs(p_jobs bigint[]) returns integer
language plpgsql set search_path = '' set plan_cache_mode = force_custom_plan as $$
declare
  v_from pg_catalog.date;
  v_until pg_catalog.date;
begin
  -- An attempt's day is between the request and the last claim.
  select (min(j.created_at) at time zone 'utc')::pg_catalog.date, max(j.log_day) into v_from, v_until
  from public.provision_jobs as j where j.id = any (p_jobs);
  delete from public.job_log_chunks as c where c.log_day between v_from and v_until and c.job_id = any (p_jobs);
  delete from public.job_events as e where e.job_id = any (p_jobs);
  delete from public.provision_jobs as j where j.id = any (p_jobs);
  return cardinality(p_jobs);
end;
$$;

-- Rows without a foreign key go with their organisation: a key would lock the organisation's row for each event.
create function private.remove_jobs_of_organization() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from private.live_jobs where org_id = old.id;
  perform private.delete_jobs(array(select j.id from public.provision_jobs as j where j.org_id = old.id));
  delete from public.job_events where org_id = old.id;
  execute format('drop sequence if exists private.job_numbers_%s', translate(old.id::pg_catalog.text, '-', '_'));
  return old;
end;
$$;
create trigger remove_jobs before delete on public.organizations
  for each row execute function private.remove_jobs_of_organization();

-- ## writing events
-- Writes one event of a job.
create function private.record_job_event(
  p_job public.provision_jobs, p_event text, p_from public.job_status, p_to public.job_status, p_kind
  public.actor_kind, p_actor uuid, p_label text, p_reason text default null, p_detail jsonb default '{}'
) returns void language plpgsql as $$
begin
  insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_id, actor_label, event, from_status,
    to_status, reason, detail)
  values (p_job.org_id, p_job.id, p_job.attempt, p_kind, p_actor, p_label, p_event, p_from, p_to, p_reason,
    coalesce(p_detail, '{}'));
end;
$$;

-- Pages read reports for every member: what they cannot read must not get in. Each function answers what is kept; they
-- are not called for what was not sent, and JSON's null counts as that.
-- Whether part of a report is an object of at most so many bytes, or JSON's null.
create function private.is_object(p_value jsonb, p_bytes integer) returns boolean
language plpgsql immutable strict as $$
begin
  return jsonb_typeof(p_value) in ('object', 'null') and pg_column_size(p_value) <= p_bytes;
end;
$$;

-- A plan's summary or a job's result as a runner reports it; refuses anything but an object, or one larger than this.
create function private.report_object(p_value jsonb, p_bytes integer, p_what text) returns jsonb
language plpgsql immutable strict as $$
begin
  if not private.is_object(p_value, p_bytes) then
    perform private.fail('RY422', format('%s is an object of at most %s MiB.', p_what, p_bytes / 1048576));
  end if;
  return nullif(p_value, 'null');
end;
$$;

-- Reads a runner's report of why a job failed; refuses anything else.
create function private.report_error(p_error jsonb) returns jsonb language plpgsql immutable strict as $$
begin
  if not private.is_object(p_error, 65536) or jsonb_typeof(p_error -> 'code') not in ('string', 'null')
    or jsonb_typeof(p_error -> 'message') not in ('string', 'null')
    or jsonb_typeof(p_error -> 'hint') not in ('string', 'null') then
    perform private.fail('RY422', 'An error is an object with code, message and hint as texts, of at most 64 KiB.');
  end if;
  return nullif(p_error, 'null');
end;
$$;

-- Steps as a runner reports them; refuses what is none.
create function private.report_steps(p_steps jsonb) returns jsonb language plpgsql immutable strict as $$
begin
  if jsonb_typeof(p_steps) = 'null' then return null; end if;
  if jsonb_typeof(p_steps) <> 'array' or pg_column_size(p_steps) > 262144 or jsonb_array_length(p_steps) > 500
    or jsonb_path_exists(p_steps, 'strict $[*] ? (@.type() != "object")') then
    perform private.fail('RY422', 'Steps are a list of at most 500 objects and 256 KiB.');
  end if;
  return p_steps;
end;
$$;

-- The labels of a job that needs more than its module does. Refuses more than a runner can have.
create function private.job_labels(p_module text[], p_more text[], out v_labels text[]) language plpgsql immutable as $$
begin
  v_labels := private.sorted_labels(p_module || p_more);
  if not private.is_label_list(v_labels) then
    perform private.fail('RY422', 'The module''s labels and the job''s are too many together.',
      'At most 32 labels of 1,000 characters in all: no runner has more.');
  end if;
end;
$$;

-- A count of a plan's summary; a runner reports it, so anything but a possible number is none.
create function private.plan_count(p_summary jsonb, p_names text[]) returns integer language sql immutable as $$
  select coalesce(sum((p_summary ->> n)::numeric), 0)::integer from unnest(p_names) as n
  where case when jsonb_typeof(p_summary -> n) = 'number' then (p_summary ->> n)::numeric between 0 and 1000000 end
$$;

create function private.is_drift_check(p_type public.job_type, p_payload jsonb) returns boolean
language plpgsql immutable as $$
begin
  return p_type = 'DRIFT'
    or p_type = 'PLAN' and coalesce(p_payload #> '{options,refresh_only}' = 'true', false);
end;
$$;

-- Whether a plan or a drift check found changes. Only resources drift, not outputs that no apply has written yet.
create function private.has_found_changes(p_type public.job_type, p_payload jsonb, p_summary jsonb) returns boolean
language plpgsql immutable as $$
begin
  return case when private.is_drift_check(p_type, p_payload)
    then private.plan_count(p_summary, '{create,update,replace,delete}') > 0
    else coalesce(p_summary -> 'has_changes' = 'true', false) end;
end;
$$;

-- A plan that is to be applied (option confirm, or its module has auto-apply) is followed by a job of its own when
-- it has changes. No runner waits meanwhile: the plan's file is an artifact, and the apply waits here for a member to
-- confirm that plan, or for the module's approvals. Exactly that plan is applied, also when the module has
-- changed since: the payload is the plan's, with the commit that it was made from. When the state has moved on, the
-- plan is worth nothing: it is refused, and an apply that still waits for somebody ends automatically.
-- Whether there is something to apply in a plan: it has changes, and was not made only to look.
create function private.is_applied_next(p_payload jsonb, p_plan_summary jsonb) returns boolean
language plpgsql immutable as $$
begin
  return coalesce(p_plan_summary -> 'has_changes' = 'true', false)
    and not coalesce(p_payload #> '{options,refresh_only}' = 'true', false)
    and p_payload #>> '{options,inspects}' is null
    and p_payload #>> '{options,git,pull_request}' is null
    -- A preview has values that nobody has applied.
    and p_payload #> '{options,preview}' is null
    -- A person reads the plan of a state that has just come in, also where the module has auto-apply.
    and not coalesce(p_payload #> '{options,bring_state}' = 'true', false)
    -- An apply of somebody's own folder is requested by name; the module's auto-apply is not about it.
    and (p_payload #>> '{module,source_kind}' is distinct from 'upload'
      or coalesce(p_payload #> '{options,auto_apply}' = 'true', false));
end;
$$;

-- Whether the caller sees a job; one about no module or group, only those who see the whole organisation.
create function private.sees_job(p_job public.provision_jobs) returns boolean language sql stable as $$
  select private.may_see(p_job.org_id, case when p_job.target_connection_id is null then p_job.module_path end)
$$;

-- A job that the caller may do this with.
create function private.seen_job(p_job bigint, p_verb text default 'job.read', out v_job public.provision_jobs)
language plpgsql stable as $$
begin
  select * into v_job from public.provision_jobs as j where id = p_job and private.sees_job(j);
  if v_job.id is null then
    perform private.fail('RY404', 'There is no such job.', 'It may be past its retention period.');
  end if;
  perform private.need(p_verb, v_job.org_id, v_job.module_path);
end;
$$;
