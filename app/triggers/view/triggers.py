"""Triggers: pushes, pull requests and schedules as rows of one table."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.triggers.view.git import change_href
from app.triggers.view.schedules import ScheduleView
from app.triggers.view.schedules import build_view as build_schedule
from app.ui.choices import Choices
from app.ui.view import Row, count, read

KINDS = {"any": "All", "push": "Pushes", "pull_request": "Pull requests", "schedule": "Schedules"}
APPLY_MODES = {
    "after_merge": "After the merge",
    "before_merge": "Before the merge",
    "merge_queue": "In the merge queue",
    "never": "Never",
}
WHOLE = "the whole repository"


@dataclass(frozen=True)
class TriggerFilter(Choices):
    OFFERS = {"kind": KINDS}
    FORMS = {}

    kind: str = "any"
    search: str = ""

    def arguments(self) -> dict[str, Any]:
        """Build the arguments of list_triggers."""
        return {"search": self.search, "filters": {} if self.kind == "any" else {"kind": [self.kind]}}


class TriggerView(ScheduleView):
    """A schedule, or a module's pushes or pull requests, with the last event and what that led to."""

    kind: str
    href: str
    applies: str
    detail: str
    problem: str
    at: str
    event: str
    event_href: str
    job: str
    job_href: str
    why_href: str


def build_view(row: Row) -> TriggerView:
    return _schedule(row) if row.get("kind") == "schedule" else _git(row)


def watched_folders(row: Row) -> list[str]:
    """The folders that count; until a runner has read the repository, its own one and those that were added."""
    found = row.get("watched") or [row.get("folder"), *(row.get("paths") or [])]
    return [str(path or WHOLE) for path in found]


def _schedule(row: Row) -> TriggerView:
    view, run = build_schedule(row), row.get("last_run") or {}
    return read(
        TriggerView,
        {**view, **_job(row)},
        kind="schedule",
        href=_module(view["path"]),
        detail=f"{view['zone']}, " + (f"next {view['next']}" if view["is_on"] else "off"),
        problem="" if view["is_on"] else view["reason"],
        last_note=view["last_note"] or ("" if run else "Not run yet"),
        at=run.get("created_at"),
        event="" if row.get("job_number") or not run else count(int(run.get("total") or 0), "module"),
    )


def _git(row: Row) -> TriggerView:
    kind, last = str(row.get("kind")), row.get("last") or {}
    branch = row.get("branch") or "the default branch"
    error = f"The repository cannot be read: {row['error']}" if row.get("error") else str(row.get("problem") or "")
    path = str(row.get("path") or "")
    return read(
        TriggerView,
        {**build_schedule({}), **_job(last)},
        id=row.get("id"),
        kind=kind,
        type="PLAN",
        name=f"{kind} {row.get('path')}",
        path=path,
        where=path,
        href=_module(path),
        is_on=row.get("is_on", True),
        words=f"Push to {branch}" if kind == "push" else f"Pull request into {branch}",
        detail=f"{row.get('repository')}: {', '.join(watched_folders(row))}",
        problem=error,
        applies=f"Applied: {APPLY_MODES.get(str(row.get('apply')), '').lower()}",
        last=_verdict(last),
        last_note=_why(last),
        at=last.get("received_at"),
        event=_event(last),
        event_href=change_href({**last, "jobs": [last["job_number"]] if last.get("job_number") else []}),
        why_href=f"/dashboard/settings/git?delivery={last['id']}" if last else "",
    )


def _module(path: str) -> str:
    return f"/dashboard/modules?path={quote(path)}" if path else "/dashboard/modules"


def _job(row: Row) -> dict[str, str]:
    number = row.get("job_number")
    return {"job": f"#{number}" if number else "", "job_href": f"/dashboard/jobs/{number}" if number else ""}


def _verdict(last: Row) -> str:
    found = str(last.get("verdict") or "")
    return "NOTHING" if found == "OTHER_BRANCH" else found


def _why(last: Row) -> str:
    if not last:
        return "None yet"
    if last.get("verdict") == "PENDING":
        return "A runner reads the repository first."
    return "" if last.get("job_number") else str(last.get("reason") or "")


def _event(last: Row) -> str:
    if last.get("pull_request"):
        return f"#{last['pull_request']}"
    return str(last.get("after_commit") or "")[:7] or ("Poll" if last.get("event") == "poll" else "")
