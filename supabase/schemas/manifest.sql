-- The manifest: what people set up in an organisation as one document, runyard.yaml, with names and never with ids. It
-- is compared with the rows, and the difference is made by the calls of pages and commands, with their rights, refusals
-- and audit, in one transaction: all of it or nothing. A kind that the document does not list is left alone. One table
-- of fields checks a document, fills in what it leaves out, and describes it to editors.

create view private.manifest_fields as
select
  f.kind,
  f.place,
  f.field,
  f.type,
  f.is_key,
  f.fallback::jsonb,
  f.words
from (values
  (1, 'sealing_keys', 'public_key', 'text', true, null, 'The public half of the key that secrets are sealed to.'),
  (2, 'roles', 'name', 'text', true, null, 'Lower-case letters, digits and hyphens.'),
  (3, 'roles', 'description', 'text', false, '""', 'For people.'),
  (4, 'roles', 'verbs', 'set', false, null, 'What the role may do, such as job.plan.'),
  (5, 'teams', 'name', 'text', true, null, 'Its name.'),
  (6, 'teams', 'claim', 'text', false, 'null', 'The group at the identity provider that fills it.'),
  (7, 'teams', 'members', 'set', false, '[]', 'The email addresses of the members that are in it by hand.'),
  (8, 'groups', 'path', 'text', true, null, 'Such as platform/network; the groups above are made with it.'),
  (9, 'groups', 'description', 'text', false, '""', 'For people.'),
  (10, 'groups', 'hooks', 'object', false, '{}', 'Scripts by step, such as before_plan.'),
  (11, 'groups', 'time_limits', 'object', false, '{}', 'Seconds for plan, apply and hook.'),
  (12, 'groups', 'git_apply', 'text', false, 'null', 'after_merge, before_merge, merge_queue or never.'),
  (13, 'groups', 'drift_action', 'text', false, 'null', 'tell, plan, apply or accept.'),
  (14, 'modules', 'path', 'text', true, null, 'Such as platform/network/vpc.'),
  (15, 'modules', 'description', 'text', false, '""', 'For people.'),
  (16, 'modules', 'source_kind', 'text', false, '"inline"', 'git, archive, inline or local.'),
  (17, 'modules', 'source', 'object', false, '{"files": {}}', 'git: url, ref, subfolder.'),
  (18, 'modules', 'engine', 'text', false, '"tofu"', 'tofu, terraform, terragrunt or pulumi.'),
  (19, 'modules', 'engine_version', 'text', false, 'null', 'The version that its runner must have.'),
  (20, 'modules', 'backend', 'text', false, 'null', 'runyard, or own for the backend that the code names.'),
  (21, 'modules', 'extra_files', 'list', false, '[]', 'Files written beside the code: path, content, mode.'),
  (22, 'modules', 'hooks', 'object', false, '{}', 'Scripts by step; each replaces that of the groups.'),
  (23, 'modules', 'labels', 'set', false, '[]', 'Labels that its runner must have.'),
  (24, 'modules', 'runner_instance_name', 'text', false, 'null', 'The process of a runner that runs its jobs.'),
  (25, 'modules', 'pinned_runner', 'text', false, 'null', 'The runner that its jobs are pinned to.'),
  (26, 'modules', 'approvals_required', 'integer', false, '0', 'How many members must approve an apply.'),
  (27, 'modules', 'approval_timeout_seconds', 'integer', false, '86400', 'For how long an apply waits for approval.'),
  (28, 'modules', 'auto_apply', 'boolean', false, 'false', 'Whether a plan with changes is followed by its apply.'),
  (29, 'modules', 'can_apply_uploads', 'boolean', false, 'false', 'Whether plans of uploads may be applied.'),
  (30, 'modules', 'time_limits', 'object', false, '{}', 'Seconds for plan, apply and hook.'),
  (31, 'modules', 'drift_ignores', 'list', false, '[]', 'Drift to ignore: address, attribute, reason, until.'),
  (32, 'modules', 'git_is_on', 'boolean', false, 'true', 'Whether pushes plan it.'),
  (33, 'modules', 'git_branch', 'text', false, 'null', 'The branch that it follows.'),
  (34, 'modules', 'git_paths', 'set', false, '[]', 'More paths of the repository whose changes plan it.'),
  (35, 'modules', 'git_apply', 'text', false, 'null', 'after_merge, before_merge, merge_queue or never.'),
  (36, 'dependencies', 'consumer', 'text', true, null, 'The module that depends on the other.'),
  (37, 'dependencies', 'producer', 'text', true, null, 'The module that goes first.'),
  (38, 'dependencies', 'bindings', 'object', false, '{}', 'Inputs of the consumer, each with its output.'),
  (39, 'dependencies', 'cascades', 'text', false, '"off"', 'off, on_change or always.'),
  (40, 'dependencies', 'is_promotion', 'boolean', false, 'false', 'Whether only an applied commit is applied.'),
  (41, 'variables', 'path', 'text', true, null, 'A module or group; "" is the organisation.'),
  (42, 'variables', 'kind', 'text', true, null, 'input, env or file.'),
  (43, 'variables', 'name', 'text', true, null, 'Its name; of a file, its path.'),
  (44, 'variables', 'value', 'any', false, null, 'The value; sealed with key_id, an address with is_reference.'),
  (45, 'variables', 'is_hcl', 'boolean', false, 'false', 'Whether the value is an HCL expression.'),
  (46, 'variables', 'is_enforced', 'boolean', false, 'false', 'Whether it wins over the paths below.'),
  (47, 'variables', 'is_reference', 'boolean', false, 'false', 'Whether the value is vault://, aws-sm:// or file://.'),
  (48, 'variables', 'key_id', 'text', false, 'null', 'The key that the value is sealed to.'),
  (49, 'identities', 'path', 'text', true, null, 'A module or group; "" is the organisation.'),
  (50, 'identities', 'name', 'text', true, null, 'Its kind; a custom one has a name of its own.'),
  (51, 'identities', 'kind', 'text', false, null, 'aws, gcp, azure, vault, kubernetes or custom.'),
  (52, 'identities', 'audience', 'text', false, null, 'The audience of its tokens.'),
  (53, 'identities', 'settings', 'object', false, '{}', 'Fields of its kind, such as plan_role and apply_role.'),
  (54, 'policies', 'path', 'text', true, null, 'A module or group; "" is the organisation.'),
  (55, 'policies', 'name', 'text', true, null, 'The name of the set.'),
  (56, 'policies', 'level', 'text', false, null, 'advisory, overridable or mandatory.'),
  (57, 'policies', 'source', 'text', false, '""', 'Where the rules come from, for people.'),
  (58, 'policies', 'files', 'object', false, null, 'Texts by the names of files: .rego, or command.json.'),
  (59, 'repositories', 'url', 'text', true, null, 'The address of the repository.'),
  (60, 'repositories', 'provider', 'text', false, null, 'github, gitlab, gitea or generic.'),
  (61, 'repositories', 'base_url', 'text', false, 'null', 'The address of the API, where it is at another host.'),
  (62, 'repositories', 'poll_seconds', 'integer', false, '300', 'How often it is read without an event; 0 is never.'),
  (63, 'repositories', 'allows_forks', 'boolean', false, 'false', 'Whether members may plan commits of forks.'),
  (64, 'repositories', 'allows_identities', 'boolean', false, 'false', 'Whether pull requests get identities.'),
  (65, 'schedules', 'path', 'text', true, null, 'A module or group; "" is all modules.'),
  (66, 'schedules', 'type', 'text', true, null, 'DRIFT, PLAN, APPLY or DESTROY.'),
  (67, 'schedules', 'cron', 'text', true, null, 'Minute, hour, day, month, weekday.'),
  (68, 'schedules', 'zone', 'text', true, '"UTC"', 'The time zone.'),
  (69, 'schedules', 'is_on', 'boolean', false, 'true', 'Whether it runs.'),
  (70, 'schedules', 'reason', 'text', false, 'null', 'Why it is off.'),
  (71, 'bindings', 'path', 'text', true, null, 'A module or group; "" is the organisation.'),
  (72, 'bindings', 'role', 'text', true, null, 'A built-in role or one of your own.'),
  (73, 'bindings', 'subject', 'text', true, null, 'An email address, team:NAME or account:NAME.'),
  (74, 'notifications', 'channel', 'text', true, null, 'webhook, slack, teams or mail.'),
  (75, 'notifications', 'address_hint', 'text', true, null, 'What is shown of the address.'),
  (76, 'notifications', 'path', 'text', true, '""', 'A module or group; "" is the organisation.'),
  (77, 'notifications', 'events', 'set', false, null, 'Such as job.failed.'),
  (78, 'notifications', 'is_on', 'boolean', false, 'true', 'Whether it sends.'),
  (79, 'notifications', 'address', 'text', true, null, 'Sealed for this organisation.'),
  (80, 'notifications', 'secret', 'text', false, 'null', 'What messages are signed with, sealed for this organisation.')
) as f (place, kind, field, type, is_key, fallback, words);
comment on view private.manifest_fields is 'The fields of the entries of a manifest, with what editors show of them.';
comment on column private.manifest_fields.place is 'The order of kinds and of their fields.';
comment on column private.manifest_fields.words is 'A sentence for editors.';
comment on column private.manifest_fields.type is 'text, boolean, integer, object, list, set (of texts) or any.';
comment on column private.manifest_fields.is_key is 'Whether it is a part of the name, by which an entry is known.';
comment on column private.manifest_fields.fallback is 'The value where a document leaves it out; null: it is required.';

