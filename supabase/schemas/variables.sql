-- Variables: the inputs, environment and files of jobs. A variable belongs to a path: a module, a group, or "" for the
-- whole organisation. Each row is one version and never changes its value; a new value ends the old row. A job keeps
-- the numbers of the rows that it was given, so an apply has what its plan had, and no payload, event or audit row
-- contains a value. One function ranks them for the job, the page and the command alike.
-- A secret is sealed before it comes here: a libsodium sealed box to the organisation's public key, whose other half
-- only runners have, as a file. A job with sealed variables needs a runner with the key's label. A reference is the
-- address of a value in a vault that the runner reads; its job needs the key, too, since saved plans contain inputs.

create table public.sealing_keys (
  id text primary key check (id ~ '^[0-9a-f]{16}$'),
  org_id uuid not null references public.organizations (id) on delete cascade,
  public_key text not null check (public_key ~ '^[A-Za-z0-9+/]{43}=$'),
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);
create unique index sealing_keys_current_idx on public.sealing_keys (org_id) where retired_at is null;
create index sealing_keys_org_id_idx on public.sealing_keys (org_id);
create policy "Members see their organisation's sealing keys" on public.sealing_keys
  for select to authenticated using (org_id = any(array(select private.my_org_ids())));
comment on table public.sealing_keys is 'Public keys that secrets are sealed to; runners have the private halves.';
comment on column public.sealing_keys.id is 'The beginning of the public key''s SHA-256; runners with it have a label.';
comment on column public.sealing_keys.public_key is 'An X25519 public key, in base64.';
comment on column public.sealing_keys.retired_at is 'When a newer one replaced it; what was sealed to it still opens.';

