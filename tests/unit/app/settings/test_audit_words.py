"""The audit log in words."""

from typing import Any

import pytest

from app.settings.view.audit import build, changes, words


def row(**more: Any) -> dict[str, Any]:
    return {"id": 1, "at": "2026-11-15T14:00:00+00:00", "action": "module.updated", "target_kind": "module", **more}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("module.updated", "Updated a module"),
        ("worker.token_revoked", "Revoked a runner's token"),
        ("organization.updated", "Updated an organisation"),
        ("job.confirmed", "Confirmed a plan"),
        ("git.polled", "Polled a repository"),
        ("member.role_changed", "Changed a member's role"),
        ("module.dependency_set", "Set a module's dependency"),
        ("sign_in.domain_proved", "Proved a sign-in's domain"),
        ("access.granted", "Gave access"),
        ("odd", "odd"),
    ],
)
def test_actions_are_described_in_words(action: str, said: str) -> None:
    assert words(action) == said


def test_a_change_is_recorded_with_old_and_new_value() -> None:
    found = changes(
        {"approvals_required": {"from": 2, "to": 0}, "source": {"from": {"bytes": 9, "sha256": "a" * 64}, "to": "x"}}
    )
    assert found[0] == {"field": "approvals required", "old": "2", "new": "0"}
    assert found[1]["old"] == "9 bytes, aaaaaaaaaaaa"


@pytest.mark.parametrize("odd", [None, [], "x", {"a": 1}, 7])
def test_odd_details_are_passed_over(odd: Any) -> None:
    assert changes(odd) == []
    assert build(row(detail=odd if isinstance(odd, dict) else {}))["changes"] == []


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ({"kind": "GRACEFUL", "reason": "Stop now"}, "Stop now"),
        ({"kind": "KILL", "reason": "It hangs"}, "Kill, reason It hangs"),
        ({"action": "refresh_plan"}, "Check requested"),
        ({"plan_sha256": "61defff0" * 8, "is_override": True}, "plan 61defff0, override"),
        ({"sha256": "61defff0" * 8}, "digest 61defff0"),
    ],
)
def test_details_hold_no_value_of_a_program(detail: dict[str, Any], said: str) -> None:
    assert build(row(detail=detail))["detail"] == said


def test_an_event_shows_its_address_if_known() -> None:
    assert build(row(address="2001:db8::7"))["address"] == "2001:db8::7"
    assert build(row(address=None))["address"] == build(row())["address"] == ""


def test_events_link_to_their_target() -> None:
    assert build(row(target_label="a/b"))["href"] == "/dashboard/modules?path=a/b"
    job = build(row(target_kind="job", target_id="7", target_label="PLAN a/b"))
    assert (job["href"], job["what"]) == ("/dashboard/jobs/7", "#7 PLAN a/b")
    assert build(row(target_kind="member", target_id="7"))["href"] == ""
