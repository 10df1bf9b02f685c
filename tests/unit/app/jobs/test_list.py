"""Which jobs the list shows, and how."""

from typing import Any

import pytest

from app.jobs.view.filters import JobFilter, counts, ordered
from app.shared.job.rows import build_row, span

WORKER = "3f0c9a52-7d1e-4b8e-9c46-51a0e2d8b7f3"
JOB: dict[str, Any] = {
    "id": 4828,
    "type": "APPLY",
    "status": "SUCCEEDED",
    "module_id": "m1",
    "module_path": "platform/cluster/eks",
    "worker_id": WORKER,
    "worker_name": "k8s-platform",
    "created_by_label": "ops@example.com",
    "attempt": 1,
    "max_attempts": 3,
    "plan_summary": {"create": 2, "update": 1},
    "created_at": "c",
    "queued_at": "q",
    "claimed_at": "l",
    "started_at": "s",
    "finished_at": "f",
}


def test_a_row_shows_the_plan_where_no_reason_stands() -> None:
    row = build_row(JOB, {})
    assert (row["has_plan"], row["added"], row["changed"], row["removed"]) == (True, 2, 1, 0)
    assert (row["attempt"], row["path"], row["reason"]) == ("1 of 3", "platform/cluster/eks", "")


def test_a_lifecycle_job_names_its_runner() -> None:
    job = {**JOB, "module_path": None, "target_worker_id": WORKER}
    assert build_row(job, {WORKER: "data-apac"})["path"] == "data-apac"
    assert build_row(job, {})["path"] == "a runner"


def test_a_test_of_an_identity_names_it_where_it_is_known() -> None:
    job = {**JOB, "module_path": None, "target_identity_id": "i"}
    assert build_row(job, {})["path"] == "a cloud identity"
    assert build_row({**job, "payload": {"lifecycle": {"identity": {"name": "aws-lab"}}}}, {})["path"] == "aws-lab"


@pytest.mark.parametrize(
    ("status", "times"),
    [("AWAITING_APPROVAL", ("c", "")), ("QUEUED", ("q", "")), ("PROCESSING", ("s", "")), ("FAILED", ("s", "f"))],
)
def test_the_time_beside_a_job(status: str, times: tuple[str, str]) -> None:
    assert span({**JOB, "status": status}) == times


@pytest.mark.parametrize(
    ("choice", "value", "is_taken"),
    [
        ("view", "finished", True),
        ("view", "needs", False),
        ("status", "SUCCEEDED", True),
        ("status", "FAILED", False),
        ("type", "APPLY", True),
        ("type", "PLAN", False),
        ("runner", WORKER, True),
        ("runner", "00000000-0000-0000-0000-000000000000", False),
        ("search", "CLUSTER", True),
        ("search", "#4828", True),
        ("search", "482", False),
        ("search", "k8s", True),
        ("search", "payments", False),
    ],
)
def test_choices(choice: str, value: str, is_taken: bool) -> None:
    assert JobFilter().with_choice(choice, value).takes(JOB) is is_taken


@pytest.mark.parametrize(
    ("choice", "value"), [("view", "x"), ("status", "x"), ("type", "x"), ("runner", "x),id.gt.(0")]
)
def test_what_is_not_on_offer_changes_nothing(choice: str, value: str) -> None:
    assert JobFilter().with_choice(choice, value) == JobFilter()


def test_a_search_cannot_leave_its_quotes() -> None:
    chosen = JobFilter().with_choice("search", 'x"*),org_id.neq.(a')
    assert chosen.search == "xorg_id.neq.a"
    assert chosen.search_condition().count('"') == 6


def test_conditions_say_the_same_to_the_database() -> None:
    chosen = JobFilter("needs", "any", "APPLY", WORKER, "12")
    assert chosen.conditions() == [
        ("status", "in", "(AWAITING_APPROVAL,NEEDS_ATTENTION)"),
        ("type", "eq", "APPLY"),
        ("worker_id", "eq", WORKER),
    ]
    assert chosen.search_condition().endswith("id.eq.12")


def test_needs_you_puts_attention_first_and_other_views_keep_the_time() -> None:
    jobs = [
        {"id": 1, "status": "NEEDS_ATTENTION"},
        {"id": 2, "status": "AWAITING_APPROVAL"},
        {"id": 3, "status": "NEEDS_ATTENTION"},
    ]
    assert [job["id"] for job in ordered(jobs, "needs")] == [3, 1, 2]
    assert [job["id"] for job in ordered(jobs, "all")] == [3, 2, 1]


def test_counts_of_the_segments() -> None:
    statuses = ("NEEDS_ATTENTION", "AWAITING_APPROVAL", "QUEUED", "FAILED")
    assert counts([{"status": status} for status in statuses]) == {"needs": 2, "active": 2}