create view private.manifest_kinds as
select
  f.kind,
  min(f.place) as place,
  array_agg(f.field order by f.place) as fields,
  array_agg(f.field order by f.place) filter (where f.is_key) as keys,
  coalesce(array_agg(f.field) filter (where f.type = 'set'), '{}') as sets,
  coalesce(jsonb_object_agg(f.field, f.fallback) filter (where f.fallback is not null), '{}') as defaults
from private.manifest_fields as f group by f.kind;
comment on view private.manifest_kinds is 'The kinds of a manifest, in the order in which they are made.';
comment on column private.manifest_kinds.defaults is 'The values of the fields that a document may leave out.';

create type private.manifest_change as (
  kind text, kind_place integer, name text, at text, id text, old jsonb, new jsonb
);
comment on type private.manifest_change is 'One difference: the row (id, old), what it shall be (new), its place.';

-- ## reading a document
-- An entry with every field of its kind, and sets in order, so that equal ones are equal values.
create function private.manifest_entry(p_kind private.manifest_kinds, p_entry jsonb) returns jsonb
language sql immutable as $$
  select p_kind.defaults || coalesce((
    select jsonb_object_agg(e.key, case when e.key = any (p_kind.sets) and jsonb_typeof(e.value) = 'array' then (
        select coalesce(jsonb_agg(distinct v), '[]') from jsonb_array_elements(e.value) as v) else e.value end)
    from jsonb_each(p_entry) as e where e.key = any (p_kind.fields)), '{}')
