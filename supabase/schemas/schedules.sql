-- Schedules: jobs that start by the clock, for a module or for all modules at or below a group. Five cron fields are
-- read in a time zone. The next time is computed from the clock on the wall and then turned into an instant, so 07:30
-- stays 07:30 when the clocks change. A time that summer time skips runs once, an hour later; a time that winter time
-- repeats runs once, at the first. "Every hour" and "every ten minutes" (an hour field with *) continue through both. A
-- run is a set. A schedule stores only when it is next due: a missed time is made up for once, by the next sweep, and
-- the following one counts from then. A module whose job of the previous run is unfinished is left out.

create type private.cron as (
  minutes integer array, hours integer array, days integer array, months integer array, weekdays integer array,
  is_any_hour boolean, is_either_day boolean
);
comment on type private.cron is
  'The five fields as lists. is_any_hour: the hour field has a *. is_either_day: day or weekday, both given, counts.';

-- The values of one field: *, 5, 1-5, */10, 1-5/2, names, and lists of these; null when it is not one.
create function private.cron_field(p_field text, p_least integer, p_most integer, p_names text[]) returns integer[]
language plpgsql immutable as $$
declare
  v_part pg_catalog.text;
  v_match pg_catalog.text[];
  v_from integer;
  v_to integer;
  v_values integer[] := '{}';
begin
  foreach v_part in array string_to_array(lower(p_field), ',') loop
    for i in 1..coalesce(cardinality(p_names), 0) loop
      v_part := regexp_replace(v_part, '\m' || p_names[i] || '\M', (p_least + i - 1)::pg_catalog.text, 'g');
    end loop;
    v_match := regexp_match(v_part, '^(?:(\*)|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?$');
    if v_match is null then return null; end if;
    v_from := case when v_match[1] is null then v_match[2]::integer else p_least end;
    v_to := case when v_match[1] is not null or v_match[3] is null and v_match[4] is not null then p_most
      else coalesce(v_match[3], v_match[2])::integer end;
    if v_from < p_least or v_to > p_most or v_from > v_to or v_match[4]::integer = 0 then return null; end if;
    v_values := v_values || array(select generate_series(v_from, v_to, coalesce(v_match[4]::integer, 1)));
  end loop;
  return array(select distinct v from unnest(v_values) as v order by v);
end;
$$;

-- The five fields of a time as lists. Refuses what cannot be read, by the name of the field.
create function private.parse_cron(p_cron text, out v_cron private.cron) language plpgsql immutable as $$
declare
  v_fields pg_catalog.text[];
