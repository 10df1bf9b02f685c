-- Cascades: an apply of a module may plan those that depend on it, where the dependency asks for it. One apply makes
-- one set that names it as its cause; what a consumer's own apply changes is the next one's cause. A plan is applied
-- where the consumer has auto-apply, and waits for its confirmation elsewhere. Its jobs are placed seconds later:
-- a consumer of several modules that are applied together is planned once. A later apply does not prolong the wait.

-- The modules that an apply plans now. A consumer that was never applied, or was destroyed, has no changed input.
-- Modules that the apply's own set places later, or that wait already for another cascade, are left out: a bound value
-- is read when its job runs.
create function private.cascaded_modules(p_job public.provision_jobs) returns uuid[]
language sql stable set search_path = '' as $$
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

-- Plans what depends on a module that was just applied, as one set. The caller has the lock of the module's state.
create function private.cascade(p_job public.provision_jobs) returns void
language plpgsql set search_path = '' as $$
declare
  v_modules pg_catalog.uuid[];
  v_words pg_catalog.text := format('After job %s of %s.', p_job.number, p_job.module_path);
  v_set public.job_sets;
begin
  -- Most modules have no such consumer: one look into the index, and nothing is planned for them.
  if not exists (select from public.module_dependencies as d where d.producer_id = p_job.module_id
    and d.cascades <> 'off') then
    return;
  end if;
  v_modules := private.cascaded_modules(p_job);
  if v_modules = '{}' then
    return;
  end if;
  if cardinality(v_modules) > 500 then
    perform private.record_job_event(p_job, 'cascade_refused', null, null, 'system', null, 'system', format(
      '%s modules depend on its outputs, and one apply plans 500 at most. Plan their group.', cardinality(v_modules)));
    return;
  end if;
  insert into public.job_sets (org_id, type, path, options, cause_job_id, starts_at, created_by_label)
  values (p_job.org_id, 'PLAN', p_job.module_path, jsonb_build_object('priority', 150, 'confirm', true, 'reason',
    v_words), p_job.id, now() + interval '5 s', format('cascade of #%s', p_job.number)) returning * into v_set;
  perform private.add_members(v_set, v_modules);
end;
$$;
