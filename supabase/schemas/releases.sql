-- Releases of the runner, and how they reach runners: the installation publishes releases with its service key (no
-- organisation can), a policy decides when runners may be updated, a rollout updates them in waves.

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
grant select on public.worker_releases to authenticated, worker, service_role;
create policy "Everybody who is signed in sees releases" on public.worker_releases for
  select to authenticated using (true);
create policy "Runners see releases" on public.worker_releases for select to worker using (true);
comment on table public.worker_releases is 'Published versions of the runner, with their notes.';
comment on column public.worker_releases.is_breaking is 'Whether something must be changed before updating.';
comment on column public.worker_releases.artifacts is 'What to download: [{name, url, sha256}].';

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
  created_by_label text not null default 'system',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz
);
alter table public.provision_jobs add constraint provision_jobs_rollout_fkey
  foreign key (rollout_id) references public.rollouts (id) on delete set null;
create index rollouts_org_id_idx on public.rollouts (org_id, created_at desc);
create unique index rollouts_running_idx on public.rollouts (org_id) where status in ('RUNNING', 'PAUSED');
comment on table public.rollouts is
  'Updates of outdated runners in waves: one, a quarter, the rest, each 200 at most. One at a time per organisation.';
comment on column public.rollouts.wave is 'The wave that is running, from 1; 0 until one has begun.';
comment on column public.rollouts.waves is 'The runners of each wave: [[worker id, …], …].';
comment on column public.rollouts.created_by_label is
  'The name then of the person who started it, or "update policy": later waves begin in the call of some runner.';
comment on column public.rollouts.is_by_policy is
  'Whether the organisation''s update policy started it; its waves then begin only while that allows it.';

