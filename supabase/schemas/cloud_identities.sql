-- Cloud identities: where cloud-hosted runners are deployed. One is not secret: it is a role to assume, and its
-- external id is meant for the other side.

create table public.cloud_identities (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  name text not null check (length(name) between 1 and 100),
  provider text not null default 'aws' check (provider = 'aws'),
  account_id text not null check (account_id ~ '^\d{12}$'),
  role_arn text not null check (length(role_arn) <= 2048 and role_arn ~ '^arn:aws[a-z-]*:iam::\d{12}:role/.+$'),
  external_id text not null unique default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  regions text[] not null
    check (cardinality(regions) between 1 and 50 and length(array_to_string(regions, '')) <= 2000),
  network jsonb not null default '{"create_vpc": true}'
    check (jsonb_typeof(network) = 'object' and octet_length(network::text) <= 16384),
  verified_at timestamptz,
  verification_error text,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  removed_at timestamptz
);
create unique index cloud_identities_name_idx on public.cloud_identities (org_id, lower(name)) where removed_at is null;
comment on table public.cloud_identities is 'Where cloud-hosted runners are deployed: a role and regions. No secrets.';
comment on column public.cloud_identities.role_arn is 'The role that the deploying runner assumes.';
comment on column public.cloud_identities.external_id is
  'The external id that the role''s trust policy must demand. Always made here, never taken.';
comment on column public.cloud_identities.network is 'Where tasks run: {subnets, security_groups, create_vpc}.';

-- A cloud identity that the caller may change, with the lock of its tests and its row held.
create function private.my_identity(p_identity uuid, out v_identity public.cloud_identities) language plpgsql as $$
begin
  select * into v_identity from public.cloud_identities where id = p_identity and removed_at is null
    and org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such cloud identity.') where v_identity.id is null;
  perform private.need('identity.manage', v_identity.org_id);
  -- Before its row: deploying holds the routing, and ending a test the state, when they come to that.
  perform private.lock_state(v_identity.org_id, p_identity);
  select * into v_identity from public.cloud_identities where id = p_identity and removed_at is null for update;
  perform private.fail('RY404', 'There is no such cloud identity.', 'It was removed in this moment.')
  where v_identity.id is null;
end;
$$;

create function private.create_cloud_identity(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities;
begin
  perform private.need('identity.manage', p_org);
  perform private.refuse_unknown_keys(p_spec, array['name', 'provider', 'account_id', 'role_arn', 'regions',
    'network']);
  insert into public.cloud_identities (org_id, name, provider, account_id, role_arn, regions, network, created_by)
  values (p_org, trim(p_spec ->> 'name'), coalesce(p_spec ->> 'provider', 'aws'),
    coalesce(p_spec ->> 'account_id', split_part(p_spec ->> 'role_arn', ':', 5)),
    p_spec ->> 'role_arn', private.text_list(p_spec -> 'regions'),
    coalesce(p_spec -> 'network', '{"create_vpc": true}'), private.caller_id())
  returning * into v_identity;
  return private.audited(to_jsonb(v_identity), 'cloud_identity.created', v_identity.name);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the cloud identity is missing or not valid.',
      'It needs a name, a role ARN like arn:aws:iam::123456789012:role/runyard of at most 2,048 characters, and 1 to '
      '50 regions of 2,000 characters in all; its network has at most 16 KiB.');
end;
$$;
comment on function private.create_cloud_identity is
  'Adds a place to deploy runners to {name, role_arn, regions, account_id, network}; makes its external id. Admins.';

create function private.update_cloud_identity(p_identity uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.refuse_unknown_keys(p_spec, array['name', 'role_arn', 'account_id', 'regions', 'network']);
  v_identity := jsonb_populate_record(v_identity, p_spec);
  update public.cloud_identities set name = trim(v_identity.name), role_arn = v_identity.role_arn,
    account_id = v_identity.account_id, regions = v_identity.regions, network = v_identity.network,
    verified_at = case when p_spec ?| array['role_arn', 'account_id', 'regions', 'network'] then null
      else verified_at end,
    verification_error = case when p_spec ?| array['role_arn', 'account_id', 'regions', 'network'] then null
      else verification_error end
  where id = p_identity returning * into v_identity;
  return private.audited(to_jsonb(v_identity), 'cloud_identity.updated', v_identity.name);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a cloud identity "%s".', p_spec ->> 'name'),
      'Choose another name.');
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'A field of the cloud identity is not valid.',
      'Check the role ARN (at most 2,048 characters), the regions (1 to 50, of 2,000 characters in all) and the '
      'network (at most 16 KiB).');
end;
$$;
comment on function private.update_cloud_identity is 'Changes the fields of a cloud identity that are named. Admins.';

create function private.remove_cloud_identity(p_identity uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
begin
  perform private.fail('RY409', format('%s runners are deployed with it.', count(*)),
    'Remove them first: afterwards nothing could reach them.')
  from public.workers where cloud_identity_id = p_identity and removed_at is null having count(*) > 0;
  update public.cloud_identities set removed_at = now() where id = p_identity returning * into v_identity;
  return private.audited(to_jsonb(v_identity), 'cloud_identity.removed', v_identity.name);
end;
$$;
comment on function private.remove_cloud_identity is 'Removes a cloud identity that no runner uses. Admins.';
