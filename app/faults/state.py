"""The page's state: asks the launcher, again and again while something is broken."""

from typing import ClassVar

import reflex as rx

from app.faults.offer import PAGE, read_faults
from app.faults.view import KINDS, NOTHING, Faults, build
from app.frame.session import say_error
from app.live.page import LivePage
from app.project.errors import AppError
from app.project.launcher import ask
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import Changed, OrgStore

BUSY_MS, IDLE_MS = 700, 5000


class FaultsState(LivePage, rx.State):
    """The content of the faults page: the current fault, the steps so far, and the ledger."""

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    is_here: bool = False
    may_break: bool = False
    faults: Faults = NOTHING

    async def _prepare(self, session: BrowserSession) -> None:
        await self._read()

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        """Nothing of the project is shown here but the ledger, which the launcher brings."""

    async def _read(self) -> None:
        who = await self._who()
        answer = await read_faults(who.org_id)
        self._assign("is_here", bool(answer))
        self._assign("may_break", who.role == "owner")
        self._assign("faults", build(answer) if answer else NOTHING)

    @rx.event
    async def follow(self) -> rx.event.EventSpec | None:
        """Read again in a moment, while somebody sees it."""
        if self.router.url.path.rstrip("/") != PAGE or not self.is_here:
            return None
        await self._read()
        return self._again_soon()

    def _again_soon(self) -> rx.event.EventSpec:
        pause = BUSY_MS if self.faults["is_running"] else IDLE_MS
        wait = f"new Promise((done) => setTimeout(done, {pause}))"
        return rx.call_script(wait, callback=FaultsState.follow)

    @rx.event
    async def break_it(self, kind: str) -> rx.event.EventSpec | list[rx.event.EventSpec]:
        """Ask the launcher to break something; it and the database judge who may."""
        if kind not in {key for key, _, _ in KINDS}:
            return []
        try:
            session = await runtime().authorized.fresh(await (await self._who())._must_session())
            question = {"do": "break", "kind": kind, "token": session.access_token}
            await ask(runtime().settings.faults_socket, question)
        except AppError as error:
            return say_error(error)
        await self._read()
        return self._again_soon()
