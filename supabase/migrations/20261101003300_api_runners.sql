-- The API, second half: what runners and executors call with a session's token, and edge functions and the installation
-- with the service key. An executor is what a runner's dispatcher starts in Docker, Kubernetes or ECS to run one job:
-- its token names one job and one attempt, under a role of its own, so it can report, log, use the state and finish
-- that attempt, and nothing else. The fence (check_scope, fenced_job) compares what it names with what its token does.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function public.rate_limit(p_key text, p_limit integer, p_window_seconds integer)
returns boolean language sql set search_path = ''
as $$ select private.rate_limit(p_key, p_limit, p_window_seconds) $$;
comment on function public.rate_limit(text, integer, integer) is
  'Counts an attempt; true while there are at most so many in the window. Edge functions only.';
grant execute on function public.rate_limit(text, integer, integer) to service_role;

create function public.worker_token_hashes(p_worker uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.worker_token_hashes(p_worker); end $$;
comment on function public.worker_token_hashes(uuid) is
  'Hashes of a runner''s live tokens, two at most, to be verified outside of the database. Edge functions only.';
grant execute on function public.worker_token_hashes(uuid) to service_role;

create function public.open_worker_session(
  p_worker uuid, p_instance text, p_boot_id uuid, p_facts jsonb default '{}', p_token uuid default null,
    p_service_account uuid default null
)
returns jsonb language sql set search_path = ''
as $$ select private.open_worker_session(p_worker, p_instance, p_boot_id, p_facts, p_token, p_service_account) $$;
comment on function public.open_worker_session(uuid, text, uuid, jsonb, uuid, uuid) is
  'Opens a session for a process whose token or service account was verified. Refuses a second process while the '
  'first is fresh. Edge functions only.';
grant execute on function public.open_worker_session(uuid, text, uuid, jsonb, uuid, uuid) to service_role;

create function public.renew_worker_session(p_session uuid, p_job bigint default null, p_attempt integer default null)
returns jsonb language sql set search_path = ''
as $$ select private.renew_worker_session(p_session, p_job, p_attempt) $$;
comment on function public.renew_worker_session(uuid, bigint, integer) is
  'Notes that a live session gets a new token; refuses one that ended (but for an executor whose attempt holds the '
  'job), or whose token or account is not good any more. Edge functions only.';
grant execute on function public.renew_worker_session(uuid, bigint, integer) to service_role;

create function public.worker_close_session(p_reason text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_close_session(p_reason); end $$;
comment on function public.worker_close_session(text) is
  'A runner''s process says good-bye: it is OFFLINE at once, not after 60 s.';
grant execute on function public.worker_close_session(text) to worker;

create function public.worker_heartbeat(p_status text, p_version text, p_running jsonb default '[]',
  p_facts jsonb default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_heartbeat(p_status, p_version, p_running, p_facts); end $$;
comment on function public.worker_heartbeat(text, text, jsonb, jsonb) is
  'A runner''s beat: status, version, running attempts, news about the host. Answers what to cancel, what was lost, '
  'drain, update, look for work.';
grant execute on function public.worker_heartbeat(text, text, jsonb, jsonb) to worker;

create function public.worker_claim(p_request_id uuid, p_slots integer default 1)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_claim(p_request_id, p_slots); end $$;
comment on function public.worker_claim(uuid, integer) is
  'Claims up to so many jobs. Repeating a request id gets the same answer, so that a lost reply strands no job.';
grant execute on function public.worker_claim(uuid, integer) to worker;

create function public.worker_report(p_job bigint, p_attempt integer, p_phase public.job_phase,
  p_steps jsonb default null, p_plan_summary jsonb default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_report(p_job, p_attempt, p_phase, p_steps, p_plan_summary); end $$;
comment on function public.worker_report(bigint, integer, public.job_phase, jsonb, jsonb) is
  'A runner reports what it is doing. APPLY and DESTROY must be reported before they begin. Answers how to cancel, if '
  'asked.';
grant execute on function public.worker_report(bigint, integer, public.job_phase, jsonb, jsonb) to worker;

create function public.worker_append_logs(p_job bigint, p_attempt integer, p_chunks jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_append_logs(p_job, p_attempt, p_chunks); end $$;
comment on function public.worker_append_logs(bigint, integer, jsonb) is
  'Appends log chunks [{seq, step, body}]. A chunk that is already there is left as it is, so repeating a call is '
  'harmless.';
grant execute on function public.worker_append_logs(bigint, integer, jsonb) to worker;

create function public.worker_put_artifact(p_job bigint, p_attempt integer, p_name text, p_body_base64 text,
  p_sha256 text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_put_artifact(p_job, p_attempt, p_name, p_body_base64, p_sha256); end $$;
comment on function public.worker_put_artifact(bigint, integer, text, text, text) is
  'Stores a file of a job, such as its saved plan.';
grant execute on function public.worker_put_artifact(bigint, integer, text, text, text) to worker;

create function public.worker_get_artifact(p_job bigint, p_attempt integer, p_name text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_get_artifact(p_job, p_attempt, p_name); end $$;
comment on function public.worker_get_artifact(bigint, integer, text) is
  'Reads a file of the job; for an apply of a saved plan, a file of that plan.';
grant execute on function public.worker_get_artifact(bigint, integer, text) to worker;

create function public.worker_finish(
  p_job bigint, p_attempt integer, p_status text, p_result jsonb default null, p_error jsonb default null,
    p_plan_summary jsonb default null, p_log jsonb default null
)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_finish(p_job, p_attempt, p_status, p_result, p_error, p_plan_summary, p_log); end $$;
comment on function public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) is
  'Ends a job: SUCCEEDED, FAILED or CANCELLED. p_log {last_seq, bytes, sha256} is checked; missing chunks are named '
  'and the job goes on until they came.';
grant execute on function public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb) to worker;

create function public.worker_return_job(p_job bigint, p_attempt integer, p_reason text default null,
  p_code text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_return_job(p_job, p_attempt, p_reason, p_code); end $$;
comment on function public.worker_return_job(bigint, integer, text, text) is
  'A runner that must stop, or that lacks something (p_code), gives a job back before it changed anything; the '
  'attempt does not count. Three runners that lack the same end it FAILED; a job that was asked to stop ends '
  'CANCELLED.';
grant execute on function public.worker_return_job(bigint, integer, text, text) to worker;

create function public.worker_outputs_get(p_job bigint, p_attempt integer, p_org text, p_path text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_outputs_get(p_job, p_attempt, p_org, p_path); end $$;
comment on function public.worker_outputs_get(bigint, integer, text, text) is
  'The outputs of a module that grants them to the job''s, as a state without resources.';
grant execute on function public.worker_outputs_get(bigint, integer, text, text) to worker, executor, engine;

create function public.worker_state_get(p_job bigint, p_attempt integer)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_state_get(p_job, p_attempt); end $$;
comment on function public.worker_state_get(bigint, integer) is 'The state of the job''s module.';
grant execute on function public.worker_state_get(bigint, integer) to worker;

create function public.worker_state_put(p_job bigint, p_attempt integer, p_body text, p_lock_id text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_state_put(p_job, p_attempt, p_body, p_lock_id); end $$;
comment on function public.worker_state_put(bigint, integer, text, text) is
  'Writes the state of the job''s module; refused to a stale attempt, an older serial and another''s lock.';
grant execute on function public.worker_state_put(bigint, integer, text, text) to worker;

create function public.worker_state_lock(p_job bigint, p_attempt integer, p_lock jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_state_lock(p_job, p_attempt, p_lock); end $$;
comment on function public.worker_state_lock(bigint, integer, jsonb) is
  'Locks the state for this attempt; RY423 with the holder''s lock when another job has it.';
grant execute on function public.worker_state_lock(bigint, integer, jsonb) to worker;

create function public.worker_state_unlock(p_job bigint, p_attempt integer, p_lock_id text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_state_unlock(p_job, p_attempt, p_lock_id); end $$;
comment on function public.worker_state_unlock(bigint, integer, text) is
  'Releases the state lock of this attempt. Releasing a lock that is gone is no error.';
grant execute on function public.worker_state_unlock(bigint, integer, text) to worker;

create function public.worker_state_keep(p_job bigint, p_attempt integer, p_number integer, p_body text,
  p_written_at timestamptz default null, p_reason text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_state_keep(p_job, p_attempt, p_number, p_body, p_written_at, p_reason); end $$;
comment on function public.worker_state_keep(bigint, integer, integer, text, timestamptz, text) is
  'Hands over a state that may not be stored any more, because a person released the job; it is kept for a person to '
  'decide about.';
grant execute on function public.worker_state_keep(bigint, integer, integer, text, timestamptz, text) to worker;

create function public.sweep()
returns jsonb language sql set search_path = ''
as $$ select private.sweep() $$;
comment on function public.sweep() is
  'What time does: runners go offline, leases end, pauses end, approvals expire, old things are removed. Harmless to '
  'run twice or not at all. Service key only.';
grant execute on function public.sweep() to service_role;

create function public.worker_recover(p_running jsonb default '[]')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_recover(p_running); end $$;
comment on function public.worker_recover(jsonb) is
  'What a restarted process found on disk, [{job, attempt, is_dead}]. Answers report (it is yours: send logs, then '
  'finish it or name it dead) or drop (it is another''s).';
grant execute on function public.worker_recover(jsonb) to worker;

create function public.worker_target_token(p_job bigint, p_attempt integer, p_token_hash text, p_token_hint text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_target_token(p_job, p_attempt, p_token_hash, p_token_hint); end $$;
comment on function public.worker_target_token(bigint, integer, text, text) is
  'A deploying job gives its target a token (hash only); one that was never used is replaced.';
grant execute on function public.worker_target_token(bigint, integer, text, text) to worker;

create function public.worker_target_update(p_job bigint, p_attempt integer, p_patch jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_target_update(p_job, p_attempt, p_patch); end $$;
comment on function public.worker_target_update(bigint, integer, jsonb) is
  'A deploying job records what it made (cloud: names and ARNs), drains or resumes its target. Answers like '
  'worker_target_status.';
grant execute on function public.worker_target_update(bigint, integer, jsonb) to worker;

create function public.worker_target_status(p_job bigint, p_attempt integer)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_target_status(p_job, p_attempt); end $$;
comment on function public.worker_target_status(bigint, integer) is
  'How the target of a deploying job is: status, versions of its live instances, running jobs.';
grant execute on function public.worker_target_status(bigint, integer) to worker;

create function public.scaling_inputs()
returns jsonb language sql stable set search_path = ''
as $$ select private.scaling_inputs() $$;
comment on function public.scaling_inputs() is
  'What a planner needs to decide how many tasks each cloud-hosted runner should have. Service key only.';
grant execute on function public.scaling_inputs() to service_role;

create function public.record_scaling_decision(p_worker uuid, p_to_count integer, p_reason text,
  p_detail jsonb default '{}', p_dry_run boolean default false)
returns jsonb language sql set search_path = ''
as $$ select private.record_scaling_decision(p_worker, p_to_count, p_reason, p_detail, p_dry_run) $$;
comment on function public.record_scaling_decision(uuid, integer, text, jsonb, boolean) is
  'Writes down a scaling decision and, unless it is a rehearsal, the new count. Service key only.';
grant execute on function public.record_scaling_decision(uuid, integer, text, jsonb, boolean) to service_role;

create function public.service_account_for(p_client_id text)
returns jsonb language sql stable set search_path = ''
as $$ select private.service_account_for(p_client_id) $$;
comment on function public.service_account_for(text) is
  'What an edge function needs to verify a service account: its trust and its secret''s hash; null when there is '
  'none. Edge functions only.';
grant execute on function public.service_account_for(text) to service_role;

create function public.check_worker_credential(p_worker uuid, p_token uuid default null,
  p_service_account uuid default null)
returns void language sql stable set search_path = ''
as $$ select private.check_worker_credential(p_worker, p_token, p_service_account) $$;
comment on function public.check_worker_credential(uuid, uuid, uuid) is
  'Refuses a token or a service account that may not open a session of this runner, and says why. Edge functions only.';
grant execute on function public.check_worker_credential(uuid, uuid, uuid) to service_role;

create function public.start_device_login(p_device_hash text, p_user_code text, p_program text,
  p_address text default '')
returns jsonb language sql set search_path = ''
as $$ select private.start_device_login(p_device_hash, p_user_code, p_program, p_address) $$;
comment on function public.start_device_login(text, text, text, text) is
  'Lets a program wait for somebody to confirm its code. Edge functions only.';
grant execute on function public.start_device_login(text, text, text, text) to service_role;

create function public.take_device_login(p_device_hash text)
returns jsonb language sql set search_path = ''
as $$ select private.take_device_login(p_device_hash) $$;
comment on function public.take_device_login(text) is
  'What became of a program that waits: {status: pending, declined, expired or confirmed, user_id}; good for one '
  'login. '
  'Edge functions only.';
grant execute on function public.take_device_login(text) to service_role;

create function public.use_service_account(p_account uuid)
returns jsonb language sql set search_path = ''
as $$ select private.use_service_account(p_account) $$;
comment on function public.use_service_account(uuid) is
  'Notes that a service account signs in to act, and says as what {role, version}; refuses one without a role. Edge '
  'functions only.';
grant execute on function public.use_service_account(uuid) to service_role;

create function public.publish_release(p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.publish_release(p_spec) $$;
comment on function public.publish_release(jsonb) is
  'Publishes a release {version, channel, notes, is_breaking, artifacts}; the same again is no error. Service key '
  'only.';
grant execute on function public.publish_release(jsonb) to service_role;

create function public.withdraw_release(p_version text, p_reason text)
returns jsonb language sql set search_path = ''
as $$ select private.withdraw_release(p_version, p_reason) $$;
comment on function public.withdraw_release(text, text) is
  'Withdraws a release: no runner is updated to it any more. Service key only.';
grant execute on function public.withdraw_release(text, text) to service_role;

create function public.ensure_shared_worker(p_name text, p_token_hash text, p_token_hint text,
  p_options jsonb default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.ensure_shared_worker(p_name, p_token_hash, p_token_hint, p_options) $$;
comment on function public.ensure_shared_worker(text, text, text, jsonb) is
  'Makes or changes a shared runner as the installation''s configuration says. A new token hash replaces the old one. '
  'Service key only.';
grant execute on function public.ensure_shared_worker(text, text, text, jsonb) to service_role;

create function public.remove_shared_worker(p_name text)
returns jsonb language sql set search_path = ''
as $$ select private.remove_shared_worker(p_name) $$;
comment on function public.remove_shared_worker(text) is
  'Removes a shared runner that left the installation''s configuration. Service key only.';
grant execute on function public.remove_shared_worker(text) to service_role;

create function public.worker_scaling_inputs(p_except uuid[] default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.worker_scaling_inputs(p_except) $$;
comment on function public.worker_scaling_inputs(uuid[]) is
  'Takes the right to decide where nobody has it, but for those organisations, and answers with what the planner '
  'needs of each deployed runner that no job is at work on.';
grant execute on function public.worker_scaling_inputs(uuid[]) to worker;

create function public.worker_scaling_decided(p_worker uuid, p_decision jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.worker_scaling_decided(p_worker, p_decision) $$;
comment on function public.worker_scaling_decided(uuid, jsonb) is
  'Writes down what was decided about a runner: {desired, verdict, reason, load, memory, dry_run}. A row in '
  'scaling_decisions only where something changed.';
grant execute on function public.worker_scaling_decided(uuid, jsonb) to worker;

create function public.worker_job(p_job bigint, p_attempt integer, p_has_payload boolean default true)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.worker_job(p_job, p_attempt, p_has_payload); end $$;
comment on function public.worker_job(bigint, integer, boolean) is
  'A running attempt as the claim gave it, whether it touched infrastructure, how to cancel it, and how long its '
  'runner''s last beat holds.';
grant execute on function public.worker_job(bigint, integer, boolean) to worker, executor;

create function public.set_organization_makers(p_who public.organization_makers)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_organization_makers(p_who); end $$;
comment on function public.set_organization_makers(public.organization_makers) is
  'Says who may make organisations on this installation: EVERYBODY, or OWNERS of one. Service key only.';
grant execute on function public.set_organization_makers(public.organization_makers) to service_role;

create function public.open_transactions()
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.open_transactions(); end $$;
comment on function public.open_transactions() is
  'The five oldest open transactions {pid, role, application, state, seconds}: an old one makes every claim slower. '
  'Service key only.';
grant execute on function public.open_transactions() to service_role;

create function public.installation_health()
returns jsonb language sql stable set search_path = ''
as $$ select private.installation_health() $$;
comment on function public.installation_health() is
  'What the database says of itself: connections, the oldest transaction, the last sweep, what is published. Service '
  'key only.';
grant execute on function public.installation_health() to service_role;

create function public.set_installation_maintenance(p_until timestamptz default null, p_reason text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_installation_maintenance(p_until, p_reason); end $$;
comment on function public.set_installation_maintenance(timestamptz, text) is
  'Until then no runner takes a job of any organisation; what runs, finishes. Without a time it ends at once. Service '
  'key only.';
grant execute on function public.set_installation_maintenance(timestamptz, text) to service_role;

create function public.set_shared_worker(p_name text, p_action text, p_reason text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_shared_worker(p_name, p_action, p_reason); end $$;
comment on function public.set_shared_worker(text, text, text) is
  'Lets a shared runner drain or resume, disables or enables it, or ends its sessions. Service key only.';
grant execute on function public.set_shared_worker(text, text, text) to service_role;

-- ---------------------------------------------------------------------------------------------- what an executor may
-- call

grant execute on function
  private.worker_report(bigint, integer, public.job_phase, jsonb, jsonb),
    public.worker_report(bigint, integer, public.job_phase, jsonb, jsonb),
  private.worker_append_logs(bigint, integer, jsonb), public.worker_append_logs(bigint, integer, jsonb),
  private.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb),
    public.worker_finish(bigint, integer, text, jsonb, jsonb, jsonb, jsonb),
  private.worker_return_job(bigint, integer, text, text), public.worker_return_job(bigint, integer, text, text),
  private.worker_put_artifact(bigint, integer, text, text, text), public.worker_put_artifact(bigint, integer, text,
    text, text),
  private.worker_get_artifact(bigint, integer, text), public.worker_get_artifact(bigint, integer, text),
  private.worker_state_get(bigint, integer), public.worker_state_get(bigint, integer),
  private.worker_state_put(bigint, integer, text, text), public.worker_state_put(bigint, integer, text, text),
  private.worker_state_lock(bigint, integer, jsonb), public.worker_state_lock(bigint, integer, jsonb),
  private.worker_state_unlock(bigint, integer, text), public.worker_state_unlock(bigint, integer, text),
  private.worker_state_keep(bigint, integer, integer, text, timestamptz, text),
    public.worker_state_keep(bigint, integer, integer, text, timestamptz, text),
  private.worker_target_token(bigint, integer, text, text), public.worker_target_token(bigint, integer, text, text),
  private.worker_target_update(bigint, integer, jsonb), public.worker_target_update(bigint, integer, jsonb),
  private.worker_target_status(bigint, integer), public.worker_target_status(bigint, integer)
to executor;

-- ---------------------------------------------------------------------------------------------- what an engine may
-- call

grant execute on function private.worker_state_get(bigint, integer), public.worker_state_get(bigint, integer) to engine;

revoke execute on all functions in schema private, public from public;
