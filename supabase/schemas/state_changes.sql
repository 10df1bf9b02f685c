-- Acts on a whole state: roll back, push, unlock, and save one that a runner kept. Each makes waiting applies outdated.

create function private.roll_back_state(p_module uuid, p_serial bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.write');
  v_version private.state_versions;
  v_serial bigint;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_module := private.my_module(p_module, 'state.write');
  perform private.fail('RY423', 'A job is using the module''s state.', 'Wait until it is done, then roll back.')
  where exists (select from private.state_locks as l where l.module_id = p_module) or private.has_writer(p_module);
  v_version := private.known_version(p_module, p_serial);
  v_serial := private.state_serial(p_module);
  perform private.fail('RY409', format('Serial %s is the current state.', p_serial), 'Choose an older version.')
  where v_version.serial = v_serial;
  -- An engine refuses a state that is older than what it knows: this one is the newest now.
  perform private.write_state(p_module, v_serial + 1, v_version.lineage,
    case when v_version.body::pg_catalog.jsonb ? 'serial'
    then jsonb_set(v_version.body::pg_catalog.jsonb, '{serial}', to_jsonb(v_serial + 1))::pg_catalog.text
    else v_version.body end, v_version.job_id, v_version.attempt);
  perform private.drop_outdated_applies(v_module.org_id, p_module, true);
  perform private.audit(v_module.org_id, 'state.rolled_back', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('to', p_serial, 'before', v_serial, 'serial', v_serial + 1));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('serial', v_serial + 1);
end;
$$;
comment on function private.roll_back_state is
  'Makes an older version of a state the newest again, with a new serial; refused while a job uses the state. Changes '
  'no infrastructure. Admins.';

create function private.push_state(p_module uuid, p_body text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.write');
  v_old private.states;
  v_new pg_catalog.record;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_module := private.my_module(p_module, 'state.write');
  perform private.refuse_own_backend(p_module);
  perform private.refuse_others_lock(p_module);
  perform private.fail('RY423', 'A job is using the module''s state.', 'Wait until it is done, then push again.')
  where exists (select from private.state_locks as l where l.module_id = p_module) or private.has_writer(p_module);
  select f.serial, f.lineage into v_new from private.pushed_fields(v_module.engine, p_body) as f;
  select * into v_old from private.states where module_id = p_module for update;
  v_new.serial := coalesce(v_new.serial, v_old.serial + 1, 1);
  perform private.fail('RY409', format('The state has the lineage %s, and the stored one %s.', v_new.lineage,
    v_old.lineage), 'It belongs to something else; create another module for it.')
  where v_old.lineage <> v_new.lineage;
  perform private.fail('RY409', format('The state''s serial %s is not newer than %s.', v_new.serial, v_old.serial),
    format('Pull the stored state and change that one, or set the serial to %s.', v_old.serial + 1))
  where v_new.serial <= v_old.serial;
  perform private.check_serial(v_new.serial, v_old.serial);
  perform private.write_state(p_module, v_new.serial, v_new.lineage, p_body, null, null,
    private.caller_label(v_module.org_id));
  perform private.drop_outdated_applies(v_module.org_id, p_module, true);
  perform private.audit(v_module.org_id, 'state.pushed', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('serial', v_new.serial, 'before', v_old.serial, 'lineage', v_new.lineage));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('serial', v_new.serial, 'lineage', v_new.lineage);
end;
$$;
comment on function private.push_state is
  'Stores a state file as the newest version of a module''s state; refused while a job uses the state, with another '
  'lineage, and with a serial that is not newer. Admins.';

create function private.force_unlock_state(p_module uuid, p_lock_id text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'state.write');
  v_lock private.state_locks;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_module := private.my_module(p_module, 'state.write');
  v_lock := private.release_with_proof(p_module, p_lock_id);
  perform private.audit(v_module.org_id, 'state.force_unlocked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('lock_id', p_lock_id, 'job', private.job_number(v_lock.job_id), 'attempt', v_lock.attempt));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('unlocked', true, 'job_id', v_lock.job_id, 'job_number',
    private.job_number(v_lock.job_id));
end;
$$;
comment on function private.force_unlock_state is
  'Releases a state lock that no running job holds; the lock''s id is the proof of having looked. Admins.';

create function private.store_kept_state(p_id uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_kept private.kept_states := private.lock_kept_state(p_id);
  v_old private.states;
  v_lock private.state_locks;
  v_serial bigint;
  v_body pg_catalog.text := v_kept.body;
begin
  perform private.refuse_own_backend(v_kept.module_id);
  select * into v_lock from private.state_locks where module_id = v_kept.module_id for update;
  perform private.fail('RY423', 'A job is using the module''s state.', 'Wait until it is done, then decide again.',
    v_lock.info::pg_catalog.text)
  where v_lock.job_id <> v_kept.job_id or private.has_writer(v_kept.module_id);
  select * into v_old from private.states where module_id = v_kept.module_id for update;
  perform private.fail('RY409', 'The state has another lineage than the one that is stored.',
    'It belongs to something else.') where v_old.lineage <> v_kept.lineage;
  v_serial := greatest(v_kept.serial, v_old.serial + 1, 1);
  perform private.check_serial(v_serial, v_old.serial);
  if v_kept.serial is not null and v_serial <> v_kept.serial then
    -- An engine refuses a state that is older than what it knows: this one is the newest now.
    v_body := jsonb_set(v_body::pg_catalog.jsonb, '{serial}', to_jsonb(v_serial))::pg_catalog.text;
  end if;
  perform private.write_state(v_kept.module_id, v_serial, v_kept.lineage, v_body, v_kept.job_id, v_kept.attempt);
  perform private.drop_outdated_applies(v_kept.org_id, v_kept.module_id, true);
  update private.kept_states set stored_at = now(), decided_by = private.caller_label(v_kept.org_id) where id = p_id;
  perform private.audit(v_kept.org_id, 'state.stored', 'module', v_kept.module_id::pg_catalog.text,
    format('kept state of job %s', private.job_number(v_kept.job_id)), jsonb_build_object('kept_state', p_id, 'serial',
      v_serial, 'before', v_old.serial));
  perform private.wake_org(v_kept.org_id, 'modules', v_kept.module_id::pg_catalog.text);
  return jsonb_build_object('serial', v_serial);
end;
$$;
comment on function private.store_kept_state is
  'Makes a state that was not stored the newest version of its module''s; refused while a job uses that. Admins.';
