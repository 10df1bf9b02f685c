"""My own account: password and address. Entered text is passed on and never kept."""

from typing import Any

import reflex as rx

from app.live.page import LivePage
from app.project.errors import AppError
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import Changed, OrgStore
from app.settings.state.personal_tokens import PersonalTokensState
from app.settings.state.sessions import SessionsState
from app.settings.state.two_steps import TwoStepsState

SHORTEST_PASSWORD = 8


class AccountState(LivePage, rx.State):
    asking: str = ""
    error: str = ""
    provider: str = ""

    async def _prepare(self, session: BrowserSession) -> None:
        self.asking = self.error = ""
        self.provider = await self._provider_of(session)
        await (await self.get_state(TwoStepsState))._load(session)
        await (await self.get_state(SessionsState))._load()
        await (await self.get_state(PersonalTokensState))._load()

    async def _provider_of(self, session: BrowserSession) -> str:
        """Return the name of the provider that speaks for the viewer's address; without an answer there is none to offer."""
        try:
            found = await runtime().authorized.invoke(session, "sign-in", {"email": session.email})
        except AppError:
            return ""
        return str(found.get("name") or "")

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        """Nothing on it changes without the user."""

    @rx.event
    def ask(self, what: str) -> None:
        if what in ("", "password", "email"):
            self.asking, self.error = what, ""

    @rx.event
    async def change_password(self, form: dict[str, Any]) -> Any:
        new = str(form.get("password") or "")
        if len(new) < SHORTEST_PASSWORD:
            self.error = f"A password has at least {SHORTEST_PASSWORD} characters."
            return None
        if new != form.get("again"):
            self.error = "The two new passwords differ."
            return None
        session = await (await self._who())._must_session()
        return await self._do(
            runtime().authorized.change_password(session, str(form.get("current") or ""), new),
            "The password is changed",
            "All your other sessions have ended.",
        )

    @rx.event
    async def change_email(self, form: dict[str, Any]) -> Any:
        session = await (await self._who())._must_session()
        back = f"{self.router.headers.origin}/login"
        call = runtime().authorized.change_email(
            session, str(form.get("current") or ""), str(form.get("email") or "").strip(), back
        )
        return await self._do(call, "Check your email", "The address changes when you follow the link.")

    async def _do(self, call: Any, title: str, text: str = "") -> Any:
        try:
            await call
        except AppError as error:
            self.error = error.message
            return None
        self.asking = self.error = ""
        await (await self.get_state(SessionsState))._load()
        return rx.toast.success(title, description=text)