$$;

-- The name of an entry, by which it is known: the fields of its key.
create function private.manifest_name(p_kind private.manifest_kinds, p_entry jsonb) returns text
language sql immutable as $$
  select string_agg(coalesce(nullif(p_entry ->> k.field, ''), '""'), ' ' order by k.n)
  from unnest(p_kind.keys) with ordinality as k (field, n)
$$;

-- The entries of a document, whole, each with its place in it.
create function private.manifest_wanted(p_manifest jsonb)
returns table (kind text, kind_place integer, name text, at text, entry jsonb) language sql stable as $$
  select k.kind, k.place, private.manifest_name(k, e.entry), format('%s[%s]', k.kind, l.n - 1), e.entry
  from private.manifest_kinds as k
  cross join lateral jsonb_array_elements(p_manifest -> k.kind) with ordinality as l (entry, n)
  cross join lateral (select private.manifest_entry(k, l.entry) as entry offset 0) as e
$$;

-- Refuses an entry with fields that its kind does not have, without one that it needs, or with a value of another type.
create function private.check_manifest_entry(p_kind text, p_entry jsonb) returns void language plpgsql stable as $$
declare
  v_field pg_catalog.record;
  v_known pg_catalog.text[] := array(select f.field from private.manifest_fields as f where f.kind = p_kind
    order by f.place);
begin
  perform private.refuse_unknown_keys(p_entry, v_known);
  for v_field in select f.field, f.type, f.fallback, jsonb_typeof(p_entry -> f.field) as is from private.manifest_fields
    as f where f.kind = p_kind order by f.place loop
    if v_field.is is null and v_field.fallback is null then
      perform private.fail('RY422', format('"%s" is missing.', v_field.field), 'Add it.');
    elsif not (v_field.is is null or v_field.is = 'null' and v_field.fallback = 'null'
      or private.is_of_type(p_entry -> v_field.field, v_field.type)) then
      perform private.fail('RY422', format('"%s" is not %s.', v_field.field, private.type_words(v_field.type)),
        'Quote a text that reads like a number or a date.');
    end if;
  end loop;
