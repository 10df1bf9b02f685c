-- Notifications: which events go where. A message is written in the transaction of its event, once for each rule that
-- wants
-- it (unique by rule and event), so that none is lost and none is invented; sending it is somebody else's work, which
-- no job ever waits for. Addresses and secrets come sealed by the edge function, with a key that is not in the
-- database.
-- A failed delivery is no event: there is nothing that could go round in a circle.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.notification_events()
returns text[]
language sql immutable
set search_path = ''
as $$
  select array['job.awaiting_approval', 'job.needs_attention', 'job.failed', 'module.drift', 'runner.lost',
    'runner.degraded', 'runner.outdated',
    'release.published']
$$;
comment on function private.notification_events() is 'The events that a rule may ask for.';

create table public.notification_rules (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null default '',
  events text[] not null check (cardinality(events) between 1 and 20 and events <@ private.notification_events()),
  channel text not null check (channel in ('webhook', 'slack', 'teams', 'mail')),
  address_hint text not null check (length(address_hint) between 1 and 100),
  has_secret boolean not null default false,
  is_on boolean not null default true,
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz
);
create index notification_rules_org_id_idx on public.notification_rules (org_id) where removed_at is null;
alter table public.notification_rules enable row level security;
grant select on public.notification_rules to authenticated, service_role;

create policy "Members see their organisation's notification rules" on public.notification_rules
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.notification_rules is 'Which events go where. The address itself is not here.';
comment on column public.notification_rules.path is
  'The group or module that it is about; "" is the whole organisation.';
comment on column public.notification_rules.events is 'The events that it sends.';
comment on column public.notification_rules.channel is 'webhook, slack, teams or mail.';
comment on column public.notification_rules.address_hint is 'What may be shown of the address.';
comment on column public.notification_rules.has_secret is 'Whether its messages are signed.';
comment on column public.notification_rules.is_on is 'Whether it sends.';
comment on column public.notification_rules.created_by_label is 'Their name at that time.';
comment on column public.notification_rules.removed_at is 'When it was removed; what it sent stays in the log.';
create trigger touch before update on public.notification_rules
  for each row execute function private.touch_updated_at();
create trigger ring after insert or update on public.notification_rules
  for each row execute function private.ring_changed_row();

create table private.notification_secrets (
  rule_id uuid primary key references public.notification_rules (id) on delete cascade,
  address text not null check (length(address) <= 8000),
  secret text check (length(secret) <= 8000)
);
alter table private.notification_secrets enable row level security;
comment on table private.notification_secrets is
  'Addresses and signing secrets, sealed by the edge function with a key of its own.';
comment on column private.notification_secrets.rule_id is 'The rule.';
comment on column private.notification_secrets.address is 'Where its messages go; sealed.';
comment on column private.notification_secrets.secret is 'What they are signed with; sealed.';

create table public.deliveries (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  rule_id uuid not null,
  event text not null,
  event_id text not null,
  subject text not null,
  title text not null,
  body jsonb not null default '{}',
  status text not null default 'PENDING' check (status in ('PENDING', 'DELIVERED', 'KEPT', 'FAILED')),
  attempt integer not null default 0,
  next_at timestamptz not null default now(),
  lease_id uuid,
  lease_until timestamptz,
  http_status integer,
  note text,
  took_ms integer,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  unique (rule_id, event_id)
);
create index deliveries_org_id_idx on public.deliveries (org_id, id desc);
create index deliveries_rule_id_idx on public.deliveries (rule_id, id desc);
create index deliveries_due_idx on public.deliveries (next_at) where status = 'PENDING';
create index deliveries_subject_idx on public.deliveries (rule_id, subject, id) where status = 'PENDING';
alter table public.deliveries enable row level security;
grant select on public.deliveries to authenticated, service_role;

create policy "Admins read the log of deliveries" on public.deliveries
  for select to authenticated using (org_id = any(array(select private.my_admin_org_ids())));
