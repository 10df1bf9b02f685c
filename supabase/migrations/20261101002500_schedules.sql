-- Schedules: jobs that start by the clock, for a module or for all modules at or below a group. A run is a set. All
-- that a schedule knows is when it is next due: a time that was missed, because the project was down or the clock
-- jumped, is made up for once, when the sweep next looks, and the next one is counted from then. A module whose job of
-- the run before is not finished is left out.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table public.schedules (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null,
  type public.job_type not null,
  cron text not null check (length(cron) <= 200),
  zone text not null,
  is_on boolean not null default true,
  reason text check (length(reason) <= 500),
  next_at timestamptz,
  last_run_at timestamptz,
  last_set_id uuid,
  last_note text,
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint schedules_next_check check (not is_on or next_at is not null)
);
create index schedules_org_id_idx on public.schedules (org_id, path);
create index schedules_next_at_idx on public.schedules (next_at) where is_on;
alter table public.schedules enable row level security;
grant select on public.schedules to authenticated, service_role;

create policy "Members see their organisation's schedules" on public.schedules
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.schedules is 'Jobs that start by the clock.';
comment on column public.schedules.path is 'The module or group; "" is all modules.';
comment on column public.schedules.type is 'What its jobs do: DRIFT, PLAN, APPLY or DESTROY.';
comment on column public.schedules.cron is 'When: minute, hour, day, month, weekday.';
comment on column public.schedules.zone is 'The time zone that these are read in.';
comment on column public.schedules.reason is 'Why it is off, in words.';
comment on column public.schedules.last_set_id is 'Its last run.';
comment on column public.schedules.last_note is 'Why its last time made no jobs.';
comment on column public.schedules.created_by is 'Who wrote what it does now; they do not approve its jobs.';
comment on column public.schedules.created_by_label is 'Their name at that time.';
create trigger touch before update on public.schedules for each row execute function private.touch_updated_at();
create trigger wake after insert or update or delete on public.schedules
  for each row execute function private.wake_for_row();

create function private.preview_schedule(p_org uuid, p_cron text, p_zone text)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_cron private.cron;
  v_next pg_catalog.timestamptz := now();
  v_times pg_catalog.jsonb := '[]';
begin
  perform private.need_role(p_org, 'viewer');
  v_cron := private.parse_cron(p_cron);
  perform private.check_zone(p_zone);
  for i in 1..5 loop
    v_next := private.next_time(v_cron, p_zone, v_next);
    exit when v_next is null;
    v_times := v_times || jsonb_build_object('at', v_next, 'local', to_char(v_next at time zone p_zone,
      'Dy DD Mon YYYY, HH24:MI'));
  end loop;
  if v_times = '[]' then
    perform private.fail('RY422', format('"%s" never comes.', left(p_cron, 100)), 'That month has no such day.');
  end if;
  return jsonb_build_object('words', private.cron_words(p_cron), 'next', v_times);
end;
$$;
comment on function private.preview_schedule(uuid, text, text) is 'Body of public.preview_schedule.';
grant execute on function private.preview_schedule(uuid, text, text) to authenticated;

create function private.schedule_json(p_schedule public.schedules)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return to_jsonb(p_schedule) || jsonb_build_object('words', private.cron_words(p_schedule.cron),
    'next_local', to_char(p_schedule.next_at at time zone p_schedule.zone, 'Dy DD Mon, HH24:MI'),
    'modules', (select count(*) from private.modules_below(p_schedule.org_id, p_schedule.path)),
    'last_run', (select private.set_json(s) from public.job_sets as s where s.id = p_schedule.last_set_id));
end;
$$;
comment on function private.schedule_json(public.schedules) is 'A schedule as pages and commands show it.';

create function private.checked_schedule(p_schedule public.schedules, p_spec jsonb)
returns public.schedules
language plpgsql stable
set search_path = ''
as $$
declare
  v_new public.schedules;
