"""The rows of the active jobs table."""

from collections.abc import Mapping
from typing import TypedDict

from app.jobs.view.rows import span, target
from app.ui.view import Row, read

ACTIVE = ("QUEUED", "CLAIMED", "PROCESSING")


class ActiveJob(TypedDict):
    id: int
    number: int
    type: str
    path: str
    status: str
    runner: str
    since: str
    by: str


def runner_of(job: Row) -> str:
    """Name the runner of a job: runner / instance."""
    parts = [str(job[key]) for key in ("worker_name", "instance_name") if job.get(key)]
    if len(parts) == 2 and parts[0] == parts[1]:
        parts.pop()
    return " / ".join(parts) or "–"


def active_row(job: Row) -> ActiveJob:
    since, by = span(job)[0], job.get("created_by_label") or "–"
    return read(ActiveJob, job, path=target(job), runner=runner_of(job), since=since, by=by)


def say_counts(counts: Mapping[str, int]) -> str:
    """Count the jobs of each status: '4 queued, 1 claimed, 18 processing'."""
    return ", ".join(f"{counts[status]:,} {status.lower()}" for status in ACTIVE if counts.get(status))