comment on table public.deliveries is
  'Messages: one for each event and rule, written with the event, and what became of it. Kept for 30 days.';
comment on column public.deliveries.rule_id is
  'The rule. No foreign key: an event must not wait for somebody who changes a rule.';
comment on column public.deliveries.event is 'What happened.';
comment on column public.deliveries.event_id is 'Which time it happened; receivers know a repetition by it.';
comment on column public.deliveries.subject is 'What it happened to; messages about it arrive in order.';
comment on column public.deliveries.title is 'What happened, in one line.';
comment on column public.deliveries.body is 'More, for programs.';
comment on column public.deliveries.status is
  'PENDING · DELIVERED · KEPT: a mail in the outbox, where nothing sends mail · FAILED: given up.';
comment on column public.deliveries.next_at is 'When it is tried next.';
comment on column public.deliveries.lease_id is 'Who is sending it: only they can say how it went.';
comment on column public.deliveries.lease_until is 'When somebody else may send it, if they do not say.';
comment on column public.deliveries.http_status is 'What the receiver answered last.';
comment on column public.deliveries.note is 'How the last attempt went, in words.';
comment on column public.deliveries.took_ms is 'How long it took.';
comment on column public.deliveries.finished_at is 'When it was delivered or given up.';

-- ---------------------------------------------------------------------------------------------- writing messages

create function private.notify(
  p_org uuid, p_event text, p_event_id text, p_subject text, p_path text, p_scopes text[], p_title text, p_body jsonb
)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title, body)
  select p_org, r.id, p_event, p_event_id, p_subject, left(p_title, 500), p_body
  from public.notification_rules as r
  where r.org_id = p_org and r.is_on and r.removed_at is null and p_event = any (r.events)
    and (r.path = '' or r.path = any (private.path_prefixes(p_path)) or p_scopes && private.path_prefixes(r.path)
      or exists (select from unnest(p_scopes) as s where r.path = any (private.path_prefixes(s))))
  on conflict (rule_id, event_id) do nothing;
  if found then
    perform private.ring_org(p_org, 'deliveries', p_event_id);
  end if;
exception
  -- A message is never a reason for a job to fail.
  when others then raise warning 'notification %: %', p_event_id, sqlerrm;
end;
$$;
comment on function private.notify(uuid, text, text, text, text, text[], text, jsonb) is
  'Writes a message for each rule that wants this event: rules of the organisation, at or above a path, or at or '
  'below one of the scopes.';

create function private.notify_job()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  v_job public.provision_jobs;
  v_what pg_catalog.text;
begin
  select * into v_job from public.provision_jobs where id = new.job_id;
  v_what := initcap(replace(v_job.type::pg_catalog.text, '_', ' ')) || coalesce(' of ' || v_job.module_path, '')
    || format(' (#%s)', v_job.id);
  perform private.notify(new.org_id, case new.to_status when 'AWAITING_APPROVAL' then 'job.awaiting_approval'
      when 'NEEDS_ATTENTION' then 'job.needs_attention' else 'job.failed' end,
    'job_event:' || new.id, 'job:' || new.job_id, v_job.module_path, '{}',
    v_what || case new.to_status when 'AWAITING_APPROVAL' then ' waits for approval' when 'NEEDS_ATTENTION'
      then ' needs attention'
      else ' failed' end,
    jsonb_build_object('job', jsonb_build_object('id', v_job.id, 'type', v_job.type, 'status', new.to_status,
      'attempt', new.attempt,
      'module_path', v_job.module_path, 'requested_by', v_job.created_by_label), 'reason',
        coalesce(v_job.error ->> 'message', new.reason)));
  return null;
end;
$$;
comment on function private.notify_job() is 'Tells of a job that waits for approval, needs attention or failed.';
create trigger notify after insert on public.job_events for each row
  when (new.to_status in ('AWAITING_APPROVAL', 'NEEDS_ATTENTION', 'FAILED')) execute function private.notify_job();

