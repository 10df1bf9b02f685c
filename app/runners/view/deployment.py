"""Deploying a cloud-hosted runner: with which identity, and the job's steps as the sheet follows them."""

from collections.abc import Mapping
from typing import TypedDict

from app.runners.view.rows import versions
from app.ui.view import Row, read

# One job per task: nothing isolates the jobs of a task from each other on Fargate.
SIZES = {
    "1 vCPU, 2 GB": {"cpu": 1024, "memory": 2048, "capacity": 1},
    "2 vCPU, 4 GB": {"cpu": 2048, "memory": 4096, "capacity": 1},
    "4 vCPU, 8 GB": {"cpu": 4096, "memory": 8192, "capacity": 1},
}
EXPECTED = {
    "DEPLOY_WORKER": (
        "Cloud identity", "Log group", "Token secret", "IAM roles", "Network and security group", "Cluster",
        "Task definition", "Service", "First heartbeat",
    ),
    "REMOVE_WORKER": (
        "Cloud identity", "Drain", "Service", "Task definitions", "Cluster", "Network and security group",
        "IAM roles", "Token secret", "Log group",
    ),
}  # fmt: skip


class DeployStep(TypedDict):
    title: str
    status: str
    started_at: str
    finished_at: str


class CloudIdentity(TypedDict):
    id: str
    name: str
    hint: str
    regions: list[str]
    check: str
    check_words: str


def _step(title: str, status: str, row: Row | None = None) -> DeployStep:
    row = row or {}
    return read(DeployStep, row, title=title, status=status)


def build_steps(job: Row) -> list[DeployStep]:
    """List the job's steps as they were reported, then those that are still to come."""
    reported = [row for row in job.get("steps") or [] if isinstance(row, Mapping) and row.get("name") != "report"]
    steps = [_step(str(row.get("title") or row.get("name")), str(row.get("status")), row) for row in reported]
    known = {step["title"] for step in steps}
    ahead = [title for title in EXPECTED.get(str(job.get("type")), ()) if title not in known]
    return [*steps, *(_step(title, "PENDING") for title in ahead)]


def build_identity(row: Row) -> CloudIdentity:
    role = str(row.get("role_arn") or "").rsplit("/", 1)[-1]
    account = str(row.get("account_id") or "")
    check, said = check_words(row)
    return read(
        CloudIdentity,
        row,
        hint=f"Role {role}, account ending {account[-4:]}" if role else "",
        regions=[str(region) for region in row.get("regions") or []],
        check=check,
        check_words=said,
    )


def check_words(row: Row, test: Row | None = None) -> tuple[str, str]:
    """Describe whether an identity works: TESTING, WORKS, BROKEN or UNKNOWN, with a text."""
    if test is not None and test["status"] in ("CLAIMED", "PROCESSING"):
        return "TESTING", "Testing"
    if test is not None and test["status"] == "QUEUED":
        return "TESTING", "Waiting for a runner to test it"
    if row.get("verification_error"):
        return "BROKEN", str(row["verification_error"])
    if row.get("verified_at"):
        return "WORKS", "Works"
    return "UNKNOWN", "Not tried yet"


def read_test(job: Row) -> tuple[str, str]:
    """Describe what the job that tests an identity has found so far."""
    if job["status"] == "SUCCEEDED":
        return check_words({"verified_at": job.get("finished_at") or "now"})
    if job["status"] in ("FAILED", "CANCELLED"):
        return "BROKEN", str((job.get("error") or {}).get("message") or "The test was cancelled.")
    return check_words({}, job)


def arrival(worker: Row) -> str:
    """Describe what came online: version, engines, slots."""
    mine = worker.get("processes") or []
    engines = sorted(
        {f"{name} {versions(found)}" for row in mine for name, found in (row.get("engines") or {}).items()}
    )
    slots = sum(int(row.get("capacity") or 0) for row in mine) or int(worker.get("capacity") or 1)
    found = f"{', '.join(engines)} found" if engines else "no engine found yet"
    return f"Version {worker.get('version') or 'unknown'}, {found}, {slots} {'slot' if slots == 1 else 'slots'}."
