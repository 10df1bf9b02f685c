"""The table of jobs: its rows, and the filter that chooses them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from app.jobs.view import words
from app.jobs.view.words import ACTIVE, FINISHED
from app.ui.choices import Choices
from app.ui.view import NEEDS_YOU, STATUS_WORDS, TYPE_WORDS, Row, read


class JobRow(TypedDict):
    """One job as the list shows it; times are the database's, the browser makes words of them."""

    id: int
    number: int
    type: str
    path: str
    module_id: str
    status: str
    reason: str
    has_plan: bool
    is_run: bool
    added: int
    changed: int
    removed: int
    runner: str
    worker_id: str
    attempt: str
    since: str
    until: str
    by: str
    created_at: str


def build_row(job: Row) -> JobRow:
    """Read a job's row; a listed one names the runner that a lifecycle job acts on."""
    summary = job.get("plan_summary") if job.get("status") == "SUCCEEDED" else None
    # A job that waits to be confirmed has not run: its plan shows what it changes.
    if job.get("status") == "AWAITING_APPROVAL":
        summary = (job.get("plan") or {}).get("plan_summary")
    plan = words.changes(summary)
    added, changed, removed = plan or (0, 0, 0)
    said = words.reason(job)
    since, until = span(job)
    return read(
        JobRow,
        job,
        path=target(job),
        reason=said,
        has_plan=plan is not None and (not said or job["status"] == "AWAITING_APPROVAL"),
        is_run=_has_plan_phase(job),
        added=added,
        changed=changed,
        removed=removed,
        runner=job.get("worker_name"),
        attempt=words.attempt(job),
        since=since,
        until=until,
        by=job.get("created_by_label"),
    )


def _has_plan_phase(job: Row) -> bool:
    """Return whether a row represents a plan and the apply that followed it; only lists name the plan."""
    if "plan" in job:
        return bool(job["plan"])
    return bool(job.get("plan_job_id")) and not job.get("retry_of")


def target(job: Row) -> str:
    """Name what a job acts on: a path, a runner's name, an identity, or a repository."""
    if job.get("type") == "RESOLVE":
        git = (job.get("payload") or {}).get("git") or {}
        return str(git.get("repository") or job.get("target_name") or "a repository")
    if job.get("type") == "POLICY_TEST":
        return str(job.get("module_path") or "All modules")
    if job.get("target_identity_id"):
        # Only the job's own page has the payload with the name in it.
        lifecycle = (job.get("payload") or {}).get("lifecycle") or {}
        return str((lifecycle.get("identity") or {}).get("name") or "a cloud identity")
    return str(job.get("module_path") or job.get("target_name") or "a runner")


def span(job: Row) -> tuple[str, str]:
    """Return the start and end of the time beside a job: its wait, then its run, then both ends of its run."""
    created, started = str(job.get("created_at") or ""), str(job.get("started_at") or job.get("claimed_at") or "")
    status = job.get("status")
    if status == "AWAITING_APPROVAL":
        return created, ""
    if status == "QUEUED":
        return str(job.get("queued_at") or created), ""
    if status in words.RUNNING:
        return started or created, ""
    return started or created, str(job.get("finished_at") or job.get("updated_at") or "")


VIEWS: dict[str, frozenset[str]] = {
    "all": frozenset(STATUS_WORDS),
    "needs": NEEDS_YOU,
    "active": ACTIVE,
    "finished": FINISHED,
}


@dataclass(frozen=True)
class JobFilter(Choices):
    OFFERS = {"view": VIEWS, "status": {"any", *STATUS_WORDS}, "type": {"any", *TYPE_WORDS}}
    FORMS = dict.fromkeys(("runner", "changed"), r"any|[0-9a-f-]{36}")

    view: str = "all"
    status: str = "any"
    type: str = "any"
    runner: str = "any"
    changed: str = "any"
    search: str = ""

    @property
    def statuses(self) -> frozenset[str]:
        """Name the statuses that both the view and the status leave."""
        chosen = VIEWS[self.view]
        return chosen if self.status == "any" else chosen & {self.status}

    def arguments(self, user_id: str) -> dict[str, Any]:
        """Build the arguments of list_jobs; the viewer matters only where the rows depend on them, so that others share the answer."""
        filters: dict[str, Any] = {"needs": user_id} if self.view == "needs" else {}
        if self.statuses != VIEWS["all"]:
            filters["status"] = sorted(self.statuses)
        if self.type != "any":
            filters["type"] = [self.type]
        if self.runner != "any":
            filters["worker_id"] = self.runner
        if self.changed != "any":
            filters["changed_in"] = self.changed
        # People look for the running ones among a thousand queued jobs.
        return {"search": self.search, "filters": filters, "sort": "active" if self.view == "active" else "newest"}


def count(counts: Mapping[str, int], statuses: Iterable[str]) -> int:
    return sum(int(counts.get(status) or 0) for status in statuses)
