"""Rules for the catalogue itself: nothing open, nothing unqualified, nothing unexplained."""

import re

import pytest

from tests.db.world import World

API_ROLES = ["anon", "authenticated", "worker", "executor", "engine", "service_role"]
OURS = "('public', 'private')"


def test_every_table_has_row_level_security(world: World) -> None:
    bare = world.owner.rows(
        f"select relname from pg_class where relnamespace::regnamespace::text in {OURS} and relkind in ('r', 'p') and not relrowsecurity"
    )
    assert bare == []


def test_a_view_that_is_read_from_outside_has_its_readers_rights(world: World) -> None:
    bare = world.owner.rows(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'v'"
        " and not coalesce('security_invoker=true' = any(reloptions), false)"
    )
    assert bare == []


def test_anon_and_public_are_granted_nothing_of_ours(world: World) -> None:
    tables = world.owner.rows(
        f"""select c.relname from pg_class as c, unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as p
          where c.relnamespace::regnamespace::text in {OURS} and c.relkind in ('r', 'p', 'v') and has_table_privilege('anon', c.oid, p)"""
    )
    functions = world.owner.rows(
        f"select proname from pg_proc where pronamespace::regnamespace::text in {OURS} and has_function_privilege('anon', oid, 'execute')"
    )
    to_public = world.owner.rows(
        f"""select p.proname from pg_proc as p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
          where p.pronamespace::regnamespace::text in {OURS} and a.grantee = 0"""
    )
    assert (tables, functions, to_public) == ([], [], [])


def test_api_roles_only_read_public_tables_and_no_private_one(world: World) -> None:
    granted = world.owner.rows(
        f"""select c.relnamespace::regnamespace::text || '.' || c.relname, r.role, p.privilege
          from pg_class as c, unnest(%s::text[]) as r (role),
            unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as p (privilege)
          where c.relnamespace::regnamespace::text in {OURS} and c.relkind in ('r', 'p', 'v')
            and has_table_privilege(r.role, c.oid, p.privilege)""",
        API_ROLES,
    )
    assert {privilege for _, _, privilege in granted} == {"select"}
    assert [table for table, _, _ in granted if table.startswith("private.")] == []


def test_sequences_are_out_of_reach(world: World) -> None:
    open_ones = world.owner.rows(
        f"""select c.relname from pg_class as c, unnest(%s::text[]) as r (role)
          where c.relnamespace::regnamespace::text in {OURS} and c.relkind = 'S'
            and has_sequence_privilege(r.role, c.oid, 'usage, select, update')""",
        API_ROLES,
    )
    assert open_ones == []


def test_definers_live_in_private_and_public_has_only_invokers(world: World) -> None:
    assert (
        world.owner.rows("select proname from pg_proc where pronamespace = 'public'::regnamespace and prosecdef") == []
    )


def test_every_function_pins_its_search_path(world: World) -> None:
    """All but the one that commits: PostgreSQL refuses a commit in a procedure with a setting of its own."""
    loose = world.owner.rows(
        f"""select proname from pg_proc where pronamespace::regnamespace::text in {OURS}
          and not coalesce(proconfig, '{{}}') && array['search_path=""', 'search_path=']"""
    )
    assert loose == ["sweep_in_parts"]


def bodies(world: World) -> list[tuple[str, str]]:
    return world.owner.rows(f"select proname, prosrc from pg_proc where pronamespace::regnamespace::text in {OURS}")


def without_text(body: str) -> str:
    """The code of a body, without quoted text and comments."""
    return re.sub(r"--[^\n]*", "", re.sub(r"'(?:[^']|'')*'", "''", body))


TYPE = r"(?:text|uuid|jsonb?|bytea|date|timestamptz|record|regclass|name|oid|xid8)"


def test_bodies_qualify_every_type(world: World) -> None:
    unqualified = [
        (name, found)
        for name, body in bodies(world)
        for found in re.findall(rf"::{TYPE}\b|^\s+v_\w+ {TYPE}\b", without_text(body), re.MULTILINE)
    ]
    assert unqualified == [], "a domain of that name in pg_temp would be used instead, and run as the owner"


