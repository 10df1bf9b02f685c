-- Access: row level security, reading, triggers and policies of tables, and the calls of each role. A policy or a
-- trigger that is unlike the others is in the file of its table. Nobody reaches anything without a grant.

-- Members read every table of `public`, each with its policy; of variables only the columns that variables.sql names.
do $$
declare
  v_table pg_catalog.regclass;
begin
  for v_table in select c.oid from pg_catalog.pg_class as c where c.relkind in ('r', 'p')
    and c.relnamespace in ('public'::pg_catalog.regnamespace, 'private'::pg_catalog.regnamespace) loop
    execute format('alter table %s enable row level security', v_table);
  end loop;
  for v_table in select c.oid from pg_catalog.pg_class as c where c.relkind in ('r', 'p', 'v')
    and c.relnamespace = 'public'::pg_catalog.regnamespace and c.relname <> 'variables' loop
    execute format('grant select on %s to authenticated, service_role', v_table);
  end loop;
end;
$$;

-- Tables that keep the time of a row's last change, and those whose changes pages follow. Some have their own trigger.
do $$
declare
  v_trigger pg_catalog.record;
begin
  for v_trigger in select t.name, t.event, t.call, n.name as table_name from (values
    ('touch', 'before update', 'private.touch_updated_at()',
      '{cloud_identities, git_connections, groups, job_identities, module_git, notification_rules, organizations, '
      'policy_sets, pull_requests, rollouts, schedules, service_accounts, update_policies, worker_instances, workers}'),
    ('wake', 'after insert', 'private.wake_for_row()', '{approvals, job_comments}'),
    ('wake', 'after insert or update', 'private.wake_for_row()',
      '{cloud_identities, git_apps, git_connections, git_deliveries, git_logins, job_sets, module_git, '
      'notification_rules, pull_requests, service_accounts, update_policies}'),
    ('wake', 'after insert or update or delete', 'private.wake_for_row()',
      '{groups, invitations, memberships, role_bindings, roles, schedules, team_members, teams, worker_assignments}')
  ) as t (name, event, call, tables) cross join unnest(t.tables::pg_catalog.text[]) as n (name) loop
    execute format('create trigger %I %s on public.%I for each row execute function %s', v_trigger.name,
      v_trigger.event, v_trigger.table_name, v_trigger.call);
  end loop;
end;
$$;

-- Members see their organisation's rows. A guest sees those at a path that they may see, of a job or of modules that
-- they see, and their own: `guests` names the columns by which that is known; without any, a guest sees nothing.
do $$
declare
  v_policy pg_catalog.record;
  v_guests pg_catalog.text;