end;
$$;

-- Refuses what is not a manifest, before any entry is read.
create function private.check_manifest(p_manifest jsonb) returns void language plpgsql stable as $$
declare
  v_kinds pg_catalog.text[] := array(select k.kind from private.manifest_kinds as k order by k.place);
begin
  if jsonb_typeof(p_manifest) is distinct from 'object' or p_manifest -> 'version' is distinct from '1' then
    perform private.fail('RY422', 'A manifest is an object with "version": 1 and a list for each kind.',
      format('The kinds are %s.', array_to_string(v_kinds, ', ')));
  elsif octet_length(p_manifest::pg_catalog.text) > 4194304 then
    perform private.fail('RY413', 'A manifest has at most 4 MiB.', 'Divide it: each file lists kinds of its own.');
  end if;
  perform private.refuse_unknown_keys(p_manifest, array['version'] || v_kinds);
  perform private.fail('RY422', format('"%s" is not a list.', k.key), 'Write a list of entries, or [] for none.')
  from jsonb_each(p_manifest) as k where k.key <> 'version' and jsonb_typeof(k.value) <> 'array';
end;
$$;

-- ## the entries of an organisation
-- Every entry of these kinds that the organisation has, whole. People do not set up temporary modules and their things.
create function private.manifest_rows(p_org uuid, p_kinds text[])
returns table (kind text, kind_place integer, name text, id text, entry jsonb) language sql stable as $$
  select k.kind, k.place, private.manifest_name(k, e.entry), r.id, e.entry
  from (
    select 'sealing_keys' as kind, k.id, to_jsonb(k) as entry from public.sealing_keys as k
    where k.org_id = p_org and k.retired_at is null
    union all
    select 'roles', o.name, to_jsonb(o) from public.roles as o where o.org_id = p_org
    union all
    select 'teams', t.id::pg_catalog.text, to_jsonb(t) || jsonb_build_object('members', array(
        select b.email from public.team_members as m join public.memberships as b on b.org_id = m.org_id
          and b.user_id = m.user_id where m.team_id = t.id and not m.is_claimed))
    from public.teams as t where t.org_id = p_org
    union all
    select 'groups', g.id::pg_catalog.text, to_jsonb(g) from public.groups as g where g.org_id = p_org
    union all
    select 'modules', m.id::pg_catalog.text, to_jsonb(m) || jsonb_build_object('pinned_runner', w.name,
      'git_is_on', coalesce(g.is_on, true), 'git_branch', g.branch, 'git_paths', coalesce(g.paths, '{}'),
      'git_apply', g.apply)
    from public.modules as m left join public.module_git as g on g.module_id = m.id
    left join public.workers as w on w.id = m.pinned_worker_id
    where m.org_id = p_org and m.deleted_at is null and not m.is_temporary
    union all
    select 'dependencies', d.consumer_id || ' ' || d.producer_id, to_jsonb(d) || jsonb_build_object('consumer', c.path,
      'producer', p.path, 'path', c.path, 'bindings', (select coalesce(jsonb_object_agg(b.input, b.output), '{}')
        from public.module_bindings as b where b.consumer_id = d.consumer_id and b.producer_id = d.producer_id))
    from public.module_dependencies as d join public.modules as c on c.id = d.consumer_id
    join public.modules as p on p.id = d.producer_id where d.org_id = p_org
    union all
    select 'variables', v.id::pg_catalog.text, to_jsonb(v) || jsonb_build_object('key_id', case when not v.is_reference
      then v.key_id end) from public.variables as v where v.org_id = p_org and v.path is not null and v.ended_at is null
    union all
    select 'identities', i.id::pg_catalog.text, to_jsonb(i) from public.job_identities as i where i.org_id = p_org
    union all
    select 'policies', s.id::pg_catalog.text, to_jsonb(s) || jsonb_build_object('files', b.files)
    from public.policy_sets as s join private.policy_bundles as b on b.org_id = s.org_id
      and b.sha256 = s.bundle_sha256 where s.org_id = p_org
    union all
    select 'repositories', c.id::pg_catalog.text, to_jsonb(c) from public.git_connections as c
    where c.org_id = p_org and c.removed_at is null
    union all
    select 'schedules', s.id::pg_catalog.text, to_jsonb(s) from public.schedules as s where s.org_id = p_org
    union all
    select 'bindings', b.id::pg_catalog.text, to_jsonb(b) || jsonb_build_object('subject', case
      when b.team_id is not null then 'team:' when b.account_id is not null then 'account:' else '' end
        || private.binding_name(b))
    from public.role_bindings as b where b.org_id = p_org
    union all
    select 'notifications', n.id::pg_catalog.text, to_jsonb(n) || jsonb_build_object('address', s.address, 'secret',
      s.secret) from public.notification_rules as n join private.notification_secrets as s on s.rule_id = n.id
    where n.org_id = p_org and n.removed_at is null
  ) as r join private.manifest_kinds as k on k.kind = r.kind
  cross join lateral (select private.manifest_entry(k, r.entry) as entry offset 0) as e
  where r.kind = any (p_kinds) and not exists (select from public.modules as m where m.org_id = p_org
    and m.path = r.entry ->> 'path' and m.deleted_at is null and m.is_temporary)
