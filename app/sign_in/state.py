"""The first page of somebody who belongs to no organisation yet, and where more are made."""

import re
from typing import Any

import reflex as rx

from app.frame.session import AppState, sign_in_again
from app.project.errors import AppError, NotThere, SignedOut
from app.project.runtime import runtime


def slug_of(name: str) -> str:
    """Make the short name that stands in addresses and paths."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:39].rstrip("-")


class WelcomeState(AppState, rx.State):
    problem: str = ""
    has_organisation: bool = False
    may_create: bool = True
    is_busy: bool = False
    is_live: bool = False

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        """Read the viewer; belonging to no organisation is what this page is for."""
        self.problem, self.is_busy, self.is_live = "", False, True
        who = await self._who()
        try:
            await who._begin()
        except SignedOut:
            return sign_in_again()
        except NotThere:
            self.has_organisation = False
        except AppError as error:
            self.problem = f"{error.message} {error.hint}"
        else:
            self.has_organisation = True
        await self._ask_makers()
        return rx.call_script("window.runyard.focusIn('#name')")

    async def _ask_makers(self) -> None:
        """Learn whether the installation lets this person make one; an answer that fails keeps nobody from trying."""
        try:
            self.may_create = bool((await self._rpc("organization_makers", {}))["may_create"])
        except AppError:
            self.may_create = True

    @rx.event
    async def create(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        name = str(form.get("name", "")).strip()[:80]
        slug = slug_of(name)
        if not slug:
            self.problem = "A name needs a letter or a digit."
            return None
        try:
            org = await self._rpc("create_organization", {"p_name": name, "p_slug": slug})
        except AppError as error:
            self.problem = f"{error.message} {error.hint}"
            return None
        session = await (await self._who())._must_session()
        session.org_id = str(org["id"])
        await runtime().authorized.sessions.put(session)
        return rx.redirect("/dashboard/runners")
