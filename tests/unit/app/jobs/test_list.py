"""The selection of jobs in the list, and their presentation."""

from typing import Any

import pytest

from app.jobs.view.rows import JobFilter, build_row, count, span

WORKER = "3f0c9a52-7d1e-4b8e-9c46-51a0e2d8b7f3"
JOB: dict[str, Any] = {
    "id": 4828,
    "number": 58,
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


def test_a_row_without_a_reason_shows_the_plan() -> None:
    row = build_row(JOB)
    assert (row["has_plan"], row["added"], row["changed"], row["removed"]) == (True, 2, 1, 0)
    assert (row["attempt"], row["path"], row["reason"]) == ("1 of 3", "platform/cluster/eks", "")


def test_a_lifecycle_job_names_its_runner() -> None:
    job = {**JOB, "module_path": None, "target_worker_id": WORKER}
    assert build_row({**job, "target_name": "data-apac"})["path"] == "data-apac"
    assert build_row(job)["path"] == "a runner"


def test_a_test_of_an_identity_names_it_where_it_is_known() -> None:
    job = {**JOB, "module_path": None, "target_identity_id": "i"}
    assert build_row(job)["path"] == "a cloud identity"
    assert build_row({**job, "payload": {"lifecycle": {"identity": {"name": "aws-lab"}}}})["path"] == "aws-lab"


@pytest.mark.parametrize(
    ("status", "times"),
    [("AWAITING_APPROVAL", ("c", "")), ("QUEUED", ("q", "")), ("PROCESSING", ("s", "")), ("FAILED", ("s", "f"))],
)
def test_a_jobs_time_depends_on_its_status(status: str, times: tuple[str, str]) -> None:
    assert span({**JOB, "status": status}) == times


@pytest.mark.parametrize(
    ("choice", "value"), [("view", "x"), ("status", "x"), ("type", "x"), ("runner", "x),id.gt.(0")]
)
def test_an_unknown_choice_changes_nothing(choice: str, value: str) -> None:
    assert JobFilter().with_choice(choice, value) == JobFilter()


def test_a_filter_is_in_the_query_and_in_the_address() -> None:
    chosen = JobFilter("needs", type="APPLY", runner=WORKER, search="#12 a/b")
    statuses = ["AWAITING_APPROVAL", "NEEDS_ATTENTION"]
    assert chosen.arguments("me") == {
        "search": "#12 a/b",
        "filters": {"needs": "me", "status": statuses, "type": ["APPLY"], "worker_id": WORKER},
        "sort": "newest",
    }
    assert chosen.address() == f"?view=needs&type=APPLY&runner={WORKER}&search=%2312+a%2Fb"
    assert (
        JobFilter.read({"view": "needs", "type": "APPLY", "runner": WORKER, "search": "#12 a/b", "colour": "red"})
        == chosen
    )
    assert JobFilter().arguments("me")["filters"] == {}
    assert JobFilter.read({"changed": WORKER}).arguments("me")["filters"] == {"changed_in": WORKER}
    assert JobFilter().address() == ""


def test_counts_of_the_segments() -> None:
    counts = {"NEEDS_ATTENTION": 2, "QUEUED": 20_000}
    assert (count(counts, ["QUEUED", "CLAIMED"]), count(counts, counts), count({}, ["QUEUED"])) == (20_000, 20_002, 0)
