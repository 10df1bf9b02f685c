-- The API: the product's whole surface, every function that anybody outside of the database calls. Each is a thin
-- wrapper that runs as its caller; the body with the rights and the checks is the function of the same name in
-- `private`. First what people call from pages or with their own token, then what runners and executors call with a
-- session's token, and edge functions and the installation with the service key.
-- An executor is what a runner's dispatcher starts in Docker, Kubernetes or ECS to run one job: its token names one job
-- and one attempt, under a role of its own, so it can report, log, use the state and finish that attempt, and nothing
-- else. The fence (check_scope, fenced_job) compares what it names with what its token does.
set lock_timeout = '5s';
set statement_timeout = '60s';

-- ----------------------------------------------------------- what people call about their organisation and its runners

create function public.create_organization(p_name text, p_slug text)
returns jsonb language sql set search_path = ''
as $$ select private.create_organization(p_name, p_slug) $$;
comment on function public.create_organization(text, text) is 'Creates an organisation; the caller becomes its owner.';
grant execute on function public.create_organization(text, text) to authenticated;

create function public.organization_makers()
returns jsonb language sql stable set search_path = ''
as $$ select private.organization_makers() $$;
comment on function public.organization_makers() is
  'Says who may make organisations on this installation, and whether the caller may.';
grant execute on function public.organization_makers() to authenticated;

create function public.update_organization(
  p_org uuid, p_name text default null, p_log_retention_days integer default null,
    p_can_approve_own_jobs boolean default null
)
returns jsonb language sql set search_path = ''
as $$ select private.update_organization(p_org, p_name, p_log_retention_days, p_can_approve_own_jobs) $$;
comment on function public.update_organization(uuid, text, integer, boolean) is
  'Changes an organisation''s name, how long it keeps logs, whether people may approve their own jobs. Owners.';
grant execute on function public.update_organization(uuid, text, integer, boolean) to authenticated;

create function public.my_organizations()
returns jsonb language sql stable set search_path = ''
as $$ select private.my_organizations() $$;
comment on function public.my_organizations() is 'The caller''s organisations with their role in each.';
grant execute on function public.my_organizations() to authenticated;

create function public.invite_member(p_org uuid, p_email text, p_role public.member_role, p_token_hash text)
returns jsonb language sql set search_path = ''
as $$ select private.invite_member(p_org, p_email, p_role, p_token_hash) $$;
comment on function public.invite_member(uuid, text, public.member_role, text) is
  'Invites an address; the caller made the link''s secret and sends only its SHA-256 (hex). Admins; owners for owners.';
grant execute on function public.invite_member(uuid, text, public.member_role, text) to authenticated;

create function public.accept_invitation(p_invitation uuid, p_token_hash text)
returns jsonb language sql set search_path = ''
as $$ select private.accept_invitation(p_invitation, p_token_hash) $$;
comment on function public.accept_invitation(uuid, text) is
  'Accepts an invitation: the link''s secret (as SHA-256) and the invited email address must both match.';
grant execute on function public.accept_invitation(uuid, text) to authenticated;

create function public.revoke_invitation(p_invitation uuid)
returns jsonb language sql set search_path = ''
as $$ select private.revoke_invitation(p_invitation) $$;
comment on function public.revoke_invitation(uuid) is 'Withdraws an invitation. Admins.';
grant execute on function public.revoke_invitation(uuid) to authenticated;

create function public.set_member_role(p_org uuid, p_user uuid, p_role public.member_role)
returns jsonb language sql set search_path = ''
as $$ select private.set_member_role(p_org, p_user, p_role) $$;
comment on function public.set_member_role(uuid, uuid, public.member_role) is
  'Changes a member''s role. Admins; only owners make or unmake owners.';
grant execute on function public.set_member_role(uuid, uuid, public.member_role) to authenticated;

