-- Times: five fields of cron, read in a time zone. The next time is computed from the clock on the wall and then turned
-- into an instant, so that 07:30 stays 07:30 when the clocks change. A time that the change to summer time leaves out
-- runs once, an hour later on that wall; one that the change to winter time brings twice runs once, at the first. What
-- is meant as "every hour" or "every ten minutes" (an hour field with *) goes on through both.
set lock_timeout = '5s';
set statement_timeout = '60s';

create type private.cron as (
  minutes integer array, hours integer array, days integer array, months integer array, weekdays integer array,
  is_any_hour boolean, is_either_day boolean
);
comment on type private.cron is
  'The five fields as lists. is_any_hour: the hour field has a *. is_either_day: day and weekday are both given, and '
  'either counts.';

create function private.cron_field(p_field text, p_least integer, p_most integer, p_names text[])
returns integer[]
language plpgsql immutable
set search_path = ''
as $$
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
    if v_match is null then
      return null;
    end if;
    v_from := case when v_match[1] is null then v_match[2]::integer else p_least end;
    v_to := case when v_match[1] is not null or v_match[3] is null and v_match[4] is not null then p_most
      else coalesce(v_match[3], v_match[2])::integer end;
    if v_from < p_least or v_to > p_most or v_from > v_to or v_match[4]::integer = 0 then
      return null;
    end if;
    v_values := v_values || array(select generate_series(v_from, v_to, coalesce(v_match[4]::integer, 1)));
  end loop;
  return array(select distinct v from unnest(v_values) as v order by v);
end;
$$;
comment on function private.cron_field(text, integer, integer, text[]) is
  'The values of one field: *, 5, 1-5, */10, 1-5/2, names, and lists of these; null when it is not one.';

create function private.parse_cron(p_cron text)
returns private.cron
language plpgsql immutable
set search_path = ''
as $$
declare
  v_fields pg_catalog.text[];
  v_cron private.cron;
begin
  if length(p_cron) > 200 then
    perform private.fail('RY422', 'A time has at most 200 characters.', 'Write "30 7 * * 1-5" for weekdays at 07:30.');
  end if;
  v_fields := regexp_split_to_array(trim(case lower(trim(p_cron)) when '@hourly' then '0 * * * *' when '@daily'
    then '0 0 * * *'
    when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *' else p_cron end), '\s+');
  if cardinality(v_fields) is distinct from 5 then
    perform private.fail('RY422', 'A time has five fields: minute, hour, day, month, weekday.',
      'Write "30 7 * * 1-5" for weekdays at 07:30.');
  end if;
  v_cron.minutes := private.cron_field(v_fields[1], 0, 59, null);
  v_cron.hours := private.cron_field(v_fields[2], 0, 23, null);
  v_cron.days := private.cron_field(v_fields[3], 1, 31, null);
  v_cron.months := private.cron_field(v_fields[4], 1, 12, array['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug',
    'sep', 'oct', 'nov', 'dec']);
  -- 7 is Sunday, too.
  v_cron.weekdays := array(select distinct w % 7 from unnest(
    private.cron_field(v_fields[5], 0, 7, array['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'])) as w order by 1);
  if num_nulls(v_cron.minutes, v_cron.hours, v_cron.days, v_cron.months) > 0 or v_cron.weekdays = '{}' then
    perform private.fail('RY422', format('The %s of "%s" cannot be read.', case when v_cron.minutes is null
      then 'minute'
      when v_cron.hours is null then 'hour' when v_cron.days is null then 'day' when v_cron.months is null then 'month'
        else 'weekday' end,
      left(p_cron, 100)),
      'Write numbers, ranges such as 1-5, steps such as */10, lists such as 0,30, or names such as mon or jan.');
  end if;
  v_cron.is_any_hour := v_fields[2] like '*%';
  v_cron.is_either_day := v_fields[3] not like '*%' and v_fields[5] not like '*%';
  return v_cron;
end;
$$;
comment on function private.parse_cron(text) is
  'The five fields of a time as lists. Refuses what cannot be read, by the name of the field.';

create function private.check_zone(p_zone text)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  -- PostgreSQL would take "Nowhere5" for a zone five hours from UTC.
  if p_zone is null or not exists (select from pg_catalog.pg_timezone_names as z where z.name = p_zone)
    or p_zone like 'posix/%' or p_zone like 'right/%' then
    perform private.fail('RY422', format('There is no time zone "%s".', left(p_zone, 100)),
      'Write it as Europe/Lisbon, or UTC.');
  end if;
end;
$$;
comment on function private.check_zone(text) is 'Refuses a time zone that is not known by its name.';

create function private.instants(p_local timestamp, p_zone text, p_has_both boolean)
returns timestamptz[]
language plpgsql stable
set search_path = ''
as $$
declare
  v_at pg_catalog.timestamptz := p_local at time zone p_zone;
  v_early pg_catalog.timestamptz := v_at - interval '3 hours';
  -- Read with what the clock showed three hours before: another instant of the same time, if the clock was put back.
  v_first pg_catalog.timestamptz := v_early + (p_local - (v_early at time zone p_zone));
begin
  if v_first >= v_at or v_first at time zone p_zone <> p_local then
    return array[v_at];
  end if;
  return case when p_has_both then array[v_first, v_at] else array[v_first] end;
end;
$$;
comment on function private.instants(timestamp, text, boolean) is
  'When a clock in that zone shows this time: once, also where it never does; of two the first, or both.';

create function private.is_cron_day(p_cron private.cron, p_day date)
returns boolean
language plpgsql immutable
set search_path = ''
as $$
declare
  v_is_day boolean := extract(day from p_day)::integer = any (p_cron.days);
  v_is_weekday boolean := extract(dow from p_day)::integer = any (p_cron.weekdays);
begin
  return extract(month from p_day)::integer = any (p_cron.months)
    and case when p_cron.is_either_day then v_is_day or v_is_weekday else v_is_day and v_is_weekday end;
end;
$$;
comment on function private.is_cron_day(private.cron, date) is 'Whether a time is due on this day at all.';

create function private.next_time(p_cron private.cron, p_zone text, p_after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = ''
as $$
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
        if v_next is not null then
          return v_next;
        end if;
      end loop;
    end if;
    v_day := v_day + 1;
  end loop;
  return null;
end;
$$;
comment on function private.next_time(private.cron, text, timestamptz) is
  'The first time after an instant; null when there is none.';

create function private.cron_words(p_cron text)
returns text
language plpgsql immutable
set search_path = ''
as $$
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
comment on function private.cron_words(text) is
  'A time in words, such as "Weekdays at 07:30"; itself, where words would be longer.';

revoke execute on all functions in schema private from public;
