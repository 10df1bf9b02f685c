"""The rows of the active jobs table."""

from collections.abc import Mapping
from typing import TypedDict

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


def target_of(job: Row) -> str:
    """Name what a job acts on: a module's path, or the runner it deploys, updates or removes, an identity, or a repository."""
    if job.get("type") == "RESOLVE":
        return str(job.get("target_name") or "a repository")
    if job.get("module_path"):
        return str(job["module_path"])
    return "a cloud identity" if job.get("target_identity_id") else str(job.get("target_name") or "–")


def runner_of(job: Row) -> str:
    """Name the runner of a job: runner / instance."""
    parts = [str(job[key]) for key in ("worker_name", "instance_name") if job.get(key)]
    if len(parts) == 2 and parts[0] == parts[1]:
        parts.pop()
    return " / ".join(parts) or "–"


def since_of(job: Row) -> str:
    key = {"QUEUED": "queued_at", "CLAIMED": "claimed_at"}.get(str(job["status"]), "started_at")
    return str(job.get(key) or job.get("claimed_at") or job.get("created_at") or "")


def active_row(job: Row) -> ActiveJob:
    return read(
        ActiveJob,
        job,
        path=target_of(job),
        runner=runner_of(job),
        since=since_of(job),
        by=job.get("created_by_label") or "–",
    )


def say_counts(counts: Mapping[str, int]) -> str:
    """Count the jobs of each status: '4 queued, 1 claimed, 18 processing'."""
    return ", ".join(f"{counts[status]:,} {status.lower()}" for status in ACTIVE if counts.get(status))
