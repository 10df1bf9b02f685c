"""The runners page."""
from typing import ClassVar
import reflex as rx
from app.components.layout import head, page, panel
from app.components.badges import job_badge, runner_badge
from app.pages import Route
from app.services.store import Changed, OrgStore
from app.states.live import LivePage

class RunnersState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"workers"})
    names: list[str] = []
    async def _show(self, store: OrgStore, changed: Changed) -> None:
        self.names = [r["name"] for r in store.rows("workers")]

def runners() -> rx.Component:
    return page(head("Runners", "text"), panel(rx.foreach(RunnersState.names, lambda n: rx.el.div(n, job_badge(n), runner_badge(n)))), title="Runners", active="runners")

ROUTES = (Route("/dashboard/runners", "Runners", runners, RunnersState.load),)
