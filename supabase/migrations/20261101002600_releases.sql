-- Releases of the runner: the installation publishes and withdraws them with its service key; no organisation can.
set lock_timeout = '5s';
set statement_timeout = '60s';

create table public.worker_releases (
  id uuid primary key default gen_random_uuid(),
  version text not null unique check (private.version_key(version) is not null),
  channel text not null default 'stable' check (channel in ('stable', 'beta')),
  notes text not null default '',
  is_breaking boolean not null default false,
  artifacts jsonb not null default '[]' check (jsonb_typeof(artifacts) = 'array'),
  published_at timestamptz not null default now(),
  withdrawn_at timestamptz,
  withdrawn_reason text
);
alter table public.worker_releases enable row level security;
grant select on public.worker_releases to authenticated, worker, service_role;

create policy "Everybody who is signed in sees releases" on public.worker_releases for
  select to authenticated using (true);
create policy "Runners see releases" on public.worker_releases for select to worker using (true);
comment on table public.worker_releases is 'Published versions of the runner, with their notes.';
comment on column public.worker_releases.channel is 'stable or beta.';
comment on column public.worker_releases.notes is 'What is new (Markdown).';
comment on column public.worker_releases.is_breaking is 'Whether something must be changed before updating.';
comment on column public.worker_releases.artifacts is 'What to download: [{name, url, sha256}].';
comment on column public.worker_releases.withdrawn_reason is 'Why.';
-- squawk-ignore require-concurrent-index-creation
create index worker_releases_newest_idx on public.worker_releases ((private.version_key(version) collate "C") desc)
where channel = 'stable' and withdrawn_at is null;
create type public.rollout_status as enum ('RUNNING', 'PAUSED', 'SUCCEEDED', 'FAILED', 'ABORTED');
comment on type public.rollout_status is 'Where a rollout is. SUCCEEDED, FAILED and ABORTED are final.';

create table public.rollouts (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  version text not null,
  status public.rollout_status not null default 'RUNNING',
  wave integer not null default 1,
  waves jsonb not null default '[]',
  reason text,
  is_by_policy boolean not null default false,
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz
);
create index rollouts_org_id_idx on public.rollouts (org_id, created_at desc);
create unique index rollouts_running_idx on public.rollouts (org_id) where status in ('RUNNING', 'PAUSED');
alter table public.rollouts enable row level security;
grant select on public.rollouts to authenticated, service_role;

create policy "Members see their organisation's rollouts" on public.rollouts
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.rollouts is
  'Updating the outdated runners in waves: one, then a quarter, then the rest. One at a time per organisation.';
comment on column public.rollouts.status is 'Where it is.';
comment on column public.rollouts.wave is 'The wave that is running, from 1.';
comment on column public.rollouts.waves is 'The runners of each wave: [[worker id, …], …].';
comment on column public.rollouts.reason is 'Why it paused, failed or was aborted.';
comment on column public.rollouts.is_by_policy is
  'Whether the organisation''s update policy started it; its waves then begin only while that allows it.';
create trigger touch before update on public.rollouts for each row execute function private.touch_updated_at();

-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
alter table public.provision_jobs add constraint
  provision_jobs_rollout_id_fkey foreign key (rollout_id) references public.rollouts (id);

create function private.latest_version()
returns text
language sql stable
set search_path = ''
as $$
  select r.version from public.worker_releases as r where r.channel = 'stable' and r.withdrawn_at is null
  order by private.version_key(r.version) collate "C" desc limit 1
$$;
comment on function private.latest_version() is 'The newest stable release that was not withdrawn.';

create function private.publish_release(p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_release public.worker_releases;
begin
  perform private.refuse_unknown_keys(p_spec, array['version', 'channel', 'notes', 'is_breaking', 'artifacts']);
  select * into v_release from public.worker_releases where version = p_spec ->> 'version';
  if v_release.id is not null then
    if (v_release.notes, v_release.channel, v_release.artifacts) is distinct from
      (coalesce(p_spec ->> 'notes', ''), coalesce(p_spec ->> 'channel', 'stable'),
        coalesce(p_spec -> 'artifacts', '[]')) then
      perform private.fail('RY409', format('Release %s is published already, with other content.', v_release.version),
        'Publish a new version.');
    end if;
    return to_jsonb(v_release);
  end if;
  insert into public.worker_releases (version, channel, notes, is_breaking, artifacts)
  values (p_spec ->> 'version', coalesce(p_spec ->> 'channel', 'stable'), coalesce(p_spec ->> 'notes', ''),
    coalesce((p_spec ->> 'is_breaking')::boolean, false),
    coalesce(p_spec -> 'artifacts', '[]')) returning * into v_release;
  perform private.audit(null, 'release.published', 'release', v_release.id::pg_catalog.text, v_release.version);
  return to_jsonb(v_release);
exception
  when check_violation or not_null_violation or invalid_text_representation then
    perform private.fail('RY422', 'The release is not valid.',
      'It needs a version such as 1.4.0, and the channel stable or beta.');
end;
$$;
comment on function private.publish_release(jsonb) is 'Body of public.publish_release.';
grant execute on function private.publish_release(jsonb) to service_role;

create function private.stop_updates(p_version text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_rollout pg_catalog.uuid;
  v_job pg_catalog.record;
begin
  for v_rollout in select r.id from public.rollouts as r where r.version = p_version and r.status = 'RUNNING' loop
    perform private.advance_rollout(v_rollout);
  end loop;
  for v_job in select j.id, j.org_id, j.target_worker_id from public.provision_jobs as j
    where j.type = 'UPDATE_WORKER' and j.status = 'QUEUED' and j.payload #>> '{lifecycle,version}' = p_version
    order by j.target_worker_id, j.id
  loop
    perform private.lock_state(v_job.org_id, v_job.target_worker_id);
    if exists (select from private.live_jobs as q where q.job_id = v_job.id and q.stage <> 'RUNNING' for update) then
      perform private.end_job(v_job.id, 'CANCELLED', 'cancelled', 'system', null, 'system',
        format('Release %s was withdrawn.', p_version));
    end if;
  end loop;
end;
$$;
comment on function private.stop_updates(text) is
  'Pauses the rollouts of a withdrawn release and cancels its updates that have not begun.';

create function private.withdraw_release(p_version text, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_release public.worker_releases;
begin
  update public.worker_releases set withdrawn_at = coalesce(withdrawn_at, now()),
    withdrawn_reason = coalesce(withdrawn_reason, p_reason)
  where version = p_version returning * into v_release;
  if v_release.id is null then
    perform private.fail('RY404', format('There is no release %s.', p_version));
  end if;
  perform private.stop_updates(p_version);
  perform private.audit(null, 'release.withdrawn', 'release', v_release.id::pg_catalog.text, p_version,
    jsonb_build_object('reason', p_reason));
  return to_jsonb(v_release);
end;
$$;
comment on function private.withdraw_release(text, text) is 'Body of public.withdraw_release.';
grant execute on function private.withdraw_release(text, text) to service_role;

revoke execute on all functions in schema private from public;
