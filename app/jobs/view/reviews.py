"""The facts for a decision about a job: its plan, the plan's source and state, and the decisions and comments of other members."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from app.jobs.view.detail import source
from app.ui.view import Row, read


class ApprovalView(TypedDict):
    label: str
    decision: str
    comment: str
    at: str


class Comment(TypedDict):
    id: str
    who: str
    at: str
    body: str


@dataclass(frozen=True)
class Planned:
    """The plan that a job applies; `number` only where another run made it, `is_outdated` when the state has changed since."""

    is_known: bool = False
    number: int = 0
    runner: str = ""
    source: str = ""
    serial: int = 0
    is_outdated: bool = False
    is_confirmed_by_hand: bool = False
    deadline: str = ""


def approval(row: Row) -> ApprovalView:
    return read(ApprovalView, row, label=row["user_label"], at=row["created_at"])


def comment(row: Row) -> Comment:
    return read(Comment, row, who=row.get("user_label"), at=row.get("created_at"))


def with_plan(job: Row, plan_job: Row) -> Row:
    """Return a job with the summary of its plan: its own or, until it runs, that of the job that planned it."""
    if job.get("plan_summary") or not plan_job:
        return job
    return {**job, "plan_summary": plan_job.get("plan_summary"), "type": "PLAN"}


def planned(job: Row, plan_job: Row, serial: int) -> Planned:
    """Describe the source of a job's plan, and whether it can still be applied."""
    if not plan_job:
        return Planned()
    made_against = int(plan_job["planned_serial"]) if plan_job.get("planned_serial") is not None else -1
    is_waiting = job.get("status") == "AWAITING_APPROVAL"
    return Planned(
        is_known=True,
        number=int(plan_job["number"]) if plan_job["number"] != job["number"] else 0,
        runner=str(plan_job.get("worker_name") or ""),
        source=source(plan_job),
        serial=made_against,
        is_outdated=is_waiting and made_against != serial,
        is_confirmed_by_hand=bool(job.get("needs_confirmation")),
        deadline=str(job.get("approval_deadline_at") or "") if is_waiting else "",
    )


def changes(answer: object) -> dict[str, Any]:
    """Read what one resource changes from the database's answer."""
    resources = answer.get("resources") if isinstance(answer, Mapping) else None
    found = resources[0] if isinstance(resources, list) and resources else {}
    return dict(found) if isinstance(found, Mapping) else {}