$$;

create function private.export_manifest(p_org uuid, p_kinds text[] default null) returns json
language plpgsql stable security definer set search_path = '' as $$
declare
  v_kinds pg_catalog.text[] := coalesce(p_kinds, array(select k.kind from private.manifest_kinds as k));
begin
  perform private.need('module.read', p_org);
  perform private.check_manifest((select jsonb_object_agg(k, '[]'::pg_catalog.jsonb) from unnest(v_kinds) as k)
    || '{"version": 1}');
  -- The boxes of secrets are for those who may write them.
  perform private.need('variable.write', p_org, v.path) from (select distinct v.path from public.variables as v
    where v.org_id = p_org and v.ended_at is null and v.key_id is not null and not v.is_reference) as v
  where 'variables' = any (v_kinds);
  perform private.need('notification.manage', p_org) from public.notification_rules as n
  where n.org_id = p_org and n.removed_at is null and 'notifications' = any (v_kinds) limit 1;
  return (
    with entry as materialized (
      select distinct on (r.kind, r.name) r.kind, r.name, (
        select json_object_agg(f.field, r.entry -> f.field order by f.n)
        from unnest(k.fields) with ordinality as f (field, n)
        where r.entry -> f.field is distinct from k.defaults -> f.field) as entry
      from private.manifest_rows(p_org, v_kinds) as r join private.manifest_kinds as k on k.kind = r.kind
    )
    select json_object_agg(l.key, l.value order by l.place) from (
      select 'version' as key, '1'::pg_catalog.json as value, 0 as place
      union all
      select k.kind, coalesce((select json_agg(e.entry order by e.name collate "C") from entry as e
        where e.kind = k.kind), '[]'), k.place from private.manifest_kinds as k where k.kind = any (v_kinds)) as l);
end;
$$;
comment on function private.export_manifest is
  'The manifest of an organisation, all kinds or these: what people set up, by names, without what is as it is anyway. '
  'Secrets are sealed boxes, for those who may write them. Members.';

-- ## making one so
-- The differences between the rows and a document, and what only the rows have. A group stays while there is something
-- below it, and a sealing key while there is no other.
create function private.manifest_changes(p_org uuid, p_manifest jsonb) returns setof private.manifest_change
language sql stable as $$
  with wanted as materialized (
    select w.* from private.manifest_wanted(p_manifest) as w
  ), present as materialized (
    select r.* from private.manifest_rows(p_org, array(select jsonb_object_keys(p_manifest))) as r
  )
  select coalesce(w.kind, r.kind), coalesce(w.kind_place, r.kind_place), coalesce(w.name, r.name),
    concat_ws(' ', coalesce(w.at, r.kind), left(coalesce(w.name, r.name), 200)), r.id, r.entry, w.entry
  from wanted as w full join present as r on r.kind = w.kind and r.name = w.name
  where r.entry is distinct from w.entry and not (w.entry is null and (r.kind = 'sealing_keys'
    or r.kind = 'groups' and (
      exists (select from wanted as b where b.kind in ('groups', 'modules') and starts_with(b.name, r.name || '/'))
      or exists (select from public.modules as m where m.org_id = p_org and m.deleted_at is null
        and starts_with(m.path, r.name || '/') and (m.is_temporary or not p_manifest ? 'modules')))))
$$;

-- The id of the thing with a name; refuses an unknown name.
create function private.need_named(p_id uuid, p_kind text, p_name text) returns uuid language sql stable as $$
  select private.fail('RY404', format('There is no %s "%s".', p_kind, left(p_name, 200)),
    'Names are written as the lists show them.')
  where p_id is null;
  select p_id
