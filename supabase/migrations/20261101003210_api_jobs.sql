-- The surface, continued: what members call about jobs, modules and states, and what pages list.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function public.grant_outputs(p_module uuid, p_reader uuid)
returns jsonb language sql set search_path = ''
as $$ select private.grant_outputs(p_module, p_reader) $$;
comment on function public.grant_outputs(uuid, uuid) is
  'Lets the jobs of one module read the outputs of another. Admins.';
grant execute on function public.grant_outputs(uuid, uuid) to authenticated;

create function public.revoke_outputs(p_module uuid, p_reader uuid)
returns jsonb language sql set search_path = ''
as $$ select private.revoke_outputs(p_module, p_reader) $$;
comment on function public.revoke_outputs(uuid, uuid) is 'Takes that away again, at once. Admins.';
grant execute on function public.revoke_outputs(uuid, uuid) to authenticated;

create function public.upload_source(p_module uuid, p_body_base64 text, p_sha256 text)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.upload_source(p_module, p_body_base64, p_sha256); end $$;
comment on function public.upload_source(uuid, text, text) is
  'Takes a packed folder to be planned as the module''s code (enqueue_job, option upload_id); it waits for an hour. '
  'Operators.';
grant execute on function public.upload_source(uuid, text, text) to authenticated;

