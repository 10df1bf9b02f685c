"""The events page: asked of the database a page at a time, and again when something happened."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import reflex as rx

from app.events.view import EventFilter, EventRow, build
from app.frame.session import SEGMENT
from app.live.page import Filtered, chooses
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.ui.choices import export_address

# A busy fleet has hundreds a minute: nobody reads faster than this.
RENEW_SECONDS = 2.0


class EventsState(Filtered, rx.State):
    ADDRESS = "/dashboard/events"

    rows: list[EventRow] = []
    choices: EventFilter = EventFilter()
    export: str = ""

    _asked_at: str = ""

    choose_kind = chooses("kind", SEGMENT)
    choose_event = chooses("event")
    choose_span = chooses("span")
    search_for = chooses("search")

    def _take(self, chosen: EventFilter) -> None:
        super()._take(chosen)
        now = datetime.now(UTC)
        self._asked_at = now.isoformat()
        self._assign("export", export_address(chosen.arguments(now)))

    def _query(self) -> LiveQuery:
        asked = self.get_value("choices").arguments(datetime.fromisoformat(self._asked_at))
        page: dict[str, Any] = {"limit": self.PAGE_SIZE, "offset": self.page_number * self.PAGE_SIZE}
        return live_query("list_events", ("provision_jobs", "workers"), pause_seconds=RENEW_SECONDS, **asked, **page)

    async def _prepare(self, session: BrowserSession) -> None:
        self._take(EventFilter.read(self.router.url.query_parameters))
        await self._ask(self._query())

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is not None:
            self._assign("rows", held.each("rows", build))
            # Nobody counts them all: one more than those that are known is enough to turn the page.
            known = self.page_number * self.PAGE_SIZE + len(self.rows)
            self._assign("total", known + bool(held.answer["has_more"]))

    @rx.event
    async def any_subject(self) -> rx.event.EventSpec:
        return await self._change(replace(self.get_value("choices"), runner="any", job="any"))
