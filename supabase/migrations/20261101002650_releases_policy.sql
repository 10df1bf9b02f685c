-- Updates by policy: whether outdated runners are updated by themselves, at once or between certain hours. The rollouts
-- and their waves are those that a person starts; a policy only says when one may begin and go on.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table public.update_policies (
  org_id uuid primary key references public.organizations (id) on delete cascade,
  mode text not null check (mode in ('OFF', 'WINDOW', 'NOW')),
  days integer[] not null default '{6,0}' check (days <@ '{0,1,2,3,4,5,6}' and cardinality(days) between 1 and 7),
  begins_at time not null default '02:00',
  ends_at time not null default '05:00',
  zone text not null default 'UTC',
  updated_by_label text not null,
  updated_at timestamptz not null default now(),
  constraint update_policies_window_check check (begins_at <> ends_at)
);
alter table public.update_policies enable row level security;
grant select on public.update_policies to authenticated, service_role;

create policy "Members see their organisation's update policy" on public.update_policies
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.update_policies is
  'When an organisation''s outdated runners update by themselves; none is OFF.';
comment on column public.update_policies.mode is
  'OFF: a person starts it · WINDOW: between the hours below · NOW: as soon as a release is out.';
comment on column public.update_policies.days is 'Days on which a window begins: 0 is Sunday.';
comment on column public.update_policies.begins_at is 'When a window begins.';
comment on column public.update_policies.ends_at is 'When it ends; the next day, where that is earlier.';
comment on column public.update_policies.zone is 'The time zone of these hours.';
comment on column public.update_policies.updated_by_label is 'Who changed it last.';
create trigger touch before update on public.update_policies for each row execute function private.touch_updated_at();
create trigger ring after insert or update on public.update_policies
  for each row execute function private.ring_changed_row();

create function private.is_in_window(p_policy public.update_policies, p_at timestamptz)
returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  v_local pg_catalog.timestamp := p_at at time zone p_policy.zone;
  v_is_overnight boolean := p_policy.ends_at < p_policy.begins_at;
  v_is_after_midnight boolean := v_is_overnight and v_local::pg_catalog.time < p_policy.ends_at;
  v_day integer := extract(dow from v_local - case when v_is_after_midnight then interval '1 day' else interval '0'
    end);
begin
  return v_day = any (p_policy.days) and (v_is_after_midnight
    or v_local::pg_catalog.time >= p_policy.begins_at and (v_is_overnight
      or v_local::pg_catalog.time < p_policy.ends_at));
end;
$$;
comment on function private.is_in_window(public.update_policies, timestamptz) is
  'Whether a window is open at that time.';

create function private.may_update(p_org uuid)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return coalesce((select p.mode = 'NOW' or p.mode = 'WINDOW' and private.is_in_window(p, now())
    from public.update_policies as p where p.org_id = p_org), false);
end;
$$;
comment on function private.may_update(uuid) is 'Whether an organisation''s policy lets runners update now.';

create function private.next_window(p_policy public.update_policies)
returns timestamptz
language sql stable
set search_path = ''
as $$
  select min(d.at) from (
    select (((now() at time zone p_policy.zone)::pg_catalog.date + n) + p_policy.begins_at) at time zone p_policy.zone
      as at,
      extract(dow from (now() at time zone p_policy.zone)::pg_catalog.date + n)::integer as day
    from generate_series(0, 7) as n) as d
  where d.day = any (p_policy.days) and d.at > now()
$$;
comment on function private.next_window(public.update_policies) is 'When the next window begins.';

revoke execute on all functions in schema private from public;
