-- What people see of states, and force-unlock. A state may contain secrets, so its text is for admins; everybody else sees
-- serials, sizes and who holds the lock.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.state_info(p_module uuid)
returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'viewer');
begin
  return (
    select jsonb_build_object(
      'serial', s.serial, 'lineage', s.lineage, 'size', octet_length(s.body), 'sha256', s.sha256, 'job_id', s.job_id, 'updated_at',
        s.updated_at,
      'lock', (
        select jsonb_build_object('id', l.lock_id, 'info', l.info, 'job_id', l.job_id, 'attempt', l.attempt, 'created_at', l.created_at)
        from private.state_locks as l where l.module_id = v_module.id),
      'versions', (
        select coalesce(jsonb_agg(jsonb_build_object('serial', v.serial, 'size', octet_length(v.body), 'sha256', v.sha256, 'job_id',
          v.job_id,
          'attempt', v.attempt, 'created_at', v.created_at) order by v.serial desc), '[]')
        from private.state_versions as v where v.module_id = v_module.id))
    from (values (1)) as one (n) left join private.states as s on s.module_id = v_module.id);
end;
$$;
comment on function private.state_info(uuid) is 'Body of public.state_info.';
grant execute on function private.state_info(uuid) to authenticated;
create function public.state_info(p_module uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.state_info(p_module) $$;
comment on function public.state_info(uuid) is 'A module''s state: serial, size, lock and history, without its text. Members.';
grant execute on function public.state_info(uuid) to authenticated;

create function private.state_version(p_module uuid, p_serial bigint)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_version private.state_versions;
begin
  select * into v_version from private.state_versions where module_id = p_module and serial = p_serial;
  if v_version.module_id is null then
    perform private.fail('RY404', format('There is no version %s of this state.', p_serial), 'The newest 100 versions are kept.');
  end if;
  perform private.audit(v_module.org_id, 'state.read', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('serial', p_serial));
  return to_jsonb(v_version) - 'module_id';
end;
$$;
comment on function private.state_version(uuid, bigint) is 'Body of public.state_version.';
grant execute on function private.state_version(uuid, bigint) to authenticated;
create function public.state_version(p_module uuid, p_serial bigint)
returns jsonb language sql set search_path = ''
as $$ select private.state_version(p_module, p_serial) $$;
comment on function public.state_version(uuid, bigint) is
  'The text of one version of a state (body), with who wrote it. Reading it is audited. Admins.';
grant execute on function public.state_version(uuid, bigint) to authenticated;

create function private.force_unlock_state(p_module uuid, p_lock_id text)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_module public.modules := private.my_module(p_module, 'admin');
  v_lock private.state_locks;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_lock := private.release_with_proof(p_module, p_lock_id);
  perform private.audit(v_module.org_id, 'state.force_unlocked', 'module', p_module::pg_catalog.text, v_module.path,
    jsonb_build_object('lock_id', p_lock_id, 'job', v_lock.job_id, 'attempt', v_lock.attempt));
  perform private.ring_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('unlocked', true, 'job_id', v_lock.job_id);
end;
$$;
comment on function private.force_unlock_state(uuid, text) is 'Body of public.force_unlock_state.';
grant execute on function private.force_unlock_state(uuid, text) to authenticated;
create function public.force_unlock_state(p_module uuid, p_lock_id text)
returns jsonb language sql set search_path = ''
as $$ select private.force_unlock_state(p_module, p_lock_id) $$;
comment on function public.force_unlock_state(uuid, text) is
  'Releases a state lock that no running job holds; the lock''s id is the proof of having looked. Admins.';
grant execute on function public.force_unlock_state(uuid, text) to authenticated;

revoke execute on all functions in schema private, public from public;
