-- Dependencies: a module (the consumer) depends on another (the producer), and may take outputs of it as its inputs.
-- Edges never form a cycle: writing one takes the organisation's lock of dependencies, so two people cannot close
-- a cycle together. Values are read from the producer's state by the attempt that needs them and are copied into no
-- row; what is kept is a digest of each output, to see that a bound output has changed since the consumer was applied.

create table public.module_dependencies (
  consumer_id uuid not null references public.modules (id) on delete cascade,
  producer_id uuid not null references public.modules (id) on delete cascade,
  org_id uuid not null references public.organizations (id) on delete cascade,
  cascades text not null default 'off' check (cascades in ('off', 'on_change', 'always')),
  is_promotion boolean not null default false,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  primary key (consumer_id, producer_id),
  check (consumer_id <> producer_id)
);
create index module_dependencies_producer_id_idx on public.module_dependencies (producer_id);
create index module_dependencies_org_id_idx on public.module_dependencies (org_id);
comment on table public.module_dependencies is 'Which module depends on which other: the order of sets.';
comment on column public.module_dependencies.producer_id is 'The module that goes first, unless both are destroyed.';
comment on column public.module_dependencies.cascades is
  'Whether an apply of the producer plans the consumer: off, on_change (a bound output changed) or always.';
comment on column public.module_dependencies.is_promotion is
  'Whether the consumer is applied only with the commit that the producer was last applied with.';

