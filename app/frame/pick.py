"""Search fields that know the paths of modules and groups, the names of runners, and time zones."""

import asyncio
import itertools
import re
from typing import Any
from zoneinfo import available_timezones

import reflex as rx

from app.frame.session import AppState
from app.project.models import Filter, Query

MOST_OFFERED = 20
# Read once: it opens a file for each zone.
ZONES, KNOWN_ZONES = "zones", available_timezones()
# By table: the column that names a row, and the one that is set when the row was removed.
NAMES = {"modules": ("path", "deleted_at"), "groups": ("path", ""), "workers": ("name", "removed_at")}


def containing(column: str, text: str) -> Filter:
    """Find what has this text in a column, letter by letter."""
    # A comma, a quote or a bracket would end PostgREST's value, and no path has one.
    words = re.sub(r"[^\w./ -]", "", text[:100]).strip().replace("_", r"\_")
    return Filter(column, "ilike", f"*{words}*")


class PickState(AppState, rx.State):
    offered: list[str] = []

    async def _names(self, table: str, text: str) -> list[str]:
        column, gone = NAMES[table]
        filters = [Filter("org_id", "eq", await self._org_id()), containing(column, text)]
        filters += [Filter(gone, "is", "null")] if gone else []
        query = Query(columns=column, filters=tuple(filters), order=column, limit=MOST_OFFERED)
        return [str(row[column]) for row in (await self._select(table, query)).rows]

    @rx.event
    async def offer(self, tables: str, text: str) -> None:
        found = await asyncio.gather(*(self._names(name, text) for name in NAMES if name in tables.split()))
        zones = KNOWN_ZONES if tables == ZONES else ()
        self._assign("offered", sorted(itertools.chain(zones, *found)))


def picks(*tables: str) -> dict[str, Any]:
    """Make a field offer the rows of these tables, by their names, as somebody types."""
    offer = PickState.offer(" ".join(tables))
    listed = {"list": "offered", "spellCheck": "false"}
    return {"on_change": offer.debounce(200), "on_focus": PickState.offer(" ".join(tables), ""), "custom_attrs": listed}


def offered_names() -> rx.Component:
    """The list of the fields that pick: only one of them has the focus."""
    return rx.el.datalist(rx.foreach(PickState.offered, lambda each: rx.el.option(value=each)), id="offered")
