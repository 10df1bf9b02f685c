-- Approvals: what members decided about jobs that wait for a decision, and when enough of them agree.

-- How the caller has proved who they are: through a session, a personal token, a service account or the database
-- itself; with which methods and strength. Null where nobody calls.
create function private.signed_in() returns jsonb language sql stable as $$
  select case when c.claims is not null then jsonb_strip_nulls(jsonb_build_object(
    'through', case when c.claims ? 'account_version' then 'service account'
      when c.claims ? 'personal_token' then 'personal token' when c.claims ? 'delegation' then 'comment'
      else 'session' end,
    'level', c.claims ->> 'aal', 'provider', c.claims #>> '{app_metadata,provider}',
    'methods', case when jsonb_typeof(c.claims -> 'amr') = 'array' then (
      select jsonb_agg(coalesce(a ->> 'method', a #>> '{}'))
      from jsonb_array_elements(c.claims -> 'amr') as a) end)) end
  from (select private.jwt() as claims) as c
$$;

create table public.approvals (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  job_id bigint not null references public.provision_jobs (id) on delete cascade,
  user_id uuid not null,
  user_label text not null,
  decision text not null check (decision in ('approve', 'reject')),
  comment text not null default '' check (length(comment) <= 2000),
  is_override boolean not null default false,
  plan_sha256 text,
  created_at timestamptz not null default now(),
  signed_in jsonb,
  unique (job_id, user_id)
);
create index approvals_org_id_idx on public.approvals (org_id, created_at desc);
comment on table public.approvals is 'What members decided about jobs that need approval; one decision each.';
comment on column public.approvals.signed_in is 'How: {through, level, methods, provider}; null: not noted yet.';
comment on column public.approvals.is_override is 'Whether a lone owner approved their own job; the comment is why.';

-- Counts one more approval, or a confirmation; with enough of them it queues the job. The caller has the state's lock.
create function private.count_approval(p_job bigint, p_is_override boolean, p_label text, p_comment text)
returns public.provision_jobs language plpgsql as $$
declare
  v_job public.provision_jobs;
begin
  -- Nobody else can give the approvals that an override replaces.
  update public.provision_jobs set approvals_received = case when p_is_override then approvals_required
    else approvals_received + 1 end
  where id = p_job returning * into v_job;
  if v_job.approvals_received < v_job.approvals_required then
    perform private.record_job_event(v_job, 'approval', null, null, private.caller_kind(), private.caller_id(),
      p_label, p_comment);
    return v_job;
  end if;
  update public.provision_jobs set status = 'QUEUED', queued_at = now() where id = p_job returning * into v_job;
  perform private.record_job_event(v_job, case when v_job.approvals_required = 0 then 'confirmed' else 'approved' end,
    'AWAITING_APPROVAL', 'QUEUED', private.caller_kind(), private.caller_id(), p_label, p_comment);
  perform private.queue_jobs(v_job.org_id, array[p_job]);
  return v_job;
end;
$$;
