"""The rights that each public call of people needs, read from the calls one by one: verbs, or roles with all of their verbs, at paths of
the site of `test_permissions`. `@` is the whole organisation, `@*` anywhere in it. A new call fails a test until it is here."""

NEEDS = {
    "account.manage@": (
        "create_service_account remove_service_account rotate_service_account_secret update_service_account"
    ),
    "git.manage@": (
        "connect_repository disconnect_repository pending_git_app remove_git_app start_git_app update_git_connection"
    ),
    "git.poll@": "poll_repository",
    "git.read@": "git_change list_git_apps list_git_connections list_git_deliveries list_git_logins",
    "group.delete@empty": "delete_group",
    "group.write@a": "upsert_group",
    "identity.manage@": (
        "create_cloud_identity remove_cloud_identity set_identity_subject update_cloud_identity verify_cloud_identity"
    ),
    "identity.manage@a": "attach_identity detach_identity",
    "job.apply@*": "apply_pull_request",
    "job.apply@a": "confirm_set",
    "job.approve@a/b": "approve_job",
    "job.cancel@a": "cancel_set",
    "job.cancel@a/c": "cancel_job",
    "job.comment@a/c": "comment_on_job",
    "job.plan@*": "plan_pull_request",
    "job.plan@a": "retry_set start_set",
    "job.plan@a/c": "enqueue_job enqueue_jobs start_upload upload_source upload_status",
    "job.read@a": "explain_set set_progress set_review",
    "job.read@a/b": "terminal_log terminal_run",
    "job.read@a/c": "change_record list_change_records explain_queue list_job_variables plan_changes policy_test "
    "terminal_runs",
    "job.read@a/c job.apply@a/c": "retry_job",
    "job.resolve@a/c": "resolve_attention",
    "member.manage@": (
        "create_team delete_team link_git_login member_sign_ins remove_member revoke_invitation sign_in_settings "
        "unlink_git_login"
    ),
    "member.manage@ member.own@": "set_team_claim",
    "member.manage@ operator@": "set_member_role",
    "member.manage@ planner@a/b": "set_team_member",
    "member.manage@ viewer@": "invite_member",
    "member.own@": (
        "add_sign_in_domain remove_sign_in_domain remove_sign_in_provider set_sign_in_provider set_sign_in_rules"
    ),
    "module.delete@a/c": "delete_module",
    "module.lock@a/c": "lock_module unlock_module",
    "module.read@": "export_manifest fleet_figures fleet_stats",
    "module.read@ group.write@a": "apply_manifest",
    "module.read@a": "policy_files explain_access identity_trust_policies list_access list_variable_users",
    "module.read@a/c": "preview_identities",
    "module.read@a/c state.read@a/c": "module_page",
    "module.write@a": "create_module replace_dependencies request_survey",
    "module.write@a/c": "bring_modules move_module_folder remove_dependency set_module_git update_module",
    "module.write@a/c module.read@a/b module.write@a/b": "set_dependency",
    "notification.manage@": (
        "create_notification_rule list_deliveries redeliver remove_notification_rule test_notification_rule "
        "update_notification_rule"
    ),
    "notification.read@": "list_notification_rules",
    "organization.delete@": "delete_organization",
    "organization.maintain@": "set_maintenance",
    "organization.update@": "update_organization",
    "policy.override@a/c": "override_check",
    "policy.write@a": "attach_policy detach_policy",
    "policy.write@a job.read@a": "test_policy",
    "release.read@": "update_policy",
    "release.roll_out@": (
        "abort_rollout pause_rollout resume_rollout set_update_policy update_one_worker update_outdated_workers"
    ),
    "role.grant@": "delete_role",
    "role.grant@ job.plan@": "set_role",
    "role.grant@a viewer@a": "grant_role",
    "role.grant@a/b": "revoke_role",
    "runner.manage@": (
        "assign_worker deploy_worker list_worker_tokens register_worker remove_cloud_worker remove_worker "
        "revoke_worker_token rotate_worker_token set_shared_runners set_worker_disabled unassign_worker "
        "update_worker"
    ),
    "runner.operate@": "change_runners drain_worker resume_worker",
    "schedule.write@a job.apply@a": "create_schedule",
    "schedule.write@a/c": "remove_schedule",
    "schedule.write@a/c job.plan@a/c": "run_schedule update_schedule",
    "state.read@a/c": "kept_states lock_evidence state_info state_resources",
    "state.text@a/c": "state_version",
    "state.write@a/c": (
        "discard_kept_state force_unlock_state kept_state push_state revoke_outputs roll_back_state store_kept_state"
    ),
    "state.write@a/c state.write@a/b": "grant_outputs",
    "variable.enforce@": "create_sealing_key",
    "variable.write@a": "remove_variable set_variables",
    # A member in a session of their own: what it begins outlives a token.
    "person@": "request_git_link",
    # Nothing but to be a member: these show what the caller may see.
    "": (
        "fleet_overview drift_overview job_page job_by_number list_dependencies list_events list_jobs list_modules list_roles "
        "list_runners list_schedules list_sets list_triggers list_unused_variables list_variables maintenance "
        "my_verbs path_runners preview_schedule preview_variables open_organization rollout_progress "
        "runner_facets runner_page "
        "survey terminal_workspaces worker_history"
    ),
}