create function public.remove_member(p_org uuid, p_user uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_member(p_org, p_user) $$;
comment on function public.remove_member(uuid, uuid) is
  'Removes a member; everybody may leave. Admins; only owners remove owners.';
grant execute on function public.remove_member(uuid, uuid) to authenticated;

create function public.member_sign_ins(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.member_sign_ins(p_org); end $$;
comment on function public.member_sign_ins(uuid) is
  'Which members have two-step sign-in, and when each last signed in. Admins.';
grant execute on function public.member_sign_ins(uuid) to authenticated;

create function public.device_login(p_user_code text)
returns jsonb language sql set search_path = ''
as $$ select private.device_login(p_user_code) $$;
comment on function public.device_login(text) is
  'The program that waits with a code {program, address, created_at, expires_at}. Everybody who is signed in.';
grant execute on function public.device_login(text) to authenticated;

create function public.decide_device_login(p_user_code text, p_is_confirmed boolean)
returns jsonb language sql set search_path = ''
as $$ select private.decide_device_login(p_user_code, p_is_confirmed) $$;
comment on function public.decide_device_login(text, boolean) is
  'Signs the program that shows this code in as the caller, or declines it. Everybody who is signed in.';
grant execute on function public.decide_device_login(text, boolean) to authenticated;

create function public.create_personal_token(p_name text, p_token_hash text, p_hint text, p_days integer default 90)
returns jsonb language sql set search_path = ''
as $$ select private.create_personal_token(p_name, p_token_hash, p_hint, p_days) $$;
comment on function public.create_personal_token(text, text, text, integer) is
  'Keeps the hash of a token with which the caller''s programs act as them, for so many days. Everybody who is signed '
  'in.';
grant execute on function public.create_personal_token(text, text, text, integer) to authenticated;

create function public.my_personal_tokens()
returns jsonb language sql stable set search_path = ''
as $$ select private.my_personal_tokens() $$;
comment on function public.my_personal_tokens() is
  'The caller''s own tokens [{id, name, hint, created_at, expires_at, last_used_at, is_live}]. Everybody who is signed '
  'in.';
grant execute on function public.my_personal_tokens() to authenticated;

create function public.revoke_personal_token(p_token uuid)
returns jsonb language sql set search_path = ''
as $$ select private.revoke_personal_token(p_token) $$;
comment on function public.revoke_personal_token(uuid) is
  'Ends one of the caller''s tokens, and all that it was exchanged for, at once. Everybody who is signed in.';
grant execute on function public.revoke_personal_token(uuid) to authenticated;

create function public.register_worker(p_org uuid, p_name text, p_token_hash text, p_token_hint text,
  p_options jsonb default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.register_worker(p_org, p_name, p_token_hash, p_token_hint, p_options) $$;
comment on function public.register_worker(uuid, text, text, text, jsonb) is
  'Registers a self-hosted runner. The caller made its token and sends only the bcrypt hash. Admins.';
grant execute on function public.register_worker(uuid, text, text, text, jsonb) to authenticated;

create function public.update_worker(p_worker uuid, p_options jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_worker(p_worker, p_options) $$;
comment on function public.update_worker(uuid, jsonb) is
  'Changes a runner''s settings; only what is given changes. Admins.';
grant execute on function public.update_worker(uuid, jsonb) to authenticated;

create function public.assign_worker(p_worker uuid, p_path text)
returns jsonb language sql set search_path = ''
as $$ select private.assign_worker(p_worker, p_path) $$;
comment on function public.assign_worker(uuid, text) is
  'Lets a runner serve modules at or below a path; "" is all modules. Admins.';
grant execute on function public.assign_worker(uuid, text) to authenticated;

create function public.unassign_worker(p_worker uuid, p_path text)
returns jsonb language sql set search_path = ''
as $$ select private.unassign_worker(p_worker, p_path) $$;
comment on function public.unassign_worker(uuid, text) is 'Takes an assignment away. Running jobs go on. Admins.';
grant execute on function public.unassign_worker(uuid, text) to authenticated;

create function public.rotate_worker_token(p_worker uuid, p_token_hash text, p_token_hint text,
  p_overlap_seconds integer default 86400)
returns jsonb language sql set search_path = ''
as $$ select private.rotate_worker_token(p_worker, p_token_hash, p_token_hint, p_overlap_seconds) $$;
comment on function public.rotate_worker_token(uuid, text, text, integer) is
  'Gives a runner a new token; the present one, and the sessions that it opened, stay good for the overlap. Admins.';
grant execute on function public.rotate_worker_token(uuid, text, text, integer) to authenticated;

create function public.revoke_worker_token(p_token uuid)
returns jsonb language sql set search_path = ''
as $$ select private.revoke_worker_token(p_token) $$;
comment on function public.revoke_worker_token(uuid) is
  'Revokes a token and ends the sessions that it opened, at once. Admins.';
grant execute on function public.revoke_worker_token(uuid) to authenticated;

create function public.list_worker_tokens(p_worker uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.list_worker_tokens(p_worker) $$;
comment on function public.list_worker_tokens(uuid) is
  'A runner''s tokens: hint, creation, expiry, last use; never the token or its hash. Admins.';
grant execute on function public.list_worker_tokens(uuid) to authenticated;

create function public.set_worker_disabled(p_worker uuid, p_disabled boolean)
returns jsonb language sql set search_path = ''
as $$ select private.set_worker_disabled(p_worker, p_disabled) $$;
comment on function public.set_worker_disabled(uuid, boolean) is
  'Disables or enables a runner. A disabled one gets no new jobs. Admins.';
grant execute on function public.set_worker_disabled(uuid, boolean) to authenticated;

create function public.drain_worker(p_worker uuid, p_reason text default null)
returns jsonb language sql set search_path = ''
as $$ select private.drain_worker(p_worker, p_reason) $$;
comment on function public.drain_worker(uuid, text) is
  'Lets a runner finish what it has and take nothing new. Operators.';
grant execute on function public.drain_worker(uuid, text) to authenticated;

create function public.resume_worker(p_worker uuid)
returns jsonb language sql set search_path = ''
as $$ select private.resume_worker(p_worker) $$;
comment on function public.resume_worker(uuid) is 'Ends a drain. Operators.';
grant execute on function public.resume_worker(uuid) to authenticated;

create function public.remove_worker(p_worker uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_worker(p_worker) $$;
comment on function public.remove_worker(uuid) is
  'Removes a runner that was started by you: its sessions end, its jobs are requeued or flagged. Admins.';
grant execute on function public.remove_worker(uuid) to authenticated;

create function public.deploy_worker(p_org uuid, p_name text, p_cloud_identity uuid, p_region text,
  p_options jsonb default '{}')
returns jsonb language sql set search_path = ''
as $$ select private.deploy_worker(p_org, p_name, p_cloud_identity, p_region, p_options) $$;
comment on function public.deploy_worker(uuid, text, uuid, text, jsonb) is
  'Registers a cloud-hosted runner (or finds it by its name) and queues the DEPLOY_WORKER job. Options: cpu, memory, '
  'image, version and a runner''s settings. Admins.';
grant execute on function public.deploy_worker(uuid, text, uuid, text, jsonb) to authenticated;

create function public.remove_cloud_worker(p_worker uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_cloud_worker(p_worker) $$;
comment on function public.remove_cloud_worker(uuid) is
  'Drains a cloud-hosted runner and queues the REMOVE_WORKER job; it goes when that job has succeeded. Admins.';
grant execute on function public.remove_cloud_worker(uuid) to authenticated;

create function public.update_one_worker(p_worker uuid, p_version text default null)
returns jsonb language sql set search_path = ''
as $$ select private.update_one_worker(p_worker, p_version) $$;
comment on function public.update_one_worker(uuid, text) is
  'Queues the update of one runner, in a cloud or one that updates itself, to the newest stable release or to a named '
  'one, also an older one. Admins.';
grant execute on function public.update_one_worker(uuid, text) to authenticated;

create function public.update_outdated_workers(p_org uuid)
returns jsonb language sql set search_path = ''
as $$ select private.update_outdated_workers(p_org) $$;
comment on function public.update_outdated_workers(uuid) is
  'Starts a rollout: UPDATE_WORKER jobs for the outdated runners that a job can update (cloud-hosted, or updating '
  'themselves), in waves. Admins.';
grant execute on function public.update_outdated_workers(uuid) to authenticated;

create function public.pause_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.pause_rollout(p_rollout) $$;
comment on function public.pause_rollout(uuid) is 'Begins no further wave. Jobs that are queued go on. Admins.';
grant execute on function public.pause_rollout(uuid) to authenticated;

create function public.resume_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.resume_rollout(p_rollout) $$;
comment on function public.resume_rollout(uuid) is 'Goes on with a paused rollout; what failed stays as it is. Admins.';
grant execute on function public.resume_rollout(uuid) to authenticated;

create function public.abort_rollout(p_rollout uuid)
returns jsonb language sql set search_path = ''
as $$ select private.abort_rollout(p_rollout) $$;
comment on function public.abort_rollout(uuid) is
  'Ends a rollout and cancels its queued jobs. Runners that were updated stay updated. Admins.';
grant execute on function public.abort_rollout(uuid) to authenticated;

create function public.create_cloud_identity(p_org uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.create_cloud_identity(p_org, p_spec) $$;
comment on function public.create_cloud_identity(uuid, jsonb) is
  'Adds a place to deploy runners to: {name, role_arn, regions, account_id, network}. Its external id is made here. '
  'Admins.';
grant execute on function public.create_cloud_identity(uuid, jsonb) to authenticated;

create function public.update_cloud_identity(p_identity uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_cloud_identity(p_identity, p_spec) $$;
comment on function public.update_cloud_identity(uuid, jsonb) is
  'Changes the fields of a cloud identity that are named. Admins.';
grant execute on function public.update_cloud_identity(uuid, jsonb) to authenticated;

create function public.remove_cloud_identity(p_identity uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_cloud_identity(p_identity) $$;
comment on function public.remove_cloud_identity(uuid) is 'Removes a cloud identity that no runner uses. Admins.';
grant execute on function public.remove_cloud_identity(uuid) to authenticated;

create function public.create_service_account(p_org uuid, p_spec jsonb, p_secret_hash text default null,
  p_secret_hint text default null)
returns jsonb language sql set search_path = ''
as $$ select private.create_service_account(p_org, p_spec, p_secret_hash, p_secret_hint) $$;
comment on function public.create_service_account(uuid, jsonb, text, text) is
  'Makes a service account {name, path, description, trusts, role}, with a secret (bcrypt hash) or without. Admins.';
grant execute on function public.create_service_account(uuid, jsonb, text, text) to authenticated;

create function public.update_service_account(p_account uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_service_account(p_account, p_spec) $$;
comment on function public.update_service_account(uuid, jsonb) is
  'Changes the fields of a service account that are named; disabling ends its sessions at once. Admins.';
grant execute on function public.update_service_account(uuid, jsonb) to authenticated;

create function public.rotate_service_account_secret(p_account uuid, p_secret_hash text, p_secret_hint text)
returns jsonb language sql set search_path = ''
as $$ select private.rotate_service_account_secret(p_account, p_secret_hash, p_secret_hint) $$;
comment on function public.rotate_service_account_secret(uuid, text, text) is
  'Gives a service account a new secret (bcrypt hash); the old one is void at once, and the account''s sessions end. '
  'Admins.';
grant execute on function public.rotate_service_account_secret(uuid, text, text) to authenticated;

create function public.remove_service_account(p_account uuid)
returns jsonb language sql set search_path = ''
as $$ select private.remove_service_account(p_account) $$;
comment on function public.remove_service_account(uuid) is 'Removes a service account that no runner uses. Admins.';
grant execute on function public.remove_service_account(uuid) to authenticated;

create function public.verify_cloud_identity(p_identity uuid)
returns jsonb language sql set search_path = ''
as $$ select private.verify_cloud_identity(p_identity) $$;
comment on function public.verify_cloud_identity(uuid) is
  'Queues the job that tries a cloud identity in all of its regions, or finds the one that is under way; verified_at '
  'or verification_error follow from it. Admins.';
grant execute on function public.verify_cloud_identity(uuid) to authenticated;

create function public.fleet_stats(p_org uuid, p_hours integer default 24)
returns jsonb language sql stable set search_path = ''
as $$ select private.fleet_stats(p_org, p_hours) $$;
comment on function public.fleet_stats(uuid, integer) is
  'Queue wait (p50, p95), throughput, pass rate and utilisation per hour, the present hour last, and what is going on '
  'now. Members.';
grant execute on function public.fleet_stats(uuid, integer) to authenticated;

create function public.worker_history(p_worker uuid, p_hours integer default 24)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.worker_history(p_worker, p_hours); end $$;
comment on function public.worker_history(uuid, integer) is
  'A runner''s quarters of an hour [{at, heartbeats, status, load}]; one that is missing had no heartbeat. Members.';
grant execute on function public.worker_history(uuid, integer) to authenticated;

create function public.maintenance(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.my_maintenance(p_org); end $$;
comment on function public.maintenance(uuid) is
  'The maintenance that keeps the organisation''s jobs waiting, {scope, until, reason}, or null. Members.';
grant execute on function public.maintenance(uuid) to authenticated;

create function public.set_maintenance(p_org uuid, p_until timestamptz default null, p_reason text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_maintenance(p_org, p_until, p_reason); end $$;
comment on function public.set_maintenance(uuid, timestamptz, text) is
  'Until then no runner takes a job of the organisation; what runs, finishes. Without a time it ends at once. Admins.';
grant execute on function public.set_maintenance(uuid, timestamptz, text) to authenticated;

create function public.set_shared_runners(p_org uuid, p_use public.shared_use)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_shared_runners(p_org, p_use); end $$;
comment on function public.set_shared_runners(uuid, public.shared_use) is
  'When shared runners may take the organisation''s jobs: NEVER, NONE_FITS (no own runner is set up for it) or '
  'NONE_AVAILABLE. Admins.';
grant execute on function public.set_shared_runners(uuid, public.shared_use) to authenticated;

-- -------------------------------------------------------------------------------------------- jobs, modules and states

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
returns json language plpgsql set search_path = ''
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

create function public.list_events(p_org uuid, p_search text default null, p_filters jsonb default '{}',
  p_limit integer default 50, p_offset integer default 0)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_events(p_org, p_search, p_filters, p_limit, p_offset); end $$;
comment on function public.list_events(uuid, text, jsonb, integer, integer) is
  'Events of runners and jobs {rows, has_more}, newest first; the search is in event, reason, who, instance and '
  'runner, among the newest 50,000 of each kind; filters {kind: job or runner, event, worker_id, job_id, since, '
  'until}. Members.';
grant execute on function public.list_events(uuid, text, jsonb, integer, integer) to authenticated;

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
  'Creates a module, and its groups where they are missing. Operators; admins for can_apply_uploads.';
grant execute on function public.create_module(uuid, text, text, jsonb) to authenticated;

create function public.update_module(p_module uuid, p_spec jsonb)
returns jsonb language sql set search_path = ''
as $$ select private.update_module(p_module, p_spec) $$;
comment on function public.update_module(uuid, jsonb) is
  'Changes the fields of a module that are named. Jobs that are already queued keep what they had. Operators; admins '
  'to lower approvals_required, and for can_apply_uploads and is_temporary.';
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

-- --------------------------------------------------------------------------------------------------- reviews and locks

create function public.plan_changes(p_job bigint, p_address text default null)
returns jsonb language sql stable set search_path = ''
as $$ select private.plan_changes(p_job, p_address) $$;
comment on function public.plan_changes(bigint, text) is
  'What a job''s plan changes, attribute by attribute (old, new, known after apply), of one resource or of all; '
  'sensitive values are masked. Members.';
grant execute on function public.plan_changes(bigint, text) to authenticated;

create function public.comment_on_job(p_job bigint, p_body text)
returns jsonb language sql set search_path = ''
as $$ select private.comment_on_job(p_job, p_body) $$;
comment on function public.comment_on_job(bigint, text) is
  'Says something about a job to everybody who looks at it. Members.';
grant execute on function public.comment_on_job(bigint, text) to authenticated;

create function public.state_resources(p_module uuid, p_search text default '')
returns jsonb language sql stable set search_path = ''
as $$ select private.state_resources(p_module, p_search) $$;
comment on function public.state_resources(uuid, text) is
  'What a module''s state knows: how many resources, the first 500 by address that have these words in it, counts by '
  'type, and the outputs; sensitive values are masked. Members.';
grant execute on function public.state_resources(uuid, text) to authenticated;

create function public.roll_back_state(p_module uuid, p_serial bigint)
returns jsonb language sql set search_path = ''
as $$ select private.roll_back_state(p_module, p_serial) $$;
comment on function public.roll_back_state(uuid, bigint) is
  'Makes an older version of a state the newest again, with a new serial; refused while a job uses the state. Changes '
  'no infrastructure. Admins.';
grant execute on function public.roll_back_state(uuid, bigint) to authenticated;

create function public.lock_evidence(p_module uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.lock_evidence(p_module) $$;
comment on function public.lock_evidence(uuid) is
  'Whether it is safe to break a state''s lock: what is known about the attempt that holds it, and a verdict (free, '
  'safe, unclear, unsafe). Members.';
grant execute on function public.lock_evidence(uuid) to authenticated;

create function public.lock_module(p_module uuid, p_reason text)
returns jsonb language sql set search_path = ''
as $$ select private.lock_module(p_module, p_reason) $$;
comment on function public.lock_module(uuid, text) is
  'Locks a module, with a reason: until it is unlocked nothing is applied or destroyed, and no plan of it confirmed. '
  'Refused while an apply or a destroy is queued; one that runs goes on. Operators.';
grant execute on function public.lock_module(uuid, text) to authenticated;

create function public.unlock_module(p_module uuid)
returns jsonb language sql set search_path = ''
as $$ select private.unlock_module(p_module) $$;
comment on function public.unlock_module(uuid) is 'Takes a member''s lock off a module. Operators.';
grant execute on function public.unlock_module(uuid) to authenticated;

-- ---------------------------------------------------------------------------- what starts by itself, and whom it tells

create function public.start_set(p_org uuid, p_type public.job_type, p_path text, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.start_set(p_org, p_type, p_path, p_options); end $$;
comment on function public.start_set(uuid, public.job_type, text, jsonb) is
  'Enqueues a PLAN or DRIFT job for every module at or below a group ("" is all), as one thing with its progress. '
  'Idempotent by its key. Operators.';
grant execute on function public.start_set(uuid, public.job_type, text, jsonb) to authenticated;

create function public.list_sets(p_org uuid, p_path text default null, p_limit integer default 20)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_sets(p_org, p_path, p_limit); end $$;
comment on function public.list_sets(uuid, text, integer) is
  'Sets, the running ones first, with their counts, what failed, and about how long the rest takes. Members.';
grant execute on function public.list_sets(uuid, text, integer) to authenticated;

create function public.set_progress(p_set uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.set_progress(p_set); end $$;
comment on function public.set_progress(uuid) is
  'How far a set is: total, done, failed, running, waiting, what failed and why. Members.';
grant execute on function public.set_progress(uuid) to authenticated;

create function public.cancel_set(p_set uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.cancel_set(p_set); end $$;
comment on function public.cancel_set(uuid) is
  'Cancels what waits of a set; what runs, finishes. Operators.';
grant execute on function public.cancel_set(uuid) to authenticated;

create function public.retry_set(p_set uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.retry_set(p_set); end $$;
comment on function public.retry_set(uuid) is
  'Retries what failed of a set; the retries take the place of what they repeat. Operators.';
grant execute on function public.retry_set(uuid) to authenticated;

create function public.preview_schedule(p_org uuid, p_cron text, p_zone text default 'UTC')
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.preview_schedule(p_org, p_cron, p_zone); end $$;
comment on function public.preview_schedule(uuid, text, text) is
  'A time in words, and the next five times it comes in that zone. Members.';
grant execute on function public.preview_schedule(uuid, text, text) to authenticated;

create function public.list_schedules(p_org uuid, p_path text default null)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_schedules(p_org, p_path); end $$;
comment on function public.list_schedules(uuid, text) is
  'Schedules with their words, next time and last run; with a path those of the module or group and of the groups '
  'above. Members.';
grant execute on function public.list_schedules(uuid, text) to authenticated;

create function public.create_schedule(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.create_schedule(p_org, p_spec); end $$;
comment on function public.create_schedule(uuid, jsonb) is
  'Creates a schedule {path, type, cron, zone, is_on, reason}: DRIFT, PLAN, APPLY or DESTROY by the clock. Operators; '
  'admins to destroy.';
grant execute on function public.create_schedule(uuid, jsonb) to authenticated;

create function public.update_schedule(p_schedule uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.update_schedule(p_schedule, p_spec); end $$;
comment on function public.update_schedule(uuid, jsonb) is
  'Changes the fields of a schedule that are named. Operators; admins to destroy.';
grant execute on function public.update_schedule(uuid, jsonb) to authenticated;

create function public.remove_schedule(p_schedule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.remove_schedule(p_schedule); end $$;
comment on function public.remove_schedule(uuid) is
  'Removes a schedule; its jobs stay. Operators; admins to destroy.';
grant execute on function public.remove_schedule(uuid) to authenticated;

create function public.run_schedule(p_schedule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.run_schedule(p_schedule); end $$;
comment on function public.run_schedule(uuid) is
  'Runs a schedule now; its next time stays as it is. Operators; admins to destroy.';
grant execute on function public.run_schedule(uuid) to authenticated;

create function public.update_policy(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.update_policy(p_org); end $$;
comment on function public.update_policy(uuid) is
  'When outdated runners update by themselves: mode, window, next window, how many. Members.';
grant execute on function public.update_policy(uuid) to authenticated;

create function public.set_update_policy(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_update_policy(p_org, p_spec); end $$;
comment on function public.set_update_policy(uuid, jsonb) is
  'Sets when outdated runners update by themselves {mode: OFF, WINDOW or NOW, days, begins_at, ends_at, zone}. Admins.';
grant execute on function public.set_update_policy(uuid, jsonb) to authenticated;

create function public.list_notification_rules(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_notification_rules(p_org); end $$;
comment on function public.list_notification_rules(uuid) is
  'Notification rules, each with its last delivery; of an address only its hint. Members.';
grant execute on function public.list_notification_rules(uuid) to authenticated;

create function public.create_notification_rule(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.create_notification_rule(p_org, p_spec); end $$;
comment on function public.create_notification_rule(uuid, jsonb) is
  'Creates a rule {path, events, channel, address, address_hint, secret, is_on}; address and secret come sealed by '
  'the function notify. Admins.';
grant execute on function public.create_notification_rule(uuid, jsonb) to authenticated;

create function public.update_notification_rule(p_rule uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.update_notification_rule(p_rule, p_spec); end $$;
comment on function public.update_notification_rule(uuid, jsonb) is
  'Changes the fields of a notification rule that are named. Admins.';
grant execute on function public.update_notification_rule(uuid, jsonb) to authenticated;

create function public.remove_notification_rule(p_rule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.remove_notification_rule(p_rule); end $$;
comment on function public.remove_notification_rule(uuid) is
  'Removes a notification rule with its address; the log stays. Admins.';
grant execute on function public.remove_notification_rule(uuid) to authenticated;

create function public.test_notification_rule(p_rule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.test_notification_rule(p_rule); end $$;
comment on function public.test_notification_rule(uuid) is
  'Sends a test by a rule. Admins.';
grant execute on function public.test_notification_rule(uuid) to authenticated;

create function public.list_deliveries(p_org uuid, p_status text default null, p_before bigint default null,
  p_limit integer default 50)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_deliveries(p_org, p_status, p_before, p_limit); end $$;
comment on function public.list_deliveries(uuid, text, bigint, integer) is
  'Messages, newest first, with status, attempt and what comes next. Admins.';
grant execute on function public.list_deliveries(uuid, text, bigint, integer) to authenticated;

create function public.redeliver(p_delivery bigint)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.redeliver(p_delivery); end $$;
comment on function public.redeliver(bigint) is
  'Sends a message again, now, with the same event id. Admins.';
grant execute on function public.redeliver(bigint) to authenticated;

create function public.lease_deliveries(p_limit integer default 20)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.lease_deliveries(p_limit); end $$;
comment on function public.lease_deliveries(integer) is
  'Takes messages that are due, for the sender: the oldest of each rule and subject, with sealed addresses.';
grant execute on function public.lease_deliveries(integer) to service_role;

create function public.finish_delivery(p_delivery bigint, p_lease uuid, p_result jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.finish_delivery(p_delivery, p_lease, p_result); end $$;
comment on function public.finish_delivery(bigint, uuid, jsonb) is
  'Says how a message that was leased went {status, http_status, note, took_ms}; a failure is tried again after a '
  'pause.';
grant execute on function public.finish_delivery(bigint, uuid, jsonb) to service_role;

create function public.set_notifier_url(p_url text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_notifier_url(p_url); end $$;
comment on function public.set_notifier_url(text) is
  'Says where the function that sends is, so that the sweep can wake it (pg_net).';
grant execute on function public.set_notifier_url(text) to service_role;

-- ------------------------------------------------------------------------------------------------ the fleet as a whole

create function public.list_runners(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'name',
  p_limit integer default 50, p_offset integer default 0
)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_runners(p_org, p_search, p_filters, p_sort, p_limit, p_offset); end $$;
comment on function public.list_runners(uuid, text, jsonb, text, integer, integer) is
  'A page of runners {total, counts by status, rows with load, health and processes}: search, filters as lists '
  '{id, status, type, label, version, region, health}, order name, -name, status, newest. Members.';
grant execute on function public.list_runners(uuid, text, jsonb, text, integer, integer) to authenticated;

create function public.runner_facets(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.runner_facets(p_org); end $$;
comment on function public.runner_facets(uuid) is
  'How many runners each label, version, region and health has, 100 of each; the newest release, how many runners are '
  'older, and how many of those a job can update. Members.';
grant execute on function public.runner_facets(uuid) to authenticated;

create function public.rollout_progress(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.rollout_progress(p_org); end $$;
comment on function public.rollout_progress(uuid) is
  'The rollout that is under way, with how many runners of each wave are done or failed; null when none is. Members.';
grant execute on function public.rollout_progress(uuid) to authenticated;

create function public.change_runners(p_org uuid, p_workers uuid[], p_change text, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.change_runners(p_org, p_workers, p_change, p_options); end $$;
comment on function public.change_runners(uuid, uuid[], text, jsonb) is
  'Changes up to 200 runners in one way (drain, resume, disable, enable, update, label) and says how many were changed '
  'and which refused, and why. Options: reason, labels. Operators; each change asks for its own role.';
grant execute on function public.change_runners(uuid, uuid[], text, jsonb) to authenticated;

create function public.installation_metrics()
returns jsonb language sql stable set search_path = ''
as $$ select private.installation_metrics() $$;
comment on function public.installation_metrics() is
  'Figures of the installation: jobs by status, waits, runners by status, slots, how far behind the sweep is. The '
  'metrics function calls it.';
grant execute on function public.installation_metrics() to service_role;

create function public.fleet_figures(p_org uuid, p_hours integer default 24)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.fleet_figures(p_org, p_hours); end $$;
comment on function public.fleet_figures(uuid, integer) is
  'Waits (p50, p95, p99), utilisation, throughput and pass rate over 1, 24 or 168 hours: points of a chart, the whole, '
  'the runners and groups that waited longest, and the releases and outages of that time. Members.';
grant execute on function public.fleet_figures(uuid, integer) to authenticated;

-- -------------------------------------------- what runners and executors call, and edge functions with the service key

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
  p_service_account uuid default null, p_account_version integer default null
)
returns jsonb language sql set search_path = ''
as $$ select private.open_worker_session(p_worker, p_instance, p_boot_id, p_facts, p_token, p_service_account,
  p_account_version) $$;
comment on function public.open_worker_session(uuid, text, uuid, jsonb, uuid, uuid, integer) is
  'Opens a session for a process whose token or service account was verified. Refuses a second process while the '
  'first is fresh. Edge functions only.';
grant execute on function public.open_worker_session(uuid, text, uuid, jsonb, uuid, uuid, integer) to service_role;

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
  'A runner''s heartbeat: status, version, running attempts, news about the host. Answers what to cancel, what was '
  'lost, drain, update, look for work.';
grant execute on function public.worker_heartbeat(text, text, jsonb, jsonb) to worker;

create function public.worker_claim(p_request_id uuid, p_slots integer default 1)
returns json language plpgsql set search_path = ''
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
  'Ends a job: SUCCEEDED, FAILED or CANCELLED; or NEEDS_ATTENTION, where a killed engine left it to a person. p_log '
  '{last_seq, bytes, sha256} is checked; missing chunks are named and the job goes on until they came.';
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
as $$ select private.scaling_inputs(null) $$;
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
  p_service_account uuid default null, p_account_version integer default null)
returns void language sql stable set search_path = ''
as $$ select private.check_worker_credential(p_worker, p_token, p_service_account, p_account_version) $$;
comment on function public.check_worker_credential(uuid, uuid, uuid, integer) is
  'Refuses a token or a service account that may not open a session of this runner, and says why. Edge functions only.';
grant execute on function public.check_worker_credential(uuid, uuid, uuid, integer) to service_role;

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

create function public.use_personal_token(p_token_hash text)
returns jsonb language sql set search_path = ''
as $$ select private.use_personal_token(p_token_hash) $$;
comment on function public.use_personal_token(text) is
  'Whose token this is {id, user_id, email}, and notes its use; null when it is not live or its owner is gone. Edge '
  'functions only.';
grant execute on function public.use_personal_token(text) to service_role;

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
  'runner''s last heartbeat holds.';
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

-- ------------------------------------------------------------------------------------------- what an executor may call

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

-- --------------------------------------------------------------------------------------------- what an engine may call

grant execute on function private.worker_state_get(bigint, integer), public.worker_state_get(bigint, integer) to engine;

revoke execute on all functions in schema private, public from public;
