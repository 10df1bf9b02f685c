"""Repositories and deliveries in words, and the input that the form refuses."""

import base64
from typing import Any

import pytest

from app.triggers.components.marks import CONNECTIONS
from app.triggers.view import git
from wire.tokens import make_webhook_secret

MODULES = [{"path": "net/vpc"}]
READ = {"modules": MODULES, "resolved_at": "2026-11-17T10:00:00+00:00"}


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({**READ, "error": "fatal: repository not found"}, "BROKEN"),
        ({**READ, "refused_at": "2026-11-17T11:00:00+00:00"}, "REFUSED"),
        ({}, "UNUSED"),
        ({"modules": MODULES}, "UNREAD"),
        (READ, "SILENT"),
        ({**READ, "last_delivery_at": "2026-11-17T11:00:00+00:00"}, "CONNECTED"),
    ],
)
def test_a_connection_has_a_status_with_a_badge(row: dict[str, Any], status: str) -> None:
    found, why = git.connection_status(row)
    assert (found, found in CONNECTIONS, why == "") == (status, True, status == "CONNECTED")


def test_a_refused_signature_counts_until_a_delivery_is_accepted() -> None:
    row = {**READ, "refused_at": "2026-11-17T11:00:00+00:00", "last_delivery_at": "2026-11-17T12:00:00+00:00"}
    assert git.connection_status(row)[0] == "CONNECTED"
    assert git.connection_status({**row, "refused_at": "2026-11-17T13:00:00+00:00"})[0] == "REFUSED"


def test_a_connection_shows_provider_modules_and_poll() -> None:
    view = git.build_connection({**READ, "id": "c", "provider": "gitea", "repository": "h/r", "poll_seconds": 0})
    assert (view["name"], view["provider_words"], view["modules"]) == ("h/r", "Gitea or Forgejo", "1 module")
    assert view["poll_words"] == "not polled"
    assert git.build_connection({"poll_seconds": 120})["poll_words"] == "polled every 120 s"


def test_a_push_shows_branch_commit_and_the_reason_for_each_module() -> None:
    module = {"path": "net/vpc", "verdict": "PLANNED", "reason": "Its folders changed."}
    row = {
        "id": 4, "event": "push", "repository": "git.example.com/infra/edge", "job_number": 58, "jobs": [59], "connection_id": "c",
        "ref": "refs/heads/release/2", "after_commit": "8c41f2e" + "0" * 33,
        "verdict": "PLANNED", "reason": "Planned 1 of 1 modules.", "modules": [module],
    }  # fmt: skip
    view = git.build_delivery(row)
    assert (view["jobs"], view["change"]) == ([59], f"/dashboard/changes/c/{row['after_commit']}")
    assert (view["event"], view["ref"], view["commit"], view["job"]) == ("Push", "release/2", "8c41f2e", 58)
    assert view["short"] == "infra/edge"
    assert (view["reason"], view["modules"]) == ("Planned 1 of 1 modules.", [module])


def test_a_pull_request_shows_its_number_and_a_pending_delivery_its_reason() -> None:
    row = {"id": 5, "event": "pull_request", "action": "synchronize", "pull_request": 412, "verdict": "PENDING"}
    view = git.build_delivery(row)
    assert (view["event"], view["pull_request"], view["job"]) == ("Pull request, synchronize", "#412", 0)
    assert view["reason"] == "A runner reads the repository first."


def test_the_form_refuses_addresses_with_passwords_and_unknown_choices() -> None:
    wrong = git.check_form({"url": "https://me:secret@git.example.com/a"}, "svn", "7", is_new=True)
    assert set(wrong.errors) == {"url", "provider", "poll"}
    good = git.check_form({"url": " git@git.example.com:a/b.git "}, "gitea", "300", is_new=True)
    assert good.errors == {}
    named = {"provider": "gitea", "url": "git@git.example.com:a/b.git"}
    assert good.spec == {**named, "poll_seconds": 300, "base_url": None}


def test_an_edit_changes_poll_and_api_address_and_never_carries_the_token() -> None:
    form = {"url": "ignored", "base_url": " https://api.example.com ", "token": "a-long-token"}
    checked = git.check_form(form, "gitea", "0", is_new=False)
    assert (checked.errors, checked.spec) == ({}, {"poll_seconds": 0, "base_url": "https://api.example.com"})
    wrong = git.check_form({"base_url": "https://me@api.example.com", "token": "short"}, "gitea", "0", is_new=False)
    assert set(wrong.errors) == {"base_url", "token"}
    assert git.check_form(form, "generic", "0", is_new=False).spec == {"poll_seconds": 0}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"provider": "generic"}, "no reports: it has no API"),
        ({"provider": "gitea"}, "no reports: no API token"),
        ({"provider": "gitea", "has_token": True}, "reports results"),
        (
            {"provider": "gitea", "has_token": True, "last_report": {"status": "DELIVERED", "note": "201"}},
            "reports results",
        ),
        (
            {"provider": "gitea", "has_token": True, "last_report": {"status": "PENDING", "note": "503"}},
            "reports fail: 503",
        ),
    ],
)
def test_a_connection_shows_whether_results_are_reported(row: dict[str, Any], words: str) -> None:
    assert git.build_connection(row)["reports"] == words


@pytest.mark.parametrize("provider", git.PROVIDERS)
def test_every_provider_has_steps_and_a_secret_that_a_script_can_carry(provider: str) -> None:
    first, second = make_webhook_secret(provider), make_webhook_secret(provider)
    assert first != second
    assert not {"'", "\\", "\n"} & set(first)
    assert git.STEPS[provider]
    if provider == "generic":
        assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32
