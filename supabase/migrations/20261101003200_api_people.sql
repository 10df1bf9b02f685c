-- The API, first half: everything that people call from pages or with their own token. Each function is a thin wrapper
-- that runs as the caller; the body with the rights, and the checks, is the function of the same name in `private`.
set lock_timeout = '5s';
set statement_timeout = '60s';

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
  'Accepts an invitation: the link''s secret (as SHA-256) and the invited e-mail address must both match.';
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
  'Drains a cloud-hosted runner and queues the REMOVE_WORKER job; the record goes when that job has succeeded. Admins.';
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
  'A runner''s quarters of an hour [{at, beats, status, load}]; one that is missing had no beat. Members.';
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

revoke execute on all functions in schema private, public from public;