create function private.publish_release(p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_release public.worker_releases;
begin
  perform private.refuse_unknown_keys(p_spec, array['version', 'channel', 'notes', 'is_breaking', 'artifacts']);
  select * into v_release from public.worker_releases where version = p_spec ->> 'version';
  if v_release.id is not null then
    perform private.fail('RY409', format('Release %s is published already, with other content.', v_release.version),
      'Publish a new version.')
    where (v_release.notes, v_release.channel, v_release.artifacts) is distinct from
      (coalesce(p_spec ->> 'notes', ''), coalesce(p_spec ->> 'channel', 'stable'),
        coalesce(p_spec -> 'artifacts', '[]'));
    return to_jsonb(v_release);
  end if;
  insert into public.worker_releases (version, channel, notes, is_breaking, artifacts)
  values (p_spec ->> 'version', coalesce(p_spec ->> 'channel', 'stable'), coalesce(p_spec ->> 'notes', ''),
    coalesce((p_spec ->> 'is_breaking')::boolean, false),
    coalesce(p_spec -> 'artifacts', '[]')) returning * into v_release;
  return private.audited(to_jsonb(v_release), 'release.published', v_release.version);
exception when check_violation or not_null_violation or invalid_text_representation then
  perform private.fail('RY422', 'The release is not valid.',
    'It needs a version such as 1.4.0, and the channel stable or beta.');
end;
$$;
comment on function private.publish_release is
  'Publishes a release {version, channel, notes, is_breaking, artifacts}; again, it changes nothing. Service key only.';

-- ## updates by policy
-- Updates by policy: whether outdated runners are updated automatically, at once or between certain hours. The rollouts
-- and their waves are those that a person starts; a policy only decides when one may begin and continue.
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
comment on table public.update_policies is 'When outdated runners update automatically; no row is OFF.';
comment on column public.update_policies.mode is 'OFF · WINDOW: in these hours · NOW: as soon as a release is out.';
comment on column public.update_policies.days is 'Days on which a window begins: 0 is Sunday.';
comment on column public.update_policies.ends_at is 'When it ends; the next day, where that is earlier.';

create function private.is_in_window(p_policy public.update_policies, p_at timestamptz) returns boolean
language plpgsql stable as $$
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

-- Whether an organisation's policy lets runners update now.
create function private.may_update(p_org uuid) returns boolean language sql stable as $$
  select coalesce((select p.mode = 'NOW' or p.mode = 'WINDOW' and private.is_in_window(p, now())
    from public.update_policies as p where p.org_id = p_org), false)
$$;

create function private.next_window(p_policy public.update_policies) returns timestamptz language sql stable as $$
  select min(d.at) from (
    select (((now() at time zone p_policy.zone)::pg_catalog.date + n) + p_policy.begins_at) at time zone p_policy.zone
      as at, extract(dow from (now() at time zone p_policy.zone)::pg_catalog.date + n)::integer as day
    from generate_series(0, 7) as n) as d
  where d.day = any (p_policy.days) and d.at > now()
$$;

-- ## rollouts
-- Updates. A cloud-hosted runner is updated by a job that another one runs. A self-hosted runner that was started with
-- the permission updates itself: the job is pinned to it, is given back when the process restarts, and ends when the
-- new version claims it again. Rollouts: all outdated runners that a job can update get the newest release in waves:
-- one, then a quarter, then the rest. A wave begins when the one before has succeeded; a failure pauses the rollout,
-- and a person decides.
-- The names of the files that a release has.
create function private.release_files(p_version text) returns text[] language sql stable as $$
  select array(select a ->> 'name' from public.worker_releases as r cross join jsonb_array_elements(r.artifacts) as a
    where r.version = p_version)
$$;

-- Whether every live instance of a runner may update itself, and the release has its file.
create function private.updates_itself(p_worker uuid, p_version text) returns boolean language sql stable as $$
  select coalesce(bool_and(coalesce(n.facts ->> 'self_update' = any (r.files), false)), false)
  from (select private.release_files(p_version) as files offset 0) as r
  cross join public.worker_instances as n join private.instance_liveness as i on i.instance_id = n.id
  where n.worker_id = p_worker and i.is_fresh
$$;

-- Whether a runner lets a job update it: one in a cloud always, one that updates itself only while it takes jobs.
create function private.takes_updates(p_worker public.workers) returns boolean language sql immutable as $$
  select p_worker.type = 'cloud-hosted'
    or p_worker.type = 'self-hosted' and not (p_worker.is_draining or p_worker.is_disabled)
$$;

-- Runners that are older than a release and take updates, without a job about them.
create function private.updatable_workers(p_org uuid, p_version text) returns setof public.workers
language sql stable as $$
  select w.* from public.workers as w
  where w.org_id = p_org and w.removed_at is null and not w.cloud ? 'is_gone'
    and private.is_version_less(w.version, p_version) and private.takes_updates(w) and not private.is_state_in_use(w.id)
$$;

-- Runners older than the newest stable release that a job can update, without a job about them.
create function private.outdated_workers(p_org uuid) returns setof public.workers language sql stable as $$
  select w.* from private.updatable_workers(p_org, private.latest_version()) as w
  where w.type = 'cloud-hosted' or private.updates_itself(w.id, private.latest_version())
$$;

-- The job by which an instance of a self-hosted runner updates itself, not yet written.
create function private.self_update_job(
  p_worker public.workers, p_version text, p_instance text, out v_job public.provision_jobs
) language plpgsql as $$
begin
  v_job := private.lifecycle_job(p_worker, 'UPDATE_WORKER', null);
  v_job.pinned_worker_id := p_worker.id;
  v_job.pinned_instance_name := p_instance;
  v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object(
    'worker', jsonb_build_object('id', p_worker.id, 'name', p_worker.name), 'version', p_version, 'is_own', true,
    'allow_downgrade', private.is_version_less(p_version, p_worker.version),
    'artifacts', (select r.artifacts from public.worker_releases as r where r.version = p_version)));
end;
$$;

-- The jobs that update a runner, not yet written: one, or one for each instance of a runner that updates itself.
create function private.update_jobs(p_worker public.workers, p_version text) returns setof public.provision_jobs
language plpgsql as $$
begin
  if p_worker.type = 'cloud-hosted' then
    return next private.lifecycle_job(p_worker, 'UPDATE_WORKER', jsonb_build_object('version', p_version));
    return;
  end if;
  return query select (private.self_update_job(p_worker, p_version, i.name)).* from private.instance_liveness as i
    where i.worker_id = p_worker.id and i.is_fresh order by i.name;
  if not found then
    -- It left after it was chosen. The job shows that when nobody has taken it for a while.
    return next private.self_update_job(p_worker, p_version, null);
  end if;
end;
$$;