begin
  perform private.fail('RY422', 'A time has at most 200 characters.', 'Write "30 7 * * 1-5" for weekdays at 07:30.')
  where length(p_cron) > 200;
  v_fields := regexp_split_to_array(trim(case lower(trim(p_cron)) when '@hourly' then '0 * * * *' when '@daily'
    then '0 0 * * *'
    when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *' else p_cron end), '\s+');
  perform private.fail('RY422', 'A time has five fields: minute, hour, day, month, weekday.',
    'Write "30 7 * * 1-5" for weekdays at 07:30.') where cardinality(v_fields) is distinct from 5;
  v_cron.minutes := private.cron_field(v_fields[1], 0, 59, null);
  v_cron.hours := private.cron_field(v_fields[2], 0, 23, null);
  v_cron.days := private.cron_field(v_fields[3], 1, 31, null);
  v_cron.months := private.cron_field(v_fields[4], 1, 12, array['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug',
    'sep', 'oct', 'nov', 'dec']);
  -- 7 is Sunday, too.
  v_cron.weekdays := array(select distinct w % 7 from unnest(
    private.cron_field(v_fields[5], 0, 7, array['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'])) as w order by 1);
  perform private.fail('RY422', format('The %s of "%s" cannot be read.', case
    when v_cron.minutes is null then 'minute' when v_cron.hours is null then 'hour' when v_cron.days is null then 'day'
    when v_cron.months is null then 'month' else 'weekday' end, left(p_cron, 100)),
    'Write numbers, ranges such as 1-5, steps such as */10, lists such as 0,30, or names such as mon or jan.')
  where num_nulls(v_cron.minutes, v_cron.hours, v_cron.days, v_cron.months) > 0 or v_cron.weekdays = '{}';
  v_cron.is_any_hour := v_fields[2] like '*%';
  v_cron.is_either_day := v_fields[3] not like '*%' and v_fields[5] not like '*%';
end;
$$;

-- When a clock in that zone shows this time: once, also where it never does; of two the first, or both.
create function private.instants(p_local timestamp, p_zone text, p_has_both boolean) returns timestamptz[]
language plpgsql stable as $$
declare
  v_at pg_catalog.timestamptz := p_local at time zone p_zone;
  v_early pg_catalog.timestamptz := v_at - interval '3 hours';
  -- Read with what the clock showed three hours before: another instant of the same time, if the clock was put back.
  v_first pg_catalog.timestamptz := v_early + (p_local - (v_early at time zone p_zone));
begin
  if v_first >= v_at or v_first at time zone p_zone <> p_local then return array[v_at]; end if;
  return case when p_has_both then array[v_first, v_at] else array[v_first] end;
end;
$$;

-- Whether a time is due on this day at all.
create function private.is_cron_day(p_cron private.cron, p_day date) returns boolean language plpgsql immutable as $$
declare
  v_is_day boolean := extract(day from p_day)::integer = any (p_cron.days);
  v_is_weekday boolean := extract(dow from p_day)::integer = any (p_cron.weekdays);
begin
  return extract(month from p_day)::integer = any (p_cron.months)
    and case when p_cron.is_either_day then v_is_day or v_is_weekday else v_is_day and v_is_weekday end;
end;
$$;

-- The first time after an instant; null when there is none.
create function private.next_time(p_cron private.cron, p_zone text, p_after timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  v_from pg_catalog.timestamp := date_trunc('hour', (p_after at time zone p_zone) - interval '3 hours');
  v_day pg_catalog.date := v_from::pg_catalog.date;
  v_hour integer;
  v_next pg_catalog.timestamptz;
begin
  -- The 29th of February may be eight years away.
  while v_day < v_from::pg_catalog.date + 3000 loop
    if private.is_cron_day(p_cron, v_day) then
      foreach v_hour in array p_cron.hours loop
        continue when v_day + make_time(v_hour, 0, 0) < v_from;
        select min(i) into v_next from unnest(p_cron.minutes) as m
        cross join lateral unnest(private.instants(v_day + make_time(v_hour, m, 0), p_zone, p_cron.is_any_hour)) as i
          where i > p_after;
        if v_next is not null then return v_next; end if;
      end loop;
    end if;
    v_day := v_day + 1;
  end loop;
  return null;
end;
$$;

-- A time in words, such as "Weekdays at 07:30"; itself, where words would be longer.
create function private.cron_words(p_cron text) returns text language plpgsql immutable as $$
declare
  v_fields pg_catalog.text[] := regexp_split_to_array(trim(p_cron), '\s+');
  v_cron private.cron := private.parse_cron(p_cron);
  v_at pg_catalog.text;
  v_day pg_catalog.text;
begin
  if cardinality(v_fields) < 5 then
    return initcap(substr(trim(p_cron), 2));
  elsif v_fields[2:5] = array['*', '*', '*', '*'] and v_fields[1] ~ '^(\*|\*/\d+)$' then
    return case v_fields[1] when '*' then 'Every minute' else format('Every %s minutes', substr(v_fields[1], 3)) end;
  elsif cardinality(v_cron.minutes) <> 1 then
    return trim(p_cron);
  elsif v_fields[3:5] = array['*', '*', '*'] and v_fields[2] ~ '^(\*|\*/\d+)$' then
    return case v_fields[2] when '*' then 'Every hour' else format('Every %s hours', substr(v_fields[2], 3)) end
      || case when v_cron.minutes[1] = 0 then '' else format(' at :%s', lpad(v_cron.minutes[1]::pg_catalog.text, 2,
        '0')) end;
  elsif v_fields[4] <> '*' or cardinality(v_cron.hours) <> 1 or v_cron.is_either_day then
    return trim(p_cron);
  end if;
  v_at := format(' at %s:%s', lpad(v_cron.hours[1]::pg_catalog.text, 2, '0'), lpad(v_cron.minutes[1]::pg_catalog.text,
    2, '0'));
  if v_fields[3] <> '*' then
    v_day := v_cron.days[1]::pg_catalog.text;
    return case when cardinality(v_cron.days) > 1 then trim(p_cron) else v_day || case when v_day in ('1', '21', '31')
      then 'st'
      when v_day in ('2', '22') then 'nd' when v_day in ('3', '23') then 'rd' else 'th' end || ' of the month' || v_at
        end;
  end if;
  return case when cardinality(v_cron.weekdays) = 7 then 'Every day' when v_cron.weekdays = '{1,2,3,4,5}'
    then 'Weekdays'
    when v_cron.weekdays = '{0,6}' then 'Weekends'
    else (select string_agg((array['Sundays', 'Mondays', 'Tuesdays', 'Wednesdays', 'Thursdays', 'Fridays',
      'Saturdays'])[w + 1], ', ' order by w)
      from unnest(v_cron.weekdays) as w) end || v_at;
end;
$$;

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
comment on table public.schedules is 'Jobs that start by the clock.';
comment on column public.schedules.created_by is 'Who wrote what it does now; they do not approve its jobs.';

create function private.preview_schedule(p_org uuid, p_cron text, p_zone text default 'UTC') returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_cron private.cron;
  v_next pg_catalog.timestamptz := now();
  v_times pg_catalog.jsonb := '[]';
begin
  perform private.need('organization.read', p_org);
  v_cron := private.parse_cron(p_cron);
  perform private.check_zone(p_zone);
  for i in 1..5 loop
    v_next := private.next_time(v_cron, p_zone, v_next);
    exit when v_next is null;
    v_times := v_times || jsonb_build_object('at', v_next, 'local', to_char(v_next at time zone p_zone,
      'Dy DD Mon YYYY, HH24:MI'));
  end loop;
  perform private.fail('RY422', format('"%s" never comes.', left(p_cron, 100)), 'That month has no such day.')
  where v_times = '[]';
  return jsonb_build_object('words', private.cron_words(p_cron), 'next', v_times);
end;
$$;
comment on function private.preview_schedule is 'A time in words, and the next five times in that zone. Members.';

-- A schedule as pages and commands show it.
create function private.schedule_json(p_schedule public.schedules) returns jsonb language sql stable as $$
  select to_jsonb(p_schedule) || jsonb_build_object('words', private.cron_words(p_schedule.cron),
    'next_local', to_char(p_schedule.next_at at time zone p_schedule.zone, 'Dy DD Mon, HH24:MI'),
    'modules', (select count(*) from private.modules_below(p_schedule.org_id, p_schedule.path)),
    'last_run', (select private.set_json(s) from public.job_sets as s where s.id = p_schedule.last_set_id))
$$;

-- The verbs that such jobs need at the path of a schedule: a plan may be applied by its module's auto-apply.
create function private.verbs_to_fire(p_type public.job_type) returns text[] language sql immutable as $$
  select case p_type when 'DRIFT' then array['job.plan'] when 'DESTROY' then array['job.apply', 'schedule.destroy']
    else array['job.apply'] end
$$;

-- Refuses the caller unless they may run what the schedule runs.
create function private.need_to_fire(p_schedule public.schedules) returns void language sql stable as $$
  select private.need(v.verb, p_schedule.org_id, p_schedule.path)
  from unnest(private.verbs_to_fire(p_schedule.type)) as v (verb)
$$;

-- A schedule with the fields changed that a specification names, and its next time. Refuses what could not run.
create function private.checked_schedule(p_schedule public.schedules, p_spec jsonb) returns public.schedules
language plpgsql stable as $$
declare
  v_new public.schedules;
begin
  perform private.check_options('schedule', p_spec);
  v_new := jsonb_populate_record(p_schedule, coalesce(p_spec, '{}'));
  v_new.cron := trim(v_new.cron);
  perform private.fail('RY422', 'A schedule checks for drift, plans, applies or destroys.',
    'Choose DRIFT, PLAN, APPLY or DESTROY.')
  where v_new.type is null or v_new.type not in ('DRIFT', 'PLAN', 'APPLY', 'DESTROY');
  perform private.need(case when v_new.type = 'DESTROY' then 'schedule.destroy' else 'schedule.write' end,
    v_new.org_id, v_new.path);
  perform private.need_to_fire(v_new);
  perform private.need_target(v_new.org_id, v_new.path);
  perform private.fail('RY422', 'A schedule destroys one module, not a group.', 'Name the module.')
  where v_new.type = 'DESTROY' and not exists (select from public.modules as m where m.org_id = v_new.org_id
    and m.path = v_new.path
    and m.deleted_at is null);
  perform private.check_zone(v_new.zone);
  v_new.next_at := private.next_time(private.parse_cron(v_new.cron), v_new.zone, now());
  perform private.fail('RY422', format('"%s" never comes.', left(v_new.cron, 100)), 'That month has no such day.')
  where v_new.next_at is null;
  perform private.fail('RY422', 'A schedule is on or off.', 'Send is_on as true or false.') where v_new.is_on is null;
  return v_new;
exception
  when invalid_text_representation or datetime_field_overflow or invalid_datetime_format or invalid_parameter_value then
    perform private.fail('RY422', 'A field of the schedule has the wrong type.', sqlerrm);
end;
$$;

create function private.create_schedule(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_new public.schedules;
begin
  perform private.need_anywhere('schedule.write', p_org);
  perform private.fail('RY413', 'An organisation has at most 5,000 schedules.',
    'A schedule of a group covers all modules below it.')
  where (select count(*) from public.schedules as s where s.org_id = p_org) >= 5000;
  v_new.org_id := p_org;
  v_new.zone := 'UTC';
  v_new.is_on := true;
  v_new := private.checked_schedule(v_new, p_spec);
  insert into public.schedules (org_id, path, type, cron, zone, is_on, reason, next_at, created_by, created_by_label)
  values (p_org, v_new.path, v_new.type, v_new.cron, v_new.zone, v_new.is_on, v_new.reason, v_new.next_at,
    private.caller_id(), private.caller_label(p_org)) returning * into v_new;
  perform private.audited(to_jsonb(v_new), 'schedule.created', v_new.type || ' ' || v_new.path,
    jsonb_build_object('cron', v_new.cron, 'zone', v_new.zone));
  return private.schedule_json(v_new);
end;
$$;
comment on function private.create_schedule is
  'A schedule {path, type, cron, zone, is_on, reason}: DRIFT, PLAN, APPLY, DESTROY. Operators; admins to destroy.';

-- A schedule that the caller may change, locked.
create function private.my_schedule(p_schedule uuid, out v_schedule public.schedules) language plpgsql as $$
begin
  select * into v_schedule from public.schedules where id = p_schedule
    and private.may_see(org_id, path) for update;
  perform private.fail('RY404', 'There is no such schedule.') where v_schedule.id is null;
  perform private.need(case when v_schedule.type = 'DESTROY' then 'schedule.destroy' else 'schedule.write' end,
    v_schedule.org_id, v_schedule.path);
end;
$$;

create function private.update_schedule(p_schedule uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.schedules := private.my_schedule(p_schedule);
  v_new public.schedules := private.checked_schedule(v_old, p_spec);
begin
  update public.schedules set
    path = v_new.path, type = v_new.type, cron = v_new.cron, zone = v_new.zone, is_on = v_new.is_on,
    reason = case when v_new.is_on then null else v_new.reason end, next_at = v_new.next_at,
    created_by = private.caller_id(), created_by_label = private.caller_label(v_old.org_id)
  where id = p_schedule returning * into v_new;
  perform private.audited(to_jsonb(v_new), 'schedule.updated', v_new.type || ' ' || v_new.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_new))));
  return private.schedule_json(v_new);
end;
$$;
comment on function private.update_schedule is 'Changes the named fields of a schedule. Operators; admins to destroy.';

create function private.remove_schedule(p_schedule uuid) returns jsonb
language sql security definer set search_path = '' as $$
  select private.my_schedule(p_schedule);
  with gone as (delete from public.schedules where id = p_schedule returning *)
  select private.audited(to_jsonb(g), 'schedule.removed', g.type || ' ' || g.path) from gone as g
$$;
comment on function private.remove_schedule is 'Removes a schedule; its jobs stay. Operators; admins to destroy.';

create function private.list_schedules(p_org uuid, p_path text default null) returns jsonb
language sql stable security definer set search_path = '' as $$
  select to_jsonb(array(select private.schedule_json(s) from public.schedules as s
    where s.org_id = p_org and (p_path is null or s.path = any (private.path_prefixes(p_path)))
      and private.is_seen(p_org, s.path, n.seen) order by s.path, s.created_at limit 500))
  from private.need_seen(p_org, p_path) as n (seen)
$$;
comment on function private.list_schedules is
  'Schedules with words, next time and last run; with a path those of the module or group and groups above. Members.';

-- ## runs
-- Makes a run of a schedule: a set of its modules, without those whose job of the run before is not finished.
create function private.fire_schedule(
  p_schedule public.schedules, p_started_by uuid default null, out v_set public.job_sets
) language plpgsql as $$
declare
  v_modules pg_catalog.uuid[];
begin
  v_modules := array(
    select b from private.modules_below(p_schedule.org_id, p_schedule.path) as b where not exists (
      select from public.job_sets as s cross join lateral (
        select * from private.set_members as m where m.set_id = s.id and m.module_id = b offset 0) as m
      where s.schedule_id = p_schedule.id and (s.finished_at is null or s.id = p_schedule.last_set_id)
        and m.left_out is null and coalesce((select j.status from public.provision_jobs as j where j.id = m.job_id)
          not in ('SUCCEEDED', 'FAILED', 'CANCELLED'), true) offset 0));
  if v_modules <> '{}' then
    insert into public.job_sets (org_id, type, path, options, schedule_id, created_by, started_by, created_by_label)
    values (p_schedule.org_id, p_schedule.type, p_schedule.path, '{"priority": 200}', p_schedule.id,
      p_schedule.created_by, p_started_by, format('schedule (%s)', private.cron_words(p_schedule.cron)))
    returning * into v_set;
    perform private.add_members(v_set, v_modules);
  end if;
  update public.schedules set last_set_id = coalesce(v_set.id, last_set_id), last_note = case when v_set.id is not null
    then null
    when exists (select from private.modules_below(org_id, path)) then 'Skipped: the run before it is not finished.'
    else 'There is no module at this path.' end
  where id = p_schedule.id;
end;
$$;

create function private.run_schedule(p_schedule uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_schedule public.schedules := private.my_schedule(p_schedule);
  v_set public.job_sets;
begin
  perform private.need_to_fire(v_schedule);
  v_set := private.fire_schedule(v_schedule, private.caller_id());
  perform private.fail('RY409', 'There is nothing to run: there is no module, or the run before is not finished.',
    'Look at its last run.') where v_set.id is null;
  perform private.place_members(v_set, 2000, true, v_set.id);
  perform private.audited(to_jsonb(v_schedule), 'schedule.run', v_schedule.type || ' ' || v_schedule.path);
  return private.set_json(v_set);
end;
$$;
comment on function private.run_schedule is 'Runs a schedule now; its next time stays. Operators; admins to destroy.';

-- Whether a schedule that is due runs: not in the name of somebody who may not start its jobs any more. It is paused
-- then; or left out once, where the author's provider has only not confirmed lately what it says about them.
create function private.is_fired(p_schedule public.schedules) returns boolean language plpgsql as $$
declare
  v_lost pg_catalog.text := (select v.verb from unnest(private.verbs_to_fire(p_schedule.type)) as v (verb)
    where p_schedule.created_by is not null
      and not private.may(v.verb, p_schedule.org_id, p_schedule.path, p_schedule.created_by)
      and not private.account_may(v.verb, p_schedule.org_id, p_schedule.path, p_schedule.created_by) limit 1);
  v_reason pg_catalog.text;
begin
  if v_lost is null then return true; end if;
  if exists (select from private.sign_in_confirmations as c join public.team_members as t on t.org_id = c.org_id
    and t.user_id = c.user_id and t.is_claimed where c.org_id = p_schedule.org_id
    and c.user_id = p_schedule.created_by and c.confirmed_at is not null
    and not private.is_confirmed(c.org_id, c.user_id)) then
    update public.schedules set last_note = left(format('Skipped: the provider has not confirmed %s lately.',
      p_schedule.created_by_label), 500) where id = p_schedule.id;
    return false;
  end if;
  v_reason := left(format('Paused: %s has no %s at %s any more. A member who has it turns it on again.',
    p_schedule.created_by_label, v_lost, coalesce(nullif(p_schedule.path, ''), 'the top')), 500);
  update public.schedules set is_on = false, reason = v_reason where id = p_schedule.id;
  perform private.audited(to_jsonb(p_schedule), 'schedule.paused', p_schedule.type || ' ' || p_schedule.path,
    jsonb_build_object('reason', v_reason));
  return false;
end;
$$;

-- Runs what is due, each once however long it has been due, the longest waiting first; two hundred at a time.
create function private.sweep_schedules(out v_count integer) language plpgsql as $$
declare
  v_schedule public.schedules;
begin
  v_count := 0;
  -- A clock that was ahead and was set back has left schedules waiting for that time: they are counted again from now.
  -- A correction of minutes does not count, so that nothing runs twice.
  update public.schedules as s set next_at = private.next_time(private.parse_cron(s.cron), s.zone, now()),
    last_run_at = null
  where s.is_on and s.last_run_at > now() + interval '5 minutes';
  for v_schedule in
    select * from public.schedules as s where s.is_on and s.next_at <= now() order by s.next_at
      limit 200 for update skip locked loop
    begin
      if private.is_fired(v_schedule) then perform private.fire_schedule(v_schedule); end if;
      update public.schedules as s set last_run_at = now(),
        next_at = private.next_time(private.parse_cron(s.cron), s.zone, greatest(now(), v_schedule.next_at))
      where s.id = v_schedule.id;
      v_count := v_count + 1;
    exception when others then
      raise warning 'sweep of schedule %: %', v_schedule.id, sqlerrm;
      -- Not at once again: those that cannot run would keep their place before those that can.
      update public.schedules as s set next_at = now() + interval '5 minutes',
        last_note = 'It could not run; it is tried again every five minutes.' where s.id = v_schedule.id;
    end;
    -- The next sweep continues.
    exit when clock_timestamp() > now() + interval '4 seconds';
  end loop;
end;
$$;
