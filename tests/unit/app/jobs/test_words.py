"""Each status is shown with its reason, in few words."""

from typing import Any

import pytest

from app.jobs.view.words import changes, progress, reason, size


@pytest.mark.parametrize(("count", "words"), [(12, "12 B"), (61_400, "61 KB"), (104_857_600, "104.9 MB")])
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words


RESOURCES = [
    {"action": "create", "status": "SUCCEEDED"},
    {"action": "update"},
    {"action": "read", "status": "SUCCEEDED"},
]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"status": "AWAITING_APPROVAL", "approvals_received": 1, "approvals_required": 2}, "1 of 2 approvals"),
        ({"status": "QUEUED", "attempt": 0}, ""),
        ({"status": "QUEUED", "attempt": 1}, "Attempt 1 was lost, it starts again"),
        ({"status": "QUEUED", "is_quarantined": True}, "Held back: it took down two runners"),
        ({"status": "PROCESSING", "phase": "INIT"}, "Init"),
        ({"status": "PROCESSING", "phase": "APPLY", "plan_summary": {"resources": RESOURCES}}, "Apply, 1 of 2"),
        ({"status": "PROCESSING", "phase": "APPLY", "cancel_kind": "AFTER_STEP"}, "Stops after this step"),
        (
            {"status": "FAILED", "error": {"message": "tofu ended with exit code 1. See the log."}},
            "tofu ended with exit code 1",
        ),
        ({"status": "SUCCEEDED", "type": "DRIFT", "plan_summary": {"update": 0}}, "No drift"),
        ({"status": "SUCCEEDED", "type": "DRIFT", "plan_summary": {"update": 1}}, "Drift in 1 resource"),
        ({"status": "SUCCEEDED", "type": "PLAN", "plan_summary": {"update": 1}}, ""),
        ({"status": "SUCCEEDED", "type": "PLAN", "plan_summary": {"update": 0, "no_op": 9}}, "No changes"),
        ({"status": "CANCELLED", "cancel_requested_by": "ops@example.com"}, "By ops@example.com"),
        ({"status": "SOMETHING_NEW"}, ""),
        ({}, ""),
    ],
)
def test_reasons(job: dict[str, Any], words: str) -> None:
    assert reason(job) == words


def test_a_long_error_is_cut_to_one_line() -> None:
    said = reason({"status": "FAILED", "error": {"message": "x" * 300 + "\nsecond"}})
    assert len(said) == 80
    assert said.endswith("…")


def test_a_replacement_adds_and_destroys() -> None:
    assert changes({"create": 9, "update": 3, "replace": 1, "delete": 1}) == (10, 3, 2)
    assert changes(None) is None


def test_progress_counts_only_resources_that_change() -> None:
    assert progress({"plan_summary": {"resources": RESOURCES}}) == (1, 2)