-- Refuses to queue an update that no job can carry out.
create function private.need_updatable(p_worker public.workers, p_version text) returns void language plpgsql as $$
begin
  perform private.refuse_second_lifecycle_job(p_worker.id);
  perform private.fail('RY404', format('There is no release %s, or it was withdrawn.', coalesce(p_version, 'yet')),
    'Choose a release that is listed in the notes.')
  where not exists (select from public.worker_releases as r where r.version = p_version and r.withdrawn_at is null);
  if p_worker.type = 'cloud-hosted' then return; end if;
  if p_worker.type <> 'self-hosted' or not private.updates_itself(p_worker.id, p_version) then
    perform private.fail('RY422', format('"%s" does not update itself to %s.', p_worker.name, p_version),
      'Update it where it runs. Or start it, from its one file, with the setting Update.Enabled; the release needs a '
      'file for its platform.');
  elsif not private.takes_updates(p_worker) then
    perform private.fail('RY409', format('"%s" takes no jobs, and its update is one.', p_worker.name),
      'Resume it first.');
  end if;
end;
$$;

create function private.update_one_worker(p_worker uuid, p_version text default null) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_worker public.workers := private.lock_worker(p_worker, 'release.roll_out');
  v_version pg_catalog.text := coalesce(p_version, private.latest_version());
  v_new public.provision_jobs;
  v_job public.provision_jobs;
  v_first public.provision_jobs;
begin
  perform private.need_updatable(v_worker, v_version);
  -- An older version is offered only to a caller that names it.
  perform private.fail('RY409', format('"%s" already runs %s.', v_worker.name, v_worker.version),
    'There is nothing newer.')
  where v_worker.version = v_version or p_version is null and private.is_version_less(v_version, v_worker.version);
  for v_new in select * from private.update_jobs(v_worker, v_version) loop
    v_job := private.add_job(v_new, format('Update %s to %s', v_worker.name, v_version));
    v_first := coalesce(v_first, v_job);
  end loop;
  perform private.audited(to_jsonb(v_worker), 'worker.update_queued', v_worker.name,
    jsonb_build_object('job', v_first.number, 'version', v_version));
  return to_jsonb(v_first);
end;
$$;
comment on function private.update_one_worker is
  'Queues the update of one runner, in a cloud or one that updates itself, to the newest stable release or to a named '
  'one, also an older one. Admins.';

-- Runners in waves: the first, a quarter of the others, the rest. More than 200 are several waves: the end of
-- one job queues the whole of the next.
create function private.plan_waves(p_workers uuid[]) returns jsonb language sql immutable as $$
  select jsonb_agg(w.ids order by w.first) from (
    select min(x.i) as first, jsonb_agg(x.id order by x.i) as ids from (
      select u.id, u.i, u.n, (row_number() over (partition by u.n order by u.i) - 1) / 200 as part from (
        select p.id, p.i, case when p.i = 1 then 1 when p.i <= 1 + ceil((cardinality(p_workers) - 1) * 0.25) then 2
          else 3 end as n
        from unnest(p_workers) with ordinality as p (id, i)) as u
    ) as x group by x.n, x.part
  ) as w
$$;

-- Queues the jobs of a rollout's present wave, for those of its runners that still need one; returns how many.
create function private.start_wave(p_rollout public.rollouts, out v_count integer) language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  v_count := 0;
  -- As they are now: days after the waves were planned, a person may have updated, drained or removed one.
  for v_job in
    select u.* from private.updatable_workers(p_rollout.org_id, p_rollout.version) as w
    cross join lateral private.update_jobs(w, p_rollout.version) as u
    where p_rollout.waves -> (p_rollout.wave - 1) ? w.id::pg_catalog.text order by w.id loop
    v_job.rollout_id := p_rollout.id;
    v_job.created_by := p_rollout.created_by;
    v_job.created_by_label := p_rollout.created_by_label;
    perform private.add_job(v_job, format('Wave %s of the rollout of %s', p_rollout.wave, p_rollout.version));
    v_count := v_count + 1;
  end loop;
end;
$$;

-- Takes a rollout one step further: pause at a failure or when the release was withdrawn, the next wave, or done.
create function private.advance_rollout(p_rollout uuid) returns void language plpgsql as $$
declare
  v_rollout public.rollouts;
  v_failed bigint;
