"""The client commands, with the page that does the same and the public functions behind both: `python -m scripts.command_page`."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import typer

from cli.main import LAZY

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
HEAD = """# Pages, commands, functions

<!-- Written by `python -m scripts.command_page`; a test compares it with the program and the database. -->

Whatever a page does, a command does through the same public function of the database, with the same roles and refusals.

| on the page | command | public function |
|---|---|---|
"""
REASONS_HEAD = """
## Functions without a command

| function | why |
|---|---|
"""
RUNNER = "a runner calls it, with its session; `runyard-worker` is its command"
EDGE = "the edge functions call it, with the secret key, after they have checked a credential"
PLANNER = "the scaling planner calls it"
PAGES = "the dashboard's lists turn their pages with it; the `list` commands read the rows themselves"
# Public functions that no person calls.
REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "worker_append_logs", "worker_claim", "worker_close_session", "worker_finish", "worker_get_artifact", "worker_heartbeat",
            "worker_identities", "worker_job", "worker_policies", "worker_policy_test", "worker_record_checks",
            "worker_repository", "worker_put_artifact", "worker_recover", "worker_report",
            "worker_return_job",
            "worker_state_get", "worker_state_keep", "worker_state_lock", "worker_state_put", "worker_state_unlock", "worker_target_status",
            "worker_outputs_get", "worker_bound_values", "worker_resolve", "worker_destination_state", "worker_move_states",
            "worker_target_token", "worker_target_update", "worker_variables",
        ),
        RUNNER,
    ),
    **dict.fromkeys(
        ("open_worker_session", "rate_limit", "renew_worker_session", "service_account_for", "use_service_account", "use_personal_token",
            "check_worker_credential", "start_device_login", "take_device_login", "worker_token_hashes", "installation_metrics",
            "git_connection_secret", "receive_git_delivery", "refuse_git_delivery", "complete_git_app",
            "git_app_connection", "git_installation", "take_terminal_login",
            "note_session_origin", "prove_sign_in_domain", "sign_in_provider_of"), EDGE
    ),
    **dict.fromkeys(
        ("start_upload", "upload_status", "terminal_workspaces", "terminal_run", "terminal_runs", "terminal_log"),
        "Terraform and OpenTofu with `cloud {}` call it through an edge function",
    ),
    **dict.fromkeys(
        ("recovery_codes_left", "set_recovery_codes", "use_recovery_code"), "the account's page and the sign-in page call it for a person"
    ),
    "invitation_offer": "the edge function of an invitation's page calls it for a person who may have no account yet",
    **dict.fromkeys(("worker_scaling_decided", "worker_scaling_inputs"), PLANNER),
    **dict.fromkeys(
        (
            "job_page", "module_page", "list_jobs", "list_modules", "list_runners", "path_runners", "rollout_progress", "runner_facets",
            "runner_page",
        ),
        PAGES,
    ),
    **dict.fromkeys(
        ("start_git_app", "pending_git_app"),
        "a browser posts the app's manifest to GitHub and returns, so the dashboard creates it: *Settings → Connections → Git*",
    ),
    "open_organization": "the dashboard notes where a person was last; a command's profile names its organisation",
    "change_runners": "one change to many runners, which the Runners page makes; commands name one runner each",
    **dict.fromkeys(("finish_delivery", "lease_deliveries"), "the edge function that sends notifications calls it"),
    **dict.fromkeys(("has_unsigned_records", "lease_records", "sign_record"), "the edge functions that sign records call it"),
}  # fmt: skip


class Entry(NamedTuple):
    """One command, the page that does the same, and the functions behind it."""

    command: str
    page: str
    calls: tuple[str, ...]


def entries() -> Iterator[Entry]:
    """Every client command of the program."""
    for name, (module, _) in LAZY.items():
        yield from _entries(import_module(module).app, name)


def _entries(app: typer.Typer, name: str) -> Iterator[Entry]:
    for each in app.registered_commands:
        calls = getattr(each.callback, "calls", None)
        is_alone = each.name in LAZY and import_module(LAZY[each.name][0]).app is app
        if calls is not None and (not is_alone or each.name == name):
            words = f"runyard {name}" if is_alone else f"runyard {name} {each.name}"
            yield Entry(words, getattr(each.callback, "page", ""), calls)
    for group in app.registered_groups:
        if group.typer_instance is not None and group.hidden is not True:
            yield from _entries(group.typer_instance, f"{name} {group.name}")


def page() -> str:
    """The page with the table, and the reasons of what is not in it."""
    rows = [f"| {each.page or '–'} | `{each.command}` | {_functions(each.calls)} |\n" for each in entries()]
    reasons = [f"| `{name}` | {why} |\n" for name, why in sorted(REASONS.items())]
    return HEAD + "".join(rows) + REASONS_HEAD + "".join(reasons)


def _functions(calls: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in calls) or "reads rows"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
