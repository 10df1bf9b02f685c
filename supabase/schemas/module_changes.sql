-- Acts on groups and modules: create, change, remove. They also replace variables, end assignments and look at
-- dependencies, so they come after all of these.

create function private.upsert_group(
  p_org uuid, p_path text, p_description text default null, p_hooks jsonb default null, p_env jsonb default null,
  p_git_apply text default null, p_time_limits jsonb default null, p_drift_action text default null
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_group public.groups;
begin
  perform private.need('group.write', p_org, p_path);
  perform private.need('job.apply', p_org, p_path) where p_git_apply is not null
    or p_drift_action in ('apply', 'accept');
  perform private.check_hooks(p_hooks);
  perform private.ensure_groups(p_org, p_path);
  update public.groups set description = coalesce(p_description, description), hooks = coalesce(p_hooks, hooks),
    time_limits = coalesce(p_time_limits, time_limits),
    drift_action = case when p_drift_action = 'inherit' then null else coalesce(p_drift_action, drift_action) end,
    git_apply = case when p_git_apply = 'inherit' then null else coalesce(p_git_apply, git_apply) end
  where org_id = p_org and path = p_path returning * into v_group;
  perform private.replace_variables(p_org, p_path, 'env', p_env);
  return private.audited(to_jsonb(v_group), 'group.saved', p_path);
exception when check_violation then
  perform private.fail('RY422', 'The group is not valid.', 'Its description has at most 2,000 characters; git_apply '
    'is after_merge, before_merge, merge_queue, never or inherit; time limits are 1 to 604800 s for plan and apply, '
    '1 to 600 s for hook; drift_action is tell, plan, apply, accept or inherit.');
end;
$$;
comment on function private.upsert_group is 'Creates or changes a group, and creates the groups above it. Operators.';

create function private.create_module(p_org uuid, p_group_path text, p_name text, p_spec jsonb default '{}')
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_new public.modules;
  v_module public.modules;
begin
  perform private.need('module.write', p_org, p_group_path);
  perform private.fail('RY422', 'That is not a name for a module.',
    'Use 1 to 63 lower-case letters, digits, hyphens and underscores.')
  where coalesce(p_name, '') !~ '^[a-z0-9][a-z0-9_-]{0,62}$';
  perform private.fail('RY409', format('"%s/%s" is a group.', p_group_path, p_name),
    'Choose another name for the module.')
  where exists (select from public.groups where org_id = p_org and path = p_group_path || '/' || p_name);
  v_new := private.merge_spec(private.blank_module(p_org, p_group_path, p_name), p_spec);
  perform private.need('module.guard', p_org, p_group_path) where v_new.can_apply_uploads;
  perform private.need('job.apply', p_org, p_group_path) where v_new.auto_apply;
  v_new.group_id := private.ensure_groups(p_org, p_group_path);
  insert into public.modules select v_new.* returning * into v_module;
  perform private.replace_variables(p_org, v_module.path, 'input', p_spec -> 'inputs');
  perform private.replace_variables(p_org, v_module.path, 'env', p_spec -> 'env');
  return private.audited(to_jsonb(v_module), 'module.created', v_module.path);
exception
  when unique_violation then
    perform private.fail('RY409', format('There is already a module "%s/%s".', p_group_path, p_name),
      'Choose another name.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A field of the module is out of range.', sqlerrm);
end;
$$;
comment on function private.create_module is 'Creates a module and groups. Operators; admins for can_apply_uploads.';

create function private.update_module(p_module uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_old public.modules := private.my_module(p_module, 'module.write');
  v_module public.modules;
begin
  -- Locked, then read: what somebody else changes meanwhile must not be written back.
  perform from public.modules where id = p_module for no key update;
  v_old := private.my_module(p_module, 'module.write');
  v_module := private.merge_spec(v_old, p_spec);
  -- Temporary modules are removed automatically, and only admins remove modules.
  perform private.need('module.guard', v_old.org_id, v_old.path)
  where v_module.approvals_required < v_old.approvals_required
    or v_module.can_apply_uploads and not v_old.can_apply_uploads
    or v_module.is_temporary and not v_old.is_temporary;
  perform private.need('job.apply', v_old.org_id, v_old.path) where v_module.auto_apply and not v_old.auto_apply;
  update public.modules set
    description = v_module.description, source_kind = v_module.source_kind, source = v_module.source,
    engine = v_module.engine, engine_version = v_module.engine_version, backend = v_module.backend,
      extra_files = v_module.extra_files,
    hooks = v_module.hooks, labels = v_module.labels, runner_instance_name = v_module.runner_instance_name,
    pinned_worker_id = v_module.pinned_worker_id, approvals_required = v_module.approvals_required,
    approval_timeout_seconds = v_module.approval_timeout_seconds, auto_apply = v_module.auto_apply,
    can_apply_uploads = v_module.can_apply_uploads, time_limits = v_module.time_limits,
    drift_ignores = v_module.drift_ignores,
    is_temporary = v_module.is_temporary, updated_at = now()
  where id = p_module returning * into v_module;
  perform private.replace_variables(v_module.org_id, v_module.path, 'input', p_spec -> 'inputs');
  perform private.replace_variables(v_module.org_id, v_module.path, 'env', p_spec -> 'env');
  return private.audited(to_jsonb(v_module), 'module.updated', v_module.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_module))));
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'A field of the module is out of range.', sqlerrm);
end;
$$;
comment on function private.update_module is
  'Changes the fields of a module that are named; "inputs" and "env" replace its plain variables of that kind. Jobs '
  'that are already queued keep what they had. Operators; admins to lower approvals_required, and for '
  'can_apply_uploads and is_temporary.';

create function private.delete_module(p_module uuid, p_confirm_name text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.delete');
  v_worker pg_catalog.uuid;
begin
  perform private.fail('RY422', 'The name does not match.', format('Write "%s" to remove the module.', v_module.name))
  where p_confirm_name is distinct from v_module.name;
  perform private.lock_dependencies(v_module.org_id);
  perform private.lock_routing(v_module.org_id, true);
  perform pg_advisory_xact_lock(private.lock_key('state', p_module::pg_catalog.text));
  v_module := private.my_module(p_module, 'module.delete');
  perform private.fail('RY409', format('Other modules depend on "%s": %s.', v_module.path,
    string_agg(private.shown_path(m.org_id, m.path), ', ' order by m.path)), 'Remove these dependencies first.')
  from public.module_dependencies as d join public.modules as m on m.id = d.consumer_id and m.deleted_at is null
  where d.producer_id = v_module.id having count(*) > 0;
  perform private.fail('RY409', 'The module has jobs that are not finished.',
    'Cancel them, or wait until they are done.')
  where private.is_state_in_use(p_module)
    or exists (select from public.provision_jobs where module_id = p_module and status = 'AWAITING_APPROVAL');
  update public.modules set deleted_at = now() where id = p_module returning * into v_module;
  delete from public.module_dependencies where consumer_id = p_module;
  delete from public.role_bindings where org_id = v_module.org_id and path = v_module.path;
  for v_worker in delete from public.worker_assignments where org_id = v_module.org_id and path = v_module.path
    returning worker_id loop
    perform private.reroute(v_module.org_id, v_worker);
  end loop;
  return private.audited(to_jsonb(v_module), 'module.deleted', v_module.path);
end;
$$;
comment on function private.delete_module is
  'Removes a module from the tree, with its name as confirmation; refused while other modules depend on it. Its '
  'resources in the cloud stay. Admins.';