create function private.notify_drift()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.notify(new.org_id, 'module.drift', format('drift:%s:%s', new.id, extract(epoch
    from new.drift_since)), 'module:' || new.id, new.path,
    '{}', format('Drift found in %s: %s resources', new.path, new.drift_resources),
    jsonb_build_object('module', jsonb_build_object('id', new.id, 'path', new.path), 'since', new.drift_since,
      'resources', new.drift_resources));
  return null;
end;
$$;
comment on function private.notify_drift() is 'Tells of drift that was not known before.';
create trigger notify_drift after update of drift_since on public.modules for each row
  when (old.drift_since is null and new.drift_since is not null) execute function private.notify_drift();

create function private.notify_runner(p_worker uuid, p_event text, p_event_id text, p_words text, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_worker public.workers;
begin
  select * into v_worker from public.workers where id = p_worker;
  if v_worker.org_id is null or v_worker.removed_at is not null then
    return;
  end if;
  perform private.notify(v_worker.org_id, p_event, p_event_id, 'runner:' || p_worker, '', case
    when v_worker.is_assigned_to_all_modules then '{""}'
      else array(select a.path from public.worker_assignments as a where a.worker_id = p_worker) end,
    format('Runner %s %s', v_worker.name, p_words),
    jsonb_build_object('runner', jsonb_build_object('id', p_worker, 'name', v_worker.name), 'reason', p_reason));
end;
$$;
comment on function private.notify_runner(uuid, text, text, text, text) is
  'Tells of a runner, by the paths that it is assigned to.';

create function private.notify_lost()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.notify_runner(new.worker_id, 'runner.lost', 'runner_event:' || new.id, 'is lost', new.reason);
  return null;
end;
$$;
comment on function private.notify_lost() is
  'Tells of a runner that went silent; one that was stopped or sleeps is not lost.';
create trigger notify after insert on public.worker_events for each row
  when (new.event = 'offline' and new.reason like 'No heartbeat%') execute function private.notify_lost();

create function private.notify_degraded()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.notify_runner(new.worker_id, 'runner.degraded', format('degraded:%s:%s', new.id, extract(epoch
    from now())), 'is degraded',
    new.facts #>> '{degraded,reason}');
  return null;
end;
$$;
comment on function private.notify_degraded() is
  'Tells of a process that says that it is not fit to run jobs, when it was before.';
create trigger notify_degraded after update of facts on public.worker_instances for each row
  when (jsonb_typeof(new.facts -> 'degraded') = 'object' and jsonb_typeof(old.facts -> 'degraded') is distinct
    from 'object')
  execute function private.notify_degraded();

create function private.notify_release()
returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  v_org pg_catalog.uuid;
  v_outdated integer;
  v_body pg_catalog.jsonb := jsonb_build_object('release', jsonb_build_object('version', new.version, 'is_breaking',
    new.is_breaking));
begin
  for v_org in select distinct r.org_id from public.notification_rules as r where r.is_on and r.removed_at is null
    and r.events && array['release.published', 'runner.outdated']
  loop
    perform private.notify(v_org, 'release.published', 'release:' || new.version, 'release', '', '{""}',
      format('Release %s is out', new.version), v_body);
    select count(*) into v_outdated from public.workers as w
    where w.org_id = v_org and w.removed_at is null and private.is_version_less(w.version, new.version);
    if v_outdated > 0 then
      perform private.notify(v_org, 'runner.outdated', 'outdated:' || new.version, 'release', '', '{""}',
        format('%s runners are older than release %s', v_outdated, new.version), v_body
          || jsonb_build_object('runners', v_outdated));
    end if;
  end loop;
  return null;
end;
$$;
comment on function private.notify_release() is
  'Tells of a new stable release, and how many runners are now outdated: one message each, however many they are.';
create trigger notify after insert on public.worker_releases for each row
  when (new.channel = 'stable') execute function private.notify_release();

revoke execute on all functions in schema private from public;