create function public.enqueue_job(p_org uuid, p_type public.job_type, p_module uuid, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.enqueue_job(p_org, p_type, p_module, p_options); end $$;
comment on function public.enqueue_job(uuid, public.job_type, uuid, jsonb) is
  'Enqueues a job for a module, with everything frozen that the runner will need. Idempotent by its key. Operators.';
grant execute on function public.enqueue_job(uuid, public.job_type, uuid, jsonb) to authenticated;

create function public.enqueue_jobs(p_org uuid, p_type public.job_type, p_modules uuid[], p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.enqueue_jobs(p_org, p_type, p_modules, p_options); end $$;
comment on function public.enqueue_jobs(uuid, public.job_type, uuid[], jsonb) is
  'Enqueues a job for each of up to 1,000 modules, all or none, and returns their numbers, modules and statuses. '
  'Idempotent by its key. Operators.';
grant execute on function public.enqueue_jobs(uuid, public.job_type, uuid[], jsonb) to authenticated;

create function public.fleet_overview(p_org uuid, p_workers uuid[] default null)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.fleet_overview(p_org, p_workers); end $$;
comment on function public.fleet_overview(uuid, uuid[]) is
  'Counts of an organisation, and live numbers of the runners named, 1,000 at most: status, last heartbeat, load per '
  'instance. Members.';
grant execute on function public.fleet_overview(uuid, uuid[]) to authenticated;

create function public.list_jobs(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'active',
    p_limit integer default 50,
  p_offset integer default 0, p_before bigint default null
)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_jobs(p_org, p_search, p_filters, p_sort, p_limit, p_offset, p_before); end $$;
comment on function public.list_jobs(uuid, text, jsonb, text, integer, integer, bigint) is
  'A page of jobs {total, counts by status, rows}, running ones first or newest first; filters {status, type, '
  'module_id, worker_id}. Members.';
grant execute on function public.list_jobs(uuid, text, jsonb, text, integer, integer, bigint) to authenticated;

create function public.list_modules(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'path',
    p_limit integer default 50,
  p_offset integer default 0
)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_modules(p_org, p_search, p_filters, p_sort, p_limit, p_offset); end $$;
comment on function public.list_modules(uuid, text, jsonb, text, integer, integer) is
  'A page of modules {total, drifted, counts by group, rows with their last job}: search, '
  'filters {group_path, in_group, drift}, order path, -path, newest. Members.';
grant execute on function public.list_modules(uuid, text, jsonb, text, integer, integer) to authenticated;

create function public.upsert_group(p_org uuid, p_path text, p_description text default null,
  p_hooks jsonb default null, p_env jsonb default null)
returns jsonb language sql set search_path = ''
as $$ select private.upsert_group(p_org, p_path, p_description, p_hooks, p_env) $$;
comment on function public.upsert_group(uuid, text, text, jsonb, jsonb) is
  'Creates or changes a group, and creates the groups above it. Operators.';
grant execute on function public.upsert_group(uuid, text, text, jsonb, jsonb) to authenticated;

create function public.delete_group(p_group uuid)
returns jsonb language sql set search_path = ''
as $$ select private.delete_group(p_group) $$;
comment on function public.delete_group(uuid) is 'Deletes an empty group. Admins.';
grant execute on function public.delete_group(uuid) to authenticated;

create function public.create_module(p_org uuid, p_group_path text, p_name text, p_spec jsonb default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.create_module(p_org, p_group_path, p_name, p_spec) $$;
comment on function public.create_module(uuid, text, text, jsonb) is
  'Creates a module, and its groups where they are missing. Operators.';
grant execute on function public.create_module(uuid, text, text, jsonb) to authenticated;

create function public.update_module(p_module uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_module(p_module, p_spec) $$;
comment on function public.update_module(uuid, jsonb) is
  'Changes the fields of a module that are named. Jobs that are already queued keep what they had. Operators; admins '
  'to lower approvals_required.';
grant execute on function public.update_module(uuid, jsonb) to authenticated;

create function public.delete_module(p_module uuid, p_confirm_name text)
returns jsonb language sql set search_path = ''
as $$ select private.delete_module(p_module, p_confirm_name) $$;
comment on function public.delete_module(uuid, text) is
  'Removes a module from the tree, with its name as confirmation. What it created in the world stays. Admins.';
grant execute on function public.delete_module(uuid, text) to authenticated;

create function public.approve_job(p_job bigint, p_decision text, p_comment text default null,
  p_override_reason text default null)
returns jsonb language sql set search_path = ''
as $$ select private.approve_job(p_job, p_decision, p_comment, p_override_reason) $$;
comment on function public.approve_job(bigint, text, text, text) is
  'Approves (or confirms) or rejects a job that waits for somebody, once per member; who asked for it does not '
  'approve it, unless an owner is alone and says why, but may confirm its plan where no approval is asked for. Refused '
  'when the state has moved on since the plan. The last approval needed queues it. Operators.';
grant execute on function public.approve_job(bigint, text, text, text) to authenticated;

create function public.cancel_job(p_job bigint, p_kind public.cancel_kind default 'GRACEFUL',
  p_reason text default null)
returns jsonb language sql set search_path = ''
as $$ select private.cancel_job(p_job, p_kind, p_reason) $$;
comment on function public.cancel_job(bigint, public.cancel_kind, text) is
  'Cancels a job that has not begun at once, and asks the runner to stop one that has: after the step, gracefully, or '
  'now. Operators.';
grant execute on function public.cancel_job(bigint, public.cancel_kind, text) to authenticated;

create function public.retry_job(p_job bigint, p_reason text default null)
returns jsonb language sql set search_path = ''
as $$ select private.retry_job(p_job, p_reason) $$;
comment on function public.retry_job(bigint, text) is
  'Enqueues a failed or cancelled job again, as a new job with the same frozen payload and the larger number of '
  'approvals. Operators; admins for runners'' own jobs.';
grant execute on function public.retry_job(bigint, text) to authenticated;

create function public.resolve_attention(p_job bigint, p_action text, p_proof text default null)
returns jsonb language sql set search_path = ''
as $$ select private.resolve_attention(p_job, p_action, p_proof) $$;
comment on function public.resolve_attention(bigint, text, text) is
  'The way out of NEEDS_ATTENTION: refresh_plan (look first), retry, mark_failed, release_lock (with the lock''s id '
  'as proof). Operators.';
grant execute on function public.resolve_attention(bigint, text, text) to authenticated;

create function public.explain_queue(p_job bigint)
returns jsonb language sql set search_path = ''
as $$ select private.explain_queue(p_job) $$;
comment on function public.explain_queue(bigint) is
  'Why a queued job waits: the best 20 runners with one reason each, counts per reason, its place in line, and what '
  'would help. Members.';
grant execute on function public.explain_queue(bigint) to authenticated;

create function public.state_info(p_module uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.state_info(p_module) $$;
comment on function public.state_info(uuid) is
  'A module''s state: serial, size, lock and history, without its text. Members.';
grant execute on function public.state_info(uuid) to authenticated;

create function public.state_version(p_module uuid, p_serial bigint)
returns jsonb language sql set search_path = ''
as $$ select private.state_version(p_module, p_serial) $$;
comment on function public.state_version(uuid, bigint) is
  'The text of one version of a state (body), with who wrote it. Reading it is audited. Admins.';
grant execute on function public.state_version(uuid, bigint) to authenticated;

create function public.kept_states(p_job bigint)
returns jsonb language sql stable set search_path = ''
as $$ select private.kept_states(p_job) $$;
comment on function public.kept_states(bigint) is
  'States that a job wrote and that were not stored, newest first, without their text: a person released the job '
  'meanwhile. Members.';
grant execute on function public.kept_states(bigint) to authenticated;

create function public.kept_state(p_id uuid)
returns jsonb language sql set search_path = ''
as $$ select private.kept_state(p_id) $$;
comment on function public.kept_state(uuid) is
  'The text of a state that was not stored (body). Reading it is audited. Admins.';
grant execute on function public.kept_state(uuid) to authenticated;

create function public.store_kept_state(p_id uuid)
returns jsonb language sql set search_path = ''
as $$ select private.store_kept_state(p_id) $$;
comment on function public.store_kept_state(uuid) is
  'Makes a state that was not stored the module''s state, as its newest version; refused while a job uses the state. '
  'Admins.';
grant execute on function public.store_kept_state(uuid) to authenticated;

create function public.discard_kept_state(p_id uuid)
returns jsonb language sql set search_path = ''
as $$ select private.discard_kept_state(p_id) $$;
comment on function public.discard_kept_state(uuid) is
  'Decides that a state that was not stored is not needed; its text is removed, that it was there stays. Admins.';
grant execute on function public.discard_kept_state(uuid) to authenticated;

create function public.force_unlock_state(p_module uuid, p_lock_id text)
returns jsonb language sql set search_path = ''
as $$ select private.force_unlock_state(p_module, p_lock_id) $$;
comment on function public.force_unlock_state(uuid, text) is
  'Releases a state lock that no running job holds; the lock''s id is the proof of having looked. Admins.';
grant execute on function public.force_unlock_state(uuid, text) to authenticated;

revoke execute on all functions in schema private, public from public;