def test_bodies_qualify_every_relation(world: World) -> None:
    relations = set(
        world.owner.rows(
            f"select relname from pg_class where relnamespace::regnamespace::text in {OURS} and relkind in ('r', 'p', 'v', 'S')"
        )
    )
    unqualified = [
        (name, relation)
        for name, body in bodies(world)
        for relation in re.findall(
            r"\b(?:from|join|into|update|using|table)\s+(?:only\s+)?([a-z_]+)\b(?!\s*[.(])", without_text(body)
        )
        if relation in relations
    ]
    assert unqualified == []


def test_bodies_qualify_every_function_of_ours(world: World) -> None:
    names = set(world.owner.rows(f"select proname from pg_proc where pronamespace::regnamespace::text in {OURS}"))
    unqualified = [
        (name, called)
        for name, body in bodies(world)
        for called in re.findall(r"(?<![.\w])([a-z_]+)\(", without_text(body))
        if called in names
    ]
    assert unqualified == []


# Columns whose name explains everything, in every table.
SELF_EVIDENT = [
    *("id", "org_id", "worker_id", "job_id", "module_id", "instance_id", "session_id", "user_id", "lane_id", "group_id"),
    *("invitation_id", "service_account_id", "account_id", "actor_id", "target_id", "rollout_id", "rule_id", "set_id"),
    *("name", "path", "email", "role", "version", "attempt", "at", "key", "description", "serial", "lineage", "hour"),
    *("type", "status", "from_status", "to_status", "event", "reason", "comment", "priority", "options", "step", "engine"),
    *("worker_name", "instance_name", "group_path", "actor_kind", "cancel_kind", "provider", "capacity", "took_ms"),
    *("created_at", "updated_at", "accepted_at", "begins_at", "cancelled_at", "cancel_requested_at", "claimed_at"),
    *("deleted_at", "ended_at", "finished_at", "kept_at", "last_run_at", "last_seen_at", "next_at", "opened_at"),
    *("published_at", "ran_at", "removed_at", "revoked_at", "sent_at", "window_started_at", "withdrawn_at"),
    *("created_by", "decided_by", "cancelled_by_label", "cancel_requested_by", "organization_makers"),
    *("consumer_id", "producer_id", "input", "output", "cloud_identity_id", "target_identity_id", "target_worker_id"),
    *("actor_label", "created_by_label", "target_label", "updated_by_label", "user_label", "invited_by", "retry_of"),
    *("connected_at", "disconnected_at", "expires_at", "first_seen_at", "last_used_at", "renewed_at", "verified_at"),
    *("approvals_received", "approvals_required", "engines", "from_count", "to_count", "hint", "secret_hint", "hostname"),
    *("has_secret", "is_draining", "is_fresh", "is_shared", "log_retention_days", "module_path", "phase", "result"),
    *("pinned_instance_name", "pinned_worker_id", "sha256", "state_key", "verification_error", "zone"),
    *("drain_reason", "maintenance_reason", "withdrawn_reason", "is_on", "succeeded", "failed", "cancelled"),
    *("added_at", "api_url", "applied_at", "apply_set_id", "base", "base_commit", "connection_id", "decided_at"),
    *("events", "has_token", "hash", "head_branch", "host", "html_url", "installation_id", "is_only", "labels"),
    *("last_delivery_at", "last_set_id", "maintenance", "never_contacted", "problem", "program", "pull_request"),
    *("queued_at", "received_at", "regions", "resolved_at", "runner_instance_name", "schedule_id", "seen_at"),
    *("sender", "set_ids", "slug", "source_kind", "status_changed_at", "status_reason", "team_id", "title"),
    *("token_id", "url", "variable_id", "verdict", "address", "after_commit", "app_id", "before_commit", "before_id"),
    *("boot_id", "channel", "cron", "decision", "discarded_at", "dry_run", "end_reason", "held_until", "http_status"),
    *("is_disabled", "is_hcl", "last_note", "log_day", "login", "max_attempts", "next_poll_at", "not_before_at", "note"),
    *("notes", "plan_summary", "region", "seen_branch", "seen_commit", "shared_runners", "started_at", "stored_at"),
    *("target_connection_id", "target_kind", "used_at", "verb", "written_by"),
    *("approval_deadline_at", "auto_apply", "body", "bundle_sha256", "busy", "bytes", "checked_at", "client_id"),
    *("code", "code_hash", "comment_id", "delivery_id", "desired_count", "detail", "digests", "distance"),
    *("drift_finding", "field", "fields", "files", "free", "head_commit", "help", "is_done", "is_known", "job_type"),
    *("jobs", "key_id", "keys", "kind", "lease_seconds", "least", "line_count", "maintenance_until", "messages"),
    *("next_step", "number", "object", "offer", "option", "overridden_at", "overridden_label", "override_reason"),
    *("place", "plan_job_id", "plan_sha256", "private_key", "reader_id", "scope", "secret_set_at", "seen_set_id"),
    *("sets", "signed_at", "slots", "stage", "subject", "surplus_since", "tick_heartbeats", "used", "verbs"),
    *("webhook_secret", "words"),
]  # fmt: skip


