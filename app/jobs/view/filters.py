"""The filter of the list of jobs: its choices in the address, and the query to the database."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from app.jobs.view.words import ACTIVE, FINISHED
from app.ui.view import NEEDS_YOU, STATUS_WORDS, TYPE_WORDS

VIEWS: dict[str, frozenset[str]] = {
    "all": frozenset(STATUS_WORDS),
    "needs": NEEDS_YOU,
    "active": ACTIVE,
    "finished": FINISHED,
}
CHOICES = ("view", "status", "type", "runner", "changed", "search")


@dataclass(frozen=True)
class JobFilter:
    """The reader's choices; 'any' leaves a choice open."""

    view: str = "all"
    status: str = "any"
    type: str = "any"
    runner: str = "any"
    changed: str = "any"
    search: str = ""

    def with_choice(self, name: str, value: str) -> "JobFilter":
        """Change one choice; an unknown value changes nothing."""
        offers = {"view": VIEWS, "status": {"any", *STATUS_WORDS}, "type": {"any", *TYPE_WORDS}}
        if name in offers and value not in offers[name]:
            return self
        if name in ("runner", "changed") and not re.fullmatch(r"any|[0-9a-f-]{36}", value):
            return self
        if name == "search":
            value = value[:100].strip()
        return replace(self, **{name: value})

    @property
    def statuses(self) -> frozenset[str]:
        """Name the statuses that both the view and the status leave."""
        chosen = VIEWS[self.view]
        return chosen if self.status == "any" else chosen & {self.status}

    @property
    def is_open(self) -> bool:
        return self == JobFilter()

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

    def query(self) -> str:
        opened = JobFilter()
        chosen = {name: getattr(self, name) for name in CHOICES if getattr(self, name) != getattr(opened, name)}
        return f"?{urlencode(chosen)}" if chosen else ""

    def export(self, user_id: str) -> str:
        """Build the address of the file that has all of them."""
        asked = self.arguments(user_id)
        return "?" + urlencode({"search": asked["search"], "filters": json.dumps(asked["filters"])})


def read(parameters: Mapping[str, Any]) -> JobFilter:
    """Read it from the address; what is not on offer is left out."""
    chosen = JobFilter()
    for name in CHOICES:
        if name in parameters:
            chosen = chosen.with_choice(name, str(parameters[name]))
    return chosen


def count(counts: Mapping[str, int], statuses: Iterable[str]) -> int:
    return sum(int(counts.get(status) or 0) for status in statuses)
