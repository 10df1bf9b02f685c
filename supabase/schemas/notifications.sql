-- Notifications: which events go where. A message is written in the transaction of its event, once for each rule that
-- wants it (unique by rule and event), so none is lost and none is invented. The edge function `notify` sends it, and
-- no job ever waits for that. Addresses and secrets arrive sealed by that function, with a key that is not in the
-- database. A failed delivery is not an event, so there can be no loop.

create function private.notification_events() returns text[] language sql immutable as $$
  select array['job.awaiting_approval', 'job.needs_attention', 'job.failed', 'job.succeeded', 'module.drift',
    'runner.lost', 'runner.degraded', 'runner.outdated', 'release.published']
$$;

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
comment on table public.notification_rules is 'Which events go where. The address itself is not here.';
comment on column public.notification_rules.address_hint is 'What may be shown of the address.';

create table private.notification_secrets (
  rule_id uuid primary key references public.notification_rules (id) on delete cascade,
  address text not null check (length(address) <= 8000),
  secret text check (length(secret) <= 8000)
);
comment on table private.notification_secrets is 'Addresses and signing secrets, sealed by the edge function.';
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
create index deliveries_finished_at_idx on public.deliveries (finished_at) where finished_at is not null;
create index deliveries_subject_idx on public.deliveries (rule_id, subject, id) where status = 'PENDING';
create policy "Admins read the log of deliveries" on public.deliveries
  for select to authenticated using (org_id = any(array(select private.my_org_ids('notification.manage'))));
comment on table public.deliveries is 'A message for each event and rule, and what became of it. Kept for 30 days.';
comment on column public.deliveries.rule_id is 'No foreign key: an event waits for nobody who changes a rule.';
comment on column public.deliveries.event_id is 'Which time it happened; receivers know a repetition by it.';
comment on column public.deliveries.subject is 'What it happened to; messages about it arrive in order.';
comment on column public.deliveries.status is
  'PENDING · DELIVERED · KEPT: a mail in the outbox, where nothing sends mail · FAILED: given up.';
comment on column public.deliveries.lease_id is 'The sender, who alone can report the result.';
comment on column public.deliveries.lease_until is 'When somebody else may send it, if they do not say.';

-- ## writing messages
-- Writes a message for each rule that wants this event: of the organisation, above a path, or around a scope.
create function private.notify(
  p_org uuid, p_event text, p_event_id text, p_subject text, p_path text, p_scopes text[], p_title text, p_body jsonb
) returns void language plpgsql as $$
begin
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title, body)
  select p_org, r.id, p_event, p_event_id, p_subject, left(p_title, 500), p_body
  from public.notification_rules as r
  where r.org_id = p_org and r.is_on and r.removed_at is null and p_event = any (r.events)
    and (r.path = '' or r.path = any (private.path_prefixes(coalesce(p_path, '')))
      or p_scopes && private.path_prefixes(r.path)
      or exists (select from unnest(p_scopes) as s where r.path = any (private.path_prefixes(s))))
  on conflict (rule_id, event_id) do nothing;
  if found then perform private.wake_org(p_org, 'deliveries', p_event_id); end if;
exception
  -- A message is never a reason for a job to fail.
  when others then raise warning 'notification %: %', p_event_id, sqlerrm;
end;
$$;

-- Notifies people of a job that waits for approval, needs attention, failed, or changed infrastructure.
create function private.notify_job(p_event public.job_events) returns void language plpgsql as $$
declare
  v_job public.provision_jobs;
  v_what pg_catalog.text;