$$;

create function private.member_named(p_org uuid, p_email text) returns uuid language sql stable as $$
  select private.need_named((select m.user_id from public.memberships as m where m.org_id = p_org
    and m.email = p_email), 'member', p_email)
$$;

-- Makes a team, or changes its claim and its members.
create function private.put_team(p_org uuid, p_change private.manifest_change) returns void language plpgsql as $$
declare
  v_team pg_catalog.uuid := coalesce(p_change.id, private.create_team(p_org, p_change.new ->> 'name') ->> 'id');
  v_old pg_catalog.jsonb := coalesce(p_change.old, '{"claim": null, "members": []}');
begin
  perform private.set_team_claim(v_team, p_change.new ->> 'claim')
  where p_change.new -> 'claim' <> v_old -> 'claim';
  perform private.set_team_member(v_team, private.member_named(p_org, m.email), p_change.new -> 'members' ? m.email)
  from (select jsonb_array_elements_text(v_old -> 'members') as email
    union select jsonb_array_elements_text(p_change.new -> 'members')) as m
  where (p_change.new -> 'members' ? m.email) <> (v_old -> 'members' ? m.email);
end;
$$;

-- Makes a group, or changes it. Its modes need more rights, so they are named only where they change.
create function private.put_group(p_org uuid, p_change private.manifest_change) returns void language plpgsql as $$
declare
  v_new pg_catalog.jsonb := p_change.new;
  v_old pg_catalog.jsonb := coalesce(p_change.old, '{"git_apply": null, "drift_action": null}');
begin
  perform private.upsert_group(p_org, v_new ->> 'path', v_new ->> 'description', v_new -> 'hooks', null,
    case when v_new -> 'git_apply' <> v_old -> 'git_apply' then coalesce(v_new ->> 'git_apply', 'inherit') end,
    v_new -> 'time_limits',
    case when v_new -> 'drift_action' <> v_old -> 'drift_action' then coalesce(v_new ->> 'drift_action', 'inherit')
      end);
end;
$$;

-- Makes a module, or changes it and how it follows its repository.
create function private.put_module(p_org uuid, p_change private.manifest_change) returns void language plpgsql as $$
declare
  v_own pg_catalog.text[] := array['git_is_on', 'git_branch', 'git_paths', 'git_apply'];
  v_new pg_catalog.jsonb := p_change.new;
  v_old pg_catalog.jsonb := coalesce(p_change.old, (select k.defaults from private.manifest_kinds as k
    where k.kind = 'modules'));
  v_runner pg_catalog.text := v_new ->> 'pinned_runner';
  v_path pg_catalog.text[] := regexp_match(v_new ->> 'path', '^(?:(.*)/)?([^/]*)$');
  v_module pg_catalog.uuid := p_change.id;
  v_spec pg_catalog.jsonb := v_new - v_own - array['path', 'pinned_runner'] || jsonb_build_object('pinned_worker_id',
    case when v_runner is not null then private.need_named((select w.id from public.workers as w
      where w.name = v_runner and w.removed_at is null and (w.org_id = p_org or w.is_shared)
      order by w.is_shared limit 1), 'runner', v_runner) end);
begin
  if v_module is null then
    v_module := private.create_module(p_org, coalesce(v_path[1], ''), v_path[2], v_spec) ->> 'id';
  elsif v_new - v_own <> v_old - v_own then
    perform private.update_module(v_module, v_spec);
  end if;
  perform private.set_module_git(v_module, jsonb_build_object('is_on', v_new -> 'git_is_on', 'branch',
    v_new -> 'git_branch', 'paths', v_new -> 'git_paths', 'apply', v_new -> 'git_apply'))
  where exists (select from unnest(v_own) as f where v_new -> f <> v_old -> f);
end;
$$;

-- Gives a role to the member, the team or the service account that a subject names.
create function private.put_binding(p_org uuid, p_new jsonb) returns void language sql as $$
  select private.grant_role(p_org, p_new ->> 'path', p_new ->> 'role', s.kind, case s.kind
    when 'member' then private.member_named(p_org, s.name)
    when 'team' then private.need_named((select t.id from public.teams as t where t.org_id = p_org
      and t.name = s.name), 'team', s.name)
    else private.need_named((select a.id from public.service_accounts as a where a.org_id = p_org
      and a.name = s.name and a.removed_at is null), 'service account', s.name) end)
  from (select coalesce(substring(p_new ->> 'subject' from '^(team|account):'), 'member') as kind,
    regexp_replace(p_new ->> 'subject', '^(team|account):', '') as name) as s
