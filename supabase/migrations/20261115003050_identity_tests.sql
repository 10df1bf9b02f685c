-- "Test connection": only a runner with rights in the cloud can try a role, so trying it is a job like any other: it is queued,
-- explained while it waits, fenced by its attempt, logged, and its end says whether the identity works.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.note_identity(p_identity uuid, p_job public.provision_jobs)
returns void
language sql
set search_path = ''
as $$
  -- The job tried what was frozen into it: its verdict is no news about an identity that was changed meanwhile.
  update public.cloud_identities as c set
    verified_at = case when p_job.status = 'SUCCEEDED' then now() else c.verified_at end,
    verification_error = case when p_job.status = 'SUCCEEDED' then null
      else left(coalesce(p_job.error ->> 'message', c.verification_error), 2000) end
  where c.id = p_identity and p_job.status in ('SUCCEEDED', 'FAILED')
    and (c.account_id, c.role_arn, c.external_id, c.network) = (p_job.payload #>> '{lifecycle,identity,account_id}',
      p_job.payload #>> '{lifecycle,identity,role_arn}', p_job.payload #>> '{lifecycle,identity,external_id}',
        p_job.payload #> '{lifecycle,identity,network}')
$$;
comment on function private.note_identity(uuid, public.provision_jobs) is 'Writes down what a job found out about a cloud identity.';

create function private.verify_cloud_identity(p_identity uuid)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_identity public.cloud_identities := private.my_identity(p_identity);
  v_job public.provision_jobs;
begin
  select j.* into v_job from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id where q.state_key = p_identity
    and q.stage <> 'WAITING';
  if v_job.id is null then
    v_job.org_id := v_identity.org_id;
    v_job.type := 'VERIFY_IDENTITY';
    v_job.target_identity_id := p_identity;
    v_job.approvals_required := 0;
    v_job.priority := 50;
    v_job.max_attempts := 3;
    v_job.created_by := private.caller_id();
    v_job.created_by_label := private.caller_label();
    v_job.payload := jsonb_build_object('lifecycle', jsonb_build_object('regions', to_jsonb(v_identity.regions),
      'identity', jsonb_build_object('id', v_identity.id, 'name', v_identity.name, 'provider', v_identity.provider, 'account_id',
        v_identity.account_id,
        'role_arn', v_identity.role_arn, 'external_id', v_identity.external_id, 'network', v_identity.network)));
    v_job := private.add_job(v_job, 'Test ' || v_identity.name);
    perform private.audit(v_identity.org_id, 'cloud_identity.tested', 'cloud_identity', p_identity::pg_catalog.text, v_identity.name,
      jsonb_build_object('job', v_job.id));
  end if;
  return to_jsonb(v_identity) || jsonb_build_object('job', to_jsonb(v_job));
end;
$$;
comment on function private.verify_cloud_identity(uuid) is 'Body of public.verify_cloud_identity.';
grant execute on function private.verify_cloud_identity(uuid) to authenticated;
create function public.verify_cloud_identity(p_identity uuid)
returns jsonb language sql set search_path = ''
as $$ select private.verify_cloud_identity(p_identity) $$;
comment on function public.verify_cloud_identity(uuid) is
  'Queues the job that tries a cloud identity in all of its regions, or finds the one that is under way; verified_at or verification_error follow from it. Admins.';
grant execute on function public.verify_cloud_identity(uuid) to authenticated;

revoke execute on all functions in schema private, public from public;
