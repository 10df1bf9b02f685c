-- Kept states: writes of an attempt that may no longer store its state. They are kept aside until a person stores or
-- discards them, so nothing that an apply did is lost.

-- ## states that were not stored
-- States that were not stored. A runner writes each state to its disk first and delivers in order. One that it may not
-- store any more, because a person released the job meanwhile, is handed over all the same and kept here until a person
-- decides about it.
create table private.kept_states (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  module_id uuid not null references public.modules (id) on delete cascade,
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  attempt integer not null,
  number integer not null check (number > 0),
  serial bigint,
  lineage text,
  body text not null,
  sha256 text not null,
  reason text not null default '',
  worker_name text not null,
  written_at timestamptz not null,
  kept_at timestamptz not null default now(),
  stored_at timestamptz,
  discarded_at timestamptz,
  decided_by text,
  unique (job_id, attempt, number, sha256)
);
create index kept_states_module_id_idx on private.kept_states (module_id);
create index kept_states_org_id_idx on private.kept_states (org_id);
comment on table private.kept_states is
  'States that a job wrote and that were not stored: a person released it. Newest first, without text. Members.';
comment on column private.kept_states.number is 'The how manieth write of that attempt it was.';
comment on column private.kept_states.body is 'The state file''s text. It may contain secrets: only admins read it.';
comment on column private.kept_states.written_at is 'When the engine wrote it, by the runner''s clock.';

create function private.kept_states(p_job bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.my_module((select j.module_id from public.provision_jobs as j where j.id = p_job), 'state.read');
  select coalesce(jsonb_agg(to_jsonb(k) - 'body' - 'org_id' || jsonb_build_object('size', octet_length(k.body))
    order by k.attempt desc, k.number desc), '[]')
  from private.kept_states as k where k.job_id = p_job
$$;
comment on function private.kept_states is
  'States that a job wrote and that were not stored, newest first, without their text: a person released the job '
  'meanwhile. Members.';

create function private.worker_state_keep(
  p_job bigint, p_attempt integer, p_number integer, p_body text, p_written_at timestamptz default null, p_reason text
  default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_runner private.runner := private.this_runner();
  v_job public.provision_jobs;
  v_new pg_catalog.record;
  v_sha pg_catalog.text := encode(sha256(convert_to(p_body, 'UTF8')), 'hex');
begin
  if v_runner.is_for_one_job then perform private.check_scope(p_job, p_attempt); end if;
  select * into v_job from public.provision_jobs where id = p_job;
  perform private.fail('RY404', format('Attempt %s of job %s was never given to this runner.', p_attempt, p_job))
  where v_job.module_id is null or not exists (
    select from public.job_events as e
    where e.job_id = p_job and e.attempt = p_attempt and e.event = 'claimed' and e.actor_id = v_runner.worker_id
  );
  perform private.refuse_reader(p_job);
  perform private.fail('RY422', 'A kept state needs the number that it had in its attempt.')
  where coalesce(p_number, 0) < 1;
  if p_body is null then
    -- Its job may have the number of another project's: a runner that kept a state without its project asks this first.
    return (select jsonb_build_object('is_known', coalesce(p_written_at between min(e.at) - interval '5 minutes'
        and max(e.at) + interval '1 hour', false))
      from public.job_events as e where e.job_id = p_job and e.attempt = p_attempt);
  end if;
  select f.serial, f.lineage into v_new from private.state_fields(p_body) as f;
  -- The answer to the write was lost, and it was stored after all.
  if exists (select from private.state_versions as v where v.module_id = v_job.module_id and v.sha256 = v_sha) then
    return jsonb_build_object('is_stored', true);
  end if;
  insert into private.kept_states (org_id, module_id, job_id, attempt, number, serial, lineage, body, sha256, reason,
    worker_name, written_at)
  values (v_job.org_id, v_job.module_id, p_job, p_attempt, p_number, v_new.serial, v_new.lineage, p_body, v_sha,
    left(coalesce(p_reason, ''), 1000), v_runner.worker_name, coalesce(p_written_at, now()))
  on conflict (job_id, attempt, number, sha256) do nothing;
  if found then
    perform private.fail('RY429', format('1,000 states of job %s wait for a decision, which is the limit.',
      private.job_number(p_job)), 'Store or discard some of them on the job''s page.')
    where (select count(*) from private.kept_states as k
      where k.job_id = p_job and k.stored_at is null and k.discarded_at is null) > 1000;
    perform private.record_job_event(v_job, 'state_kept', null, null, 'worker', v_runner.worker_id,
      v_runner.worker_name, 'A state of this attempt was not stored.', jsonb_build_object('number', p_number, 'serial',
        v_new.serial));
  end if;
  return jsonb_build_object('is_stored', false);
end;
$$;
comment on function private.worker_state_keep is
  'Hands over a state that may not be stored any more, because a person released the job; it is kept for a person to '
  'decide about. Without a body: whether the attempt may have written one then.';

-- A kept state for an admin of its organisation; open = nobody has decided about it.
create function private.my_kept_state(p_id uuid, p_is_open boolean, out v_kept private.kept_states)
language plpgsql as $$
begin
  select * into v_kept from private.kept_states where id = p_id;
  perform private.my_module(v_kept.module_id, 'state.write');
  perform private.fail('RY409', 'Somebody has decided about this state already.', 'Look at the job again.')
  where v_kept.discarded_at is not null or p_is_open and v_kept.stored_at is not null;
end;
$$;

-- An open kept state for an admin who decides about it, with the lock of its state and its row held.
create function private.lock_kept_state(p_id uuid) returns private.kept_states language plpgsql as $$
declare
  v_kept private.kept_states := private.my_kept_state(p_id, true);
begin
  perform private.lock_state(v_kept.org_id, v_kept.module_id);
  -- Somebody may have decided while this one waited: of two who decide at once, the second is refused.
  perform from private.kept_states as k where k.id = p_id for update;
  return private.my_kept_state(p_id, true);
end;
$$;

create function private.kept_state(p_id uuid) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_kept private.kept_states := private.my_kept_state(p_id, false);
begin
  perform private.audit(v_kept.org_id, 'state.read', 'job', private.job_number(v_kept.job_id)::pg_catalog.text,
    format('kept state %s', v_kept.number), jsonb_build_object('kept_state', p_id, 'serial', v_kept.serial));
  return to_jsonb(v_kept) - 'org_id' || jsonb_build_object('job_number', private.job_number(v_kept.job_id));
end;
$$;
comment on function private.kept_state is 'The text of a state that was not stored (body); reading is audited. Admins.';

create function private.discard_kept_state(p_id uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_kept private.kept_states := private.lock_kept_state(p_id);
begin
  update private.kept_states set discarded_at = now(), body = '', decided_by = private.caller_label(v_kept.org_id)
    where id = p_id;
  perform private.audit(v_kept.org_id, 'state.discarded', 'job', private.job_number(v_kept.job_id)::pg_catalog.text,
    format('kept state %s', v_kept.number), jsonb_build_object('kept_state', p_id, 'serial', v_kept.serial, 'sha256',
      v_kept.sha256));
  return jsonb_build_object('discarded', true);
end;
$$;
comment on function private.discard_kept_state is
  'Decides that a state that was not stored is not needed; its text is removed, its record stays. Admins.';