begin
  for v_policy in select * from (values
    ('approvals', 'Members see their organisation''s approvals', 'job_id'),
    ('cloud_identities', 'Members see their organisation''s cloud identities', null),
    ('git_apps', 'Members see their organisation''s GitHub Apps', null),
    ('git_connections', 'Members see their organisation''s repositories', null),
    ('git_deliveries', 'Members see what events of their repositories led to', null),
    ('git_logins', 'Members see who is linked to which login', 'user_id'),
    ('groups', 'Members see their organisation''s groups', 'path'),
    ('identity_subjects', 'Members see how their organisation''s subjects are made', null),
    ('invitations', 'Members see their organisation''s invitations', null),
    ('job_comments', 'Members see their organisation''s comments', 'job_id'),
    ('job_events', 'Members see their organisation''s job events', 'job_id'),
    ('job_identities', 'Members see their organisation''s job identities', 'path'),
    ('job_log_chunks', 'Members read their organisation''s job logs', 'job_id'),
    ('memberships', 'Members see who else is a member', 'user_id'),
    ('module_bindings', 'Members see their organisation''s bindings', 'consumer_id, producer_id'),
    ('module_dependencies', 'Members see their organisation''s dependencies', 'consumer_id, producer_id'),
    ('module_git', 'Members see how modules follow their repositories', 'module_id'),
    ('module_locks', 'Members see their organisation''s module locks', 'module_id'),
    ('modules', 'Members see their organisation''s modules', 'path'),
    ('notification_rules', 'Members see their organisation''s notification rules', null),
    ('output_grants', 'Members see their organisation''s grants of outputs', 'module_id, reader_id'),
    ('policy_checks', 'Members see their organisation''s policy checks', 'job_id'),
    ('policy_sets', 'Members see their organisation''s policy sets', 'path'),
    ('pull_requests', 'Members see pull requests of their repositories', null),
    ('role_bindings', 'Members see who has which role where', 'path'),
    ('rollouts', 'Members see their organisation''s rollouts', null),
    ('scaling_decisions', 'Members see their organisation''s scaling decisions', null),
    ('schedules', 'Members see their organisation''s schedules', 'path'),
    ('service_accounts', 'Members see their organisation''s service accounts', null),
    ('team_members', 'Members see who is in their organisation''s teams', null),
    ('teams', 'Members see their organisation''s teams', null),
    ('update_policies', 'Members see their organisation''s update policy', null),
    ('variables', 'Members see their organisation''s variables', 'path'),
    ('worker_assignments', 'Members see their organisation''s assignments', 'path')
  ) as p (name, words, guests) loop
    v_guests := case when v_policy.guests like '%path' then format(
        'private.is_seen(org_id, %I, array(select private.my_prefixes()))', v_policy.guests)
      when v_policy.guests = 'user_id' then 'user_id = (select private.caller_id())'
      else (select string_agg(format(case g.name
          when 'job_id' then 'exists (select from public.provision_jobs as j where j.id = %I.%I)'
          else 'exists (select from public.modules as m where m.id = %I.%I)' end, v_policy.name, g.name), ' and '
          order by g.place)
        from regexp_split_to_table(v_policy.guests, ', ') with ordinality as g (name, place)) end;
    execute format('create policy %I on public.%I for select to authenticated using (%s)', v_policy.words,
      v_policy.name, 'org_id = any(array(select private.my_org_ids(''module.read'')))'
      || coalesce(' or org_id = any(array(select private.my_org_ids())) and ' || v_guests, ''));
  end loop;
end;
$$;

-- Nobody's search path counts, and every name in a body is qualified. A function that runs with its owner's rights, or
-- has other settings, pins its path where it is created; all others here.
do $$
declare
  v_function pg_catalog.regprocedure;
begin
  for v_function in select p.oid from pg_catalog.pg_proc as p where p.pronamespace = 'private'::pg_catalog.regnamespace
    and p.prokind = 'f' and coalesce(array_to_string(p.proconfig, ' '), '') not like '%search_path=%' loop
    execute format('alter function %s set search_path = %L', v_function, '');
  end loop;
end;
$$;

-- ## calls
-- A call of people is open to service accounts, too; it checks its caller's rights itself.
do $$
declare
  v_grant pg_catalog.record;
