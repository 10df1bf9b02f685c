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

-- ## calls
-- A call of people is open to service accounts, too; it checks its caller's rights itself.

-- Members.
grant execute on function
  private.abort_rollout, private.accept_invitation, private.add_sign_in_domain, private.allow_sign_in_link,
  private.apply_manifest, private.apply_pull_request, private.approve_job, private.assign_worker,
  private.attach_identity, private.attach_policy, private.bring_modules, private.cancel_job, private.cancel_set,
  private.change_record, private.change_runners, private.comment_on_job, private.confirm_set,
  private.connect_repository, private.create_cloud_identity, private.create_module, private.create_notification_rule,
  private.create_organization, private.create_personal_token, private.create_schedule, private.create_sealing_key,
  private.create_service_account, private.create_team, private.decide_device_login, private.delete_group,
  private.delete_module, private.delete_organization, private.delete_role, private.delete_team, private.deploy_worker,
  private.detach_identity, private.detach_policy, private.device_login, private.discard_kept_state,
  private.disconnect_repository, private.drain_worker, private.drift_overview, private.enqueue_job,
  private.enqueue_jobs, private.explain_access, private.explain_queue, private.explain_set, private.export_manifest,
  private.fleet_figures, private.fleet_overview, private.fleet_stats, private.force_unlock_state, private.git_change,
  private.grant_outputs, private.grant_role, private.identity_trust_policies, private.invite_member, private.is_seen,
  private.is_seen_set, private.job_by_number, private.job_page, private.kept_state, private.kept_states,
  private.link_git_login, private.list_access, private.list_change_records, private.list_deliveries,
  private.list_dependencies, private.list_events, private.list_git_apps, private.list_git_connections,
  private.list_git_deliveries, private.list_git_logins, private.list_job_variables, private.list_jobs,
  private.list_modules, private.list_notification_rules, private.list_roles, private.list_runners,
  private.list_schedules, private.list_sets, private.list_triggers, private.list_unused_variables,
  private.list_variable_users, private.list_variables, private.list_worker_tokens, private.lock_evidence,
  private.lock_module, private.maintenance, private.member_sign_ins, private.module_page, private.move_module_folder,
  private.my_org_ids, private.my_organizations, private.my_personal_tokens, private.my_prefixes, private.my_verbs,
  private.my_workers, private.open_organization, private.organization_makers, private.override_check,
  private.path_runners, private.pause_rollout, private.pending_git_app, private.plan_changes,
  private.plan_pull_request, private.policy_files, private.policy_test, private.poll_repository,
  private.preview_identities, private.preview_schedule, private.preview_variables, private.push_state,
  private.recovery_codes_left, private.redeliver, private.register_worker, private.remove_cloud_identity,
  private.remove_cloud_worker, private.remove_dependency, private.remove_git_app, private.remove_member,
  private.remove_notification_rule, private.remove_schedule, private.remove_service_account,
  private.remove_sign_in_domain, private.remove_sign_in_provider, private.remove_variable, private.remove_worker,
  private.replace_dependencies, private.request_git_link, private.request_survey, private.resolve_attention,
  private.resume_rollout, private.resume_worker, private.retry_job, private.retry_set, private.revoke_invitation,
  private.revoke_outputs, private.revoke_personal_token, private.revoke_role, private.revoke_worker_token,
  private.roll_back_state, private.rollout_progress, private.rotate_service_account_secret,
  private.rotate_worker_token, private.run_schedule, private.runner_facets, private.runner_page,
  private.set_dependency, private.set_identity_subject, private.set_maintenance, private.set_member_role,
  private.set_module_git, private.set_progress, private.set_recovery_codes, private.set_review, private.set_role,
  private.set_shared_runners, private.set_sign_in_provider, private.set_sign_in_rules, private.set_team_claim,
  private.set_team_member, private.set_update_policy, private.set_variables, private.set_worker_disabled,
  private.sign_in_settings, private.start_git_app, private.start_set, private.start_upload, private.state_info,
  private.state_resources, private.state_version, private.store_kept_state, private.survey, private.terminal_log,
  private.terminal_run, private.terminal_runs, private.terminal_workspaces, private.test_notification_rule,
  private.test_policy, private.unassign_worker, private.unlink_git_login, private.unlock_module,
  private.update_cloud_identity, private.update_git_connection, private.update_module,
  private.update_notification_rule, private.update_one_worker, private.update_organization,
  private.update_outdated_workers, private.update_policy, private.update_schedule, private.update_service_account,
  private.update_worker, private.upload_source, private.upload_status, private.upsert_group,
  private.use_recovery_code, private.verify_cloud_identity, private.worker_history
to authenticated;

-- Policies of members and runners.
grant execute on function
  private.caller_id, private.may_hear
to authenticated, worker;

-- The installation: edge functions, its configuration and its operator.
grant execute on function
  private.check_worker_credential, private.complete_git_app, private.ensure_shared_worker, private.finish_delivery,
  private.git_app_connection, private.git_connection_secret, private.git_installation, private.has_unsigned_records,
  private.installation_health, private.installation_metrics, private.invitation_offer, private.lease_deliveries,
  private.lease_records, private.note_session_origin, private.open_transactions, private.open_worker_session,
  private.prove_sign_in_domain, private.publish_release, private.rate_limit, private.receive_git_delivery,
  private.refuse_git_delivery, private.remove_shared_worker, private.renew_worker_session,
  private.service_account_for, private.set_installation_maintenance, private.set_notifier_url,
  private.set_organization_makers, private.set_shared_worker, private.sign_in_provider_of, private.sign_record,
  private.start_device_login, private.sweep, private.take_device_login, private.take_terminal_login,
  private.use_personal_token, private.use_service_account, private.withdraw_release, private.worker_token_hashes
to service_role;

-- A runner itself.
grant execute on function
  private.worker_claim, private.worker_close_session, private.worker_heartbeat, private.worker_recover,
  private.worker_scaling_decided, private.worker_scaling_inputs
to worker;

-- A runner, and the executor of one of its jobs.
grant execute on function
  private.worker_append_logs, private.worker_bound_values, private.worker_destination_state, private.worker_finish,
  private.worker_get_artifact, private.worker_identities, private.worker_job, private.worker_move_states,
  private.worker_policies, private.worker_policy_test, private.worker_put_artifact, private.worker_record_checks,
  private.worker_report, private.worker_repository, private.worker_resolve, private.worker_return_job,
  private.worker_state_keep, private.worker_state_lock, private.worker_state_put, private.worker_state_unlock,
  private.worker_target_status, private.worker_target_token, private.worker_target_update, private.worker_variables
to worker, executor;

-- They, and the engine that a job runs.
grant execute on function
  private.worker_outputs_get, private.worker_state_get
to worker, executor, engine;
