-- Groups and modules: the tree that jobs act on. A group is a node (depth 1: stack, depth 2: namespace …), a module a
-- leaf with source, engine, inputs, hooks and state. Paths are written out in both tables, because runner assignments,
-- precedence and lists all ask "at or below this path".
-- Here are the tables and what is checked of them; what people do with modules comes after runners and queue, which it
-- concerns.
set lock_timeout = '5s';
set statement_timeout = '60s';

create type public.engine as enum ('tofu', 'terraform', 'pulumi');
comment on type public.engine is 'The program that does the work: OpenTofu, Terraform or Pulumi.';

create type public.source_kind as enum ('git', 'archive', 'inline', 'local', 'upload');
comment on type public.source_kind is
  'Where a module''s code comes from; "upload" is a job''s alone: a folder that was sent to be planned.';

create table public.groups (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text not null check (private.is_path(path)),
  description text not null default '' check (length(description) <= 2000),
  hooks jsonb not null default '{}' check (jsonb_typeof(hooks) = 'object'),
  env jsonb not null default '{}' check (jsonb_typeof(env) = 'object' and octet_length(env::text) <= 65536),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (org_id, path)
);
alter table public.groups enable row level security;
grant select on public.groups to authenticated, service_role;
comment on table public.groups is 'A node of the tree of paths. Its hooks and variables apply to every module below.';
comment on column public.groups.hooks is
  'Scripts around engine steps: before_init, after_apply and so on. A module''s own hook replaces it.';
comment on column public.groups.env is 'Variables for the engine. No secrets: those live on the runner.';
create trigger touch before update on public.groups for each row execute function private.touch_updated_at();
create trigger wake after insert or update
  or delete on public.groups for each row execute function private.wake_for_row();

create policy "Members see their organisation's groups" on public.groups
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));

create table public.modules (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  group_id uuid not null references public.groups (id),
  group_path text not null,
  name text not null,
  path text not null,
  description text not null default '',
  source_kind public.source_kind not null default 'inline',
  source jsonb not null default '{"files": {}}',
  engine public.engine not null default 'tofu',
  engine_version text,
  inputs jsonb not null default '{}',
  env jsonb not null default '{}',
  extra_files jsonb not null default '[]',
  hooks jsonb not null default '{}',
  labels text[] not null default '{}',
  runner_instance_name text,
  pinned_worker_id uuid,
  approvals_required integer not null default 0,
  approval_timeout_seconds integer not null default 86400,
  auto_apply boolean not null default false,
  can_apply_uploads boolean not null default false,
  is_temporary boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  drift_since timestamptz,
  drift_resources integer,
  drift_checked_at timestamptz
) with (fillfactor = 80);
create unique index modules_path_idx on public.modules (org_id, path) where deleted_at is null;
create index modules_group_id_idx on public.modules (group_id);
create index modules_is_temporary_idx on public.modules (updated_at) where is_temporary;
create index modules_pinned_worker_id_idx on public.modules (pinned_worker_id) where pinned_worker_id is not null;
create index modules_drift_idx on public.modules (org_id, path) where drift_since is not null and deleted_at is null;
alter table public.modules enable row level security;
grant select on public.modules to authenticated, service_role;
comment on table public.modules is
  'A leaf of the tree: what a job acts on. Removed ones stay for their history (deleted_at).';
comment on column public.modules.source_kind is 'Where the code comes from.';
comment on column public.modules.source is
  'git {url,ref,subfolder} · archive {url,sha256,subfolder} · inline {files:{path:content}} · local {path}.';
comment on column public.modules.engine_version is 'The engine version wanted; null: whatever the runner has.';
comment on column public.modules.inputs is 'Input values, by variable name.';
comment on column public.modules.env is 'Variables for the engine. No secrets.';
comment on column public.modules.extra_files is 'Files written beside the code: [{path, content, mode?}].';
comment on column public.modules.hooks is
  'Scripts around steps: before_ or after_ × init, plan, apply, destroy, output.';
comment on column public.modules.labels is 'Labels that a runner must have to run its jobs.';
comment on column public.modules.runner_instance_name is 'Pins jobs to the runner instance of this name.';
comment on column public.modules.pinned_worker_id is 'Pins jobs to this runner.';
comment on column public.modules.approvals_required is 'How many members must approve an apply or destroy.';
comment on column public.modules.approval_timeout_seconds is
  'An apply that is not approved within this time is cancelled.';
comment on column public.modules.auto_apply is 'Whether a plan with changes is followed by its apply.';
comment on column public.modules.can_apply_uploads is
  'Whether the plan of a folder that somebody uploaded may be applied.';
comment on column public.modules.drift_since is
  'When drift was first found that no look since has found gone; null: none is known.';
