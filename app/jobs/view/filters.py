"""Which jobs the list shows: the same rule for rows in memory and for the database."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from app.shared.job.words import ACTIVE, FINISHED, NEEDS_YOU, STATUS_WORDS, TYPE_WORDS

Row = Mapping[str, Any]
T = TypeVar("T", bound=Row)

VIEWS: dict[str, frozenset[str]] = {
    "all": frozenset(STATUS_WORDS),
    "needs": NEEDS_YOU,
    "active": ACTIVE,
    "finished": FINISHED,
}
_SEARCHABLE = re.compile(r"[^\w./ -]")
_URGENCY = {"NEEDS_ATTENTION": 0, "AWAITING_APPROVAL": 1}


@dataclass(frozen=True)
class JobFilter:
    """What the reader chose; 'any' leaves a choice open."""

    view: str = "all"
    status: str = "any"
    type: str = "any"
    runner: str = "any"
    search: str = ""

    def with_choice(self, name: str, value: str) -> "JobFilter":
        """Change one choice; what is not on offer changes nothing."""
        offers = {"view": VIEWS, "status": {"any", *STATUS_WORDS}, "type": {"any", *TYPE_WORDS}}
        if name in offers and value not in offers[name]:
            return self
        if name == "runner" and not re.fullmatch(r"any|[0-9a-f-]{36}", value):
            return self
        if name == "search":
            value = _SEARCHABLE.sub("", value.removeprefix("#"))[:100].strip()
        return replace(self, **{name: value})

    @property
    def statuses(self) -> frozenset[str]:
        """Name the statuses that both the view and the status leave."""
        chosen = VIEWS[self.view]
        return chosen if self.status == "any" else chosen & {self.status}

    @property
    def is_open(self) -> bool:
        """Say whether nothing was chosen."""
        return self == JobFilter()

    def takes(self, job: Row) -> bool:
        """Say whether a job is among those that were asked for."""
        return (
            job.get("status") in self.statuses
            and self.type in ("any", job.get("type"))
            and self.runner in ("any", str(job.get("worker_id")))
            and self._finds(job)
        )

    def _finds(self, job: Row) -> bool:
        wanted = self.search.lower()
        fields = (job.get("module_path"), job.get("worker_name"), job.get("created_by_label"))
        return not wanted or wanted == str(job.get("id")) or any(wanted in str(text or "").lower() for text in fields)

    def conditions(self) -> list[tuple[str, str, str]]:
        """Say the same to PostgREST, as (column, operator, value)."""
        found = []
        if self.statuses != VIEWS["all"]:
            found.append(("status", "in", f"({','.join(sorted(self.statuses))})"))
        if self.type != "any":
            found.append(("type", "eq", self.type))
        if self.runner != "any":
            found.append(("worker_id", "eq", self.runner))
        return found

    def search_condition(self) -> str:
        """Say the search to PostgREST as its `or`; nothing when there is none."""
        if not self.search:
            return ""
        pattern = self.search.replace("\\", "").replace("_", r"\_")
        parts = [
            f'{column}.ilike."*{_quoted(pattern)}*"' for column in ("module_path", "worker_name", "created_by_label")
        ]
        if re.fullmatch(r"\d{1,18}", self.search):
            parts.append(f"id.eq.{self.search}")
        return ",".join(parts)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def ordered(jobs: Iterable[T], view: str) -> list[T]:
    """Newest first; among those that need somebody, the urgent before the waiting."""
    newest = sorted(jobs, key=lambda job: -int(job["id"]))
    if view == "needs":
        newest.sort(key=lambda job: _URGENCY.get(str(job.get("status")), 2))
    return newest


def counts(jobs: Iterable[Row]) -> dict[str, int]:
    """Count what the filter's segments show beside their names."""
    statuses = [str(job.get("status")) for job in jobs]
    return {
        "needs": sum(status in NEEDS_YOU for status in statuses),
        "active": sum(status in ACTIVE for status in statuses),
    }