begin
  select * into v_job from public.provision_jobs where id = p_event.job_id;
  v_what := initcap(replace(v_job.type::pg_catalog.text, '_', ' ')) || coalesce(' of ' || v_job.module_path, '')
    || format(' (#%s)', v_job.number);
  perform private.notify(p_event.org_id, case p_event.to_status when 'AWAITING_APPROVAL' then 'job.awaiting_approval'
      when 'NEEDS_ATTENTION' then 'job.needs_attention' when 'SUCCEEDED' then 'job.succeeded' else 'job.failed' end,
    'job_event:' || p_event.id, 'job:' || p_event.job_id, v_job.module_path, '{}',
    v_what || case p_event.to_status when 'AWAITING_APPROVAL' then ' waits for approval' when 'NEEDS_ATTENTION'
      then ' needs attention' when 'SUCCEEDED' then ' succeeded' else ' failed' end,
    jsonb_build_object('job', jsonb_build_object('id', v_job.id, 'number', v_job.number, 'type', v_job.type,
      'status', p_event.to_status, 'attempt', p_event.attempt,
      'module_path', v_job.module_path, 'requested_by', v_job.created_by_label, 'message', v_job.message), 'reason',
        coalesce(v_job.error ->> 'message', p_event.reason)));
end;
$$;

-- Tells of drift that was not known before: each finding once, for as long as it lasts.
create function private.notify_drift() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform private.notify(new.org_id, 'module.drift', format('drift:%s:%s:%s', new.id,
    extract(epoch from new.drift_since), left(new.drift_finding, 16)), 'module:' || new.id, new.path,
    '{}', format('Drift found in %s: %s resources', new.path, new.drift_resources),
    jsonb_build_object('module', jsonb_build_object('id', new.id, 'path', new.path), 'since', new.drift_since,
      'resources', new.drift_resources));
  return null;
end;
$$;
create trigger notify_drift after update of drift_finding on public.modules for each row
  when (new.drift_finding is not null and new.drift_finding is distinct from old.drift_finding)
  execute function private.notify_drift();

-- Tells of a runner, by the paths that it is assigned to.
create function private.notify_runner(p_worker uuid, p_event text, p_event_id text, p_words text, p_reason text)
returns void language plpgsql as $$
declare
  v_worker public.workers;
begin
  select * into v_worker from public.workers where id = p_worker;
  if v_worker.org_id is null or v_worker.removed_at is not null then return; end if;
  perform private.notify(v_worker.org_id, p_event, p_event_id, 'runner:' || p_worker, '', case
    when v_worker.is_assigned_to_all_modules then '{""}'
      else array(select a.path from public.worker_assignments as a where a.worker_id = p_worker) end,
    format('Runner %s %s', v_worker.name, p_words),
    jsonb_build_object('runner', jsonb_build_object('id', p_worker, 'name', v_worker.name), 'reason', p_reason));
end;
$$;

