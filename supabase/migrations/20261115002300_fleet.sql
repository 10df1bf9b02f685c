-- What pages poll: the numbers that change too often to be rows. One call per organisation, every few seconds.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- Jobs that wait for a person are few, and every page shows them: without it, finding none reads all that ever were.
-- squawk-ignore require-concurrent-index-creation
create index provision_jobs_needs_you_idx on public.provision_jobs (org_id, id desc)
where status in ('AWAITING_APPROVAL', 'NEEDS_ATTENTION');

create function private.fleet_overview(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.need_role(p_org, 'viewer');
  return jsonb_build_object(
    'server_time', now(),
    'workers', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', w.id, 'status', s.status, 'status_reason', s.reason, 'last_seen_at', i.last_seen_at, 'used', coalesce(i.used, 0),
        'capacity', coalesce(nullif(i.capacity, 0), w.capacity), 'instances', coalesce(i.instances, '[]')) order by w.created_at, w.id),
          '[]')
      from public.workers as w
      cross join lateral private.derive_worker_status(w.id) as s
      left join lateral (
        select max(l.last_seen_at) as last_seen_at, sum(l.used) filter (where l.is_fresh) as used,
          sum(l.capacity) filter (where l.is_fresh) as capacity,
          jsonb_agg(jsonb_build_object('id', l.instance_id, 'name', l.name, 'last_seen_at', l.last_seen_at, 'used', l.used, 'capacity',
            l.capacity,
            'is_online', l.is_fresh) order by l.name) as instances
        from private.instance_liveness as l where l.worker_id = w.id
      ) as i on true
      where (w.org_id = p_org or w.is_shared) and w.removed_at is null),
    'counts', private.fleet_counts(p_org));
end;
$$;
comment on function private.fleet_overview(uuid) is 'Body of public.fleet_overview.';
grant execute on function private.fleet_overview(uuid) to authenticated;

create function private.fleet_counts(p_org uuid)
returns jsonb
language sql stable
set search_path = ''
as $$
  select (
    select jsonb_build_object('used', coalesce(sum(i.used), 0), 'capacity', coalesce(sum(i.capacity), 0))
    from private.instance_liveness as i join public.workers as w on w.id = i.worker_id where w.org_id = p_org and w.removed_at is null
      and i.is_fresh
  ) || jsonb_build_object(
    'workers', (
      select jsonb_build_object('total', count(*), 'ONLINE', count(*) filter (where w.status = 'ONLINE'),
        'DRAINING', count(*) filter (where w.status = 'DRAINING'), 'OFFLINE', count(*) filter (where w.status = 'OFFLINE'))
      from public.workers as w where (w.org_id = p_org or w.is_shared) and w.removed_at is null),
    'jobs', (
      select coalesce(jsonb_object_agg(c.status, c.n), '{}') from (
        select j.status, count(*) as n from public.provision_jobs as j
        where j.org_id = p_org and j.status in ('AWAITING_APPROVAL', 'QUEUED', 'CLAIMED', 'PROCESSING', 'NEEDS_ATTENTION') group by j.status
      ) as c))
$$;
comment on function private.fleet_counts(uuid) is
  'Slots in use of the organisation''s own runners, and how many runners and unfinished jobs there are, by status.';

create function public.fleet_overview(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.fleet_overview(p_org); end $$;
comment on function public.fleet_overview(uuid) is
  'Live numbers of an organisation''s runners (and the shared ones): status, last beat, load per instance, counts. Members.';
grant execute on function public.fleet_overview(uuid) to authenticated;

revoke execute on all functions in schema private, public from public;