begin
  select * into v_rollout from public.rollouts where id = p_rollout for update;
  if v_rollout.status <> 'RUNNING' then return; end if;
  if exists (select from public.worker_releases as r where r.version = v_rollout.version
    and r.withdrawn_at is not null) then
    update public.rollouts set status = 'PAUSED', reason = format('Release %s was withdrawn.', version)
      where id = p_rollout;
    return;
  end if;
  select max(j.id) into v_failed from public.provision_jobs as j
  where j.rollout_id = p_rollout and j.status in ('FAILED', 'CANCELLED', 'NEEDS_ATTENTION')
    and j.finished_at >= v_rollout.updated_at;
  if v_failed is not null then
    update public.rollouts set status = 'PAUSED',
      reason = format('Job %s did not succeed.', private.job_number(v_failed))
      where id = p_rollout;
    return;
  end if;
  if exists (select from public.provision_jobs as j where j.rollout_id = p_rollout
    and j.status in ('QUEUED', 'CLAIMED', 'PROCESSING', 'NEEDS_ATTENTION')) then
    return;
  end if;
  while v_rollout.wave < jsonb_array_length(v_rollout.waves) loop
    -- A rollout that the policy started continues when the policy allows it again.
    if v_rollout.is_by_policy and not private.may_update(v_rollout.org_id) then return; end if;
    update public.rollouts set wave = wave + 1 where id = p_rollout returning * into v_rollout;
    -- A wave without a job has no end that would take the rollout further.
    if private.start_wave(v_rollout) > 0 then return; end if;
  end loop;
  update public.rollouts set status = 'SUCCEEDED', finished_at = now(), reason = null where id = p_rollout;
end;
$$;

create function private.start_rollout(
  p_org uuid, p_workers uuid[], p_by uuid, p_is_by_policy boolean, out v_rollout public.rollouts
) language plpgsql as $$
begin
  insert into public.rollouts (org_id, version, wave, waves, created_by, created_by_label, is_by_policy)
  values (p_org, private.latest_version(), 0, private.plan_waves(p_workers), p_by, case when p_is_by_policy
    then 'update policy' else private.caller_label(p_org) end, p_is_by_policy) returning * into v_rollout;
  perform private.advance_rollout(v_rollout.id);
  select * into v_rollout from public.rollouts where id = v_rollout.id;
end;
$$;