comment on column public.modules.drift_resources is 'How many resources had drifted at the last check.';
comment on column public.modules.drift_checked_at is 'When a finished job last looked for drift.';
comment on column public.modules.is_temporary is
  'Whether it goes by itself, with its group if that is empty then, once its jobs have ended and it has no state.';

create policy "Members see their organisation's modules" on public.modules
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));

create function private.check_module_row()
returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if new.name !~ '^[a-z0-9][a-z0-9_-]{0,62}$' or new.path <> new.group_path || '/' || new.name
    or length(new.description) > 2000
    or length(new.engine_version) > 50 or length(new.runner_instance_name) not between 1 and 100
    or new.approvals_required not between 0 and 10 or new.approval_timeout_seconds not between 60 and 2592000
    or jsonb_typeof(new.source) <> 'object' or jsonb_typeof(new.inputs) <> 'object' or jsonb_typeof(new.env) <> 'object'
    or jsonb_typeof(new.hooks) <> 'object' or jsonb_typeof(new.extra_files) <> 'array'
      or not private.is_label_list(new.labels)
    -- Each of its jobs carries a copy.
    or octet_length(new.source::pg_catalog.text) + octet_length(new.inputs::pg_catalog.text)
      + octet_length(new.env::pg_catalog.text) + octet_length(new.extra_files::pg_catalog.text) > 1048576 then
    perform private.fail('RY422', 'A field of the module is not valid.',
      'approvals_required is 0 to 10, approval_timeout_seconds 60 to 2592000, a description has at most 2,000 '
      'characters, labels read like "gpu=true", at most 32 of 1,000 characters in all; source, inputs, env and '
      'extra_files have at most 1 MiB together.');
  end if;
  return new;
end;
$$;
comment on function private.check_module_row() is 'Refuses a module whose fields are out of range.';

create trigger check_row before insert or update of name, path, description, source, engine_version, inputs, env,
  extra_files, hooks, labels,
  runner_instance_name, approvals_required, approval_timeout_seconds on public.modules
  for each row execute function private.check_module_row();
create trigger wake after insert or delete or update of description, source_kind, source, engine, engine_version,
  inputs, env, extra_files, hooks,
  labels, runner_instance_name, pinned_worker_id, approvals_required, approval_timeout_seconds, auto_apply, deleted_at,
  drift_since, drift_resources
  on public.modules for each row execute function private.wake_for_row();

-- ----------------------------------------------------------------------------------------- checks of what people write