create table public.module_bindings (
  consumer_id uuid not null,
  input text not null check (input ~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$'),
  producer_id uuid not null,
  output text not null check (output ~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$'),
  org_id uuid not null references public.organizations (id) on delete cascade,
  primary key (consumer_id, input),
  constraint module_bindings_dependency_fkey foreign key (consumer_id, producer_id)
    references public.module_dependencies (consumer_id, producer_id) on delete cascade
);
create index module_bindings_producer_id_idx on public.module_bindings (producer_id, consumer_id);
create index module_bindings_org_id_idx on public.module_bindings (org_id);
comment on table public.module_bindings is
  'Inputs of modules whose values are outputs of others. The consumer''s jobs may read the producer''s outputs.';

create table private.dependency_proposals (
  consumer_id uuid not null references public.modules (id) on delete cascade,
  producer_id uuid not null references public.modules (id) on delete cascade,
  bindings jsonb not null default '{}',
  primary key (consumer_id, producer_id)
);
create index dependency_proposals_producer_id_idx on private.dependency_proposals (producer_id);
comment on table private.dependency_proposals is
  'Modules whose outputs another one''s code reads (terraform_remote_state, Terragrunt), as of its last plan.';
comment on column private.dependency_proposals.bindings is 'Inputs of the consumer, each with the output that it is.';

-- The modules that code reads outputs of: by path, or by folder in the same source.
create function private.read_modules(p_module public.modules, p_reads jsonb)
returns table (producer_id uuid, bindings jsonb) language sql stable as $$
  select distinct on (m.id) m.id, coalesce(nullif(r.value -> 'bindings', 'null'), '{}')
  from jsonb_array_elements(case when jsonb_typeof(p_reads) = 'array' then p_reads else '[]' end)
    with ordinality as r (value, place)
  join public.modules as m on m.org_id = p_module.org_id and m.deleted_at is null and m.id <> p_module.id
    and case when r.value ? 'folder' then m.source - 'subfolder' = p_module.source - 'subfolder'
        and trim(both '/' from coalesce(m.source ->> 'subfolder', '')) = r.value ->> 'folder'
      else m.path = replace(r.value ->> 'workspace', '.', '/') and exists (
        select from public.organizations as o where o.id = m.org_id and o.slug = r.value ->> 'organization') end
  where r.place <= 200 order by m.id, r.value -> 'bindings' desc nulls last
$$;

create function private.propose(p_module public.modules, p_reads jsonb) returns void language sql as $$
  insert into private.dependency_proposals as d (consumer_id, producer_id, bindings)
  select p_module.id, r.producer_id, r.bindings from private.read_modules(p_module, p_reads) as r
  on conflict (consumer_id, producer_id) do update set bindings = excluded.bindings
    where d.bindings <> excluded.bindings
$$;

-- Keeps which modules the code of a planned module reads outputs of.
create function private.note_reads(p_job public.provision_jobs) returns void language sql as $$
  delete from private.dependency_proposals as d using public.modules as m
  where m.id = p_job.module_id and d.consumer_id = m.id and p_job.status = 'SUCCEEDED'
    and d.producer_id not in (select r.producer_id from private.read_modules(m, p_job.result -> 'reads') as r);
  select private.propose(m, p_job.result -> 'reads') from public.modules as m where m.id = p_job.module_id
$$;

-- ## digests
create table private.output_digests (
  module_id uuid primary key references public.modules (id) on delete cascade,
  digests jsonb not null
);
comment on table private.output_digests is 'A digest of each output of modules that others take outputs of.';

create table private.read_inputs (
  job_id bigint primary key references public.provision_jobs (id) on delete cascade,
  digests jsonb not null
);
comment on table private.read_inputs is 'Digests of the bound values that a job was given.';

create table private.applied_inputs (
  module_id uuid primary key references public.modules (id) on delete cascade,
  digests jsonb not null
);
comment on table private.applied_inputs is 'Digests of the bound values with which each module was last applied.';
comment on column private.applied_inputs.digests is 'By the input''s name; {} for a module that was bound after that.';

create view private.changed_inputs as
select
  b.consumer_id,
  b.producer_id,
  b.input
from public.module_bindings as b
inner join private.applied_inputs as a on a.module_id = b.consumer_id
left join private.output_digests as o on o.module_id = b.producer_id
where o.digests ->> b.output is distinct from a.digests ->> b.input;
comment on view private.changed_inputs is 'Bound inputs whose value is another now than at the consumer''s last apply.';

-- Keeps what a module was applied with; a destroyed one is applied with nothing.
create function private.note_applied_inputs(p_job public.provision_jobs) returns void language plpgsql as $$
begin
  if p_job.type = 'DESTROY' then
    delete from private.applied_inputs where module_id = p_job.module_id;
  else
    insert into private.applied_inputs as a (module_id, digests)
    select p_job.module_id, r.digests from private.read_inputs as r
    where r.job_id = coalesce(p_job.plan_job_id, p_job.id)
    on conflict (module_id) do update set digests = excluded.digests;
  end if;
end;
$$;

-- ## writing
-- Refuses dependencies that form a cycle, with the modules of one in their order.
create function private.refuse_cycle(p_org uuid) returns void language plpgsql stable as $$
declare
  v_free pg_catalog.uuid[] := array(select d.producer_id from public.module_dependencies as d where d.org_id = p_org
    except select d.consumer_id from public.module_dependencies as d where d.org_id = p_org);
  v_left pg_catalog.uuid[];
  v_walk pg_catalog.uuid[];
  v_next pg_catalog.uuid;
  v_place integer := 0;
begin
  -- A module is free once all that it depends on are: in a cycle none is. Each one reads its own consumers only.
  while v_place < cardinality(v_free) loop
    v_place := v_place + 1;
    v_free := v_free || array(select d.consumer_id from public.module_dependencies as d
      where d.producer_id = v_free[v_place] and not exists (select from public.module_dependencies as o
        where o.consumer_id = d.consumer_id and o.producer_id <> all (v_free[:v_place])));
  end loop;
  v_left := array(select distinct d.consumer_id from public.module_dependencies as d
    where d.org_id = p_org and d.consumer_id <> all (v_free) order by d.consumer_id);
  if v_left = '{}' then return; end if;
  v_next := v_left[1];
  while v_next <> all (coalesce(v_walk, '{}')) loop
    v_walk := v_next || v_walk;
    v_next := (select d.producer_id from public.module_dependencies as d
      where d.consumer_id = v_next and d.producer_id = any (v_left) limit 1);
  end loop;
  perform private.fail('RY409', format('This would be a cycle: %s.', (
      select string_agg(private.shown_path(p_org, m.path), ' → ' order by c.place)
      from unnest(v_next || v_walk[:array_position(v_walk, v_next)]) with ordinality as c (id, place)
      join public.modules as m on m.id = c.id)), 'Remove one of these dependencies first.');
end;
$$;

-- Refuses bindings that are not names, that the consumer's own inputs have a value for, or that read what nobody has.
create function private.check_bindings(p_consumer public.modules, p_producer public.modules, p_bindings jsonb)
returns void language sql stable as $$
  select private.fail('RY422', 'Bindings are an object of input names and output names.',
    'Write {"vpc_id": "id"}; null removes a binding.')
  where jsonb_typeof(p_bindings) <> 'object' or exists (
    select from jsonb_each(p_bindings) as b
    where jsonb_typeof(b.value) not in ('string', 'null') or b.key !~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$'
      or b.value #>> '{}' !~ '^[A-Za-z_][A-Za-z0-9_:-]{0,127}$');
  select private.fail('RY409', format('"%s" keeps its own backend, so Runyard has no outputs of it.',
    p_producer.path), 'Depend on it without bindings, or let Runyard keep its state.')
  where p_producer.backend = 'own' and jsonb_path_exists(p_bindings, '$.* ? (@ != null)');
  select private.fail('RY409', format('"%s" has a value for its input "%s" already.', p_consumer.path, b.key),
    'Remove the variable of the module, or bind another input.')
  from jsonb_each(p_bindings) as b join public.variables as v on v.name = b.key
  where b.value <> 'null' and v.org_id = p_consumer.org_id and v.path = p_consumer.path and v.kind = 'input'
    and v.ended_at is null;
  select private.fail('RY409', format('The input "%s" of "%s" is bound to "%s" already.', o.input, p_consumer.path,
    m.path), 'Remove that binding first.')
  from public.module_bindings as o join public.modules as m on m.id = o.producer_id
  where o.consumer_id = p_consumer.id and o.producer_id <> p_producer.id and p_bindings ->> o.input is not null
$$;

-- Writes or changes an edge and its named bindings. The caller has the lock of dependencies, and refuses a cycle.
create function private.write_dependency(p_consumer uuid, p_producer uuid, p_options jsonb) returns void
language plpgsql as $$
declare
  v_bindings pg_catalog.jsonb := coalesce(p_options -> 'bindings', '{}');
  v_verb pg_catalog.text := case when jsonb_path_exists(v_bindings, '$.* ? (@ != null)') then 'state.write'
    else 'module.write' end;
  v_consumer public.modules;
  v_producer public.modules := private.my_module(p_producer, v_verb);
begin
  -- Locked, then read: an input that somebody gives a value meanwhile must be seen.
  perform from public.modules where id = p_consumer for no key update;
  v_consumer := private.my_module(p_consumer, v_verb);
  perform private.lock_variables(v_consumer.org_id, v_consumer.path);
  perform private.refuse_unknown_keys(p_options, array['bindings', 'cascades', 'is_promotion']);
  perform private.fail('RY404', 'There is no such module.', 'Both must belong to one organisation.')
  where v_consumer.org_id <> v_producer.org_id;
  perform private.fail('RY422', format('"%s" cannot depend on itself.', v_consumer.path), 'Name another module.')
  where p_consumer = p_producer;
  perform private.fail('RY422', 'A dependency cascades off, on_change or always.', 'Send one of these.')
  where coalesce(p_options ->> 'cascades', 'off') not in ('off', 'on_change', 'always');
  perform private.check_promotion_edge(v_consumer, v_producer, p_options -> 'is_promotion');
  perform private.check_bindings(v_consumer, v_producer, v_bindings);
  insert into public.module_dependencies as d (consumer_id, producer_id, org_id, cascades, is_promotion,
    created_by_label)
  values (p_consumer, p_producer, v_consumer.org_id, coalesce(p_options ->> 'cascades', 'off'),
    coalesce(p_options -> 'is_promotion' = 'true', false), private.caller_label(v_consumer.org_id))
  on conflict (consumer_id, producer_id) do update set cascades = coalesce(p_options ->> 'cascades', d.cascades),
    is_promotion = coalesce((p_options ->> 'is_promotion')::boolean, d.is_promotion);
  if v_bindings = '{}' then return; end if;
  delete from public.module_bindings as b where b.consumer_id = p_consumer and b.producer_id = p_producer
    and v_bindings -> b.input = 'null';
  insert into public.module_bindings as b (consumer_id, input, producer_id, output, org_id)
  select p_consumer, n.key, p_producer, n.value, v_consumer.org_id
  from jsonb_each_text(v_bindings) as n where n.value is not null
  on conflict (consumer_id, input) do update set output = excluded.output;
  perform private.note_outputs(p_producer);
  insert into private.applied_inputs (module_id, digests)
  select s.module_id, '{}' from private.states as s where s.module_id = p_consumer
  on conflict do nothing;
end;
$$;

-- Tells open pages of both modules.
create function private.wake_dependency(p_org uuid, p_consumer uuid, p_producer uuid) returns void language sql as $$
  select private.wake_org(p_org, 'modules', m::pg_catalog.text) from unnest(array[p_consumer, p_producer]) as m
$$;

-- Writes an edge for the caller, who refuses a cycle when all of them are written.
create function private.change_dependency(p_consumer uuid, p_producer uuid, p_options jsonb) returns public.modules[]
language plpgsql as $$
declare
  v_consumer public.modules := private.my_module(p_consumer, 'module.write');
  v_producer public.modules := private.my_module(p_producer, 'module.read');
begin
  perform private.lock_dependencies(v_consumer.org_id);
  perform private.write_dependency(p_consumer, p_producer, p_options);
  perform private.audited(to_jsonb(v_consumer), 'module.dependency_set', v_consumer.path,
    jsonb_build_object('on', v_producer.path) || coalesce(p_options, '{}'));
  perform private.wake_dependency(v_consumer.org_id, p_consumer, p_producer);
  return array[v_consumer, v_producer];
end;
$$;

create function private.set_dependency(p_consumer uuid, p_producer uuid, p_options jsonb default '{}') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_ends public.modules[] := private.change_dependency(p_consumer, p_producer, p_options);
begin
  perform private.refuse_cycle(v_ends[1].org_id);
  return jsonb_build_object('consumer', v_ends[1].path, 'producer', v_ends[2].path, 'cascades', (
      select d.cascades from public.module_dependencies as d
      where d.consumer_id = p_consumer and d.producer_id = p_producer),
    'bindings', (select coalesce(jsonb_object_agg(b.input, b.output), '{}') from public.module_bindings as b
      where b.consumer_id = p_consumer and b.producer_id = p_producer));
end;
$$;
comment on function private.set_dependency is
  'Makes a module depend on another, or changes how: {bindings: {input: output, or null to remove}, cascades: off, '
  'on_change or always, is_promotion: true to apply only the commit that was applied there}. Refuses a cycle. '
  'Operators; admins for bindings.';

create function private.remove_dependency(p_consumer uuid, p_producer uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_consumer public.modules := private.my_module(p_consumer, 'module.write');
  v_producer pg_catalog.text := (select m.path from public.modules as m where m.id = p_producer
    and m.org_id = v_consumer.org_id);
begin
  perform private.lock_dependencies(v_consumer.org_id);
  delete from public.module_dependencies where consumer_id = p_consumer and producer_id = p_producer;
  perform private.fail('RY404', 'There is no such dependency.', 'Look at the module''s dependencies again.')
  where not found;
  perform private.audited(to_jsonb(v_consumer), 'module.dependency_removed', v_consumer.path,
    jsonb_build_object('of', v_producer));
  perform private.wake_dependency(v_consumer.org_id, p_consumer, p_producer);
  return jsonb_build_object('consumer', v_consumer.path, 'producer', v_producer);
end;
$$;
comment on function private.remove_dependency is 'Removes a dependency with its bindings. Operators.';

-- The module of an organisation at a path; refuses a path without one.
create function private.module_at(p_org uuid, p_path text, out v_module uuid) language plpgsql stable as $$
begin
  v_module := (select m.id from public.modules as m where m.org_id = p_org and m.path = p_path
    and m.deleted_at is null);
  perform private.fail('RY404', format('There is no module "%s".', left(p_path, 200)),
    'Write its whole path, such as platform/network.') where v_module is null;
end;
$$;

create function private.replace_dependencies(p_org uuid, p_path text, p_dependencies jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_edge pg_catalog.jsonb;
  v_removed integer;
begin
  perform private.need('module.write', p_org, p_path);
  perform private.need_target(p_org, p_path);
  perform private.fail('RY422', 'Dependencies are a list of at most 2,000 objects.',
    'Write [{"consumer": "apps/site", "producer": "platform/network", "bindings": {"vpc_id": "id"}}].')
  where jsonb_typeof(p_dependencies) is distinct from 'array' or jsonb_array_length(p_dependencies) > 2000
    or jsonb_path_exists(p_dependencies, 'strict $[*] ? (@.type() != "object")');
  perform private.lock_dependencies(p_org);
  delete from public.module_dependencies as d where d.consumer_id in (select private.modules_below(p_org, p_path));
  get diagnostics v_removed = row_count;
  for v_edge in select e from jsonb_array_elements(p_dependencies) as e loop
    perform private.refuse_unknown_keys(v_edge, array['consumer', 'producer', 'bindings', 'cascades', 'is_promotion']);
    perform private.fail('RY422', format('"%s" is not below "%s".', v_edge ->> 'consumer', p_path),
      'Import the dependencies of each group separately, or those of all modules.')
    where p_path <> '' and v_edge ->> 'consumer' <> p_path and not starts_with(v_edge ->> 'consumer', p_path || '/');
    perform private.write_dependency(private.module_at(p_org, v_edge ->> 'consumer'),
      private.module_at(p_org, v_edge ->> 'producer'), v_edge - array['consumer', 'producer']);
  end loop;
  perform private.refuse_cycle(p_org);
  perform private.audit(p_org, 'dependencies.replaced', 'group', null, coalesce(nullif(p_path, ''), 'all modules'),
    jsonb_build_object('before', v_removed, 'now', jsonb_array_length(p_dependencies)));
  perform private.wake_org(p_org, 'modules', null);
  return jsonb_build_object('before', v_removed, 'now', jsonb_array_length(p_dependencies));
end;
$$;
comment on function private.replace_dependencies is
  'Replaces the dependencies of all modules at or below a path ("" is all) by a list of {consumer, producer, bindings, '
  'cascades, is_promotion} with paths; all or nothing. Operators; admins for bindings.';

-- ## reading
create function private.list_dependencies(p_org uuid, p_path text default '') returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_seen pg_catalog.text[] := private.need_seen(p_org, p_path);
begin
  perform private.need_target(p_org, p_path);
  return (
    with recursive below as materialized (
      select m.id from public.modules as m where m.org_id = p_org
        and m.id in (select private.modules_below(p_org, p_path))
        and (v_seen is null or private.is_seen(p_org, m.path, v_seen))
    ), edge as materialized (
      select d.* from public.module_dependencies as d where d.org_id = p_org and (p_path = '' and v_seen is null
        or d.consumer_id in (select b.id from below as b) or d.producer_id in (select b.id from below as b))
    ), shown as materialized (
      select m.id, m.path, v_seen is null or private.is_seen(p_org, m.path, v_seen) as is_seen
      from public.modules as m where m.deleted_at is null and (m.id in (select b.id from below as b)
        or m.id in (select e.consumer_id from edge as e union select e.producer_id from edge as e))
    ), step (id, step) as (
      select s.id, 1 from shown as s
      union
      select e.consumer_id, s.step + 1 from step as s join edge as e on e.producer_id = s.id
    ), placed as materialized (
      select s.id, max(s.step) as step from step as s group by s.id
    ), changed as materialized (
      select c.* from private.changed_inputs as c where c.consumer_id in (select e.consumer_id from edge as e)
    )
    select jsonb_build_object('modules', coalesce((
        select jsonb_agg(jsonb_build_object('id', s.id, 'path', private.shown_path(p_org, s.path), 'step', p.step,
          'changed_inputs', (select coalesce(jsonb_agg(c.input order by c.input), '[]') from changed as c
            where c.consumer_id = s.id and s.is_seen), 'last_job', (select to_jsonb(j) from public.last_jobs as j
            where j.module_id = s.id and s.is_seen)) order by p.step, s.path)
        from shown as s join placed as p on p.id = s.id), '[]'),
      'dependencies', coalesce((
        select jsonb_agg(jsonb_build_object('consumer_id', e.consumer_id, 'producer_id', e.producer_id, 'consumer',
          private.shown_path(p_org, c.path), 'producer', private.shown_path(p_org, p.path), 'cascades', e.cascades,
          'is_promotion', e.is_promotion, 'bindings', (
            select coalesce(jsonb_object_agg(b.input, b.output), '{}') from public.module_bindings as b
            where b.consumer_id = e.consumer_id and b.producer_id = e.producer_id
              and private.is_seen(p_org, c.path, v_seen))) order by c.path, p.path)
        from edge as e join public.modules as c on c.id = e.consumer_id
        join public.modules as p on p.id = e.producer_id), '[]'),
      'proposals', coalesce((
        select jsonb_agg(jsonb_build_object('consumer_id', r.consumer_id, 'producer_id', r.producer_id, 'consumer',
          c.path, 'producer', p.path, 'bindings', r.bindings) order by c.path, p.path)
        from private.dependency_proposals as r join public.modules as c on c.id = r.consumer_id
        join public.modules as p on p.id = r.producer_id and p.deleted_at is null
        where r.consumer_id in (select b.id from below as b) and private.is_seen(p_org, p.path, v_seen) and not exists (
          select from public.module_dependencies as d
          where d.consumer_id = r.consumer_id and d.producer_id = r.producer_id and r.bindings <@ (
            select coalesce(jsonb_object_agg(b.input, b.output), '{}') from public.module_bindings as b
            where b.consumer_id = d.consumer_id and b.producer_id = d.producer_id))), '[]')));
end;
$$;
comment on function private.list_dependencies is
  'The modules at or below a path ("" is all) and those that they depend on or that depend on them, each with its step '
  'in the order, the bound inputs that changed since its last apply, and its last apply, destroy or drift check; the '
  'dependencies between them; and proposals: modules whose code reads outputs of another one without depending on it, '
  'or without these bindings. Members.';

-- ## values
-- Returns why a bound value is not available, or null.
create function private.binding_problem(
  p_producer public.modules, p_state jsonb, p_output text, p_value jsonb, p_planned boolean
) returns text language sql immutable as $$
  select case
    when p_producer.deleted_at is not null then 'was removed'
    when p_producer.backend = 'own' then 'keeps its own backend, so Runyard has no outputs of it'
    when p_planned and p_value is null then format('has no output "%s" in its plan', p_output)
    when p_planned then null
    when p_state is null then 'has no state yet: it was never applied'
    when p_state ? 'encrypted_data' then 'has a state that its engine encrypted'
    when p_value is null then format('has no output "%s" in its state', p_output)
    when p_value::pg_catalog.text like '%4dabf18193072939515e22adb298388d%'
      then format('encrypted its output "%s" with Pulumi''s own key', p_output) end
$$;

create function private.worker_bound_values(p_job bigint, p_attempt integer) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_module pg_catalog.uuid := private.owned_module(p_job, p_attempt);
  v_path pg_catalog.text := (select m.path from public.modules as m where m.id = v_module);
  v_is_preview boolean := (select j.payload #> '{options,preview}' = 'true' from public.provision_jobs as j
    where j.id = p_job);
  v_bound pg_catalog.record;
  v_values pg_catalog.jsonb := '{}';
  v_secret pg_catalog.jsonb := '[]';
  v_digests pg_catalog.jsonb := '{}';
begin
  perform private.fail('RY422',
    format('"%s" has inputs that are outputs of other modules, and a fork gets none.', v_path),
    'Plan it from a branch of the repository.')
  from public.provision_jobs as j where j.id = p_job and j.payload #> '{options,git,is_fork}' = 'true'
    and exists (select from public.module_bindings as b where b.consumer_id = v_module);
  for v_bound in
    select b.input, b.output, p.path, v.value, o.is_secret, private.binding_problem(p, s.body, b.output,
      v.value, n.job_id is not null) as problem
    from public.module_bindings as b join public.modules as p on p.id = b.producer_id
    left join lateral (select t.body::pg_catalog.jsonb as body from private.states as t
      where t.module_id = b.producer_id) as s on true
    left join lateral private.read_outputs(s.body) as o on o.name = b.output
    left join lateral (select n.job_id from private.set_members as m join private.open_bindings as n
      on n.set_id = m.set_id and n.consumer_id = m.module_id and n.input = b.input
      where v_is_preview and m.job_id = p_job) as n on true
    cross join lateral (select case when n.job_id is null then o.value
      -- Null where the plan removes the output.
      else (select convert_from(a.body, 'UTF8')::pg_catalog.jsonb -> b.output from private.artifacts as a
        where a.job_id = n.job_id and a.name = 'outputs.json' order by a.attempt desc limit 1) end as value) as v
    where b.consumer_id = v_module order by b.input loop
    perform private.fail('RY422', format('The input "%s" of "%s" is the output "%s" of "%s", which %s.',
      v_bound.input, v_path, v_bound.output, v_bound.path, v_bound.problem), format(
      'Apply "%s" first, or change the dependency: runyard dependencies list %s.', v_bound.path, v_path))
    where v_bound.problem is not null;
    v_values := v_values || jsonb_build_object(v_bound.input, v_bound.value);
    v_secret := v_secret || case when v_bound.is_secret then to_jsonb(v_bound.input) else '[]' end;
    v_digests := v_digests || jsonb_build_object(v_bound.input, private.value_digest(v_bound.value));
  end loop;
  insert into private.read_inputs as r (job_id, digests) values (p_job, v_digests)
  on conflict (job_id) do update set digests = excluded.digests;
  return jsonb_build_object('values', v_values, 'sensitive', v_secret);
end;
$$;
comment on function private.worker_bound_values is
  'The values of the job''s bound inputs, from the current states of their producers (a preview: from their plans, '
  'where these change them), and which of them are sensitive. '
  'Refused, with the names of both modules, where one is missing.';

-- ## promotions
-- Promotion between environments: production depends on staging, and is applied only with the commit that staging was
-- last applied with. It is a condition of the dependency, checked wherever a plan is about to be applied. Where nobody
-- names a commit, production is planned at the promoted one; a push is planned at its own commit, and its apply waits
-- until that commit was applied in staging.

-- Refuses a promotion between modules that do not come from one repository.
create function private.check_promotion_edge(p_consumer public.modules, p_producer public.modules, p_wanted jsonb)
returns void language sql stable as $$
  select private.fail('RY422', 'is_promotion is true or false.')
  where jsonb_typeof(coalesce(p_wanted, 'false')) not in ('boolean', 'null');
  select private.fail('RY409', format('"%s" and "%s" do not come from one git repository.', p_consumer.path,
    p_producer.path), 'A commit is promoted between modules of the same repository.')
  where p_wanted = 'true' and (p_consumer.source_kind <> 'git' or p_producer.source_kind <> 'git'
    or private.repository_key(p_consumer.source ->> 'url') <> private.repository_key(p_producer.source ->> 'url'))
$$;

-- Returns why a module may not be applied with a commit, or null.
create function private.promotion_problem(p_module uuid, p_commit text) returns text language plpgsql stable as $$
begin
  return (select format('Waits for %s: %s.', private.shown_path(p.org_id, p.path),
    case when g.applied_commit is null then 'nothing was applied there'
      when p_commit is null then 'the commit of this one is not known'
      else format('commit %s was not applied there, which has %s', left(p_commit, 7), left(g.applied_commit, 7)) end)
    from public.module_dependencies as d join public.modules as p on p.id = d.producer_id
    left join public.module_git as g on g.module_id = d.producer_id
    where d.consumer_id = p_module and d.is_promotion and (g.applied_commit = p_commit) is not true
    order by p.path limit 1);
end;
$$;

-- The commit at which a module is planned and applied where nobody names another one; {} for one without a promotion.
create function private.promoted_source(p_module uuid) returns jsonb language plpgsql stable as $$
begin
  return (select case when count(distinct g.applied_commit) = 1 then jsonb_build_object('commit',
      min(g.applied_commit)) else '{}' end
    from public.module_dependencies as d join public.module_git as g on g.module_id = d.producer_id
    where d.consumer_id = p_module and d.is_promotion);
end;
$$;

-- Returns why a plan's commit may not be applied here yet. Null for one that may, and for a plan that destroys.
create function private.plan_promotion_problem(p_plan public.provision_jobs) returns text language plpgsql stable as $$
begin
  return case when p_plan.payload #> '{options,destroy}' is distinct from 'true' then private.promotion_problem(
    p_plan.module_id, coalesce(p_plan.result ->> 'commit', p_plan.payload #>> '{module,source,commit}')) end;
end;
$$;

-- Refuses to apply a plan of a commit that was not applied where it should have been.
create function private.check_promotion(p_plan bigint) returns void language sql stable as $$
  select private.fail('RY409', format('%s', p.problem), 'Apply that module with the same commit first.')
  from (select private.plan_promotion_problem(j) as problem from public.provision_jobs as j where j.id = p_plan) as p
  where p.problem is not null
$$;

create view private.promotable_jobs as
select
  j.id,
  j.org_id,
  j.module_id,
  d.producer_id
from public.provision_jobs as j
inner join public.modules as m on m.id = j.module_id and m.auto_apply and m.deleted_at is null
inner join public.module_dependencies as d on d.consumer_id = j.module_id and d.is_promotion
inner join public.provision_jobs as p on p.id = j.plan_job_id and p.planned_serial = private.state_serial(m.id)
where j.status = 'AWAITING_APPROVAL' and j.payload #> '{options,awaits_promotion}' = 'true' and j.approvals_required = 0
  and not exists (select from public.module_locks as l where l.module_id = j.module_id)
  and private.plan_promotion_problem(p) is null;
comment on view private.promotable_jobs is
  'Applies that would have followed their plans at once, had their commit been applied elsewhere; now it was.';

-- Cascades: an apply of a module may plan those that depend on it, where the dependency asks for it. One apply makes
-- one set that names it as its cause; what a consumer's own apply changes is the next one's cause. A plan is applied
-- where the consumer has auto-apply, and waits for its confirmation elsewhere. Its jobs are placed seconds later:
-- a consumer of several modules that are applied together is planned once. A later apply does not prolong the wait.

-- The modules that an apply plans now. A consumer that was never applied, or was destroyed, has no changed input.
-- Modules that the apply's own set places later, or that wait already for another cascade, are left out: a bound value
-- is read when its job runs.
create function private.cascaded_modules(p_job public.provision_jobs) returns uuid[] language sql stable as $$
  select array(
    select d.consumer_id from public.module_dependencies as d
    join public.modules as m on m.id = d.consumer_id and m.deleted_at is null
    where d.producer_id = p_job.module_id and d.cascades <> 'off'
      and (d.cascades = 'always' or exists (
          select from private.changed_inputs as c
          where c.consumer_id = d.consumer_id and c.producer_id = d.producer_id))
      and not exists (
        select from private.set_members as own
        join private.set_members as later on later.set_id = own.set_id and later.module_id = d.consumer_id
        left join public.provision_jobs as j on j.id = later.job_id
        where own.job_id in (p_job.id, p_job.plan_job_id) and later.left_out is null
          and (later.job_id is null or own.job_id = p_job.plan_job_id and j.status = 'QUEUED'))
      and not exists (
        select from public.job_sets as s
        join private.set_members as t on t.set_id = s.id and t.module_id = d.consumer_id and t.left_out is null
        left join public.provision_jobs as j on j.id = t.job_id
        where s.org_id = p_job.org_id and s.finished_at is null and s.cause_job_id is not null
          and (j.id is null or j.status = 'QUEUED'))
    order by d.consumer_id)
$$;
