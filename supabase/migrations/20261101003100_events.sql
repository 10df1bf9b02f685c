-- What happened in the fleet: the events of an organisation's runners and jobs in one list, newest first. It is read
-- from two indexes by time, and no further than one page; a search that finds little looks at so many events at most
-- and says so, because nobody waits for a scan of years.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.job_events_about(p_org uuid, p_pattern text, p_filters jsonb, p_workers uuid[],
  p_since timestamptz, p_until timestamptz, p_most integer)
returns table (kind text, id bigint, at timestamptz, event text, reason text, actor text, worker_id uuid,
  job_id bigint, attempt integer, to_status public.job_status)
language sql stable
set search_path = ''
as $$
  -- A phase has no reason; which one it is says more than nothing.
  select 'job', e.id, e.at, e.event, coalesce(e.reason, case e.event when 'phase' then e.detail ->> 'phase' end),
    e.actor_label, case when e.actor_kind = 'worker' then e.actor_id
    else (e.detail ->> 'worker_id')::pg_catalog.uuid end, e.job_id, e.attempt, e.to_status
  from (
    select * from public.job_events as j where j.org_id = p_org and j.at >= p_since and j.at < p_until
      and (p_filters ->> 'job_id' is null or j.job_id = (p_filters ->> 'job_id')::bigint)
    order by j.at desc, j.id desc limit p_most
  ) as e
  where (p_filters -> 'event' is null or e.event = any (private.text_list(p_filters -> 'event')))
    and (p_filters ->> 'worker_id' is null or e.actor_id = (p_filters ->> 'worker_id')::pg_catalog.uuid
      or e.detail ->> 'worker_id' = p_filters ->> 'worker_id')
    and (p_pattern is null or e.event ilike p_pattern or e.reason ilike p_pattern or e.actor_label ilike p_pattern
      or e.actor_id = any (p_workers))
$$;
comment on function private.job_events_about(uuid, text, jsonb, uuid[], timestamptz, timestamptz, integer) is
  'Events of jobs that are meant, newest first, among the newest p_most of that time.';

create function private.runner_events_about(p_org uuid, p_pattern text, p_filters jsonb, p_workers uuid[],
  p_since timestamptz, p_until timestamptz, p_most integer)
returns table (kind text, id bigint, at timestamptz, event text, reason text, actor text, worker_id uuid,
  job_id bigint, attempt integer, to_status public.job_status)
language sql stable
set search_path = ''
as $$
  select 'runner', e.id, e.at, e.event, e.reason, e.instance_name, e.worker_id, null::bigint, null::integer,
    null::public.job_status
  from (
    select * from public.worker_events as w where w.org_id = p_org and w.at >= p_since and w.at < p_until
      and (p_filters ->> 'worker_id' is null or w.worker_id = (p_filters ->> 'worker_id')::pg_catalog.uuid)
    order by w.at desc, w.id desc limit p_most
  ) as e
  where p_filters ->> 'job_id' is null
    and (p_filters -> 'event' is null or e.event = any (private.text_list(p_filters -> 'event')))
    and (p_pattern is null or e.event ilike p_pattern or e.reason ilike p_pattern or e.instance_name ilike p_pattern
      or e.worker_id = any (p_workers))
$$;
comment on function private.runner_events_about(uuid, text, jsonb, uuid[], timestamptz, timestamptz, integer) is
  'Events of runners that are meant, newest first, among the newest p_most of that time.';

create function private.list_events(p_org uuid, p_search text, p_filters jsonb, p_limit integer, p_offset integer)
returns jsonb
language plpgsql stable security definer
set search_path = ''
-- What is not asked for must not be in the plan.
set plan_cache_mode = force_custom_plan
as $$
declare
  -- Where nothing narrows them, the page itself; else so many are looked through.
  v_most integer := 50000;
  v_kinds pg_catalog.text[] := private.text_list(p_filters -> 'kind');
  v_pattern pg_catalog.text := private.search_pattern(p_search);
  v_since pg_catalog.timestamptz;
  v_until pg_catalog.timestamptz;
  v_workers pg_catalog.uuid[];
  v_rows pg_catalog.jsonb;
begin
  perform private.need_role(p_org, 'viewer');
  perform private.check_page(p_filters, array['kind', 'event', 'worker_id', 'job_id', 'since', 'until'], 'newest',
    array['newest'], p_limit, p_offset);
  if p_offset > 10000 then
    perform private.fail('RY422', 'Events are turned over up to the ten thousandth.',
      'Choose an earlier end of the time, and begin again.');
  end if;
  v_since := coalesce((p_filters ->> 'since')::pg_catalog.timestamptz, '-infinity');
  v_until := coalesce((p_filters ->> 'until')::pg_catalog.timestamptz, 'infinity');
  v_workers := case when v_pattern is not null then array(
    select w.id from public.workers as w where w.org_id = p_org and w.name ilike v_pattern) end;
  if v_pattern is null and not coalesce(p_filters ?| array['event', 'worker_id'], false) then
    v_most := p_offset + p_limit + 1;
  end if;
  with found as (
    (select * from private.job_events_about(p_org, v_pattern, p_filters, v_workers, v_since, v_until, v_most) as j
      where v_kinds = '{}' or 'job' = any (v_kinds) limit p_offset + p_limit + 1)
    union all
    (select * from private.runner_events_about(p_org, v_pattern, p_filters, v_workers, v_since, v_until, v_most) as r
      where v_kinds = '{}' or 'runner' = any (v_kinds) limit p_offset + p_limit + 1)
  ), shown as (
    select f.* from found as f order by f.at desc, f.kind, f.id desc limit p_limit + 1 offset p_offset
  )
  select coalesce(jsonb_agg(to_jsonb(s) || jsonb_build_object(
      'worker_name', (select w.name from public.workers as w where w.id = s.worker_id), 'module_path',
      (select j.module_path from public.provision_jobs as j where j.id = s.job_id))
    order by s.at desc, s.kind, s.id desc), '[]') into v_rows from shown as s;
  return jsonb_build_object('rows', v_rows - p_limit, 'has_more', jsonb_array_length(v_rows) > p_limit);
exception
  when invalid_text_representation or invalid_datetime_format or datetime_field_overflow
    or numeric_value_out_of_range then
    perform private.fail('RY422', 'A filter of the list is not valid.', sqlerrm);
end;
$$;
comment on function private.list_events(uuid, text, jsonb, integer, integer) is 'Body of public.list_events.';
grant execute on function private.list_events(uuid, text, jsonb, integer, integer) to authenticated;

revoke execute on all functions in schema private from public;
