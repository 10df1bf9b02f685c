-- Maintenance, of an organisation or of the installation: nothing new is claimed, what runs finishes, and every job
-- that waits says until when and why. It ends by itself.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.maintenance(p_org uuid)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  -- Whichever lasts longer.
  return (
    select case
      when greatest(i.maintenance_until, o.maintenance_until) is null
        or greatest(i.maintenance_until, o.maintenance_until) <= now() then null
      when o.maintenance_until > coalesce(i.maintenance_until, '-infinity') then
        jsonb_build_object('scope', 'organization', 'until', o.maintenance_until, 'reason', o.maintenance_reason)
      else jsonb_build_object('scope', 'installation', 'until', i.maintenance_until, 'reason', i.maintenance_reason) end
    from private.installation as i left join public.organizations as o on o.id = p_org where i.is_only);
end;
$$;
comment on function private.maintenance(uuid) is
  'The maintenance that keeps an organisation''s jobs from being taken now: whose it is, until when and why; null '
  'when there is none.';

create function private.my_maintenance(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.need_role(p_org, 'viewer');
  return private.maintenance(p_org);
end;
$$;
comment on function private.my_maintenance(uuid) is 'Body of public.maintenance.';
grant execute on function private.my_maintenance(uuid) to authenticated;

create function private.check_maintenance(p_until timestamptz, p_reason text)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if p_until is null then
    return;
  end if;
  if p_until <= now() or p_until > now() + interval '30 days' then
    perform private.fail('RY422', 'Maintenance ends at a time within the next 30 days.',
      'Send the time of its end, or none to end it now.');
  end if;
  if length(trim(coalesce(p_reason, ''))) not between 1 and 500 then
    perform private.fail('RY422', 'Maintenance needs a reason of at most 500 characters.',
      'Say why jobs wait: every member reads it.');
  end if;
end;
$$;
comment on function private.check_maintenance(timestamptz, text) is 'Refuses a maintenance without an end or a reason.';

create function private.wake_lanes(p_org uuid)
returns void
language sql
set search_path = ''
as $$
  select private.ring_lane(l.id) from private.lanes as l
  where (p_org is null or l.org_id = p_org) and exists (select from private.live_jobs as q where q.lane_id = l.id
    and q.stage = 'READY')
  limit 1000
$$;
comment on function private.wake_lanes(uuid) is
  'Wakes the runners of every lane with a ready job, of one organisation or of all.';

create function private.set_maintenance(p_org uuid, p_until timestamptz, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.need_role(p_org, 'admin');
  perform private.check_maintenance(p_until, p_reason);
  update public.organizations set maintenance_until = p_until, maintenance_reason = case when p_until is not null
    then trim(p_reason) end
  where id = p_org;
  perform private.audit(p_org, case when p_until is null then 'organization.maintenance_ended'
    else 'organization.maintenance' end,
    'organization', p_org::pg_catalog.text, null, jsonb_build_object('until', p_until, 'reason', p_reason));
  perform private.ring_org(p_org, 'organizations', p_org::pg_catalog.text);
  if p_until is null then
    perform private.wake_lanes(p_org);
  end if;
  return jsonb_build_object('maintenance', private.maintenance(p_org));
end;
$$;
comment on function private.set_maintenance(uuid, timestamptz, text) is 'Body of public.set_maintenance.';
grant execute on function private.set_maintenance(uuid, timestamptz, text) to authenticated;

create function private.set_installation_maintenance(p_until timestamptz, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  perform private.check_maintenance(p_until, p_reason);
  update private.installation set maintenance_until = p_until, maintenance_reason = case when p_until is not null
    then trim(p_reason) end
  where is_only;
  perform private.audit(null, case when p_until is null then 'installation.maintenance_ended'
    else 'installation.maintenance' end,
    'installation', null, null, jsonb_build_object('until', p_until, 'reason', p_reason));
  if p_until is null then
    perform private.wake_lanes(null);
  end if;
  return jsonb_build_object('maintenance', private.maintenance(null));
end;
$$;
comment on function private.set_installation_maintenance(timestamptz, text) is
  'Body of public.set_installation_maintenance.';
grant execute on function private.set_installation_maintenance(timestamptz, text) to service_role;

create function private.open_transactions()
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  -- While one is open, vacuum cannot remove what claims leave in their index, and each claim steps over all of it.
  return (
    select coalesce(jsonb_agg(to_jsonb(a) order by a.seconds desc), '[]') from (
      select a.pid, a.usename as role, a.application_name as application, a.state,
        round(extract(epoch from now() - a.xact_start))::integer as seconds
      from pg_catalog.pg_stat_activity as a
      where a.xact_start is not null and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
      order by a.xact_start limit 5
    ) as a);
end;
$$;
comment on function private.open_transactions() is 'Body of public.open_transactions.';
grant execute on function private.open_transactions() to service_role;

revoke execute on all functions in schema private from public;
