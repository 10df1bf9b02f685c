"""The filter of the list of jobs: its choices in the address, and the query to the database."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.jobs.view.words import ACTIVE, FINISHED
from app.ui.choices import Choices
from app.ui.view import NEEDS_YOU, STATUS_WORDS, TYPE_WORDS

VIEWS: dict[str, frozenset[str]] = {
    "all": frozenset(STATUS_WORDS),
    "needs": NEEDS_YOU,
    "active": ACTIVE,
    "finished": FINISHED,
}


@dataclass(frozen=True)
class JobFilter(Choices):
    """The reader's choices."""

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
