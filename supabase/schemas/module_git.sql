-- How single modules follow their repositories: what members change and read. The table is in git.sql, because each
-- reading of a repository writes it.

create function private.set_module_git(p_module uuid, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.write');
  v_old public.module_git;
  v_new public.module_git;
begin
  perform private.refuse_unknown_keys(p_spec, array['is_on', 'branch', 'paths', 'apply']);
  insert into public.module_git (module_id, org_id) values (p_module, v_module.org_id) on conflict do nothing;
  select * into v_old from public.module_git where module_id = p_module for update;
  v_new := jsonb_populate_record(v_old, p_spec);
  perform private.fail('RY422', format('"%s" is not a path inside of a repository.', left(p, 100)),
    'Write it from the root of the repository, such as modules/network.')
  from unnest(v_new.paths) as p where p is null or p !~ '^[^/\s].*$' or length(p) > 400 or p ~ '(^|/)\.\.?(/|$)';
  -- With other paths or another branch, what was seen compares with nothing.
  update public.module_git as g set is_on = v_new.is_on, branch = v_new.branch, paths = v_new.paths,
    apply = v_new.apply, seen_fingerprint = case when s.is_same then g.seen_fingerprint end,
    applied_fingerprint = case when s.is_same then g.applied_fingerprint end
  from (select (v_new.paths = v_old.paths and v_new.branch is not distinct from v_old.branch) as is_same) as s
  where module_id = p_module returning g.* into v_new;
  perform private.audit(v_module.org_id, 'module.git', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('changes', private.changes(to_jsonb(v_old), to_jsonb(v_new))));
  return to_jsonb(v_new);
exception
  when check_violation or not_null_violation or invalid_text_representation or invalid_parameter_value
    or array_subscript_error then
    perform private.fail('RY422', 'A setting is not valid.',
      'is_on is true or false, branch a name, paths a list of at most 50, apply after_merge or never.');
end;
$$;
comment on function private.set_module_git is
  'Changes how a module follows its repository {is_on, branch, paths, apply}. Operators.';
grant execute on function private.set_module_git to authenticated;

create function private.module_repository(p_module uuid) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'git.read');
begin
  return (select private.module_git_json(v_module) || jsonb_build_object('repository', c.repository, 'error', c.error)
    from public.git_connections as c where c.org_id = v_module.org_id and c.removed_at is null
      and v_module.source_kind = 'git' and c.repository = private.repository_key(v_module.source ->> 'url'));
end;
$$;
comment on function private.module_repository is
  'How a module follows its connected repository: branch, watched paths, the commits seen and applied; null where its '
  'repository is not connected. Members.';
grant execute on function private.module_repository to authenticated;