create function private.check_hooks(p_hooks jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  perform private.refuse_unknown_keys(p_hooks, array[
    'before_init', 'after_init', 'before_plan', 'after_plan', 'before_apply', 'after_apply',
    'before_destroy', 'after_destroy', 'before_output', 'after_output']);
  if exists (select from jsonb_each(coalesce(p_hooks, '{}')) as h where jsonb_typeof(h.value) <> 'string'
    or length(h.value #>> '{}') > 65536) then
    perform private.fail('RY422', 'A hook must be a script of at most 64 KiB.', 'Send each hook as one string.');
  end if;
end;
$$;
comment on function private.check_hooks(jsonb) is 'Refuses hooks with unknown names or that are not scripts.';

create function private.check_env(p_env jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if p_env is not null and (jsonb_typeof(p_env) <> 'object' or exists (
    select from jsonb_each(p_env) as e where e.key !~ '^[A-Za-z_][A-Za-z0-9_]*$' or jsonb_typeof(e.value) <> 'string'
  )) then
    perform private.fail('RY422',
      'A variable must have a name of letters, digits and underscores, and a text as its value.');
  end if;
end;
$$;
comment on function private.check_env(jsonb) is 'Refuses variables that no process could take.';

create function private.check_source(p_kind text, p_source jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
declare
  v_needed pg_catalog.text := case p_kind when 'git' then 'url' when 'archive' then 'url' when 'inline' then 'files'
    when 'local' then 'path' end;
begin
  if p_kind = 'upload' then
    perform private.fail('RY422', 'A module''s code cannot be an upload.',
      'Uploads are for one plan: runyard run plan .');
  end if;
  perform private.refuse_unknown_keys(p_source, case p_kind
    when 'git' then array['url', 'ref', 'subfolder'] when 'archive' then array['url', 'sha256', 'subfolder']
    when 'inline' then array['files'] else array['path'] end);
  if not p_source ? v_needed then
    perform private.fail('RY422', format('A source of kind %s needs "%s".', p_kind, v_needed));
  end if;
  if p_kind in ('git', 'archive') and p_source ->> 'url' ~ '^[a-z+]+://[^/@]*:[^/@]*@' then
    perform private.fail('RY422', 'The address contains a password.',
      'Keep credentials on the runner; write the address without them.');
  end if;
end;
$$;
comment on function private.check_source(text, jsonb) is
  'Refuses a source that lacks what its kind needs, or that carries a password.';

create function private.check_extra_files(p_files jsonb)
returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if p_files is not null and (jsonb_typeof(p_files) <> 'array' or exists (
    select from jsonb_array_elements(p_files) as f
    where jsonb_typeof(f) <> 'object' or not (f ? 'path' and f ? 'content')
      or f ->> 'path' ~ '(^/|\\|(^|/)\.\.(/|$))' or f ->> 'path' = ''
  )) then
    perform private.fail('RY422', 'An extra file needs a relative path without ".." and a content.');
  end if;
end;
$$;
comment on function private.check_extra_files(jsonb) is
  'Refuses files that could be written outside of the job''s directory.';

create function private.need_target(p_org uuid, p_path text)
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if p_path is null then
    perform private.fail('RY422', 'Say which module or group is meant.',
      'Write its whole path, such as platform/network; "" is all modules.');
  end if;
  if p_path <> '' and not exists (
    select from public.groups as g where g.org_id = p_org and g.path = p_path
    union all
    select from public.modules as m where m.org_id = p_org and m.path = p_path and m.deleted_at is null
  ) then
    perform private.fail('RY404', format('There is no module or group "%s".', left(p_path, 200)),
      'Write its whole path, such as platform/network; "" is all modules.');
  end if;
end;
$$;
comment on function private.need_target(uuid, text) is 'Refuses a path at which there is neither a module nor a group.';

create function private.ensure_groups(p_org uuid, p_path text)
returns uuid
language plpgsql
set search_path = ''
as $$
begin
  if not coalesce(private.is_path(p_path), false) then
    perform private.fail('RY422', format('"%s" is not a path.', p_path),
      'Use lower-case letters, digits, hyphens and underscores, with slashes between: platform/network.');
  end if;
  -- A path is either: what is assigned to the group would go with the module.
  perform private.fail('RY409', format('"%s" is a module.', m.path), 'Choose another path for the group.')
  from public.modules as m
  where m.org_id = p_org and m.path = any (private.path_prefixes(p_path)) and m.deleted_at is null;
  insert into public.groups (org_id, path)
  select p_org, g from unnest(private.path_prefixes(p_path)) as g where g <> '' on conflict (org_id, path) do nothing;
  return (select g.id from public.groups as g where g.org_id = p_org and g.path = p_path);
end;
$$;
comment on function private.ensure_groups(uuid, text) is
  'Makes a group and those above it where they are missing. Refuses a path at or below a module.';

create function private.upsert_group(p_org uuid, p_path text, p_description text, p_hooks jsonb, p_env jsonb)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_group public.groups;
begin
  perform private.need_role(p_org, 'operator');
  perform private.check_hooks(p_hooks);
  perform private.check_env(p_env);
  perform private.ensure_groups(p_org, p_path);
  update public.groups set description = coalesce(p_description, description), hooks = coalesce(p_hooks, hooks),
    env = coalesce(p_env, env)
  where org_id = p_org and path = p_path returning * into v_group;
  perform private.audit(p_org, 'group.saved', 'group', v_group.id::pg_catalog.text, p_path);
  return to_jsonb(v_group);
exception
  when check_violation then
    perform private.fail('RY422', 'The description or the variables are too long.',
      'A description has at most 2,000 characters, the variables of a group 64 KiB.');
end;
$$;
comment on function private.upsert_group(uuid, text, text, jsonb, jsonb) is 'Body of public.upsert_group.';
grant execute on function private.upsert_group(uuid, text, text, jsonb, jsonb) to authenticated;

-- ----------------------------------------------------------------------------------------------------- locks of people

create table public.module_locks (
  module_id uuid primary key references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  reason text not null check (length(trim(reason)) between 1 and 500),
  user_id uuid not null,
  user_label text not null,
  created_at timestamptz not null default now()
);
create index module_locks_org_id_idx on public.module_locks (org_id);
alter table public.module_locks enable row level security;
grant select on public.module_locks to authenticated, service_role;

create policy "Members see their organisation's module locks" on public.module_locks
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.module_locks is 'Modules that a member has locked: nothing is applied or destroyed meanwhile.';
comment on column public.module_locks.reason is 'Why, shown to whoever is refused.';
comment on column public.module_locks.user_label is 'The member''s name at that time.';

create function private.refuse_locked_modules(p_modules uuid[])
returns void
language plpgsql stable
set search_path = ''
as $$
declare
  v_lock public.module_locks;
begin
  select * into v_lock from public.module_locks as l where l.module_id = any (p_modules) order by l.created_at limit 1;
  if v_lock.module_id is not null then
    perform private.fail('RY409', format('%s has locked the module: %s', v_lock.user_label, v_lock.reason),
      'Ask them, or unlock it on the module''s page. A plan may be made meanwhile.');
  end if;
end;
$$;
comment on function private.refuse_locked_modules(uuid[]) is 'Refuses to change what a member has locked.';

revoke execute on all functions in schema private from public;