-- Tells of a runner that went silent, but not of one that was stopped or sleeps; and of a process that reports that it
-- cannot run jobs, when it could before.
create function private.notify_trouble() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if tg_table_name = 'worker_events' then
    perform private.notify_runner(new.worker_id, 'runner.lost', 'runner_event:' || new.id, 'is lost', new.reason);
  else
    perform private.notify_runner(new.worker_id, 'runner.degraded', format('degraded:%s:%s', new.id,
      extract(epoch from now())), 'is degraded', new.facts #>> '{degraded,reason}');
  end if;
  return null;
end;
$$;
create trigger notify after insert on public.worker_events for each row
  when (new.event = 'offline' and new.reason like 'No heartbeat%') execute function private.notify_trouble();
create trigger notify_degraded after update of facts on public.worker_instances for each row
  when (jsonb_typeof(new.facts -> 'degraded') = 'object' and jsonb_typeof(old.facts -> 'degraded') is distinct
    from 'object') execute function private.notify_trouble();

-- Tells of a new stable release, and how many runners are now outdated: one message each, however many they are.
create function private.notify_release() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_org pg_catalog.uuid;
  v_outdated integer;
  v_body pg_catalog.jsonb := jsonb_build_object('release', jsonb_build_object('version', new.version, 'is_breaking',
    new.is_breaking));
begin
  for v_org in select distinct r.org_id from public.notification_rules as r where r.is_on and r.removed_at is null
    and r.events && array['release.published', 'runner.outdated'] loop
    perform private.notify(v_org, 'release.published', 'release:' || new.version, 'release', '', '{""}',
      format('Release %s is out', new.version), v_body);
    select count(*) into v_outdated from public.workers as w
    where w.org_id = v_org and w.removed_at is null and private.is_version_less(w.version, new.version);
    perform private.notify(v_org, 'runner.outdated', 'outdated:' || new.version, 'release', '', '{""}',
      format('%s runners are older than release %s', v_outdated, new.version), v_body
        || jsonb_build_object('runners', v_outdated)) where v_outdated > 0;
  end loop;
  return null;
end;
$$;
create trigger notify after insert on public.worker_releases for each row
  when (new.channel = 'stable') execute function private.notify_release();

-- ## delivery
-- Delivering: the sender leases messages for a while and reports the result. A sender that dies loses nothing: its
-- lease ends, and the message is sent again with the same event id. For one rule and subject only the oldest message is
-- ever leased, so that messages about a job arrive in order. Anybody may wake the sender; what is due is in the rows.
create table private.notifier (
  is_only boolean primary key default true check (is_only),
  url text check (url ~ '^https?://[^\s]+$' and length(url) <= 500),
  retry_seconds integer[] not null default '{10,30,120,600,1800,3600,7200,14400,28800}',
  lease_seconds integer not null default 60 check (lease_seconds between 1 and 3600)
);
comment on table private.notifier is 'How messages are sent: one row.';
comment on column private.notifier.url is 'Where the function that sends is; with pg_net, the sweep wakes it.';
comment on column private.notifier.retry_seconds is 'The pause after each attempt; after the last one it is given up.';
insert into private.notifier default values;

create view private.sendable_deliveries as
select
  d.id,
  d.org_id,
  d.rule_id,
  d.subject,
  d.next_at,
  case when g.connection_id is null then 5 else 1 end as at_once
from public.deliveries as d
left join private.git_secrets as g on g.connection_id = d.rule_id
where d.status = 'PENDING' and d.next_at <= now() and (d.lease_until is null or d.lease_until <= now())
  and (g.connection_id is null or g.next_report_at <= now());
comment on view private.sendable_deliveries is
  'Messages that are due; reports of a connection only one at a time, when its provider accepts the next one.';
comment on column private.sendable_deliveries.at_once is 'How many messages of its rule are sent at the same time.';

-- Messages that may be sent now, each with its place among its organisation's.
create function private.due_deliveries() returns table (id bigint, turn bigint) language sql stable as $$
  -- Five for each rule: a slow receiver must not keep all senders busy. Nor must somebody with much to send: each
  -- organisation has its turn, and within it each rule.
  with due as (
    select d.id, d.org_id, d.next_at, d.at_once,
      row_number() over (partition by d.rule_id order by d.next_at, d.id) as place
    from private.sendable_deliveries as d
    where not exists (select from public.deliveries as e where e.status = 'PENDING' and e.rule_id = d.rule_id
      and e.subject = d.subject and e.id < d.id)
  )
  select u.id, row_number() over (partition by u.org_id order by u.place, u.next_at, u.id)
  from due as u where u.place <= u.at_once
$$;

-- Makes a rule's messages due that wait out a pause: their receiver answers again. A message that the receiver refused
-- keeps its pause, or it would use up its tries at once.
create function private.end_pauses(p_rule uuid) returns void language sql as $$
  update public.deliveries as d set next_at = now()
  where d.id in (
    select w.id from public.deliveries as w
    where w.rule_id = p_rule and w.status = 'PENDING' and w.next_at > now()
      and coalesce(w.http_status, 0) not between 400 and 499
    order by w.id for update skip locked)
$$;

-- Whether there is something to send, or a record of a change to sign. The launcher of the embedded stack asks it, too.
create function private.has_due_deliveries() returns boolean language sql stable as $$
  select exists (select from private.sendable_deliveries) or private.has_unsigned_records()
$$;

-- Asks the function that sends to look, where its address is known and pg_net can reach it.
create function private.wake_notifier() returns boolean language plpgsql as $$
declare
  v_url pg_catalog.text := (select n.url from private.notifier as n);
begin
  if v_url is null or to_regprocedure('net.http_post(text,jsonb,jsonb,jsonb,integer)') is null
    or not private.has_due_deliveries() then
    return false;
  end if;
  execute 'select net.http_post(url := $1, body := ''{"deliver": true}'', timeout_milliseconds := 60000)' using v_url;
  return true;
end;
$$;

-- Wakes the sender for new messages: the launcher of the embedded stack listens, hosted Supabase has pg_net. A message
-- that became due within the last second has woken it already, and it sends until nothing is due.
create function private.announce_deliveries() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform pg_notify('runyard_deliveries', '');
  if exists (select from private.notifier as n where n.url is not null) and not exists (
    select from private.sendable_deliveries as s join public.deliveries as d on d.id = s.id
    where d.created_at > now() - interval '1 second' and d.id not in (select i.id from inserted as i)) then
    perform private.wake_notifier();
  end if;
  return null;
exception
  -- The sweep wakes it as well; a message is never a reason for its event to fail.
  when others then
    raise warning 'wake-up of the sender: %', sqlerrm;
    return null;
end;
$$;
create trigger announce after insert on public.deliveries referencing new table as inserted
  for each statement execute function private.announce_deliveries();

create function private.set_notifier_url(p_url text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
begin
  update private.notifier set url = nullif(trim(p_url), '') where is_only;
  perform private.audit(null, 'installation.notifier', 'installation', null, null, jsonb_build_object('url', p_url));
  return jsonb_build_object('url', nullif(trim(p_url), ''));
exception when check_violation then
  perform private.fail('RY422', 'That is not an address.',
    'Write https://<project>.supabase.co/functions/v1/notify.');
end;
$$;
comment on function private.set_notifier_url is 'Says where the function that sends is, for the sweep to wake it.';

-- ## what people do with rules
-- A rule as pages and commands show it, with its last delivery.
create function private.rule_json(p_rule public.notification_rules) returns jsonb language sql stable as $$
  select to_jsonb(p_rule) || jsonb_build_object('last_delivery', (
    select jsonb_build_object('id', d.id, 'status', d.status, 'attempt', d.attempt, 'note', d.note, 'at',
      coalesce(d.finished_at, d.created_at))
    from public.deliveries as d where d.org_id = p_rule.org_id and d.rule_id = p_rule.id order by d.id desc limit 1))
$$;

create function private.list_notification_rules(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('notification.read', p_org);
  select coalesce(jsonb_agg(private.rule_json(r) order by r.path, r.created_at), '[]')
  from public.notification_rules as r where r.org_id = p_org and r.removed_at is null
$$;
comment on function private.list_notification_rules is 'Notification rules with their last deliveries. Members.';

-- Writes a rule with the fields changed that a specification names.
create function private.save_rule(p_rule public.notification_rules, p_spec jsonb) returns public.notification_rules
language plpgsql as $$
declare
  v_new public.notification_rules;
begin
  perform private.refuse_unknown_keys(p_spec, array['path', 'events', 'channel', 'address', 'address_hint', 'secret',
    'is_on']);
  perform private.fail('RY422', 'An address or a secret comes sealed.',
    'Seal it with the project''s function notify first, as the page and the command do.')
  where coalesce(p_spec ->> 'address', 's1.' || repeat('x', 40)) !~ '^s1\.[A-Za-z0-9_-]{40,}$'
    or coalesce(p_spec ->> 'secret', 's1.' || repeat('x', 40)) !~ '^(s1\.[A-Za-z0-9_-]{40,})?$'
    or p_spec ? 'address' <> (p_spec ? 'address_hint');
  v_new := jsonb_populate_record(p_rule, coalesce(p_spec, '{}') - array['address', 'secret']);
  perform private.need_target(v_new.org_id, v_new.path);
  insert into public.notification_rules as r (id, org_id, path, events, channel, address_hint, has_secret, is_on,
    created_by, created_by_label)
  values (coalesce(p_rule.id, gen_random_uuid()), v_new.org_id, v_new.path, v_new.events, v_new.channel,
    v_new.address_hint,
    case when p_spec ? 'secret' then coalesce(p_spec ->> 'secret', '') <> '' else coalesce(p_rule.has_secret, false)
      end, v_new.is_on,
    private.caller_id(), private.caller_label(v_new.org_id))
  on conflict (id) do update set path = excluded.path, events = excluded.events, channel = excluded.channel,
    is_on = excluded.is_on, address_hint = excluded.address_hint, has_secret = excluded.has_secret
  returning * into v_new;
  insert into private.notification_secrets as s (rule_id, address, secret) values (v_new.id,
    coalesce(p_spec ->> 'address', (
    select o.address from private.notification_secrets as o where o.rule_id = v_new.id)), nullif(p_spec ->> 'secret',
      ''))
  on conflict (rule_id) do update set address = excluded.address,
    secret = case when p_spec ? 'secret' then excluded.secret else s.secret end;
  return v_new;
exception when check_violation or not_null_violation or invalid_text_representation or invalid_parameter_value
  or array_subscript_error then
  perform private.fail('RY422', 'The rule is not valid.',
    format('It needs an address, a channel (webhook, slack, teams, mail) and events: %s.',
    array_to_string(private.notification_events(), ', ')));
end;
$$;

create function private.create_notification_rule(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_rule public.notification_rules;
begin
  perform private.need('notification.manage', p_org);
  perform private.fail('RY413', 'An organisation has at most 200 rules.', 'One rule may send several events.')
  where (select count(*) from public.notification_rules as r where r.org_id = p_org and r.removed_at is null) >= 200;
  v_rule := private.save_rule(jsonb_populate_record(null::public.notification_rules,
    jsonb_build_object('org_id', p_org, 'path', '', 'is_on', true)), p_spec);
  perform private.audited(to_jsonb(v_rule), 'notification_rule.created', v_rule.channel,
    jsonb_build_object('events', v_rule.events, 'path', v_rule.path));
  return private.rule_json(v_rule);
end;
$$;
comment on function private.create_notification_rule is
  'Creates a rule {path, events, channel, address, address_hint, secret, is_on}; address and secret come sealed by '
  'the function notify. Admins.';

-- A rule that the caller may change, locked.
create function private.my_rule(p_rule uuid, out v_rule public.notification_rules) language plpgsql as $$
begin
  select * into v_rule from public.notification_rules where id = p_rule and removed_at is null
    and org_id in (select private.my_org_ids('module.read')) for update;
  perform private.fail('RY404', 'There is no such rule.') where v_rule.id is null;
  perform private.need('notification.manage', v_rule.org_id);
end;
$$;

create function private.update_notification_rule(p_rule uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.notification_rules := private.my_rule(p_rule);
  v_rule public.notification_rules := private.save_rule(v_old, p_spec);
begin
  perform private.audited(to_jsonb(v_rule), 'notification_rule.updated', v_rule.channel,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_rule))));
  return private.rule_json(v_rule);
end;
$$;
comment on function private.update_notification_rule is 'Changes the named fields of a notification rule. Admins.';

create function private.remove_notification_rule(p_rule uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_rule public.notification_rules := private.my_rule(p_rule);
begin
  update public.notification_rules set removed_at = now() where id = p_rule;
  delete from private.notification_secrets where rule_id = p_rule;
  update public.deliveries set status = 'FAILED', note = 'The rule was removed.', finished_at = now()
    where rule_id = p_rule and status = 'PENDING';
  return private.audited(to_jsonb(v_rule), 'notification_rule.removed', v_rule.channel);
end;
$$;
comment on function private.remove_notification_rule is 'Removes a rule with its address; the log stays. Admins.';

create function private.test_notification_rule(p_rule uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_rule public.notification_rules := private.my_rule(p_rule);
  v_delivery public.deliveries;
  v_id pg_catalog.text := 'test:' || gen_random_uuid();
begin
  perform private.fail('RY429', 'A test of this rule is on its way.', 'Wait for it; the log shows how it went.')
  from public.deliveries as d where d.rule_id = p_rule and d.event = 'test' and d.status = 'PENDING'
    and (d.attempt = 0 or d.lease_until > now());
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title)
  values (v_rule.org_id, p_rule, 'test', v_id, v_id, 'A test from Runyard') returning * into v_delivery;
  perform private.audited(to_jsonb(v_rule), 'notification_rule.tested', v_rule.channel);
  return to_jsonb(v_delivery);
end;
$$;
comment on function private.test_notification_rule is 'Sends a test by a rule. Admins.';

-- ## the log
create function private.list_deliveries(
  p_org uuid, p_status text default null, p_before bigint default null, p_limit integer default 50
) returns jsonb language sql stable security definer set search_path = '' as $$
  select private.need('notification.manage', p_org);
  select private.fail('RY422', 'A page has 1 to 200 deliveries, of one status: PENDING, DELIVERED, KEPT or FAILED.')
  where coalesce(p_limit, 0) not between 1 and 200 or coalesce(p_status, 'PENDING') not in ('PENDING', 'DELIVERED',
    'KEPT', 'FAILED');
  select jsonb_build_object('total', (
      select count(*) from (
        select l.status from public.deliveries as l where l.org_id = p_org order by l.id desc limit 10000) as d
      where p_status is null or d.status = p_status),
    'attempts', (select cardinality(n.retry_seconds) + 1 from private.notifier as n),
    'rows', to_jsonb(array(select to_jsonb(d) - array['lease_id'] || jsonb_build_object('channel',
        coalesce(r.channel, 'git'), 'address_hint', coalesce(r.address_hint, c.repository))
      from public.deliveries as d left join public.notification_rules as r on r.id = d.rule_id
      left join public.git_connections as c on c.id = d.rule_id
      where d.org_id = p_org and (p_status is null or d.status = p_status)
        and d.id < coalesce(p_before, 9223372036854775807) order by d.id desc limit p_limit)))
$$;
comment on function private.list_deliveries is
  'Messages, newest first, with status, attempt and what comes next; the total is that of the newest 10,000. Admins.';

create function private.redeliver(p_delivery bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_delivery public.deliveries;
begin
  select * into v_delivery from public.deliveries where id = p_delivery
    and org_id in (select private.my_org_ids('module.read')) for update;
  perform private.fail('RY404', format('There is no delivery %s.', p_delivery)) where v_delivery.id is null;
  perform private.need('notification.manage', v_delivery.org_id);
  perform private.fail('RY409', 'Its rule was removed, and with it the address.',
    'Create the rule again; it sends what happens from then on.')
  where not exists (select from private.notification_secrets as s where s.rule_id = v_delivery.rule_id)
    and not exists (select from public.git_connections as c where c.id = v_delivery.rule_id and c.has_token);
  update public.deliveries set status = 'PENDING', next_at = now(), finished_at = null, attempt = case
    when status = 'PENDING' then attempt else 0 end
  where id = p_delivery returning * into v_delivery;
  perform private.audited(to_jsonb(v_delivery), 'delivery.sent_again', v_delivery.title);
  return to_jsonb(v_delivery) - 'lease_id';
end;
$$;
comment on function private.redeliver is 'Sends a message again, now, with the same event id. Admins.';
