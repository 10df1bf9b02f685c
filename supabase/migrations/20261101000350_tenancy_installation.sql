-- What concerns the whole installation: one row. Whoever holds the service key changes it; no organisation can.
set lock_timeout = '5s';
set statement_timeout = '60s';

create type public.organization_makers as enum ('EVERYBODY', 'OWNERS');
comment on type public.organization_makers is
  'Who may make organisations: everybody who has an account · whoever owns one already (and the first one of all).';

create table private.installation (
  is_only boolean primary key default true check (is_only),
  maintenance_until timestamptz,
  maintenance_reason text check (length(maintenance_reason) <= 500),
  organization_makers public.organization_makers not null default 'EVERYBODY'
);
alter table private.installation enable row level security;
comment on table private.installation is 'What concerns the whole installation: one row.';
comment on column private.installation.is_only is 'So that there is one row.';
comment on column private.installation.maintenance_until is 'Until then no runner takes any job; what runs, finishes.';
comment on column private.installation.maintenance_reason is 'Why, as everybody reads it.';
comment on column private.installation.organization_makers is 'Who may make organisations.';
insert into private.installation default values;

create function private.organization_makers()
returns jsonb
language sql stable security definer
set search_path = ''
as $$
  select jsonb_build_object('who', i.organization_makers, 'may_create', i.organization_makers = 'EVERYBODY'
    or not exists (select from public.organizations)
    or exists (select from public.memberships as m where m.user_id = private.caller_id() and m.role = 'owner'))
  from private.installation as i where i.is_only
$$;
comment on function private.organization_makers() is 'Body of public.organization_makers.';
grant execute on function private.organization_makers() to authenticated;

create function private.set_organization_makers(p_who public.organization_makers)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
begin
  if p_who is null then
    perform private.fail('RY422', 'It is not said who may make organisations.', 'Say EVERYBODY or OWNERS.');
  end if;
  update private.installation set organization_makers = p_who where is_only;
  perform private.audit(null, 'installation.organization_makers', 'installation', null, null,
    jsonb_build_object('who', p_who));
  return jsonb_build_object('who', p_who);
end;
$$;
comment on function private.set_organization_makers(public.organization_makers) is
  'Body of public.set_organization_makers.';
grant execute on function private.set_organization_makers(public.organization_makers) to service_role;

revoke execute on all functions in schema private from public;
