-- What people do with modules: make, change, delete them, and lock one so that nothing is applied. Operators create and
-- change them; admins delete them. A specification names only the columns that it changes, and an unknown name is
-- refused. What is frozen into a job is checked here, when it is said.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.delete_group(p_group uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_group public.groups;
begin
  select * into v_group from public.groups where id = p_group and org_id in (select private.my_org_ids());
  if v_group.id is null then
    perform private.fail('RY404', 'There is no such group.');
  end if;
  perform private.need_role(v_group.org_id, 'admin');
  if exists (select from public.modules where group_id = p_group and deleted_at is null)
    or exists (select from public.groups where org_id = v_group.org_id and starts_with(path, v_group.path || '/')) then
    perform private.fail('RY409', format('"%s" is not empty.', v_group.path), 'Remove its modules and groups first.');
  end if;
  if exists (select from public.worker_assignments where org_id = v_group.org_id and path = v_group.path) then
    perform private.fail('RY409', format('Runners are assigned to "%s".', v_group.path),
      'Take those assignments away first.');
  end if;
  if exists (select from public.modules where group_id = p_group) then
    perform private.fail('RY409', format('Removed modules of "%s" still have a history.', v_group.path),
      'The group can stay; it costs nothing.');
  end if;
  delete from public.groups where id = p_group;
  perform private.audit(v_group.org_id, 'group.deleted', 'group', p_group::pg_catalog.text, v_group.path);
  return to_jsonb(v_group);
end;
$$;
comment on function private.delete_group(uuid) is 'Body of public.delete_group.';
grant execute on function private.delete_group(uuid) to authenticated;

create function private.check_module(p_module public.modules)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.check_hooks(p_module.hooks);
  perform private.check_env(p_module.env);
  perform private.check_source(p_module.source_kind::pg_catalog.text, p_module.source);
  perform private.check_extra_files(p_module.extra_files);
  if p_module.pinned_worker_id is not null and not exists (
    select from public.workers as w where w.id = p_module.pinned_worker_id and w.removed_at is null
      and (w.org_id = p_module.org_id or w.is_shared)
  ) then
    perform private.fail('RY404', 'The runner that the module should be pinned to does not exist.');
  end if;
end;
$$;
comment on function private.check_module(public.modules) is 'Refuses a module that no runner could run.';

create function private.merge_spec(p_module public.modules, p_spec jsonb)
returns public.modules
language plpgsql stable
set search_path = ''
as $$
declare
  v_module public.modules;
begin
  perform private.refuse_unknown_keys(p_spec, array[
    'description', 'source_kind', 'source', 'engine', 'engine_version', 'inputs', 'env', 'extra_files', 'hooks',
      'labels',
    'runner_instance_name', 'pinned_worker_id', 'approvals_required', 'approval_timeout_seconds', 'auto_apply',
    'can_apply_uploads', 'is_temporary']);
  v_module := jsonb_populate_record(p_module, coalesce(p_spec, '{}'));
  v_module.labels := private.sorted_labels(v_module.labels);
  perform private.check_module(v_module);
  return v_module;
exception
  when invalid_text_representation or numeric_value_out_of_range or invalid_parameter_value then
    perform private.fail('RY422', 'A field of the module has the wrong type.', sqlerrm);
end;
$$;
comment on function private.merge_spec(public.modules, jsonb) is
  'A module with the fields changed that a specification names.';

create function private.blank_module(p_org uuid)
returns public.modules
language plpgsql immutable
set search_path = ''
as $$
declare
  v_new public.modules;
begin
  select p_org as org_id, 'inline'::public.source_kind as source_kind, '{"files": {}}'::pg_catalog.jsonb as source,
    'tofu'::public.engine as engine, '{}'::pg_catalog.jsonb as inputs,
    '{}'::pg_catalog.jsonb as env, '[]'::pg_catalog.jsonb as extra_files, '{}'::pg_catalog.jsonb as hooks,
      '{}'::pg_catalog.text[] as labels, 0 as approvals_required,
    86400 as approval_timeout_seconds, false as auto_apply, false as can_apply_uploads, false as is_temporary,
    '' as description
  into v_new.org_id, v_new.source_kind, v_new.source, v_new.engine, v_new.inputs, v_new.env, v_new.extra_files,
    v_new.hooks, v_new.labels, v_new.approvals_required, v_new.approval_timeout_seconds, v_new.auto_apply,
      v_new.can_apply_uploads, v_new.is_temporary, v_new.description;
  return v_new;
end;
$$;
comment on function private.blank_module(uuid) is
  'A module as it is before anybody has said anything about it.';

create function private.create_module(p_org uuid, p_group_path text, p_name text, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_new public.modules;
  v_module public.modules;
begin
  perform private.need_role(p_org, 'operator');
  if coalesce(p_name, '') !~ '^[a-z0-9][a-z0-9_-]{0,62}$' then
    perform private.fail('RY422', 'That is not a name for a module.',
      'Use 1 to 63 lower-case letters, digits, hyphens and underscores.');
  end if;
  if exists (select from public.groups where org_id = p_org and path = p_group_path || '/' || p_name) then
    perform private.fail('RY409', format('"%s/%s" is a group.', p_group_path, p_name),
      'Choose another name for the module.');
  end if;
  v_new := private.merge_spec(private.blank_module(p_org), p_spec);
  if v_new.can_apply_uploads then
    perform private.need_role(p_org, 'admin');
  end if;
  insert into public.modules (
    org_id, group_id, group_path, name, path, description, source_kind, source, engine, engine_version, inputs, env,
      extra_files, hooks,
    labels, runner_instance_name, pinned_worker_id, approvals_required, approval_timeout_seconds, auto_apply,
    can_apply_uploads, is_temporary
  ) values (
    p_org, private.ensure_groups(p_org, p_group_path), p_group_path, p_name, p_group_path || '/' || p_name,
      v_new.description, v_new.source_kind, v_new.source,
    v_new.engine, v_new.engine_version, v_new.inputs, v_new.env, v_new.extra_files, v_new.hooks, v_new.labels,
      v_new.runner_instance_name,
    v_new.pinned_worker_id, v_new.approvals_required, v_new.approval_timeout_seconds, v_new.auto_apply,
    v_new.can_apply_uploads, v_new.is_temporary
  ) returning * into v_module;
  perform private.audit(p_org, 'module.created', 'module', v_module.id::pg_catalog.text, v_module.path);
  return to_jsonb(v_module);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a module "%s/%s".', p_group_path, p_name),
      'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the module is out of range.', sqlerrm);
end;
$$;
comment on function private.create_module(uuid, text, text, jsonb) is 'Body of public.create_module.';
grant execute on function private.create_module(uuid, text, text, jsonb) to authenticated;

create function private.my_module(p_module uuid, p_role public.member_role)
returns public.modules
language plpgsql stable
set search_path = ''
as $$
declare
  v_module public.modules;
begin
  select * into v_module from public.modules where id = p_module and deleted_at is null
    and org_id in (select private.my_org_ids());
  if v_module.id is null then
    perform private.fail('RY404', 'There is no such module.', 'It may have been removed.');
  end if;
  perform private.need_role(v_module.org_id, p_role);
  return v_module;
end;
$$;
comment on function private.my_module(uuid, public.member_role) is 'A module that the caller may use in that role.';

create function private.update_module(p_module uuid, p_spec jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_old public.modules := private.my_module(p_module, 'operator');
  v_module public.modules;
begin
  -- Locked, then read: what somebody else changes meanwhile must not be written back.
  perform from public.modules where id = p_module for no key update;
  v_old := private.my_module(p_module, 'operator');
  v_module := private.merge_spec(v_old, p_spec);
  -- What is temporary goes by itself, and only admins remove modules.
  if v_module.approvals_required < v_old.approvals_required
    or v_module.can_apply_uploads and not v_old.can_apply_uploads
    or v_module.is_temporary and not v_old.is_temporary then
    perform private.need_role(v_old.org_id, 'admin');
  end if;
  update public.modules set
    description = v_module.description, source_kind = v_module.source_kind, source = v_module.source,
      engine = v_module.engine,
    engine_version = v_module.engine_version, inputs = v_module.inputs, env = v_module.env,
      extra_files = v_module.extra_files,
    hooks = v_module.hooks, labels = v_module.labels, runner_instance_name = v_module.runner_instance_name,
    pinned_worker_id = v_module.pinned_worker_id, approvals_required = v_module.approvals_required,
    approval_timeout_seconds = v_module.approval_timeout_seconds, auto_apply = v_module.auto_apply,
    can_apply_uploads = v_module.can_apply_uploads,
    is_temporary = v_module.is_temporary, updated_at = now()
  where id = p_module returning * into v_module;
  perform private.audit(v_module.org_id, 'module.updated', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_module))));
  return to_jsonb(v_module);
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the module is out of range.', sqlerrm);
end;
$$;
comment on function private.update_module(uuid, jsonb) is 'Body of public.update_module.';
grant execute on function private.update_module(uuid, jsonb) to authenticated;

