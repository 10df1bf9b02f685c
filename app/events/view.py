"""The filter of the events page, and each event in words."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from app.jobs.view.events import JOB_EVENTS, actor_words, reason_words
from app.runners.view.events import RUNNER_EVENTS, say_reason
from app.ui.choices import Choices
from app.ui.view import Row, capitalised

KINDS = {"any": "All", "runner": "Runners", "job": "Jobs"}
SPANS = {"1h": ("Last hour", 1), "24h": ("Last 24 h", 24), "7d": ("Last 7 d", 168), "all": ("Any time", 0)}
NAMES = {**{name: said for name, (_, said) in RUNNER_EVENTS.items()}, **{k: v for k, (_, v) in JOB_EVENTS.items()}}


@dataclass(frozen=True)
class EventFilter(Choices):
    OFFERS = {"kind": KINDS, "event": {"any", *NAMES}, "span": SPANS}
    FORMS = {"runner": r"any|[0-9a-f-]{36}", "job": r"any|[0-9]{1,18}"}

    kind: str = "any"
    event: str = "any"
    span: str = "24h"
    runner: str = "any"
    job: str = "any"
    search: str = ""

    def arguments(self, now: datetime) -> dict[str, Any]:
        """Build the arguments of list_events; a span begins so long before now, by the minute."""
        filters: dict[str, Any] = {}
        if self.kind != "any":
            filters["kind"] = [self.kind]
        if self.event != "any":
            filters["event"] = [self.event]
        if self.runner != "any":
            filters["worker_id"] = self.runner
        if self.job != "any":
            filters["job"] = self.job
        hours = SPANS[self.span][1]
        if hours:
            filters["since"] = (now - timedelta(hours=hours)).replace(second=0, microsecond=0).isoformat()
        return {"search": self.search, "filters": filters}


class EventRow(TypedDict):
    key: str
    name: str
    at: str
    words: str
    reason: str
    who: str
    about: str
    href: str
    runner: str
    runner_href: str


def build(row: Row) -> EventRow:
    """Put an event into words, with where it leads."""
    name, is_job = str(row["event"]), row["kind"] == "job"
    _, said = (JOB_EVENTS if is_job else RUNNER_EVENTS).get(name, ("info", name.replace("_", " ").capitalize()))
    worker, reason = str(row.get("worker_id") or ""), str(row.get("reason") or "").removeprefix(f"{said} ")
    return {
        "key": f"{row['kind']}-{row['id']}",
        "name": name,
        "at": str(row["at"]),
        "words": capitalised(said),
        "reason": reason_words(name, reason, str(row.get("actor"))) if is_job else say_reason(reason),
        "who": actor_words(row.get("actor")),
        "about": f"#{row['job_number']} {row.get('module_path') or ''}".strip() if is_job else "",
        "href": f"/dashboard/jobs/{row['job_number']}" if is_job else "",
        "runner": str(row.get("worker_name") or ""),
        "runner_href": f"/dashboard/runners/{worker}" if worker else "",
    }
