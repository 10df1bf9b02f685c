"""The figures page: an hour, a day or a week."""

from typing import ClassVar

import reflex as rx

from app.figures.view.figures import NO_FIGURES, RANGES, Figures, build
from app.frame.layout import say_in_address
from app.live.page import LivePage
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore

RENEW_SECONDS = 10.0


def figures_query(span: str) -> LiveQuery:
    """Ask for the figures of a span; they are not asked for with every job."""
    return live_query("fleet_figures", ("provision_jobs", "overview"), pause_seconds=RENEW_SECONDS, hours=RANGES[span])


class FiguresState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset()

    span: str = "24h"
    figures: Figures = NO_FIGURES

    async def _prepare(self, session: BrowserSession) -> None:
        asked = str(self.router.url.query_parameters.get("range", ""))
        self.span = asked if asked in RANGES else "24h"
        await self._ask(figures_query(self.span))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(figures_query(self.span))
        if held is not None:
            self._assign("figures", held.make("figures", lambda held: build(held.answer)))

    @rx.event
    async def choose(self, span: str | list[str]) -> rx.event.EventSpec | None:
        """Show another span, also in the address."""
        if not isinstance(span, str) or span not in RANGES:
            return None
        self.span = span
        await self._ask(figures_query(span))
        await self._again()
        query = "" if span == "24h" else f"?range={span}"
        return say_in_address("/dashboard/figures", query)
