"""The events page: asked of the database a page at a time, and again when something happened."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import reflex as rx

from app.events.view import EventFilter, EventRow, build
from app.frame.layout import say_in_address
from app.frame.session import SEGMENT
from app.live.page import LivePage, chooses
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.ui.choices import export_address

PAGE_SIZE = 50
# A busy fleet has hundreds a minute: nobody reads faster than this.
RENEW_SECONDS = 2.0


class EventsState(LivePage, rx.State):
    rows: list[EventRow] = []
    kind: str = "any"
    event: str = "any"
    span: str = "24h"
    runner: str = "any"
    job: str = "any"
    search: str = ""
    export: str = ""
    page_number: int = 0
    has_more: bool = False
    is_filtered: bool = False
    _asked_at: str = ""

    choose_kind = chooses("kind", SEGMENT)
    choose_event = chooses("event")
    choose_span = chooses("span")
    search_for = chooses("search")

    def _filter(self) -> EventFilter:
        return EventFilter.of(self)

    def _take(self, chosen: EventFilter) -> None:
        for name, value in vars(chosen).items():
            self._assign(name, value)
        now = datetime.now(UTC)
        self.page_number, self._asked_at = 0, now.isoformat()
        self._assign("is_filtered", not chosen.is_open)
        self._assign("export", export_address(chosen.arguments(now)))

    def _query(self) -> LiveQuery:
        asked = self._filter().arguments(datetime.fromisoformat(self._asked_at))
        page: dict[str, Any] = {"limit": PAGE_SIZE, "offset": self.page_number * PAGE_SIZE}
        return live_query("list_events", ("provision_jobs", "workers"), pause_seconds=RENEW_SECONDS, **asked, **page)

    async def _prepare(self, session: BrowserSession) -> None:
        self._take(EventFilter.read(self.router.url.query_parameters))
        await self._ask(self._query())

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is not None:
            self._assign("rows", held.each("rows", build))
            self._assign("has_more", bool(held.answer["has_more"]))

    async def _choose(self, name: str, value: str) -> rx.event.EventSpec:
        return await self._show_chosen(self._filter().with_choice(name, value))

    async def _show_chosen(self, chosen: EventFilter) -> rx.event.EventSpec:
        self._take(chosen)
        await self._turn()
        return say_in_address("/dashboard/events", chosen.address())

    async def _turn(self) -> None:
        await self._ask(self._query())
        await self._again()

    @rx.event
    async def any_subject(self) -> rx.event.EventSpec:
        return await self._show_chosen(replace(self._filter(), runner="any", job="any"))

    @rx.event
    async def clear(self) -> rx.event.EventSpec:
        return await self._show_chosen(EventFilter())

    @rx.event
    async def turn_page(self, step: int) -> None:
        if step < 0 or self.has_more:
            self.page_number = max(0, self.page_number + (1 if step > 0 else -1))
            await self._turn()
