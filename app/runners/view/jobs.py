"""The rows of the active jobs table."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

Row = Mapping[str, Any]
ORDER = {"QUEUED": 0, "CLAIMED": 1, "PROCESSING": 2}


class ActiveJob(TypedDict):
    """A job that waits for a runner or has one."""

    id: int
    type: str
    path: str
    status: str
    runner: str
    since: str
    by: str


def target_of(job: Row, names: Mapping[str, str]) -> str:
    """Say what a job acts on: a module's path, or the runner it deploys, updates or removes, or an identity."""
    if job.get("module_path"):
        return str(job["module_path"])
    if job.get("target_identity_id"):
        return "a cloud identity"
    return names.get(str(job.get("target_worker_id")), "–")


def runner_of(job: Row) -> str:
    """Say who runs a job: runner / instance."""
    parts = [str(job[key]) for key in ("worker_name", "instance_name") if job.get(key)]
    if len(parts) == 2 and parts[0] == parts[1]:
        parts.pop()
    return " / ".join(parts) or "–"


def since_of(job: Row) -> str:
    """Say since when a job is in the state it is in."""
    key = {"QUEUED": "queued_at", "CLAIMED": "claimed_at"}.get(str(job["status"]), "started_at")
    return str(job.get(key) or job.get("claimed_at") or job.get("created_at") or "")


def build_active(jobs: Iterable[Row], names: Mapping[str, str]) -> list[ActiveJob]:
    """List the jobs that wait or run: waiting ones first, the newest of each first."""
    active = [job for job in jobs if job["status"] in ORDER]
    active.sort(key=lambda job: (ORDER[job["status"]], -int(job["id"])))
    return [active_row(job, names) for job in active]


def active_row(job: Row, names: Mapping[str, str]) -> ActiveJob:
    """Make the row of one job."""
    return {
        "id": int(job["id"]),
        "type": str(job["type"]),
        "path": target_of(job, names),
        "status": str(job["status"]),
        "runner": runner_of(job),
        "since": since_of(job),
        "by": str(job.get("created_by_label") or "–"),
    }


def say_counts(jobs: Iterable[Row]) -> str:
    """Say how many are in each state: '4 queued, 1 claimed, 18 processing'."""
    counts = Counter(str(job["status"]) for job in jobs)
    return ", ".join(f"{counts[status]} {status.lower()}" for status in ORDER if counts[status])
