"""The graph page: the dependencies of all modules, or of those below a group."""

import asyncio

import reflex as rx

from app.live.page import LivePage
from app.modules.view.graph import NOTHING, GraphView, build
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.triggers.state.work import WorkState


class GraphState(LivePage, rx.State):
    path: str = ""
    graph: GraphView = NOTHING

    async def _prepare(self, session: BrowserSession) -> None:
        self.path = str(self.router.url.query_parameters.get("path", ""))[:500].strip("/")
        await self._ask(self._query())
        work, who = await self.get_state(WorkState), await self._who()
        await asyncio.gather(work._open(self.path), who._ask_verbs(self.path))

    def _query(self) -> LiveQuery:
        return live_query("list_dependencies", ("modules", "provision_jobs"), pause_seconds=1.0, path=self.path)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is not None:
            self._assign("graph", build(held.answer))
