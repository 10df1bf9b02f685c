"""One malformed report breaks no page."""

from typing import Any

import pytest

from app.jobs.view import detail, plan, timeline
from app.jobs.view.rows import build_row
from app.project.shapes import shaped

JOB: dict[str, Any] = {
    "id": 7,
    "number": 3,
    "type": "APPLY",
    "module_path": "a/b",
    "created_at": "2026-11-15T14:00:00+00:00",
}
NONSENSE: list[Any] = [[1], "x", 1, True, {}, {"message": [1]}, [["x"]], None, {"resources": [1], "create": "many"}]
COLUMNS = ("error", "steps", "labels", "plan_summary", "result", "payload", "late_report")


@pytest.mark.parametrize("status", ["QUEUED", "PROCESSING", "SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_ATTENTION"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_job_with_nonsense_in_it_is_shown(column: str, status: str) -> None:
    for value in NONSENSE:
        job = shaped("provision_jobs", {**JOB, "status": status, column: value})
        assert build_row(job)["id"] == 7, value
        assert detail.build_view(job, {}, ())["id"] == 7, value
        plan.build(job)
        timeline.build(job)
        detail.log_steps(job)
        detail.build_outputs(job)


def test_a_well_formed_row_stays_unchanged() -> None:
    job = {
        **JOB,
        "error": {"message": "no"},
        "steps": [{"name": "plan"}],
        "plan_summary": {"create": 1, "resources": []},
    }
    assert shaped("provision_jobs", job) == job


def test_other_tables_are_not_touched() -> None:
    assert shaped("workers", {"steps": "x"}) == {"steps": "x"}