begin
  perform private.refuse_unknown_keys(p_spec, array['path', 'type', 'cron', 'zone', 'is_on', 'reason']);
  v_new := jsonb_populate_record(p_schedule, coalesce(p_spec, '{}'));
  v_new.cron := trim(v_new.cron);
  if v_new.type is null or v_new.type not in ('DRIFT', 'PLAN', 'APPLY', 'DESTROY') then
    perform private.fail('RY422', 'A schedule checks for drift, plans, applies or destroys.',
      'Choose DRIFT, PLAN, APPLY or DESTROY.');
  end if;
  perform private.need_role(v_new.org_id, case when v_new.type = 'DESTROY' then 'admin' else 'operator'
    end::public.member_role);
  perform private.need_target(v_new.org_id, v_new.path);
  if v_new.type = 'DESTROY' and not exists (select from public.modules as m where m.org_id = v_new.org_id
    and m.path = v_new.path
    and m.deleted_at is null) then
    perform private.fail('RY422', 'A schedule destroys one module, not a group.', 'Name the module.');
  end if;
  perform private.check_zone(v_new.zone);
  v_new.next_at := private.next_time(private.parse_cron(v_new.cron), v_new.zone, now());
  if v_new.next_at is null then
    perform private.fail('RY422', format('"%s" never comes.', left(v_new.cron, 100)), 'That month has no such day.');
  end if;
  if v_new.is_on is null or length(v_new.reason) > 500 then
    perform private.fail('RY422', 'A schedule is on or off, with a reason of at most 500 characters.');
  end if;
  return v_new;
exception
  when invalid_text_representation or datetime_field_overflow or invalid_datetime_format or invalid_parameter_value then
    perform private.fail('RY422', 'A field of the schedule has the wrong type.', sqlerrm);
end;
$$;
comment on function private.checked_schedule(public.schedules, jsonb) is
  'A schedule with the fields changed that a specification names, and its next time. Refuses what could not run.';

create function private.create_schedule(p_org uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_new public.schedules;
begin
  perform private.need_role(p_org, 'operator');
  if (select count(*) from public.schedules as s where s.org_id = p_org) >= 5000 then
    perform private.fail('RY429', 'An organisation has at most 5,000 schedules.',
      'A schedule of a group covers all modules below it.');
  end if;
  v_new.org_id := p_org;
  v_new.zone := 'UTC';
  v_new.is_on := true;
  v_new := private.checked_schedule(v_new, p_spec);
  insert into public.schedules (org_id, path, type, cron, zone, is_on, reason, next_at, created_by, created_by_label)
  values (p_org, v_new.path, v_new.type, v_new.cron, v_new.zone, v_new.is_on, v_new.reason, v_new.next_at,
    private.caller_id(),
    private.caller_label(p_org)) returning * into v_new;
  perform private.audit(p_org, 'schedule.created', 'schedule', v_new.id::pg_catalog.text, v_new.type || ' '
    || v_new.path,
    jsonb_build_object('cron', v_new.cron, 'zone', v_new.zone));
  return private.schedule_json(v_new);
end;
$$;
comment on function private.create_schedule(uuid, jsonb) is 'Body of public.create_schedule.';
grant execute on function private.create_schedule(uuid, jsonb) to authenticated;

create function private.my_schedule(p_schedule uuid)
returns public.schedules
language plpgsql
set search_path = ''
as $$
declare
  v_schedule public.schedules;
begin
  select * into v_schedule from public.schedules where id = p_schedule
    and org_id in (select private.my_org_ids()) for update;
  if v_schedule.id is null then
    perform private.fail('RY404', 'There is no such schedule.');
  end if;
  perform private.need_role(v_schedule.org_id, case when v_schedule.type = 'DESTROY' then 'admin' else 'operator'
    end::public.member_role);
  return v_schedule;
end;
$$;
comment on function private.my_schedule(uuid) is 'A schedule that the caller may change, locked.';

create function private.update_schedule(p_schedule uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_old public.schedules := private.my_schedule(p_schedule);
  v_new public.schedules := private.checked_schedule(v_old, p_spec);
begin
  update public.schedules set
    path = v_new.path, type = v_new.type, cron = v_new.cron, zone = v_new.zone, is_on = v_new.is_on,
    reason = case when v_new.is_on then null else v_new.reason end, next_at = v_new.next_at,
    created_by = private.caller_id(), created_by_label = private.caller_label(v_old.org_id)
  where id = p_schedule returning * into v_new;
  perform private.audit(v_old.org_id, 'schedule.updated', 'schedule', p_schedule::pg_catalog.text, v_new.type || ' '
    || v_new.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_new))));
  return private.schedule_json(v_new);
end;
$$;
comment on function private.update_schedule(uuid, jsonb) is 'Body of public.update_schedule.';
grant execute on function private.update_schedule(uuid, jsonb) to authenticated;