begin
  for v_grant in select c.name, g.roles from (values
    -- Members.
    ('authenticated',
      '{abort_rollout, accept_invitation, add_sign_in_domain, allow_sign_in_link, apply_manifest, apply_pull_request, '
      'approve_job, assign_worker, attach_identity, attach_policy, bring_modules, cancel_job, cancel_set, '
      'change_record, change_runners, comment_on_job, confirm_set, connect_repository, create_cloud_identity, '
      'create_module, create_notification_rule, create_organization, create_personal_token, create_schedule, '
      'create_sealing_key, create_service_account, create_team, decide_device_login, delete_group, delete_module, '
      'delete_organization, delete_role, delete_team, deploy_worker, detach_identity, detach_policy, device_login, '
      'discard_kept_state, disconnect_repository, drain_worker, drift_overview, enqueue_job, enqueue_jobs, '
      'explain_access, explain_queue, explain_set, export_manifest, fleet_figures, fleet_overview, fleet_stats, '
      'force_unlock_state, git_change, grant_outputs, grant_role, identity_trust_policies, invite_member, is_seen, '
      'is_seen_set, job_by_number, job_page, kept_state, kept_states, link_git_login, list_access, '
      'list_change_records, list_deliveries, list_dependencies, list_events, list_git_apps, list_git_connections, '
      'list_git_deliveries, list_git_logins, list_job_variables, list_jobs, list_modules, list_notification_rules, '
      'list_roles, list_runners, list_schedules, list_sets, list_triggers, list_unused_variables, list_variable_users, '
      'list_variables, list_worker_tokens, lock_evidence, lock_module, maintenance, member_sign_ins, module_page, '
      'move_module_folder, my_org_ids, my_organizations, my_personal_tokens, my_prefixes, my_verbs, my_workers, '
      'open_organization, organization_makers, override_check, path_runners, pause_rollout, pending_git_app, '
      'plan_changes, plan_pull_request, policy_files, policy_test, poll_repository, preview_identities, '
      'preview_schedule, preview_variables, push_state, recovery_codes_left, redeliver, register_worker, '
      'remove_cloud_identity, remove_cloud_worker, remove_dependency, remove_git_app, remove_member, '
      'remove_notification_rule, remove_schedule, remove_service_account, remove_sign_in_domain, '
      'remove_sign_in_provider, remove_variable, remove_worker, replace_dependencies, request_git_link, '
      'request_survey, resolve_attention, resume_rollout, resume_worker, retry_job, retry_set, revoke_invitation, '
      'revoke_outputs, revoke_personal_token, revoke_role, revoke_worker_token, roll_back_state, rollout_progress, '
      'rotate_service_account_secret, rotate_worker_token, run_schedule, runner_facets, runner_page, set_dependency, '
      'set_identity_subject, set_maintenance, set_member_role, set_module_git, set_progress, set_recovery_codes, '
      'set_review, set_role, set_shared_runners, set_sign_in_provider, set_sign_in_rules, set_team_claim, '
      'set_team_member, set_update_policy, set_variables, set_worker_disabled, sign_in_settings, start_git_app, '
      'start_set, start_upload, state_info, state_resources, state_version, store_kept_state, survey, terminal_log, '
      'terminal_run, terminal_runs, terminal_workspaces, test_notification_rule, test_policy, unassign_worker, '
      'unlink_git_login, unlock_module, update_cloud_identity, update_git_connection, update_module, '
      'update_notification_rule, update_one_worker, update_organization, update_outdated_workers, update_policy, '
      'update_schedule, update_service_account, update_worker, upload_source, upload_status, upsert_group, '
      'use_recovery_code, verify_cloud_identity, worker_history}'),
    -- Policies of members and runners.
    ('authenticated, worker', '{caller_id, may_hear}'),
    -- The installation: edge functions, its configuration and its operator.
    ('service_role',
      '{check_worker_credential, complete_git_app, ensure_shared_worker, finish_delivery, git_app_connection, '
      'git_connection_secret, git_installation, has_unsigned_records, installation_health, installation_metrics, '
      'invitation_offer, lease_deliveries, lease_records, note_session_origin, open_transactions, open_worker_session, '
      'prove_sign_in_domain, publish_release, rate_limit, receive_git_delivery, refuse_git_delivery, '
      'remove_shared_worker, renew_worker_session, service_account_for, set_installation_maintenance, '
      'set_notifier_url, set_organization_makers, set_shared_worker, sign_in_provider_of, sign_record, '
      'start_device_login, sweep, take_device_login, take_terminal_login, use_personal_token, use_service_account, '
      'withdraw_release, worker_token_hashes}'),
    -- A runner itself.
    ('worker',
      '{worker_claim, worker_close_session, worker_heartbeat, worker_recover, worker_scaling_decided, '
      'worker_scaling_inputs}'),
    -- A runner, and the executor of one of its jobs.
    ('worker, executor',
      '{worker_append_logs, worker_bound_values, worker_destination_state, worker_finish, worker_get_artifact, '
      'worker_identities, worker_job, worker_move_states, worker_policies, worker_policy_test, worker_put_artifact, '
      'worker_record_checks, worker_report, worker_repository, worker_resolve, worker_return_job, worker_state_keep, '
      'worker_state_lock, worker_state_put, worker_state_unlock, worker_target_status, worker_target_token, '
      'worker_target_update, worker_variables}'),
    -- They, and the engine that a job runs.
    ('worker, executor, engine', '{worker_outputs_get, worker_state_get}')
  ) as g (roles, calls) cross join unnest(g.calls::pg_catalog.text[]) as c (name) loop
    execute format('grant execute on function private.%I to %s', v_grant.name, v_grant.roles);
  end loop;
end;
$$;