def test_everything_that_does_not_explain_itself_has_a_comment(world: World) -> None:
    relations = world.owner.rows(
        f"""select c.relname from pg_class as c where c.relnamespace::regnamespace::text in {OURS} and c.relkind in ('r', 'p', 'v')
          and obj_description(c.oid, 'pg_class') is null"""
    )
    columns = world.owner.rows(
        f"""select c.relname || '.' || a.attname from pg_class as c join pg_attribute as a on a.attrelid = c.oid
          where c.relnamespace::regnamespace::text in {OURS} and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped
          and not c.relispartition and col_description(c.oid, a.attnum) is null and a.attname <> all (%s)""",
        SELF_EVIDENT,
    )
    functions = world.owner.rows(
        "select proname from pg_proc where pronamespace = 'public'::regnamespace and coalesce(obj_description(oid, 'pg_proc'), '') = ''"
    )
    types = world.owner.rows(
        f"""select typname from pg_type as t where typnamespace::regnamespace::text in {OURS} and obj_description(oid, 'pg_type') is null
          and (typtype = 'e' or typtype = 'c' and exists (select from pg_class as c where c.oid = t.typrelid and c.relkind = 'c'))"""
    )
    assert (relations, columns, functions, types) == ([], [], [], [])


@pytest.mark.parametrize("kind", ["select"])
def test_policies_are_sentences_for_one_role_each(world: World, kind: str) -> None:
    policies = world.owner.rows(
        "select tablename, policyname, roles::text[], lower(cmd) from pg_policies where schemaname = 'public'"
    )
    assert all(
        len(roles) == 1 and roles[0] in {"authenticated", "worker"} and command == kind
        for _, _, roles, command in policies
    )
    assert all(" " in name for _, name, _, _ in policies)
    per_role = [(table, roles[0]) for table, _, roles, _ in policies]
    assert len(per_role) == len(set(per_role))


def test_columns_that_policies_filter_by_are_indexed(world: World) -> None:
    unindexed = world.owner.rows(
        """select c.relname from pg_class as c join pg_attribute as a on a.attrelid = c.oid and a.attname = 'org_id'
          where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and not exists (
            select from pg_index as i where i.indrelid = c.oid and i.indkey[0] = a.attnum)"""
    )
    assert unindexed == []


def test_foreign_keys_are_indexed(world: World) -> None:
    unindexed = world.owner.rows(
        f"""select k.conrelid::regclass::text, k.conname from pg_constraint as k
          where k.contype = 'f' and k.connamespace::regnamespace::text in {OURS} and not exists (
            select from pg_index as i where i.indrelid = k.conrelid and i.indkey[0] = k.conkey[1])"""
    )
    assert unindexed == []


def test_published_rows_carry_no_secret(world: World) -> None:
    columns = world.owner.rows(
        "select a.tablename || '.' || n from pg_publication_tables as a, unnest(a.attnames) as n "
        "where a.pubname = 'supabase_realtime' and a.schemaname = 'public'"
    )
    assert [column for column in columns if re.search(r"hash|secret|token|password|body", column)] == []


def test_the_migrations_do_not_run_as_a_superuser(world: World) -> None:
    assert world.owner.one("select rolsuper from pg_roles where rolname = current_user") is False
    assert set(
        world.owner.rows(
            f"select distinct relowner::regrole::text from pg_class where relnamespace::regnamespace::text in {OURS}"
        )
    ) == {"postgres"}
