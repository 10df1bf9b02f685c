-- Executors: what a runner's dispatcher starts in Docker, Kubernetes or ECS to run one job. An executor gets a token of
-- its runner's session that names one job and one attempt, under a role of its own: it can report, log, use the state and
-- finish that attempt, and nothing else. It cannot claim, beat, close the session, or touch another job of its runner: the
-- fence (owned_job, logged_job, check_ends) compares what it names with what its token does.
set lock_timeout = '5s';
set statement_timeout = '60s';

do $$
begin
  if not exists (select from pg_catalog.pg_roles where rolname = 'executor') then
    create role executor nologin;
  end if;
  if exists (select from pg_catalog.pg_roles where rolname = 'authenticator') then
    grant executor to authenticator;
  end if;
end;
$$;
alter role executor set statement_timeout = '15s';
grant usage on schema public, private to executor;

-- ---------------------------------------------------------------------------------------------- the executor's own call

create function private.worker_job(p_job bigint, p_attempt integer, p_has_payload boolean)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
declare
  v_runner private.runner := private.this_runner();
  v_live private.live_jobs := private.owned_job(v_runner, p_job, p_attempt);
  v_answer pg_catalog.jsonb;
begin
  -- The runner beats for its executors; what is left of its last beat is what an executor may rely on. Where there is none, the
  -- server has crashed: no lease ends before it has been up for as long.
  select jsonb_build_object('cancel_kind', v_live.cancel_kind, 'has_touched', v_live.has_touched, 'heartbeat_seconds', 15,
    'lease_seconds', greatest(0, round(extract(epoch from coalesce(
      (select h.last_seen_at from private.heartbeats as h where h.instance_id = v_live.instance_id), pg_postmaster_start_time())
      + interval '60 seconds' - now()))))
  into v_answer;
  if p_has_payload then
    select each || v_answer into v_answer
    from jsonb_array_elements(private.claimed_json(v_live.instance_id, v_live.claim_request_id)) as each
    where (each ->> 'id')::bigint = p_job;
  end if;
  return v_answer;
end;
$$;
comment on function private.worker_job(bigint, integer, boolean) is 'Body of public.worker_job.';
grant execute on function private.worker_job(bigint, integer, boolean) to worker, executor;
create function public.worker_job(p_job bigint, p_attempt integer, p_has_payload boolean default true)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_job(p_job, p_attempt, p_has_payload); end $$;
comment on function public.worker_job(bigint, integer, boolean) is
  'A running attempt as the claim gave it, whether it touched infrastructure, how to cancel it, and how long its runner''s last beat holds.';
grant execute on function public.worker_job(bigint, integer, boolean) to worker, executor;

-- ---------------------------------------------------------------------------------------------- what an executor may call

grant execute on function
  private.worker_report(bigint, integer, public.job_phase, jsonb, jsonb),
    public.worker_report(bigint, integer, public.job_phase, jsonb, jsonb),
  private.worker_append_logs(bigint, integer, jsonb), public.worker_append_logs(bigint, integer, jsonb),
  private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb),
    public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb),
  private.worker_return_job(bigint, integer, text), public.worker_return_job(bigint, integer, text),
  private.worker_put_artifact(bigint, integer, text, text, text), public.worker_put_artifact(bigint, integer, text, text, text),
  private.worker_get_artifact(bigint, integer, text), public.worker_get_artifact(bigint, integer, text),
  private.worker_state_get(bigint, integer), public.worker_state_get(bigint, integer),
  private.worker_state_put(bigint, integer, text, text), public.worker_state_put(bigint, integer, text, text),
  private.worker_state_lock(bigint, integer, jsonb), public.worker_state_lock(bigint, integer, jsonb),
  private.worker_state_unlock(bigint, integer, text), public.worker_state_unlock(bigint, integer, text),
  private.worker_target_token(bigint, integer, text, text), public.worker_target_token(bigint, integer, text, text),
  private.worker_target_update(bigint, integer, jsonb), public.worker_target_update(bigint, integer, jsonb),
  private.worker_target_status(bigint, integer), public.worker_target_status(bigint, integer)
to executor;

revoke execute on all functions in schema private, public from public;
