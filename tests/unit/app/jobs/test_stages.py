"""The stages of a run show its progress."""

from typing import Any

import pytest

from app.jobs.view.stages import build

PLAN: dict[str, Any] = {
    "type": "PLAN", "status": "SUCCEEDED", "plan_summary": {"create": 1, "update": 2, "has_changes": True},
    "claimed_at": "a", "finished_at": "b",
}  # fmt: skip
APPLY: dict[str, Any] = {"type": "APPLY", "status": "AWAITING_APPROVAL", "created_at": "c", "approvals_required": 0}
CONFIRMED = {**APPLY, "queued_at": "d"}


def said(job: dict[str, Any], plan: dict[str, Any], *events: str) -> list[tuple[str, str, str]]:
    found = build(job, plan, [{"event": event, "at": "e"} for event in events])
    return [(stage["name"], stage["status"], stage["words"]) for stage in found]


PLANNED = ("Plan", "SUCCEEDED", "3 changes")


@pytest.mark.parametrize(
    ("job", "events", "review", "apply"),
    [
        (APPLY, (), ("AWAITING_APPROVAL", "to confirm"), ("NOT_STARTED", "starts when confirmed")),
        (
            {**APPLY, "approvals_required": 2, "approvals_received": 1},
            ("approval",),
            ("AWAITING_APPROVAL", "1 of 2 approvals"),
            ("NOT_STARTED", "starts when confirmed"),
        ),
        ({**CONFIRMED, "status": "QUEUED"}, ("confirmed",), ("SUCCEEDED", "confirmed"), ("QUEUED", "queued")),
        (
            {**CONFIRMED, "status": "PROCESSING", "claimed_at": "f"},
            (),
            ("SUCCEEDED", "not required"),
            ("PROCESSING", "processing"),
        ),
        ({**APPLY, "status": "CANCELLED"}, ("rejected",), ("CANCELLED", "discarded"), ("NOT_STARTED", "not reached")),
        ({**APPLY, "status": "CANCELLED"}, ("outdated",), ("CANCELLED", "out of date"), ("NOT_STARTED", "not reached")),
        (
            {**APPLY, "status": "CANCELLED"},
            ("approval_expired",),
            ("CANCELLED", "expired"),
            ("NOT_STARTED", "not reached"),
        ),
        ({**APPLY, "status": "CANCELLED"}, ("cancelled",), ("CANCELLED", "cancelled"), ("NOT_STARTED", "not reached")),
    ],
)
def test_a_run_shows_plan_review_and_apply(
    job: dict[str, Any], events: tuple[str, ...], review: tuple[str, str], apply: tuple[str, str]
) -> None:
    assert said(job, PLAN, *events) == [PLANNED, ("Review", *review), ("Apply", *apply)]


def test_a_plan_to_be_applied_shows_later_stages_and_other_jobs_show_none() -> None:
    running = {"type": "PLAN", "status": "PROCESSING", "claimed_at": "a", "payload": {"options": {"confirm": True}}}
    assert said(running, {}) == [
        ("Plan", "PROCESSING", "processing"),
        ("Review", "NOT_STARTED", "after the plan"),
        ("Apply", "NOT_STARTED", "not started"),
    ]
    ended = {**running, "status": "FAILED", "payload": {"options": {"confirm": True, "destroy": True}}}
    assert [stage[2] for stage in said(ended, {})] == ["failed", "not reached", "not reached"]
    assert said({**running, "payload": {"options": {}}}, {}) == said(APPLY, {}) == []


def test_a_plan_that_was_discarded_before_any_apply_says_so() -> None:
    assert said(PLAN, {}, "rejected") == [
        PLANNED, ("Review", "CANCELLED", "discarded"), ("Apply", "NOT_STARTED", "not reached"),
    ]  # fmt: skip


def test_the_time_of_a_stage_ends_with_it() -> None:
    plan, review, apply = build({**CONFIRMED, "status": "QUEUED"}, PLAN, [{"event": "confirmed", "at": "e"}])
    assert [(each["since"], each["until"]) for each in (plan, review, apply)] == [("a", "b"), ("c", "e"), ("", "")]


def test_an_apply_that_was_lost_ran_until_then() -> None:
    lost = {**CONFIRMED, "status": "FAILED", "claimed_at": "f", "finished_at": "z"}
    events = [{"event": "confirmed", "at": "e"}, {"event": "attention", "at": "k"}]
    assert build(lost, PLAN, events)[2]["until"] == "k"
    assert build(lost, PLAN, [*events, {"event": "resumed", "at": "m"}])[2]["until"] == "z"