create table public.variables (
  id bigint generated always as identity primary key,
  org_id uuid not null references public.organizations (id) on delete cascade,
  path text check (path = '' or private.is_path(path)),
  kind text not null check (kind in ('input', 'env', 'file')),
  name text not null check (length(name) <= 200 and case kind
    when 'input' then name ~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$'
    when 'env' then name ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'
    else name ~ '^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$' and name !~ '(^|/)\.\.?(/|$)' end),
  value jsonb check (octet_length(value::text) <= case kind when 'env' then 65536 else 1048576 end),
  is_hcl boolean not null default false,
  is_enforced boolean not null default false,
  is_reference boolean not null default false,
  key_id text references public.sealing_keys (id) on delete cascade,
  version integer not null default 1,
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  unique (org_id, path, kind, name, version),
  constraint variables_text_check check (
    kind = 'input' and not is_hcl and key_id is null or jsonb_typeof(value) = 'string'),
  constraint variables_sealed_check check (
    key_id is null or is_reference or value #>> '{}' ~ '^[A-Za-z0-9+/]{64,}={0,2}$'),
  constraint variables_reference_check check (
    not is_reference or key_id is not null and value #>> '{}' ~ '^(vault|aws-sm|file)://[^[:space:][:cntrl:]]+$'),
  constraint variables_hcl_check check (kind = 'input' or not is_hcl),
  constraint variables_run_check check (path is not null or ended_at is not null and not is_enforced)
);
create unique index variables_current_idx on public.variables (org_id, path, kind, name) where ended_at is null;
create index variables_key_id_idx on public.variables (key_id) where key_id is not null;
create index variables_ended_idx on public.variables (ended_at) where ended_at is not null;
-- Values are in the answers of calls, which leave out the sealed ones.
grant select (id, org_id, path, kind, name, is_hcl, is_enforced, is_reference, key_id, version, created_by,
  created_by_label, created_at, ended_at) on public.variables to authenticated;
grant select on public.variables to service_role;
comment on table public.variables is 'Versions of variables. Those without ended_at count for new jobs.';
comment on column public.variables.path is
  'The module or group whose jobs have it; "" is the whole organisation. Null: given with the request of a job.';
comment on column public.variables.kind is 'input of the module, env (environment variable), or file.';
comment on column public.variables.name is 'Its key; of a file, the path in the module''s folder.';
comment on column public.variables.value is
  'JSON; a text for env, file and HCL. Emptied 30 days after the version ended, when plans expire, too.';
comment on column public.variables.is_enforced is 'Whether it wins over the variables of paths below and of runs.';
comment on column public.variables.is_reference is
  'Whether the value is the address of a secret that the runner reads: vault://, aws-sm:// or file://.';
comment on column public.variables.key_id is
  'The key that the value is sealed to, or that seals the plans of a reference; null: the value is plain.';
create trigger wake after insert or update of ended_at on public.variables
  for each row when (new.path is not null) execute function private.wake_for_row();

create table private.job_variables (
  job_id bigint primary key references public.provision_jobs (id) on delete cascade,
  variables bigint[] not null
);
comment on table private.job_variables is 'The versions of variables that each job was given when it was enqueued.';
comment on column private.job_variables.variables is 'Numbers of rows of public.variables.';

create table private.variable_uses (
  variable_id bigint primary key references public.variables (id) on delete cascade,
  job_id bigint not null,
  used_at timestamptz not null default now()
);
comment on table private.variable_uses is 'The last job that fetched each version of a variable, to the minute.';
comment on column private.variable_uses.job_id is 'A job; its row may be past its retention period.';

-- ## setting
-- Returns why a value should not be kept as plain text; null where nothing suggests a secret. Shapes of well-known
-- tokens, and names as people choose them.
create function private.secret_warning(p_name text, p_value jsonb) returns text language sql immutable as $$
  select case
    when p_value is null then null
    when p_value::pg_catalog.text ~ ('(AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{20}'
      '|glpat-[\w-]{20}'
      '|xox[abeprs]-[\w-]{10}|sk_live_\w{16}|-----BEGIN [A-Z ]*PRIVATE KEY|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.')
      then 'The value looks like a key or token.'
    when p_name ~* 'token|secret|passw|passphrase|private_?key|credential|api_?key|access_?key'
      and jsonb_typeof(p_value) = 'string' and p_value <> '""' then 'The name suggests a secret.' end
$$;

-- Names of environment variables that no job may set, in any case: they change how a program starts, how the engine or
-- git finds its settings, or who the runner is. The runner refuses them as well, whatever the database gave it: `make
-- migration` writes this pattern into wire/forbidden_variables.py.
create function private.forbidden_variables() returns text language sql immutable as $$
  select '^(LD_|DYLD_|PYTHON|GIT_|TF_CLI_ARGS|TF_HTTP_|WORKER_|RUNYARD_|SUPABASE_|PERL5|RUBY|NODE_|BASH_FUNC_'
    '|PULUMI_BACKEND)|^(PATH|TF_CLI_CONFIG_FILE|TERRAFORM_CONFIG|TF_DATA_DIR|TF_IN_AUTOMATION|TF_INPUT|TF_WORKSPACE'
    '|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|PS4|HOME|TMPDIR|PULUMI_HOME|GODEBUG|GCONV_PATH)$'
$$;

create function private.check_variable(p_variable public.variables) returns void language plpgsql stable as $$
begin
  perform private.fail('RY422', 'A variable has a kind, a name and a value.',
    'Write {"kind": "input", "name": "region", "value": "eu-west-1"}; kinds are input, env and file.')
  where p_variable.kind is null or p_variable.name is null or p_variable.value is null;
  perform private.fail('RY422', format('The value of "%s" must be a text.', left(p_variable.name, 200)),
    'Environment variables, files, HCL expressions and sealed values are texts; only an input may be an HCL '
    'expression.')
  where p_variable.kind in ('env', 'file') and p_variable.is_hcl
    or jsonb_typeof(p_variable.value) <> 'string'
    and (p_variable.kind <> 'input' or p_variable.is_hcl or p_variable.key_id is not null);
  perform private.fail('RY422', format('A job may not set "%s".', left(p_variable.name, 200)),
    'It would change how the engine or the runner itself works. Choose another name, or set it where the runner is '
    'started.')
  where p_variable.kind = 'env' and p_variable.name ~* private.forbidden_variables();
  if p_variable.key_id is not null and not exists (select from public.sealing_keys as k where k.id = p_variable.key_id
    and k.org_id = p_variable.org_id and k.retired_at is null) then
    perform private.fail('RY409', 'The value is sealed to a key that is not the organisation''s current one.',
      'Seal it again: runyard variables seal.');
  end if;
  -- Vault, proxies and programs tidy up paths in ways of their own; runners compare them as they are written.
  perform private.fail('RY422',
    format('The address of "%s" is not one that runners read.', left(p_variable.name, 200)),
    'Write vault://PATH#FIELD, aws-sm://REGION/NAME#FIELD or file:///PATH, with letters, digits and _.:@+=,!- '
    'between single slashes, and no part "." or "..".')
  where p_variable.is_reference and (length(p_variable.value #>> '{}') > 1000 or p_variable.value #>> '{}' !~ (
    replace('^(file://P|(vault|aws-sm):/P(#[^[:space:][:cntrl:]]+)?)$', 'P',
      '(/(?!\.\.?(/|#|$))[A-Za-z0-9_.:@+=,!-]+)+')));
  perform private.fail('RY409', 'A reference needs the organisation''s sealing key, and is no HCL expression.',
    'Saved plans contain inputs and are sealed with the key: runyard variables create-key makes one.')
  where p_variable.is_reference and (p_variable.key_id is null or p_variable.is_hcl);
  perform private.fail('RY422', format('The runner writes "%s" itself.', p_variable.name),
    'Choose another name for the file.')
  where p_variable.kind = 'file' and p_variable.name ~ '(^|/)(\.terraform|[^/]*runyard[^/]*\.auto\.tfvars[^/]*)(/|$)';
end;
$$;

-- Writes one variable at a path, unless it has this value already. The caller holds the lock of the path.
create function private.put_variable(p_new public.variables) returns public.variables language plpgsql as $$
declare
  v_old public.variables;
  v_variable public.variables;
begin
  perform private.check_variable(p_new);
  perform private.refuse_bound_inputs(m.id, jsonb_build_object(p_new.name, null)) from public.modules as m
  where p_new.kind = 'input' and m.org_id = p_new.org_id and m.path = p_new.path and m.deleted_at is null;
  select * into v_old from public.variables as v
  where v.org_id = p_new.org_id and v.path = p_new.path and v.kind = p_new.kind and v.name = p_new.name
  order by v.version desc limit 1;
  if p_new.path = '' or p_new.is_enforced or v_old.is_enforced and v_old.ended_at is null then
    perform private.need('variable.enforce', p_new.org_id, p_new.path);
  end if;
  -- Jobs get tokens for what these name.
  if p_new.kind = 'env' and p_new.name ~ '^TFC_(AWS|GCP|AZURE|VAULT)_' then
    perform private.need('identity.manage', p_new.org_id, p_new.path);
  end if;
  if v_old.ended_at is null and (v_old.value, v_old.is_hcl, v_old.is_enforced, v_old.is_reference)
    = (p_new.value, p_new.is_hcl, p_new.is_enforced, p_new.is_reference)
    and v_old.key_id is not distinct from p_new.key_id then
    return v_old;
  end if;
  update public.variables set ended_at = now() where id = v_old.id and ended_at is null;
  insert into public.variables (
    org_id, path, kind, name, value, is_hcl, is_enforced, is_reference, key_id, version, created_by, created_by_label
  ) values (
    p_new.org_id, p_new.path, p_new.kind, p_new.name, p_new.value, p_new.is_hcl, p_new.is_enforced, p_new.is_reference,
    p_new.key_id, coalesce(v_old.version, 0) + 1, private.caller_id(), private.caller_label(p_new.org_id)
  ) returning * into v_variable;
  return v_variable;
exception when check_violation then
  perform private.fail('RY422', format('"%s" is not a valid %s variable.', left(p_new.name, 200), left(p_new.kind,
    20)), 'Kinds are input, env and file. A name has letters, digits and underscores; a file''s is a relative path. '
    'A value has at most 1 MiB, that of an environment variable 64 KiB.');
end;
$$;

create function private.create_sealing_key(p_org uuid, p_public_key text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_key public.sealing_keys;
begin
  perform private.need('variable.enforce', p_org);
  perform private.fail('RY422', 'A public key is 32 bytes in base64.', 'runyard variables create-key makes one.')
  where coalesce(p_public_key, '') !~ '^[A-Za-z0-9+/]{43}=$';
  perform private.lock_variables(p_org, 'key');
  update public.sealing_keys set retired_at = now() where org_id = p_org and retired_at is null;
  insert into public.sealing_keys (id, org_id, public_key, created_by, created_by_label)
  values (left(encode(sha256(decode(p_public_key, 'base64')), 'hex'), 16), p_org, p_public_key, private.caller_id(),
    private.caller_label(p_org))
  returning * into v_key;
  perform private.audit(p_org, 'sealing_key.created', 'sealing_key', v_key.id, v_key.id);
  return to_jsonb(v_key) || jsonb_build_object('label', 'sealing-key=' || v_key.id);
exception when unique_violation then
  perform private.fail('RY409', 'This key is known already.', 'Make another one: runyard variables create-key.');
end;
$$;
comment on function private.create_sealing_key is
  'Makes a public key the one that secrets of the organisation are sealed to from now on. Runners that have its '
  'private half get the label of the answer. Admins.';

-- Writes the names of changed variables into the audit log, never their values.
create function private.audit_variables(p_org uuid, p_action text, p_path text, p_names text[]) returns void
language sql as $$
  select private.audit(p_org, p_action, 'variable', p_path, coalesce(nullif(p_path, ''), 'organisation'),
    jsonb_build_object('names', to_jsonb(p_names)))
  where cardinality(p_names) > 0
$$;

-- A variable as members see it; nobody needs a sealed value, and an address is not secret.
create function private.shown_variable(p_variable public.variables) returns jsonb language sql stable as $$
  select to_jsonb(p_variable) - array['org_id', 'created_by', 'ended_at']
    || jsonb_build_object('value', case when p_variable.key_id is null or p_variable.is_reference then p_variable.value
      end, 'warning', case when p_variable.key_id is null then private.secret_warning(p_variable.name, p_variable.value)
      end)
$$;

create function private.set_variables(p_org uuid, p_path text, p_variables jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_given pg_catalog.jsonb;
  v_one public.variables;
  v_changed pg_catalog.text[] := '{}';
  v_answer pg_catalog.jsonb := '[]';
begin
  perform private.need('variable.write', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.fail('RY422', 'Send a list of 1 to 1,000 variables.',
    'Write [{"kind": "input", "name": "region", "value": "eu-west-1"}].')
  where jsonb_typeof(p_variables) is distinct from 'array' or jsonb_array_length(p_variables) not between 1 and 1000;
  perform private.fail('RY422', format('"%s" is in the list twice.', left(g ->> 'name', 200)), 'Send each key once.')
  from jsonb_array_elements(p_variables) as g group by g -> 'kind', g ->> 'name' having count(*) > 1;
  perform private.lock_variables(p_org, p_path);
  for v_given in select g from jsonb_array_elements(p_variables) as g loop
    perform private.refuse_unknown_keys(v_given, array['kind', 'name', 'value', 'is_hcl', 'is_enforced',
      'is_reference', 'key_id']);
    v_one := jsonb_populate_record(null::public.variables, v_given);
    v_one.org_id := p_org;
    v_one.path := p_path;
    v_one.value := v_given -> 'value';
    v_one.is_hcl := coalesce(v_one.is_hcl, false);
    v_one.is_enforced := coalesce(v_one.is_enforced, false);
    v_one.is_reference := coalesce(v_one.is_reference, false);
    if v_one.is_reference then
      v_one.key_id := (select k.id from public.sealing_keys as k where k.org_id = p_org and k.retired_at is null);
    end if;
    v_one := private.put_variable(v_one);
    if v_one.created_at = now() then v_changed := v_changed || v_one.name; end if;
    v_answer := v_answer || private.shown_variable(v_one);
  end loop;
  perform private.audit_variables(p_org, 'variable.set', p_path, v_changed);
  return v_answer;
exception when invalid_text_representation then
  perform private.fail('RY422', 'A field of a variable has the wrong type.', 'is_hcl and is_enforced are true or '
    'false.');
end;
$$;
comment on function private.set_variables is
  'Sets variables of a module, a group or ("") the organisation: [{kind, name, value, is_hcl, is_enforced, key_id, '
  'is_reference}]; with key_id, the value is sealed to that key; a reference is the address of a value that the runner '
  'reads (vault://, aws-sm://, file://). A variable that has this value already keeps its version. Each row of the '
  'answer has a warning where the value may be a secret. Operators; admins for the organisation and for enforced ones.';

-- A variable that counts now and that the caller may see. The verb to ask for depends on it.
create function private.my_variable(p_variable bigint, out v_variable public.variables) language plpgsql stable as $$
begin
  select * into v_variable from public.variables where id = p_variable and path is not null and ended_at is null
    and private.may_see(org_id, path);
  perform private.fail('RY404', 'There is no such variable.', 'It may have been changed or removed meanwhile.')
  where v_variable.id is null;
end;
$$;

create function private.remove_variable(p_variable bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_variable public.variables := private.my_variable(p_variable);
begin
  perform private.need(case when v_variable.path = '' or v_variable.is_enforced then 'variable.enforce'
    else 'variable.write' end, v_variable.org_id, v_variable.path);
  perform private.lock_variables(v_variable.org_id, v_variable.path);
  update public.variables set ended_at = now() where id = p_variable and ended_at is null returning * into v_variable;
  perform private.fail('RY404', 'There is no such variable.', 'It was changed in this moment.') where not found;
  perform private.audit_variables(v_variable.org_id, 'variable.removed', v_variable.path, array[v_variable.name]);
  return to_jsonb(v_variable) - 'value';
end;
$$;
comment on function private.remove_variable is
  'Removes a variable; queued jobs keep it. Operators; admins for the organisation''s and for enforced ones.';

-- Makes an object of names and values the plain variables of one kind at a path: a module's file and a group's form
-- name all of them at once. HCL expressions, sealed and enforced ones stay.
create function private.replace_variables(p_org uuid, p_path text, p_kind text, p_values jsonb) returns void
language plpgsql as $$
declare
  v_one public.variables;
  v_changed pg_catalog.text[] := '{}';
  v_removed pg_catalog.text[];
begin
  if p_values is null then
    return;
  elsif jsonb_typeof(p_values) <> 'object' then
    perform private.fail('RY422', 'Variables are an object of names and values.', 'Write {"region": "eu-west-1"}.');
  end if;
  perform private.lock_variables(p_org, p_path);
  v_one.org_id := p_org;
  v_one.path := p_path;
  v_one.kind := p_kind;
  v_one.is_hcl := false;
  v_one.is_enforced := false;
  v_one.is_reference := false;
  for v_one.name, v_one.value in select g.key, g.value from jsonb_each(p_values) as g loop
    if (private.put_variable(v_one)).created_at = now() then v_changed := v_changed || v_one.name; end if;
  end loop;
  with ended as (
    update public.variables as v set ended_at = now() where v.org_id = p_org and v.path = p_path and v.kind = p_kind
      and v.ended_at is null and v.key_id is null and not (v.is_hcl or v.is_enforced or p_values ? v.name)
    returning v.name
  )
  select coalesce(array_agg(e.name), '{}') into v_removed from ended as e;
  perform private.audit_variables(p_org, 'variable.set', p_path, v_changed);
  perform private.audit_variables(p_org, 'variable.removed', p_path, v_removed);
end;
$$;

create function private.list_variables(p_org uuid, p_path text default null, p_with_sealed boolean default false)
returns jsonb language sql stable security definer set search_path = '' as $$
  select private.need('variable.write', p_org, p_path) where p_with_sealed;
  select (select coalesce(jsonb_agg(private.shown_variable(v) || case when p_with_sealed
      then jsonb_build_object('value', v.value) else '{}' end order by v.path, v.kind, v.name), '[]')
    from public.variables as v
    where v.org_id = p_org and v.path is not null and v.ended_at is null and v.path = coalesce(p_path, v.path)
      and private.is_seen(p_org, v.path, n.seen))
  from private.need_seen(p_org, p_path) as n (seen)
$$;
comment on function private.list_variables is
  'The variables that are set in an organisation, or at one path ("" is the organisation itself), each with its '
  'value. A sealed value is null, unless p_with_sealed requests the boxes, to seal them to another key; that is for '
  'operators. Members.';

-- ## which value wins
-- Every variable that a job at a path could have, with its place among those of the same kind and name: 1 is the one
-- that the job gets, and hides the others. Enforced ones first, the outer before the inner; then those of the run, of
-- the module, of its groups from near to far, and of the organisation. A binding of an output wins over those of groups
-- and of the organisation.
create function private.ranked_variables(p_org uuid, p_path text, p_run bigint[])
returns table (id bigint, place bigint) language sql stable as $$
  select v.id, row_number() over (
    partition by v.kind, v.name
    order by not v.is_enforced, case when v.is_enforced then length(v.path) end, v.path is not null,
      length(v.path) desc)
  from (
    select a.id, a.kind, a.name, a.path, a.is_enforced from public.variables as a
    where a.org_id = p_org and a.path = any (private.path_prefixes(p_path)) and a.ended_at is null
      -- The bound names are read once for a path, not once for each variable.
      and not (a.kind = 'input' and a.path <> p_path and not a.is_enforced and a.name = any (array(
        select b.input from public.modules as m join public.module_bindings as b on b.consumer_id = m.id
        where m.org_id = p_org and m.path = p_path and m.deleted_at is null)))
    union all
    select r.id, r.kind, r.name, r.path, r.is_enforced from public.variables as r where r.id = any (p_run)
  ) as v
$$;

-- The last job that used any version of a variable; null where none did.
create function private.last_use(p_org uuid, p_path text, p_kind text, p_name text) returns jsonb
language sql stable as $$
  select jsonb_build_object('job', u.job_id, 'number', j.number, 'used_at', u.used_at)
  from public.variables as v join private.variable_uses as u on u.variable_id = v.id
  left join public.provision_jobs as j on j.id = u.job_id
  where v.org_id = p_org and v.path = p_path and v.kind = p_kind and v.name = p_name
  order by u.used_at desc limit 1
$$;

create function private.list_unused_variables(p_org uuid, p_days integer default 30) returns jsonb
language sql stable security definer set search_path = '' as $$
  select (
    select coalesce(jsonb_agg(private.shown_variable(v) || jsonb_build_object('last_use', l.use)
      order by v.path, v.kind, v.name), '[]')
    from public.variables as v
    cross join lateral (select private.last_use(p_org, v.path, v.kind, v.name) as use) as l
    where v.org_id = p_org and v.path is not null and v.ended_at is null and v.created_at <= s.since
      and private.is_seen(p_org, v.path, n.seen)
      and coalesce((l.use ->> 'used_at')::pg_catalog.timestamptz, '-infinity') <= s.since)
  from private.need_seen(p_org) as n (seen)
  cross join (select now() - make_interval(days => least(greatest(coalesce(p_days, 30), 0), 400)) as since) as s
$$;
comment on function private.list_unused_variables is 'Older variables that no job has used in these days. Members.';

create function private.list_variable_users(p_variable bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('module.read', v.org_id, v.path) from private.my_variable(p_variable) as v;
  select jsonb_build_object(
    'modules', array(
      select m.path from public.modules as m
      where m.org_id = v.org_id and m.deleted_at is null and v.path = any (private.path_prefixes(m.path))
        and exists (select from private.ranked_variables(m.org_id, m.path, '{}') as r
          where r.id = p_variable and r.place = 1)
      order by m.path),
    'members', coalesce((
      select jsonb_agg(jsonb_build_object('email', m.email, 'role', m.role) order by m.email)
      from public.memberships as m where m.org_id = v.org_id
        and private.may('job.plan', m.org_id, v.path, m.user_id)), '[]'),
    'accounts', array(select a.name from public.service_accounts as a where a.org_id = v.org_id
      and (a.role <= private.least_role('job.plan')
        or exists (select from private.bindings_for('job.plan', a.org_id, v.path, a.id)))
      and not a.is_disabled order by a.name),
    'runners', array(select w.name from public.workers as w where w.org_id = v.org_id and w.removed_at is null
      and 'sealing-key=' || v.key_id = any (w.labels) order by w.name))
  from private.my_variable(p_variable) as v
$$;
comment on function private.list_variable_users is
  'Which modules'' next jobs get a variable, and who starts them; of a sealed one also which runners open it. Members.';

create function private.preview_variables(p_org uuid, p_path text) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need_seen(p_org, p_path);
  select private.need_target(p_org, p_path);
  select coalesce(jsonb_agg(given.shown || jsonb_build_object('hides', given.hides, 'last_use', private.last_use(p_org,
    given.shown ->> 'path', given.kind, given.name)) order by given.kind, given.name), '[]')
  from (
    select v.kind, v.name, (jsonb_agg(private.shown_variable(v) order by r.place)) -> 0 as shown,
      coalesce(jsonb_agg(private.shown_variable(v) order by r.place) filter (where r.place > 1), '[]') as hides
    from private.seen(p_org) as n (seen) cross join private.ranked_variables(p_org, p_path, '{}') as r
    join public.variables as v on v.id = r.id
    where private.is_seen(p_org, v.path, n.seen) group by v.kind, v.name having min(r.place) = 1
  ) as given
$$;
comment on function private.preview_variables is
  'The variables that the next job of a module or group would have: value, path and version of each, the last job that '
  'used it, and those that it hides. Members.';

-- ## what a job is given
-- The inputs that one request names, for its jobs alone.
create function private.add_run_variables(p_org uuid, p_values jsonb, out v_ids bigint[]) language plpgsql as $$
begin
  with added as (
    insert into public.variables (org_id, kind, name, value, created_by, created_by_label, ended_at)
    select p_org, 'input', g.key, g.value, private.caller_id(), private.caller_label(p_org), now()
    from jsonb_each(coalesce(p_values, '{}')) as g
    returning id
  )
  select coalesce(array_agg(a.id), '{}') into v_ids from added as a;
end;
$$;

-- Notes which versions new jobs have: those of the job that they repeat or whose plan they apply, else the current
-- ones. Jobs with sealed values need runners with the key, and shared ones have none: a label keeps them apart.
create function private.freeze_variables(p_org uuid, p_jobs bigint[], p_run bigint[]) returns void
language plpgsql as $$
begin
  if not exists (select from public.variables as v where v.org_id = p_org) then return; end if;
  insert into private.job_variables (job_id, variables)
  select j.id, f.variables
  from unnest(p_jobs) as p (id)
  cross join lateral (select * from public.provision_jobs as j where j.id = p.id offset 0) as j
  cross join lateral (
    select case when coalesce(j.retry_of, j.plan_job_id) is null
        -- The code of a fork reads no secret.
        then array(select r.id from private.ranked_variables(p_org, j.module_path, p_run) as r where r.place = 1
          and (j.payload #> '{options,git,is_fork}' is distinct from 'true' or not exists (
            select from public.variables as v where v.id = r.id and v.key_id is not null)))
      else (select o.variables from private.job_variables as o where o.job_id = coalesce(j.retry_of, j.plan_job_id))
      end as variables
  ) as f
  where j.module_id is not null and cardinality(f.variables) > 0;
  update public.provision_jobs as j set labels = private.job_labels(j.labels, k.labels)
  from (
    select g.job_id, array_agg(distinct 'sealing-key=' || v.key_id) as labels
    from private.job_variables as g join public.variables as v on v.id = any (g.variables)
    where g.job_id = any (p_jobs) and v.key_id is not null group by g.job_id
  ) as k where j.id = k.job_id;
end;
$$;

-- The variables that a job was given, without values.
create function private.given_variables(p_job bigint) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('kind', v.kind, 'name', v.name, 'path', v.path, 'version', v.version,
    'is_enforced', v.is_enforced, 'is_sealed', v.key_id is not null and not v.is_reference, 'is_reference',
    v.is_reference, 'is_current', v.ended_at is null) order by v.kind, v.name), '[]')
  from private.job_variables as g join public.variables as v on v.id = any (g.variables) where g.job_id = p_job
    and (v.path is null or private.may_see(v.org_id, v.path))
$$;

create function private.list_job_variables(p_job bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.seen_job(p_job);
  select private.given_variables(p_job)
$$;
comment on function private.list_job_variables is
  'Names, paths and versions of a job''s variables, without values; a null path: given with the request. Members.';

create function private.worker_variables(p_job bigint, p_attempt integer) returns jsonb
language plpgsql security definer set search_path = '' as $$
begin
  perform private.fenced_job(private.this_runner(), p_job, p_attempt);
  perform private.fail('RY409', format('Version %s of the variable "%s" has expired.', v.version, v.name),
    'Values are kept for 30 days after they were replaced. Request a new job.')
  from private.job_variables as g join public.variables as v on v.id = any (g.variables)
  where g.job_id = p_job and v.value is null;
  -- Rarely more than once a minute for each, and in one order: jobs that start together do not wait for each other.
  insert into private.variable_uses as u (variable_id, job_id)
  select v.id, p_job from private.job_variables as g join public.variables as v on v.id = any (g.variables)
  left join private.variable_uses as k on k.variable_id = v.id
  where g.job_id = p_job and v.path is not null and (k.used_at is null or k.used_at < now() - interval '1 minute')
  order by v.id
  on conflict (variable_id) do update set job_id = excluded.job_id, used_at = excluded.used_at;
  return jsonb_build_object('variables', coalesce((
    select jsonb_agg(jsonb_build_object('kind', v.kind, 'name', v.name, 'value', v.value, 'is_hcl', v.is_hcl, 'path',
      v.path, 'is_enforced', v.is_enforced, 'is_reference', v.is_reference, 'key_id', v.key_id) order by v.kind, v.name)
    from private.job_variables as g join public.variables as v on v.id = any (g.variables)
    where g.job_id = p_job), '[]'));
end;
$$;
comment on function private.worker_variables is 'A running job''s variables and values, for the leased attempt alone.';

create function private.refuse_bound_inputs(p_module uuid, p_inputs jsonb) returns void language plpgsql stable as $$
begin
  perform private.fail('RY409', format('The input "%s" is bound to the output "%s" of "%s".', b.input, b.output,
    private.shown_path(m.org_id, m.path)), 'Remove the binding first, or leave the value out.')
  from public.module_bindings as b join public.modules as m on m.id = b.producer_id
  where b.consumer_id = p_module and p_inputs ? b.input order by b.input limit 1;
end;
$$;