$$;

-- Makes or changes one thing, as its page does.
create function private.put_entry(p_org uuid, p_change private.manifest_change) returns void language plpgsql as $$
declare
  v_new pg_catalog.jsonb := p_change.new;
  v_path pg_catalog.text := v_new ->> 'path';
  v_id pg_catalog.text := p_change.id;
begin
  case p_change.kind
    when 'sealing_keys' then perform private.create_sealing_key(p_org, v_new ->> 'public_key');
    when 'roles' then perform private.set_role(p_org, v_new ->> 'name', private.text_list(v_new -> 'verbs'),
      v_new ->> 'description');
    when 'teams' then perform private.put_team(p_org, p_change);
    when 'groups' then perform private.put_group(p_org, p_change);
    when 'modules' then perform private.put_module(p_org, p_change);
    when 'dependencies' then perform private.change_dependency(private.module_at(p_org, v_new ->> 'consumer'),
      private.module_at(p_org, v_new ->> 'producer'), jsonb_set(v_new - array['consumer', 'producer'], '{bindings}', (
        select coalesce(jsonb_object_agg(b.key, null), '{}')
        from jsonb_each(coalesce(p_change.old -> 'bindings', '{}')) as b) || (v_new -> 'bindings')));
    when 'variables' then perform private.set_variables(p_org, v_path, jsonb_build_array(v_new - 'path'));
    when 'identities' then perform private.attach_identity(p_org, v_path, v_new - 'path');
    when 'policies' then perform private.attach_policy(p_org, v_path, v_new - 'path');
    when 'repositories' then
      if v_id is null then
        perform private.connect_repository(p_org, v_new);
      else
        perform private.update_git_connection(v_id::pg_catalog.uuid, v_new - 'url');
      end if;
    when 'schedules' then
      if v_id is null then
        perform private.create_schedule(p_org, v_new);
      else
        perform private.update_schedule(v_id::pg_catalog.uuid, v_new - array['path', 'type', 'cron', 'zone']);
      end if;
    when 'bindings' then perform private.put_binding(p_org, v_new);
    when 'notifications' then
      if v_id is null then
        perform private.create_notification_rule(p_org, v_new);
      else
        perform private.update_notification_rule(v_id::pg_catalog.uuid, v_new - array['channel', 'address_hint',
          'path', 'address']);
      end if;
  end case;
end;
$$;

-- Removes one thing, as its page does.
create function private.remove_entry(p_org uuid, p_change private.manifest_change) returns void language plpgsql as $$
declare
  v_id pg_catalog.text := p_change.id;
begin
  case p_change.kind
    when 'roles' then perform private.delete_role(p_org, v_id);
    when 'teams' then perform private.delete_team(v_id::pg_catalog.uuid);
    when 'groups' then perform private.delete_group(v_id::pg_catalog.uuid);
    when 'modules' then perform private.delete_module(v_id::pg_catalog.uuid, regexp_replace(p_change.name, '^.*/', ''));
    when 'dependencies' then perform private.remove_dependency(split_part(v_id, ' ', 1)::pg_catalog.uuid,
      split_part(v_id, ' ', 2)::pg_catalog.uuid);
    when 'variables' then perform private.remove_variable(v_id::bigint);
    when 'identities' then perform private.detach_identity(v_id::pg_catalog.uuid);
    when 'policies' then perform private.detach_policy(v_id::pg_catalog.uuid);
    when 'repositories' then perform private.disconnect_repository(v_id::pg_catalog.uuid);
    when 'schedules' then perform private.remove_schedule(v_id::pg_catalog.uuid);
    when 'bindings' then perform private.revoke_role(v_id::pg_catalog.uuid);
    when 'notifications' then perform private.remove_notification_rule(v_id::pg_catalog.uuid);
  end case;
end;
$$;

-- Differences as pages and commands show them.
create function private.manifest_answer(p_changes private.manifest_change[], p_left jsonb) returns jsonb
language sql stable as $$
  select jsonb_build_object('left', p_left, 'changes', coalesce(jsonb_agg(jsonb_build_object('kind', c.kind, 'name',
    c.name, 'act', case when c.new is null then 'remove' when c.old is null then 'create' else 'update' end, 'fields',
    case when c.new is not null then private.changes(c.old, c.new) else '{}' end) order by c.n), '[]'))
  from unnest(p_changes) with ordinality as c (kind, kind_place, name, at, id, old, new, n)
