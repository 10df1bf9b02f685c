"""The filter of the table of runners: its choices in the address, the query to the database, and the values on the chips."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict
from urllib.parse import urlencode

from app.runners.view.rows import CONDITIONS

STATUSES = ("ALL", "ONLINE", "DRAINING", "OFFLINE")
FACETS = ("label", "version", "region", "health")
SORTS = ("name", "-name", "status", "newest")
HEALTH_WORDS = {"healthy": "Healthy", **CONDITIONS}
MAX_VALUES = 20
MAX_LENGTH = 200


class Choice(TypedDict):
    """A value that a chip offers, with how many runners have it."""

    value: str
    word: str
    count: int
    is_on: bool


@dataclass(frozen=True)
class RunnerFilter:
    """The reader's choices; an empty facet filters nothing."""

    status: str = "ALL"
    search: str = ""
    sort: str = "name"
    label: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    health: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return replace(self, sort="name") == RunnerFilter()

    def values(self, facet: str) -> tuple[str, ...]:
        chosen: tuple[str, ...] = getattr(self, facet)
        return chosen

    def toggled(self, facet: str, value: str) -> "RunnerFilter":
        """Choose a value of a facet, or remove it; an invalid value changes nothing."""
        if facet not in FACETS or not 0 < len(value) <= MAX_LENGTH or (facet == "health" and value not in HEALTH_WORDS):
            return self
        held = self.values(facet)
        chosen = tuple(one for one in held if one != value) if value in held else (*held, value)[:MAX_VALUES]
        return self._with(facet, chosen)

    def cleared(self, facet: str = "") -> "RunnerFilter":
        """Leave a facet open, or all of them and the search."""
        return self._with(facet, ()) if facet in FACETS else RunnerFilter(sort=self.sort)

    def _with(self, facet: str, values: tuple[str, ...]) -> "RunnerFilter":
        changed: dict[str, Any] = {facet: values}
        return replace(self, **changed)

    def arguments(self) -> dict[str, Any]:
        filters: dict[str, list[str]] = {facet: list(self.values(facet)) for facet in FACETS if self.values(facet)}
        if self.status != "ALL":
            filters["status"] = [self.status]
        return {"search": self.search, "filters": filters, "sort": self.sort}

    def query(self) -> str:
        """Build the address, so that it can be kept and sent."""
        pairs = [("status", self.status)] if self.status != "ALL" else []
        pairs += [("q", self.search)] if self.search else []
        pairs += [("sort", self.sort)] if self.sort != "name" else []
        pairs += [(facet, value) for facet in FACETS for value in self.values(facet)]
        return f"?{urlencode(pairs)}" if pairs else ""


def read(parameters: Mapping[str, Any]) -> RunnerFilter:
    """Read it from the address; what is not on offer is left out."""
    status, sort = str(parameters.get("status", "")).upper(), str(parameters.get("sort", ""))
    chosen = RunnerFilter(
        status=status if status in STATUSES else "ALL",
        search=str(parameters.get("q", ""))[:100],
        sort=sort if sort in SORTS else "name",
    )
    for facet in FACETS:
        given = parameters.get(facet, [])
        for value in given if isinstance(given, list | tuple) else [given]:
            chosen = chosen.toggled(facet, str(value))
    return chosen


def say_values(facet: str, values: tuple[str, ...]) -> str:
    """Describe a chip's setting: 'gpu=true', or 'eu-west-1 and 2 more'."""
    if not values:
        return ""
    first = HEALTH_WORDS.get(values[0], values[0]) if facet == "health" else values[0]
    return first if len(values) == 1 else f"{first} and {len(values) - 1} more"


def choices(facets: Mapping[str, Any], chosen: RunnerFilter) -> dict[str, list[Choice]]:
    """List the values of each chip: the most frequent first, and the chosen ones even where no runner has them any more."""
    counts = facets.get("counts") or {}
    return {facet: _choices(facet, counts.get(facet) or {}, chosen.values(facet)) for facet in FACETS}


def _choices(facet: str, counts: Mapping[str, int], chosen: tuple[str, ...]) -> list[Choice]:
    values = sorted({*counts, *chosen}, key=lambda value: (-int(counts.get(value) or 0), value))
    return [
        {
            "value": value,
            "word": HEALTH_WORDS.get(value, value) if facet == "health" else value,
            "count": int(counts.get(value) or 0),
            "is_on": value in chosen,
        }
        for value in values
    ]
