"""The known part of an organisation with viewers: the answers on screens, and the latest changes.

It is not a copy of the organisation. Releases and rollouts are few and kept whole; of runners, their processes and jobs
only the rows that changed lately are here (`row`), and lists are live queries, asked of the database by the page.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar, cast

from app.project.live_queries import LiveQueries
from app.project.models import Row
from app.project.shapes import shaped

Derived = TypeVar("Derived")

WHOLE_TABLES = ("worker_releases", "rollouts")
CHANGING_TABLES = ("workers", "worker_instances", "provision_jobs")
LIVE_TABLES = WHOLE_TABLES + CHANGING_TABLES
# Topics of one run and of one runner, and the column that names it.
OF_ONE = {"provision_jobs": ("job", "number"), "workers": ("runner", "id"), "worker_instances": ("runner", "worker_id")}
MAX_CHANGES = 500
# The sweep runs every 10 s. Without it no lost job is found and no schedule starts.
SWEEP_LATE_SECONDS = 120
FIRST_SWEEP_SECONDS = 60.0
# Counted beside the menu; what else the overview counts are slots.
COUNTED = frozenset({"workers", "modules", "jobs", "waits_for_others"})
# What of a row the overview counts by; of other tables every change may be another number.
COUNTED_BY = {"workers": ("status", "removed_at"), "provision_jobs": ("status", "approvals_received")}
OVERVIEW_TABLES = frozenset({"workers", "provision_jobs", "modules"})
FACETS_TABLES = frozenset({"workers", "worker_instances", "worker_releases"})
# Changes may have been missed: anyone who reads single rows reads them again.
AGAIN = "again"


class Link(StrEnum):
    """The way in which the page receives changes; shown by the mark in the top bar."""

    # Until the first channel is joined: nothing is wrong yet.
    JOINING = ""
    LIVE = "live"
    POLLING = "polling"
    OFFLINE = "offline"


@dataclass(frozen=True)
class Changed:
    """The changes in an organisation since a session was last shown something."""

    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_everything: bool = False

    def touches(self, topics: Iterable[str]) -> bool:
        """Return whether a viewer of these topics needs to read again."""
        return self.is_everything or not self.tables.keys().isdisjoint(topics)

    def ids(self, table: str) -> frozenset[str]:
        """Name the rows of a table that changed; empty means that they are not known."""
        return self.tables.get(table, frozenset())


EVERYTHING = Changed(is_everything=True)
NOTHING = Changed()


def version_of(row: Mapping[str, Any]) -> datetime:
    """Return how new a row is, so that an older copy never overwrites a newer one."""
    stamp = row.get("updated_at") or row.get("published_at") or row.get("created_at")
    if not isinstance(stamp, str):
        return datetime.min.replace(tzinfo=UTC)
    return datetime.fromisoformat(stamp)


@dataclass
class OrgStore:
    """The part of one organisation that pages show, and the listeners for changes."""

    org_id: str
    tables: dict[str, dict[str, Row]] = field(default_factory=lambda: {table: {} for table in LIVE_TABLES})
    overview: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    facets: dict[str, Any] = field(default_factory=dict)
    link: Link = Link.JOINING
    link_detail: str = ""
    link_since: str = ""
    is_unswept: bool = False
    _unswept_at: float | None = None
    is_loaded: bool = False
    changed_at: float = 0.0
    # Of this organisation, this one among them: each shows what other members see.
    feeds: int = 1
    # The overview, and the facets, may count something else.
    counts_old: asyncio.Event = field(default_factory=asyncio.Event)
    are_facets_old: bool = True
    _revisions: Counter[str] = field(default_factory=Counter)
    _derived: dict[str, tuple[Hashable, Any]] = field(default_factory=dict)
    _listeners: list[Callable[[str, str], None]] = field(default_factory=list)
    live_queries: LiveQueries = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start without queries."""
        self.live_queries = LiveQueries(self.notify, self.newest)

    def rows(self, table: str) -> list[Row]:
        """List the rows of a table that is held whole."""
        if table not in WHOLE_TABLES:
            raise KeyError(f"{table} is not held whole: ask for what you show")
        return list(self.tables[table].values())

    def row(self, table: str, row_id: str) -> Row | None:
        """Find a row that changed lately, or is of a table that is held whole."""
        return self.tables[table].get(str(row_id))

    def counts(self, name: str) -> dict[str, int]:
        """Return the numbers of runners or unfinished jobs, by status, or of modules; or of approvals that each member cannot give."""
        return cast("dict[str, int]", (self.overview.get("counts") or {}).get(name) or {})

    def newest(self, table: str, row: Row) -> Row:
        """A row of an answer, with the changes that arrived since the query."""
        row, latest = shaped(table, row), self.row(table, str(row["id"]))
        return {**row, **latest} if latest is not None and version_of(latest) > version_of(row) else row

    def listen(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Call back with (table, id) on each change; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def derive(self, name: str, topics: Iterable[str], build: Callable[["OrgStore"], Derived]) -> Derived:
        """Work something out once per change of these topics, however many people are shown it."""
        wanted = tuple(self._revisions[topic] for topic in topics)
        held, value = self._derived.get(name, (None, None))
        if held != wanted:
            value = build(self)
            self._derived[name] = (wanted, value)
        return cast("Derived", value)

    def last(self, name: str) -> Any | None:
        """Return the value that was computed before the last change, to keep the parts that are still the same."""
        return self._derived.get(name, (None, None))[1]

    def notify(self, table: str, row_id: str = "", *, is_counted: bool = True) -> None:
        """Notify the listeners that a row changed, or something that is not kept here."""
        if is_counted and table in OVERVIEW_TABLES:
            self.counts_old.set()
        # A runner's health follows from most of its columns, its reason among them.
        self.are_facets_old = self.are_facets_old or table in FACETS_TABLES
        self._revisions[table] += 1
        row = self.row(table, row_id) if table in CHANGING_TABLES else None
        self.live_queries.note_change(table, row)
        if table in OF_ONE:
            # The page of one run or runner must not ask again for each of the organisation.
            topic, column = OF_ONE[table]
            one = row_id if column == "id" else (row or {}).get(column)
            self.live_queries.note_change(f"{topic}:{one}")
        # The first snapshot is not a change: its requester is shown it as a whole.
        if not self.is_loaded and table in LIVE_TABLES:
            return
        for listener in tuple(self._listeners):
            listener(table, row_id)

    def put(self, table: str, row: Row) -> bool:
        """Accept a row if it is newer than the known one; returns whether it was."""
        row_id = str(row["id"])
        held = self.tables[table].get(row_id)
        if held is not None and version_of(row) < version_of(held):
            return False
        merged = {**(held or {}), **row}
        if merged == held:
            return False
        # The newest last, so that the first is the one to forget.
        self.tables[table].pop(row_id, None)
        self.tables[table][row_id] = merged
        if table in CHANGING_TABLES and len(self.tables[table]) > MAX_CHANGES:
            del self.tables[table][next(iter(self.tables[table]))]
        # The overview does not count by a step or a reason.
        counted = COUNTED_BY.get(table)
        is_same = held is not None and counted and all(held.get(name) == merged.get(name) for name in counted)
        self.notify(table, row_id, is_counted=not is_same)
        return True

    def drop(self, table: str, row_id: str) -> None:
        if self.tables[table].pop(str(row_id), None) is not None or table in CHANGING_TABLES:
            self.notify(table, str(row_id))

    def replace(self, table: str, rows: Iterable[Row]) -> None:
        """Take a snapshot: put newer rows, drop removed ones."""
        seen = set()
        for row in rows:
            seen.add(str(row["id"]))
            self.put(table, row)
        for row_id in [held for held in self.tables[table] if held not in seen]:
            self.drop(table, row_id)

    def set_overview(self, overview: dict[str, Any]) -> None:
        """Take the numbers that rows do not carry; those on screens notify only when they are others."""
        before, self.overview = self.overview.get("counts") or {}, overview
        counts = overview.get("counts") or {}
        differing = {name for name in {*before, *counts} if before.get(name) != counts.get(name)}
        if differing & COUNTED:
            self.notify("counts")
        if differing - COUNTED:
            self.notify("slots")
        self._note_sweep(overview.get("swept_seconds_ago", 0))
        self.notify("overview")

    def _note_sweep(self, seconds_ago: int | None) -> None:
        """Notice that nothing sweeps any more; a database that has just started has a minute for its first sweep."""
        now = time.monotonic()
        is_late = seconds_ago is None or seconds_ago > SWEEP_LATE_SECONDS
        self._unswept_at = (self._unswept_at or now) if is_late else None
        is_unswept = self._unswept_at is not None and now - self._unswept_at >= FIRST_SWEEP_SECONDS
        if is_unswept != self.is_unswept:
            self.is_unswept = is_unswept
            self.notify("link")

    def set_facets(self, facets: dict[str, Any]) -> None:
        """Take how many runners each label, version, region and health has."""
        if facets != self.facets:
            self.facets = facets
            self.notify("facets")

    def set_figures(self, figures: dict[str, Any]) -> None:
        """Take the last day's figures, which the tiles show."""
        if figures != self.figures:
            self.figures = figures
            self.notify("figures")

    def set_link(self, link: Link, detail: str = "") -> None:
        """Set how changes arrive from now on."""
        if (link, detail) != (self.link, self.link_detail):
            if link != self.link:
                self.link_since = datetime.now(UTC).isoformat()
            self.link, self.link_detail = link, detail
            self.notify("link")
