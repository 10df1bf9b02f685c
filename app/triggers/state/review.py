"""The review page: the plans of one set, and which of them are applied."""

from typing import Any

import reflex as rx

from app.frame.session import say_error, takes
from app.live.page import LivePage
from app.project.errors import AppError
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.triggers.view.review import NOTHING, ReviewView, build, open_ids


class ReviewState(LivePage, rx.State):
    review: ReviewView = NOTHING
    chosen: list[str] = []
    is_asking: bool = False
    is_busy: bool = False
    _set_id: str = ""
    _is_shown: bool = False

    ask = takes("is_asking", bool)

    async def _prepare(self, session: BrowserSession) -> None:
        self._set_id = str(self.router.url.query_parameters.get("set", ""))[:50]
        self.review, self.chosen, self.is_asking, self.is_busy, self._is_shown = NOTHING, [], False, False, False
        await self._ask(self._query())

    def _query(self) -> LiveQuery:
        return live_query("set_review", ("provision_jobs",), pause_seconds=0.5, set=self._set_id)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is None or not held.is_answered:
            return
        self._assign("review", build(held.answer))
        possible = open_ids(self.review)
        # A plan that ends later is chosen by nobody who has not seen it.
        kept = [each for each in self.chosen if each in possible] if self._is_shown else possible
        self._assign("chosen", kept)
        self._is_shown = True

    @rx.event
    def choose(self, module: str, is_on: bool) -> None:
        others = [each for each in self.chosen if each != module]
        self.chosen = [*others, module] if is_on and module in open_ids(self.review) else others

    @rx.event
    def choose_step(self, label: str, is_on: bool) -> None:
        step = [row["id"] for step in self.review["steps"] if step["label"] == label for row in step["rows"]]
        possible = [each for each in open_ids(self.review) if each in step]
        self.chosen = [each for each in self.chosen if each not in step] + (possible if is_on else [])

    @rx.event
    async def confirm(self) -> Any:
        if not self.is_asking or self.is_busy or not self.chosen:
            return None
        self.is_asking, self.is_busy = False, True
        try:
            done = await self._rpc("confirm_set", {"p_set": self._set_id, "p_modules": self.chosen})
        except AppError as error:
            return say_error(error)
        finally:
            self.is_busy = False
        self.chosen = []
        words = f"{done['applying']} applied in order, {done['approved']} approved"
        refused = "; ".join(f"{one['module_path']}: {one['message']}" for one in done["refused"])
        return rx.toast.warning(words, description=refused) if refused else rx.toast.success(words)