create function private.delete_module(p_module uuid, p_confirm_name text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_worker pg_catalog.uuid;
begin
  if p_confirm_name is distinct from v_module.name then
    perform private.fail('RY422', 'The name does not match.', format('Write "%s" to remove the module.',
      v_module.name));
  end if;
  perform private.lock_routing(v_module.org_id, true);
  perform pg_advisory_xact_lock(private.lock_key('state', p_module::pg_catalog.text));
  v_module := private.my_module(p_module, 'admin');
  if private.is_state_in_use(p_module)
    or exists (select from public.provision_jobs where module_id = p_module and status = 'AWAITING_APPROVAL') then
    perform private.fail('RY409', 'The module has jobs that are not finished.',
      'Cancel them, or wait until they are done.');
  end if;
  update public.modules set deleted_at = now() where id = p_module returning * into v_module;
  for v_worker in delete from public.worker_assignments where org_id = v_module.org_id and path = v_module.path
    returning worker_id loop
    perform private.reroute(v_module.org_id, v_worker);
  end loop;
  perform private.audit(v_module.org_id, 'module.deleted', 'module', p_module::pg_catalog.text, v_module.path);
  return to_jsonb(v_module);
end;
$$;
comment on function private.delete_module(uuid, text) is 'Body of public.delete_module.';
grant execute on function private.delete_module(uuid, text) to authenticated;

-- ----------------------------------------------------------------------------------------------------- a person's lock

create function private.refuse_queued_changes(p_module uuid)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  perform private.fail('RY409', format('Job %s is queued and would change the module.', j.id),
    'Cancel it first, or lock the module when it is done.')
  from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
  where q.state_key = p_module and q.stage in ('WAITING', 'BACKOFF', 'READY') and j.type in ('APPLY', 'DESTROY');
end;
$$;
comment on function private.refuse_queued_changes(uuid) is
  'Refuses to lock a module while a job waits that would be claimed all the same.';

create function private.lock_module(p_module uuid, p_reason text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'operator');
  v_lock public.module_locks;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_module := private.my_module(p_module, 'operator');
  perform private.refuse_queued_changes(p_module);
  insert into public.module_locks (module_id, org_id, reason, user_id, user_label)
  values (v_module.id, v_module.org_id, trim(p_reason), private.caller_id(), private.caller_label(v_module.org_id))
  on conflict do nothing returning * into v_lock;
  if v_lock.module_id is null then
    perform private.fail('RY409', 'The module is locked already.', 'Look at who locked it, and why.');
  end if;
  perform private.audit(v_module.org_id, 'module.locked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reason', v_lock.reason));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return to_jsonb(v_lock);
exception
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A lock needs a reason of 1 to 500 characters.', 'Say why nothing may be applied.');
end;
$$;
comment on function private.lock_module(uuid, text) is 'Body of public.lock_module.';
grant execute on function private.lock_module(uuid, text) to authenticated;

create function private.unlock_module(p_module uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'operator');
  v_lock public.module_locks;
begin
  delete from public.module_locks where module_id = p_module returning * into v_lock;
  if v_lock.module_id is null then
    perform private.fail('RY404', 'The module is not locked.', 'There is nothing to unlock.');
  end if;
  perform private.audit(v_module.org_id, 'module.unlocked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('reason', v_lock.reason, 'locked_by', v_lock.user_label));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('unlocked', true);
end;
$$;
comment on function private.unlock_module(uuid) is 'Body of public.unlock_module.';
grant execute on function private.unlock_module(uuid) to authenticated;

revoke execute on all functions in schema private from public;