$$;

create function private.apply_manifest(
  p_org uuid, p_manifest jsonb, p_prune boolean default false, p_is_dry boolean default false
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_at pg_catalog.text;
  v_entry pg_catalog.record;
  v_changes private.manifest_change[];
  v_left pg_catalog.jsonb := '[]';
  v_change private.manifest_change;
  v_code pg_catalog.text;
  v_words pg_catalog.text;
  v_hint pg_catalog.text;
  v_detail pg_catalog.text;
begin
  perform private.need('module.read', p_org);
  perform private.check_manifest(p_manifest);
  -- The answer names them by their boxes.
  perform private.need('notification.manage', p_org) where p_manifest ? 'notifications';
  -- Before all others, since each apply of an organisation waits for the one before; and routing before states.
  perform private.lock_dependencies(p_org);
  perform private.lock_routing(p_org, true) where p_prune and p_manifest ? 'modules';
  for v_entry in select k.key as kind, e.entry, format('%s[%s]', k.key, e.n - 1) as at
    from jsonb_each(p_manifest - 'version') as k
    cross join lateral jsonb_array_elements(k.value) with ordinality as e (entry, n) order by k.key, e.n loop
    v_at := v_entry.at;
    perform private.check_manifest_entry(v_entry.kind, v_entry.entry);
  end loop;
  v_at := null;
  perform private.fail('RY422', format('%s: "%s" is in the list twice.', w.kind, left(w.name, 200)),
    'Keep one of them.')
  from private.manifest_wanted(p_manifest) as w group by w.kind, w.name having count(*) > 1;
  -- First the removals, from the last kind to the first; then the rest, from the first to the last.
  v_changes := array(select c from private.manifest_changes(p_org, p_manifest) as c order by c.new is not null,
    case when c.new is null then -c.kind_place else c.kind_place end,
    case when c.new is null then -length(c.name) end, c.name collate "C");
  if p_prune is not true then
    v_left := (select coalesce(jsonb_agg(jsonb_build_object('kind', c.kind, 'name', c.name)), '[]')
      from unnest(v_changes) as c where c.new is null);
    v_changes := array(select c from unnest(v_changes) as c where c.new is not null);
  end if;
  foreach v_change in array v_changes loop
    v_at := v_change.at;
    if v_change.new is null then
      perform private.remove_entry(p_org, v_change);
    else
      perform private.put_entry(p_org, v_change);
    end if;
  end loop;
  v_at := 'dependencies';
  perform private.refuse_cycle(p_org) where p_manifest ? 'dependencies';
  v_at := null;
  perform private.fail('RY409', format('%s: It would not be as the manifest has it.', c.at), format(
    'What is stored differs: %s', left(private.changes(coalesce(c.old, '{}'), c.new)::pg_catalog.text, 500)))
  from private.manifest_changes(p_org, p_manifest) as c where c.new is not null limit 1;
  perform private.audit(p_org, 'manifest.applied', 'organization', p_org::pg_catalog.text, 'manifest',
    jsonb_build_object('changes', cardinality(v_changes), 'prune', p_prune)) where cardinality(v_changes) > 0;
  if p_is_dry then raise exception using errcode = 'RY000'; end if;
  return private.manifest_answer(v_changes, v_left);
exception when others then
  get stacked diagnostics v_code = returned_sqlstate, v_words = message_text, v_hint = pg_exception_hint,
    v_detail = pg_exception_detail;
  if v_code = 'RY000' then
    return private.manifest_answer(v_changes, v_left);
  elsif v_code !~ '^RY' then
    raise;
  end if;
  raise exception using errcode = v_code, message = concat_ws(': ', v_at, v_words), hint = v_hint, detail = v_detail;
end;
$$;
comment on function private.apply_manifest is
  'Makes an organisation as a manifest has it, with the rights, refusals and audit of each change: all of it or '
  'nothing. With p_prune it removes what the listed kinds have beside it; with p_is_dry it tries everything and keeps '
  'nothing. Answers {changes: [{kind, name, act, fields}], left}; left is what p_prune would remove. Each change needs '
  'its own verb. Operators; admins for what they alone may change.';
