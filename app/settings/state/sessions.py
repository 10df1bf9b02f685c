"""The viewer's sessions in this dashboard: listed, ended one by one or all others at once."""

from collections.abc import Awaitable
from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.sessions import key_of
from app.settings.view.sessions import SessionView, build_views


class SessionsState(AppState, rx.State):
    rows: list[SessionView] = []
    asking_key: str = ""
    asking_device: str = ""
    is_asking_all: bool = False

    async def _load(self) -> None:
        """Read the sessions; what a reload would have left open is closed."""
        self._close()
        await self._read(await (await self._who())._must_session())

    async def _read(self, session: BrowserSession) -> None:
        found = await runtime().authorized.sessions.of(session.user_id)
        self._assign("rows", build_views(found, key_of(session.sid)))

    def _close(self) -> None:
        self.asking_key, self.asking_device, self.is_asking_all = "", "", False

    @rx.event
    def ask(self, key: str) -> None:
        """Ask before a session is ended; nothing closes the question."""
        self._close()
        found = next((row for row in self.rows if row["key"] == key and not row["is_this"]), None)
        if found is not None:
            self.asking_key, self.asking_device = key, found["device"]

    @rx.event
    def ask_all(self) -> None:
        self._close()
        self.is_asking_all = True

    @rx.event
    async def end(self) -> Any:
        if not self.asking_key:
            return None
        session = await (await self._who())._must_session()
        return await self._do(session, runtime().authorized.end_one(session, self.asking_key), "Session signed out")

    @rx.event
    async def end_others(self) -> Any:
        if not self.is_asking_all:
            return None
        session = await (await self._who())._must_session()
        return await self._do(session, runtime().authorized.end_others(session), "All other sessions have ended")

    async def _do(self, session: BrowserSession, call: Awaitable[None], title: str) -> Any:
        self._close()
        try:
            await call
        finally:
            # The session ended here, even if the project did not answer.
            await self._read(session)
        return rx.toast.success(title)
