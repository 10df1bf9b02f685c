"""The filter of the events page, and each event in words."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypedDict
from urllib.parse import urlencode

from app.jobs.view.events import JOB_EVENTS
from app.jobs.view.words import PHASE_WORDS
from app.runners.view.events import RUNNER_EVENTS, say_reason
from app.ui.view import Row, capitalised

KINDS = {"any": "All", "runner": "Runners", "job": "Jobs"}
SPANS = {"1h": ("Last hour", 1), "24h": ("Last 24 h", 24), "7d": ("Last 7 d", 168), "all": ("Any time", 0)}
NAMES = {**{name: said for name, (_, said) in RUNNER_EVENTS.items()}, **{k: v for k, (_, v) in JOB_EVENTS.items()}}
CHOICES = ("kind", "event", "span", "runner", "job", "search")
_FORMS = {"runner": r"any|[0-9a-f-]{36}", "job": r"any|[0-9]{1,18}"}


@dataclass(frozen=True)
class EventFilter:
    """The reader's choices; 'any' leaves a choice open."""

    kind: str = "any"
    event: str = "any"
    span: str = "24h"
    runner: str = "any"
    job: str = "any"
    search: str = ""

    def with_choice(self, name: str, value: str) -> "EventFilter":
        """Change one choice; what is not on offer changes nothing."""
        offers = {"kind": set(KINDS), "event": {"any", *NAMES}, "span": set(SPANS)}
        if name in offers and value not in offers[name]:
            return self
        if name in _FORMS and not re.fullmatch(_FORMS[name], value):
            return self
        return replace(self, **{name: value[:100].strip() if name == "search" else value})

    @property
    def is_open(self) -> bool:
        return self == EventFilter()

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

    def address(self) -> str:
        """The choice as an address has it."""
        open_ = EventFilter()
        chosen = {name: getattr(self, name) for name in CHOICES if getattr(self, name) != getattr(open_, name)}
        return f"?{urlencode(chosen)}" if chosen else ""


def read(query: Mapping[str, str]) -> EventFilter:
    """The choice in an address; what makes no sense is left out."""
    chosen = EventFilter()
    for name in CHOICES:
        if name in query:
            chosen = chosen.with_choice(name, str(query[name]))
    return chosen


def export(chosen: EventFilter, now: datetime) -> str:
    wanted = chosen.arguments(now)
    return "?" + urlencode({"search": wanted["search"], "filters": json.dumps(wanted["filters"])})


class EventRow(TypedDict):
    key: str
    name: str
    at: str
    icon: str
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
    icon, said = (JOB_EVENTS if is_job else RUNNER_EVENTS).get(name, ("info", name.replace("_", " ").capitalize()))
    worker, reason = str(row.get("worker_id") or ""), str(row.get("reason") or "")
    return {
        "key": f"{row['kind']}-{row['id']}",
        "name": name,
        "at": str(row["at"]),
        "icon": icon,
        "words": capitalised(said),
        "reason": PHASE_WORDS.get(reason, reason) if name == "phase" else say_reason(reason),
        "who": str(row.get("actor") or ""),
        "about": f"#{row['job_number']} {row.get('module_path') or ''}".strip() if is_job else "",
        "href": f"/dashboard/jobs/{row['job_number']}" if is_job else "",
        "runner": str(row.get("worker_name") or ""),
        "runner_href": f"/dashboard/runners/{worker}" if worker else "",
    }