create function private.update_outdated_workers(p_org uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_rollout public.rollouts;
  v_workers pg_catalog.uuid[];
begin
  perform private.need('release.roll_out', p_org);
  select array_agg(w.id order by w.status, w.name) into v_workers from private.outdated_workers(p_org) as w;
  perform private.fail('RY409', 'No runner is outdated that a job could update.',
    'Self-hosted runners without that permission are updated where they run.') where v_workers is null;
  v_rollout := private.start_rollout(p_org, v_workers, private.caller_id(), false);
  return private.audited(to_jsonb(v_rollout), 'rollout.started', v_rollout.version,
    jsonb_build_object('runners', cardinality(v_workers)));
exception when unique_violation then
  perform private.fail('RY409', 'A rollout is under way already.', 'Wait for it, or abort it.');
end;
$$;
comment on function private.update_outdated_workers is
  'Starts a rollout: UPDATE_WORKER jobs for the outdated runners that a job can update (cloud-hosted, or updating '
  'themselves), in waves. Admins.';

-- ## the policy
-- A policy as pages and commands show it: its next window, and how many runners it concerns.
create function private.policy_json(p_policy public.update_policies) returns jsonb language sql stable as $$
  select to_jsonb(p_policy) || jsonb_build_object('begins_at', to_char(p_policy.begins_at, 'HH24:MI'), 'ends_at',
    to_char(p_policy.ends_at, 'HH24:MI'),
    'next_window', case when p_policy.mode = 'WINDOW' then private.next_window(p_policy) end, 'is_open',
      private.may_update(p_policy.org_id),
    'version', private.latest_version(), 'outdated', (select count(*) from private.outdated_workers(p_policy.org_id)))
$$;

-- An organisation's policy; until it has one, nothing is updated automatically.
create function private.policy_of(p_org uuid) returns public.update_policies language sql stable as $$
  select coalesce((select p from public.update_policies as p where p.org_id = p_org),
    (p_org, 'OFF', '{6,0}', '02:00', '05:00', 'UTC', '', now())::public.update_policies)
$$;

create function private.update_policy(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('release.read', p_org);
  select private.policy_json(private.policy_of(p_org))
$$;
comment on function private.update_policy is 'When outdated runners update: mode, windows, how many. Members.';

create function private.set_update_policy(p_org uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_policy public.update_policies;
begin
  perform private.need('release.roll_out', p_org);
  perform private.refuse_unknown_keys(p_spec, array['mode', 'days', 'begins_at', 'ends_at', 'zone']);
  v_policy := private.policy_of(p_org);
  v_policy := jsonb_populate_record(v_policy, coalesce(p_spec, '{}'));
  perform private.check_zone(v_policy.zone);
  insert into public.update_policies as p (org_id, mode, days, begins_at, ends_at, zone, updated_by_label)
  values (p_org, v_policy.mode, v_policy.days, v_policy.begins_at, v_policy.ends_at, v_policy.zone,
    private.caller_label(p_org))
  on conflict (org_id) do update set mode = excluded.mode, days = excluded.days, begins_at = excluded.begins_at,
    ends_at = excluded.ends_at, zone = excluded.zone, updated_by_label = excluded.updated_by_label
  returning * into v_policy;
  perform private.audit(p_org, 'organization.update_policy', 'organization', p_org::pg_catalog.text, null,
    coalesce(p_spec, '{}'));
  return private.policy_json(v_policy);
exception when check_violation or not_null_violation or invalid_text_representation or invalid_datetime_format
  or datetime_field_overflow
  or numeric_value_out_of_range or invalid_parameter_value then
  perform private.fail('RY422', 'The update policy is not valid.',
    'mode is OFF, WINDOW or NOW; days are 0 (Sunday) to 6; hours are like 02:00 and differ from each other.');
end;
$$;
comment on function private.set_update_policy is
  'Sets when outdated runners update automatically {mode: OFF, WINDOW or NOW, days, begins_at, ends_at, zone}. Admins.';

-- Starts and continues rollouts where an organisation's update policy allows it now. Returns how many it started.
create function private.sweep_update_policies() returns integer language plpgsql as $$
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
    begin
      if v_rollout.status = 'RUNNING' and v_rollout.is_by_policy then
        perform private.advance_rollout(v_rollout.id);
      elsif v_rollout.id is null then
        select array_agg(w.id order by w.status, w.name) into v_workers from private.outdated_workers(v_org) as w;
        if v_workers is not null then
          perform private.start_rollout(v_org, v_workers, null, true);
          v_count := v_count + 1;
        end if;
      end if;
    exception when others then raise warning 'sweep of the update policy of organisation %: %', v_org, sqlerrm;
    end;
  end loop;
  return v_count;
end;
$$;

-- The consequences of a job about a runner: its record is removed, its identity is proven, its rollout continues.
create function private.after_lifecycle_job(p_job public.provision_jobs) returns void language plpgsql as $$
begin
  if p_job.type = 'REMOVE_WORKER' and p_job.status = 'SUCCEEDED' then
    -- Taking the record out needs the routing lock alone, which the end of a job must not ask for: the sweep does it.
    update public.workers set cloud = cloud || '{"is_gone": true}', is_disabled = true
      where id = p_job.target_worker_id;
  elsif p_job.type = 'VERIFY_IDENTITY' then
    perform private.note_identity(p_job.target_identity_id, p_job);
  elsif p_job.type = 'DEPLOY_WORKER' and (p_job.status = 'SUCCEEDED' or p_job.error ->> 'code' in ('cloud_identity',
    'cloud_account')) then
    -- A deployment that failed for another reason does not concern the role.
    perform private.note_identity((select w.cloud_identity_id from public.workers as w
      where w.id = p_job.target_worker_id), p_job);
  end if;
  if p_job.type = 'UPDATE_WORKER' and p_job.status in ('FAILED', 'CANCELLED') then
    -- Its runner takes jobs again, also after an update without a last report. One that a person drained stays so.
    update public.workers set is_draining = false, drain_reason = null
    where id = p_job.target_worker_id and is_draining and drain_reason like 'Update to %' and removed_at is null;
    if found then
      perform private.refresh_worker_status(p_job.target_worker_id), private.wake_worker(p_job.target_worker_id);
    end if;
  end if;
  if p_job.rollout_id is not null then perform private.advance_rollout(p_job.rollout_id); end if;
end;
$$;
