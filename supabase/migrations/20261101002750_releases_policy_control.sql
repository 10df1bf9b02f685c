-- What people do with the update policy, and what the sweep does by it.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.policy_json(p_policy public.update_policies)
returns jsonb
language plpgsql stable
set search_path = ''
as $$
begin
  return to_jsonb(p_policy) || jsonb_build_object('begins_at', to_char(p_policy.begins_at, 'HH24:MI'), 'ends_at',
    to_char(p_policy.ends_at, 'HH24:MI'),
    'next_window', case when p_policy.mode = 'WINDOW' then private.next_window(p_policy) end, 'is_open',
      private.may_update(p_policy.org_id),
    'version', private.latest_version(), 'outdated', (select count(*) from private.outdated_workers(p_policy.org_id)));
end;
$$;
comment on function private.policy_json(public.update_policies) is
  'A policy as pages and commands show it: its next window, and how many runners it concerns.';

create function private.update_policy(p_org uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_policy public.update_policies;
begin
  perform private.need_role(p_org, 'viewer');
  select * into v_policy from public.update_policies where org_id = p_org;
  if v_policy.org_id is null then
    select p_org, 'OFF', '{6,0}', '02:00', '05:00', 'UTC', '', now() into v_policy;
  end if;
  return private.policy_json(v_policy);
end;
$$;
comment on function private.update_policy(uuid) is 'Body of public.update_policy.';
grant execute on function private.update_policy(uuid) to authenticated;

create function private.set_update_policy(p_org uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_policy public.update_policies;
begin
  perform private.need_role(p_org, 'admin');
  perform private.refuse_unknown_keys(p_spec, array['mode', 'days', 'begins_at', 'ends_at', 'zone']);
  select * into v_policy from public.update_policies where org_id = p_org;
  if v_policy.org_id is null then
    select p_org, 'OFF', '{6,0}', '02:00', '05:00', 'UTC', '', now() into v_policy;
  end if;
  v_policy := jsonb_populate_record(v_policy, coalesce(p_spec, '{}'));
  perform private.check_zone(v_policy.zone);
  insert into public.update_policies as p (org_id, mode, days, begins_at, ends_at, zone, updated_by_label)
  values (p_org, v_policy.mode, v_policy.days, v_policy.begins_at, v_policy.ends_at, v_policy.zone,
    private.caller_label(p_org))
  on conflict (org_id) do update set mode = excluded.mode, days = excluded.days, begins_at = excluded.begins_at,
    ends_at = excluded.ends_at,
    zone = excluded.zone, updated_by_label = excluded.updated_by_label
  returning * into v_policy;
  perform private.audit(p_org, 'organization.update_policy', 'organization', p_org::pg_catalog.text, null,
    coalesce(p_spec, '{}'));
  return private.policy_json(v_policy);
exception
  when check_violation or not_null_violation or invalid_text_representation or invalid_datetime_format
    or datetime_field_overflow
    or numeric_value_out_of_range or invalid_parameter_value then
    perform private.fail('RY422', 'The update policy is not valid.',
      'mode is OFF, WINDOW or NOW; days are 0 (Sunday) to 6; hours are like 02:00 and differ from each other.');
end;
$$;
comment on function private.set_update_policy(uuid, jsonb) is 'Body of public.set_update_policy.';
grant execute on function private.set_update_policy(uuid, jsonb) to authenticated;

create function private.sweep_update_policies()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_org pg_catalog.uuid;
  v_rollout public.rollouts;
  v_workers pg_catalog.uuid[];
  v_count integer := 0;
begin
  if not exists (select from public.update_policies as p where p.mode <> 'OFF') or not private.is_due('updates',
    interval '1 minute') then
    return 0;
  end if;
  for v_org in select p.org_id from public.update_policies as p where p.mode <> 'OFF'
    and private.may_update(p.org_id) loop
    -- One that a person paused or aborted is theirs; so is this version, then.
    select * into v_rollout from public.rollouts as r where r.org_id = v_org
      and (r.status in ('RUNNING', 'PAUSED') or r.status in ('ABORTED', 'FAILED')
        and r.version = private.latest_version())
    order by r.created_at desc limit 1;
    if v_rollout.status = 'RUNNING' and v_rollout.is_by_policy then
      perform private.advance_rollout(v_rollout.id);
    elsif v_rollout.id is null then
      select array_agg(w.id order by w.status, w.name) into v_workers from private.outdated_workers(v_org) as w;
      if v_workers is not null then
        perform private.start_rollout(v_org, v_workers, null, true);
        v_count := v_count + 1;
      end if;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.sweep_update_policies() is
  'Starts rollouts, and goes on with them, where an organisation''s update policy allows it now. Returns how many it '
  'started.';

revoke execute on all functions in schema private from public;
