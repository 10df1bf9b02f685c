-- Groups and modules: the tree that jobs act on. A group is a node (depth 1: stack, depth 2: namespace …), a module a
-- leaf with source, engine, hooks and state; variables.sql has the variables of both. Both tables spell paths out,
-- because runner assignments, precedence and lists all ask "at or below this path". A specification names only the
-- columns that it changes, and an unknown name is refused.

create type public.engine as enum ('tofu', 'terraform', 'pulumi', 'terragrunt');
comment on type public.engine is 'The program that does the work: OpenTofu, Terraform or Pulumi.';

create type public.source_kind as enum ('git', 'archive', 'inline', 'local', 'upload');
comment on type public.source_kind is 'Where a module''s code comes from; "upload", a sent folder, is a job''s alone.';

-- The mode in which plans of a repository are applied; null where another place sets it.
create function private.is_apply_mode(p_mode text) returns boolean language sql immutable as $$
  select p_mode in ('after_merge', 'before_merge', 'merge_queue', 'never')
$$;

-- Whether these are rules of drift that is ignored: [{address, attribute, reason, until}].
create function private.is_drift_rules(p_rules jsonb) returns boolean language sql immutable as $$
  select case when jsonb_typeof(p_rules) = 'array' then jsonb_array_length(p_rules) <= 100 and not exists (
    select from jsonb_array_elements(p_rules) as r where case when jsonb_typeof(r) = 'object' then (
      r - array['address', 'attribute', 'reason', 'until'] = '{}'
      and jsonb_typeof(r -> 'address') = 'string' and length(r ->> 'address') between 1 and 500
      and jsonb_typeof(r -> 'reason') = 'string' and length(trim(r ->> 'reason')) between 1 and 500
      and coalesce(jsonb_typeof(r -> 'attribute') = 'string' and length(r ->> 'attribute') between 1 and 500, true)
      and coalesce(jsonb_typeof(r -> 'until') = 'string' and r ->> 'until'
        ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$', true)) is not true else true end)
    else false end
$$;

create table public.groups (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null check (private.is_path(path)),
  description text not null default '' check (length(description) <= 2000),
  hooks jsonb not null default '{}' check (jsonb_typeof(hooks) = 'object'),
  git_apply text check (private.is_apply_mode(git_apply)),
  time_limits jsonb not null default '{}' check (private.is_time_limits(time_limits)),
  drift_action text check (drift_action in ('tell', 'plan', 'apply', 'accept')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (org_id, path)
);
comment on table public.groups is 'A node of the tree of paths. Its hooks apply to every module below.';
comment on column public.groups.hooks is 'Scripts by step, such as before_init; a module''s own hook replaces one.';
comment on column public.groups.git_apply is
  'How modules below apply plans of their repository, unless a nearer group or the module has a mode of its own.';
comment on column public.groups.time_limits is
  'How long jobs of modules below may take, as the organisation has it; a nearer group or the module overrides it.';
comment on column public.groups.drift_action is
  'What is done about drift of modules below: tell · plan: plan and wait · apply: if only drifted resources are '
  'touched and none is destroyed · accept: into the state. Null: as the group above; tell at the top.';

create table public.modules (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  group_id uuid references public.groups (id) on delete set null,
  group_path text not null,
  name text not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  path text not null check (path = group_path || '/' || name),
  description text not null default '' check (length(description) <= 2000),
  source_kind public.source_kind not null default 'inline',
  source jsonb not null default '{"files": {}}',
  engine public.engine not null default 'tofu',
  engine_version text check (length(engine_version) <= 50),
  backend text check (backend in ('runyard', 'own')),
  extra_files jsonb not null default '[]',
  hooks jsonb not null default '{}',
  labels text[] not null default '{}' check (private.is_label_list(labels)),
  runner_instance_name text check (length(runner_instance_name) between 1 and 100),
  pinned_worker_id uuid,
  approvals_required integer not null default 0 check (approvals_required between 0 and 10),
  approval_timeout_seconds integer not null default 86400 check (approval_timeout_seconds between 60 and 2592000),
  auto_apply boolean not null default false,
  can_apply_uploads boolean not null default false,
  time_limits jsonb not null default '{}' check (private.is_time_limits(time_limits)),
  drift_ignores jsonb not null default '[]' check (private.is_drift_rules(drift_ignores)),
  is_temporary boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  drift_since timestamptz,
  drift_resources integer,
  drift_checked_at timestamptz,
  drift_finding text,
  unique (org_id, id),
  -- A removed module outlives its group.
  constraint modules_group_check check (group_id is not null or deleted_at is not null)
) with (fillfactor = 80);
create unique index modules_path_idx on public.modules (org_id, path) where deleted_at is null;
create index modules_group_id_idx on public.modules (group_id);
create index modules_is_temporary_idx on public.modules (updated_at) where is_temporary and deleted_at is null;
create index modules_pinned_worker_id_idx on public.modules (pinned_worker_id) where pinned_worker_id is not null;
create index modules_drift_idx on public.modules (org_id, path) where drift_since is not null and deleted_at is null;
comment on table public.modules is 'A leaf of the tree: what a job acts on. Removed ones stay (deleted_at).';
comment on column public.modules.source is
  'git {url,ref,subfolder} · archive {url,sha256,subfolder} · inline {files:{path:content}} · local {path}.';
comment on column public.modules.engine_version is 'The engine version wanted; null: whatever the runner has.';
comment on column public.modules.backend is
  'Where the state is kept: "runyard", or "own" for the backend that the code names. Null: nobody has chosen, so a '
  'module whose code names a backend is refused until its state is brought in.';
comment on column public.modules.extra_files is 'Files written beside the code: [{path, content, mode?}].';
comment on column public.modules.hooks is 'Scripts: before_ or after_ × init, plan, apply, destroy, output.';
comment on column public.modules.approval_timeout_seconds is 'How long an apply waits for approval, then it ends.';
comment on column public.modules.can_apply_uploads is 'Whether the plan of an uploaded folder may be applied.';
comment on column public.modules.time_limits is
  'How long its jobs may take, in seconds: {"plan", "apply", "hook"}; what is missing is inherited.';
comment on column public.modules.drift_since is 'When drift was first found that still is; null: none is known.';
comment on column public.modules.drift_resources is 'How many resources had drifted at the last check.';
comment on column public.modules.drift_checked_at is 'When a finished job last looked for drift.';
comment on column public.modules.drift_ignores is
  'Drift that checks ignore, and applies do not: [{address, attribute, reason, until}]; * in both matches anything.';
comment on column public.modules.is_temporary is
  'Whether it is removed automatically, with its group if that is empty, once its jobs have ended and it has no state.';

create trigger wake after insert or delete or update of description, source_kind, source, engine, engine_version,
  extra_files, hooks,
  labels, runner_instance_name, pinned_worker_id, approvals_required, approval_timeout_seconds, auto_apply, deleted_at,
  backend, drift_since, drift_resources
  on public.modules for each row execute function private.wake_for_row();

-- ## checks of what people write
-- Refuses hooks with unknown names or that are not scripts.
create function private.check_hooks(p_hooks jsonb) returns void language sql immutable as $$
  select private.refuse_unknown_keys(p_hooks, array[
    'before_init', 'after_init', 'before_plan', 'after_plan', 'before_apply', 'after_apply',
    'before_destroy', 'after_destroy', 'before_output', 'after_output']);
  select private.fail('RY422', 'A hook must be a script of at most 64 KiB.', 'Send each hook as one string.')
  where exists (select from jsonb_each(coalesce(p_hooks, '{}')) as h where jsonb_typeof(h.value) <> 'string'
    or length(h.value #>> '{}') > 65536)
$$;

-- Refuses an address that git, a credential helper and a runner could read in different ways: each must find the same
-- user and host in it. Characters are compared as they are after decoding, however often they were encoded.
create function private.check_address(p_url text) returns void language sql immutable as $$
  select private.fail('RY422', 'The address has characters that programs read in different ways.',
    'Write user and host with letters, digits, dots and hyphens; nothing in it is %, \, a space or a control '
    'character, but the path may have others as %20.')
  where p_url ~ '[[:cntrl:][:space:]\\]' or p_url ~* '%(25)*([01][0-9a-f]|7f|5c)' or p_url ~ '://' and p_url !~
    '^[a-z+]+://([A-Za-z0-9_.~+][A-Za-z0-9_.~+-]*(:[^/@?#]*)?@)?'
    '(([A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?)?(/|$)'
$$;

-- Refuses a source that lacks what its kind needs, or that carries a password.
create function private.check_source(p_kind text, p_source jsonb) returns void language plpgsql immutable as $$
declare
  v_needed pg_catalog.text := case p_kind when 'git' then 'url' when 'archive' then 'url' when 'inline' then 'files'
    when 'local' then 'path' end;
begin
  perform private.fail('RY422', 'A module''s code cannot be an upload.', 'Uploads are for one plan: runyard run plan .')
  where p_kind = 'upload';
  perform private.refuse_unknown_keys(p_source, case p_kind
    when 'git' then array['url', 'ref', 'subfolder'] when 'archive' then array['url', 'sha256', 'subfolder']
    when 'inline' then array['files'] else array['path'] end);
  perform private.fail('RY422', format('A source of kind %s needs "%s".', p_kind, v_needed))
  where not p_source ? v_needed;
  if p_kind in ('git', 'archive') then perform private.check_address(p_source ->> 'url'); end if;
  perform private.fail('RY422', 'The address contains a password.',
    'Keep credentials on the runner; write the address without them.')
  where p_kind in ('git', 'archive') and p_source ->> 'url' ~ '^[a-z+]+://[^/@]*:[^/@]*@';
end;
$$;

-- The modules at or below a path; "" is all of an organisation's.
create function private.modules_below(p_org uuid, p_path text) returns setof uuid language sql stable as $$
  select m.id from public.modules as m
  where m.org_id = p_org and m.deleted_at is null and (p_path = '' or m.path = p_path or starts_with(m.path, p_path
    || '/'))
$$;

-- The modules of an organisation that the caller sees, removed ones too; null for a member who sees all of it.
create function private.need_modules(p_org uuid) returns uuid[] language sql stable as $$
  select case when n.seen is not null then array(select m.id from public.modules as m
    where m.org_id = p_org and private.is_seen(m.org_id, m.path, n.seen)) end
  from private.need_seen(p_org) as n (seen)
$$;

-- Makes a group and those above it where they are missing. Refuses a path at or below a module.
create function private.ensure_groups(p_org uuid, p_path text) returns uuid language sql as $$
  select private.fail('RY422', format('"%s" is not a path.', p_path),
    'Use lower-case letters, digits, hyphens and underscores, with slashes between: platform/network.')
  where not coalesce(private.is_path(p_path), false);
  -- A path is either: what is assigned to the group would go with the module.
  select private.fail('RY409', format('"%s" is a module.', m.path), 'Choose another path for the group.')
  from public.modules as m
  where m.org_id = p_org and m.path = any (private.path_prefixes(p_path)) and m.deleted_at is null;
  insert into public.groups (org_id, path)
  select p_org, g from unnest(private.path_prefixes(p_path)) as g where g <> '' on conflict (org_id, path) do nothing;
  select g.id from public.groups as g where g.org_id = p_org and g.path = p_path
$$;

-- ## locks of people
create table public.module_locks (
  module_id uuid primary key references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  reason text not null check (length(trim(reason)) between 1 and 500),
  user_id uuid not null,
  user_label text not null,
  connection_id uuid,
  pull_request integer,
  created_at timestamptz not null default now()
);
create index module_locks_org_id_idx on public.module_locks (org_id);
comment on table public.module_locks is 'Modules that a member has locked: nothing is applied or destroyed meanwhile.';
comment on column public.module_locks.pull_request is
  'The pull request that is applied before its merge; its own plans may be applied. Null: nothing may.';

-- Refuses to change what a member has locked; a lock for a pull request lets its own plans through.
create function private.refuse_locked_modules(p_modules uuid[], p_plan bigint default null) returns void
language sql stable as $$
  select private.fail('RY409', format('%s has locked the module: %s', l.user_label, l.reason),
    'Ask them, or unlock it on the module''s page. A plan may be made meanwhile.')
  from public.module_locks as l where l.module_id = any (p_modules) and not exists (
    select from public.provision_jobs as j where j.id = p_plan
      and j.payload #>> '{options,git,connection_id}' = l.connection_id::pg_catalog.text
      and j.payload #>> '{options,git,pull_request}' = l.pull_request::pg_catalog.text)
  order by l.created_at limit 1
$$;

create function private.delete_group(p_group uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_group public.groups;
begin
  select * into v_group from public.groups where id = p_group and private.may_see(org_id, path);
  perform private.fail('RY404', 'There is no such group.') where v_group.id is null;
  perform private.need('group.delete', v_group.org_id, v_group.path);
  perform private.fail('RY409', format('"%s" is not empty.', v_group.path), 'Remove its modules and groups first.')
  where exists (select from public.modules where group_id = p_group and deleted_at is null)
    or exists (select from public.groups where org_id = v_group.org_id and starts_with(path, v_group.path || '/'));
  perform private.fail('RY409', format('Runners are assigned to "%s".', v_group.path),
    'Take those assignments away first.')
  where exists (select from public.worker_assignments where org_id = v_group.org_id and path = v_group.path);
  delete from public.role_bindings where org_id = v_group.org_id and path = v_group.path;
  delete from public.groups where id = p_group;
  return private.audited(to_jsonb(v_group), 'group.deleted', v_group.path);
end;
$$;
comment on function private.delete_group is 'Deletes an empty group. Admins.';

-- Refuses a module that no runner could run.
create function private.check_module(p_module public.modules) returns void language sql stable as $$
  select private.check_hooks(p_module.hooks);
  select private.check_source(p_module.source_kind::pg_catalog.text, p_module.source);
  select private.fail('RY422', 'An extra file needs a relative path without ".." and a content.')
  where p_module.extra_files is not null and (jsonb_typeof(p_module.extra_files) <> 'array' or exists (
    select from jsonb_array_elements(p_module.extra_files) as f
    where jsonb_typeof(f) <> 'object' or not (f ? 'path' and f ? 'content')
      or f ->> 'path' ~ '(^/|\\|(^|/)\.\.(/|$))' or f ->> 'path' = ''));
  -- Each of its jobs carries a copy.
  select private.fail('RY422', 'Source and extra files have at most 1 MiB together.', 'Keep large files in git.')
  where octet_length(p_module.source::pg_catalog.text) + octet_length(p_module.extra_files::pg_catalog.text) > 1048576;
  select private.fail('RY422', 'A time limit or a rule of drift is not valid.', 'Limits are 1 to 604800 s for plan '
    'and apply, 1 to 600 s for hook. A rule has an address and a reason, and may have an attribute and an end (until, '
    '2030-01-31); at most 100.')
  where not private.is_time_limits(p_module.time_limits) or not private.is_drift_rules(p_module.drift_ignores);
  select private.fail('RY422', 'Runyard keeps the state of Pulumi modules itself.',
    'Store what "pulumi stack export" wrote: runyard state push MODULE FILE.')
  where p_module.backend = 'own' and p_module.engine = 'pulumi';
  select private.fail('RY409', 'Runyard has a state of this module.',
    'Move it into your backend first, then create another module that keeps its own backend.')
  where p_module.backend = 'own' and exists (select from private.states as s where s.module_id = p_module.id);
  select private.fail('RY404', 'The runner that the module should be pinned to does not exist.')
  where p_module.pinned_worker_id is not null and not exists (
    select from public.workers as w where w.id = p_module.pinned_worker_id and w.removed_at is null
      and (w.org_id = p_module.org_id or w.is_shared)
  )
$$;

-- A module with the fields changed that a specification names.
create function private.merge_spec(p_module public.modules, p_spec jsonb) returns public.modules
language plpgsql stable as $$
declare
  v_module public.modules;
begin
  perform private.check_options('module', p_spec);
  v_module := jsonb_populate_record(p_module, coalesce(p_spec, '{}'));
  v_module.labels := private.sorted_labels(v_module.labels);
  perform private.check_module(v_module);
  return v_module;
exception when invalid_text_representation or numeric_value_out_of_range or invalid_parameter_value then
  perform private.fail('RY422', 'A field of the module has the wrong type.', sqlerrm);
end;
$$;

-- A new module of a group, as it is before anybody has said anything about it.
create function private.blank_module(p_org uuid, p_group_path text, p_name text) returns public.modules
language sql volatile as $$
  select jsonb_populate_record(null::public.modules, jsonb_build_object('id', gen_random_uuid(), 'org_id', p_org,
    'group_path', p_group_path, 'name', p_name, 'path', p_group_path || '/' || p_name, 'created_at', now(),
    'updated_at', now()) || '{"description": "", "source_kind": "inline", "source": {"files": {}}, "engine": "tofu",
      "extra_files": [], "hooks": {}, "labels": [], "approvals_required": 0, "approval_timeout_seconds": 86400,
      "auto_apply": false, "can_apply_uploads": false, "is_temporary": false, "time_limits": {}, "drift_ignores": []}')
$$;

-- A module that the caller may use in that role.
create function private.my_module(p_module uuid, p_verb text, out v_module public.modules) language plpgsql stable as $$
begin
  select * into v_module from public.modules where id = p_module and deleted_at is null
    and private.may_see(org_id, path);
  perform private.fail('RY404', 'There is no such module.', 'It may have been removed.') where v_module.id is null;
  perform private.need(p_verb, v_module.org_id, v_module.path);
end;
$$;

-- ## a person's lock
create function private.lock_module(p_module uuid, p_reason text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.lock');
  v_lock public.module_locks;
begin
  perform private.lock_state(v_module.org_id, p_module);
  v_module := private.my_module(p_module, 'module.lock');
  perform private.fail('RY409', format('Job %s is queued and would change the module.', j.number),
    'Cancel it first, or lock the module when it is done.')
  from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
  where q.state_key = p_module and q.stage in ('WAITING', 'BACKOFF', 'READY')
    and j.type in ('APPLY', 'DESTROY', 'STATE');
  insert into public.module_locks (module_id, org_id, reason, user_id, user_label)
  values (v_module.id, v_module.org_id, trim(p_reason), private.caller_id(), private.caller_label(v_module.org_id))
  on conflict do nothing returning * into v_lock;
  perform private.fail('RY409', 'The module is locked already.', 'Look at who locked it, and why.')
  where v_lock.module_id is null;
  perform private.audited(to_jsonb(v_module), 'module.locked', v_module.path,
    jsonb_build_object('reason', v_lock.reason));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return to_jsonb(v_lock);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'A lock needs a reason of 1 to 500 characters.', 'Explain why applies are blocked.');
end;
$$;
comment on function private.lock_module is
  'Locks a module, with a reason: until it is unlocked nothing is applied or destroyed, and no plan of it confirmed. '
  'Refused while an apply or a destroy is queued; one that runs continues. Operators.';

-- Refuses what goes around somebody else's lock.
create function private.refuse_others_lock(p_module uuid) returns void language sql stable as $$
  select private.fail('RY409', format('%s has locked the module: %s', l.user_label, l.reason),
    'Ask them, or unlock it by force: tofu force-unlock, or the module''s page.')
  from public.module_locks as l where l.module_id = p_module and l.user_id is distinct from private.caller_id()
$$;

create function private.unlock_module(p_module uuid, p_is_own boolean default false) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module public.modules := private.my_module(p_module, 'module.lock');
  v_lock public.module_locks;
begin
  perform private.refuse_others_lock(p_module) where p_is_own;
  delete from public.module_locks where module_id = p_module returning * into v_lock;
  perform private.fail('RY404', 'The module is not locked.', 'There is nothing to unlock.')
  where v_lock.module_id is null;
  perform private.audited(to_jsonb(v_module), 'module.unlocked', v_module.path,
    jsonb_build_object('reason', v_lock.reason, 'locked_by', v_lock.user_label));
  perform private.wake_org(v_module.org_id, 'modules', p_module::pg_catalog.text);
  return jsonb_build_object('unlocked', true);
end;
$$;
comment on function private.unlock_module is 'Takes off a member''s lock; p_is_own: the caller''s alone. Operators.';

-- The part by which two URLs are the same repository: host and path, whichever protocol, user and spelling.
create function private.repository_key(p_url text) returns text language plpgsql immutable as $$
declare
  v_parts pg_catalog.text[] := regexp_match(regexp_replace(trim(p_url), '(\.git)?/*$', ''),
    '^(?:([a-z]+)://)?(?:[^/@]*@)?([^/:]*)(?::([0-9]+))?[:/]+(.*)$');
begin
  return case when coalesce(v_parts[1], 'file') = 'file' and v_parts[2] = '' then '/' || v_parts[4]
    else lower(v_parts[2] || case when v_parts[1] in ('http', 'https') then coalesce(':' || v_parts[3], '') else '' end
      || '/' || v_parts[4]) end;
end;
$$;
