-- Drift is something that is so of a module, not only the result of a job: since when, in how many resources, and when
-- it
-- was last looked for. A drift check that finds some notes it; a plan or a check of the whole module that finds nothing
-- to do clears it. An apply does not: whether it mended everything, the next look says.
set lock_timeout = '5s';
set statement_timeout = '60s';

alter table public.modules
  add column drift_since timestamptz,
  add column drift_resources integer,
  add column drift_checked_at timestamptz;
comment on column public.modules.drift_since is
  'When drift was first found that no look since has found gone; null: none is known.';
comment on column public.modules.drift_resources is 'How many resources had drifted at the last check.';
comment on column public.modules.drift_checked_at is 'When a finished job last looked for drift.';
-- squawk-ignore require-concurrent-index-creation
create index modules_drift_idx on public.modules (org_id, path) where drift_since is not null and deleted_at is null;
create trigger ring_drift after update of drift_since, drift_resources on public.modules
  for each row execute function private.ring_changed_row();

create function private.drifted_resources(p_summary jsonb)
returns integer
language sql immutable
set search_path = ''
as $$
  select coalesce(sum((c.value #>> '{}')::numeric)::integer, 0) from jsonb_each(p_summary) as c
  where c.key in ('create', 'update', 'replace', 'delete') and jsonb_typeof(c.value) = 'number'
    and (c.value #>> '{}')::numeric between 0 and 1000000
$$;
comment on function private.drifted_resources(jsonb) is 'How many resources a plan''s summary says would change.';

create function private.note_drift()
returns trigger
language plpgsql
set search_path = ''
as $$
declare
  v_options pg_catalog.jsonb := coalesce(new.payload -> 'options', '{}');
  v_has_changes boolean := new.plan_summary -> 'has_changes' = 'true';
  v_looks boolean := new.type = 'DRIFT' or new.type = 'PLAN' and v_options -> 'refresh_only' = 'true';
begin
  -- A look beside a held state, at some resources alone or at what a destroy would do says nothing about the module.
  if v_options ? 'inspects' or v_options -> 'destroy' = 'true' or jsonb_typeof(new.plan_summary) is distinct
    from 'object' then
    return null;
  end if;
  if v_looks and v_has_changes then
    update public.modules set drift_since = coalesce(drift_since, now()), drift_checked_at = now(),
      drift_resources = private.drifted_resources(new.plan_summary)
    where id = new.module_id;
  elsif not v_has_changes and coalesce(jsonb_array_length(nullif(v_options -> 'targets', 'null')), 0) = 0 then
    update public.modules set drift_since = null, drift_resources = null,
      drift_checked_at = case when v_looks or drift_since is not null then now() else drift_checked_at end
    where id = new.module_id and (v_looks or drift_since is not null);
  end if;
  return null;
end;
$$;
comment on function private.note_drift() is 'Notes or clears the drift of a job''s module, by what the job found.';

create trigger note_drift after update of status on public.provision_jobs for each row
  when (new.status = 'SUCCEEDED' and old.status <> 'SUCCEEDED' and new.module_id is not null and new.type in ('PLAN',
    'DRIFT'))
  execute function private.note_drift();

revoke execute on all functions in schema private from public;