create function private.remove_schedule(p_schedule uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_schedule public.schedules := private.my_schedule(p_schedule);
begin
  delete from public.schedules where id = p_schedule;
  perform private.audit(v_schedule.org_id, 'schedule.removed', 'schedule', p_schedule::pg_catalog.text, v_schedule.type
    || ' ' || v_schedule.path);
  return to_jsonb(v_schedule);
end;
$$;
comment on function private.remove_schedule(uuid) is 'Body of public.remove_schedule.';
grant execute on function private.remove_schedule(uuid) to authenticated;

create function private.list_schedules(p_org uuid, p_path text)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.need_role(p_org, 'viewer');
  return (select coalesce(jsonb_agg(private.schedule_json(s) order by s.path, s.created_at), '[]') from (
    select * from public.schedules as s where s.org_id = p_org and (p_path is null
      or s.path = any (private.path_prefixes(p_path)))
    order by s.path, s.created_at limit 500) as s);
end;
$$;
comment on function private.list_schedules(uuid, text) is 'Body of public.list_schedules.';
grant execute on function private.list_schedules(uuid, text) to authenticated;

-- ---------------------------------------------------------------------------------------------------------------- runs

create function private.fire_schedule(p_schedule public.schedules)
returns public.job_sets
language plpgsql
set search_path = ''
as $$
declare
  v_modules pg_catalog.uuid[];
  v_set public.job_sets;
begin
  v_modules := array(
    select b from private.modules_below(p_schedule.org_id, p_schedule.path) as b where not exists (
      select from private.set_members as m left join public.provision_jobs as j on j.id = m.job_id
      join public.job_sets as s on s.id = m.set_id
      where s.schedule_id = p_schedule.id and (s.finished_at is null or s.id = p_schedule.last_set_id)
        and m.module_id = b and m.left_out is null
        and (j.id is null or j.status not in ('SUCCEEDED', 'FAILED', 'CANCELLED'))));
  if v_modules <> '{}' then
    insert into public.job_sets (org_id, type, path, options, schedule_id, created_by, created_by_label)
    values (p_schedule.org_id, p_schedule.type, p_schedule.path, '{"priority": 200}', p_schedule.id,
      p_schedule.created_by,
      format('schedule (%s)', private.cron_words(p_schedule.cron))) returning * into v_set;
    insert into private.set_members (set_id, module_id, org_id) select v_set.id, m, v_set.org_id from unnest(v_modules)
      as m;
  end if;
  update public.schedules set last_set_id = coalesce(v_set.id, last_set_id), last_note = case when v_set.id is not null
    then null
    when exists (select from private.modules_below(org_id, path)) then 'Skipped: the run before it is not finished.'
    else 'There is no module at this path.' end
  where id = p_schedule.id;
  return v_set;
end;
$$;
comment on function private.fire_schedule(public.schedules) is
  'Makes a run of a schedule: a set of its modules, without those whose job of the run before is not finished.';

create function private.run_schedule(p_schedule uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_schedule public.schedules := private.my_schedule(p_schedule);
  v_set public.job_sets := private.fire_schedule(v_schedule);
begin
  if v_set.id is null then
    perform private.fail('RY409', 'There is nothing to run: no module is there, or the run before is not finished.',
      'Look at its last run.');
  end if;
  perform private.place_members(v_set, 1000, true);
  perform private.audit(v_schedule.org_id, 'schedule.run', 'schedule', p_schedule::pg_catalog.text, v_schedule.type
    || ' ' || v_schedule.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.run_schedule(uuid) is 'Body of public.run_schedule.';
grant execute on function private.run_schedule(uuid) to authenticated;

create function private.sweep_schedules()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_schedule public.schedules;
  v_count integer := 0;
begin
  -- A clock that was years ahead and came back has left schedules waiting for that time: they are counted anew. One
  -- that went back by less leaves what was due alone, so that nothing runs twice.
  update public.schedules as s set next_at = private.next_time(private.parse_cron(s.cron), s.zone, now()),
    last_run_at = null
  where s.is_on and s.last_run_at > now() + interval '1 day';
  for v_schedule in
    select * from public.schedules as s where s.is_on and s.next_at <= now() order by s.next_at
      limit 200 for update skip locked
  loop
    begin
      perform private.fire_schedule(v_schedule);
      update public.schedules as s set last_run_at = now(),
        next_at = private.next_time(private.parse_cron(s.cron), s.zone, greatest(now(), v_schedule.next_at))
      where s.id = v_schedule.id;
      v_count := v_count + 1;
    exception
      when others then
        raise warning 'sweep of schedule %: %', v_schedule.id, sqlerrm;
        -- Not at once again: those that cannot run would keep their place before those that can.
        update public.schedules as s set next_at = now() + interval '5 minutes',
          last_note = 'It could not run; it is tried again every five minutes.' where s.id = v_schedule.id;
    end;
    -- It may run inside of a heartbeat; the next sweep goes on.
    exit when clock_timestamp() > now() + interval '4 seconds';
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_schedules() is
  'Runs what is due, each once however long it has been due, the longest waiting first; two hundred at a time.';

revoke execute on all functions in schema private from public;
