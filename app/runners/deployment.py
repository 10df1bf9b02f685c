"""The steps of deploying a cloud-hosted runner, as the sheet follows them."""

from collections.abc import Mapping
from typing import Any, TypedDict

Row = Mapping[str, Any]
HEARTBEAT = "First heartbeat"
EXPECTED = (
    ("iam", "IAM roles"),
    ("logs", "CloudWatch log group"),
    ("network", "Security group"),
    ("service", "ECS task definition and service"),
)


class DeployStep(TypedDict):
    """A step with its state and its times."""

    title: str
    status: str
    started_at: str
    finished_at: str


def _step(title: str, status: str, row: Row | None = None) -> DeployStep:
    row = row or {}
    return {
        "title": title,
        "status": status,
        "started_at": str(row.get("started_at") or ""),
        "finished_at": str(row.get("finished_at") or ""),
    }


def build_steps(job: Row, *, is_online: bool) -> list[DeployStep]:
    """List the job's steps, those that are still to come, and the first heartbeat."""
    reported = [row for row in job.get("steps") or [] if isinstance(row, Mapping)]
    steps = [_step(str(row.get("title") or row.get("name")), str(row.get("status")), row) for row in reported]
    if not steps:
        steps = [_step(title, "PENDING") for _, title in EXPECTED]
    if is_online:
        beat = "SUCCEEDED"
    else:
        beat = "RUNNING" if job.get("status") == "SUCCEEDED" else "PENDING"
    return [*steps, _step(HEARTBEAT, beat)]
