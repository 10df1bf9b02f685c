"""The page on which somebody confirms the code that a program shows in a terminal."""

import re
from typing import Any
from urllib.parse import urlencode

import reflex as rx

from app.frame.session import AppState, sign_in_again, takes
from app.project.errors import AppError, SignedOut
from app.project.token_limits import EVERYTHING, LIMITS

CODE = re.compile(r"[A-Za-z]{4}[ -]?[A-Za-z]{4}")


class DeviceState(AppState, rx.State):
    code: str = ""
    program: str = ""
    address: str = ""
    who: str = ""
    problem: str = ""
    decided: str = ""
    is_live: bool = False
    is_terminal: bool = False
    role: str = ""

    set_role = takes("role")

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        """Look for the program whose code stands in the address."""
        self.reset()
        self.is_live = True
        try:
            self.who = (await (await self._who())._must_session()).email
        except SignedOut:
            return sign_in_again()
        asked = str(self.router.url.query_parameters.get("code") or "")
        if asked:
            await self._find(asked)
        return None

    @rx.event
    async def find(self, form: dict[str, Any]) -> None:
        await self._find(str(form.get("code", "")))

    async def _find(self, text: str) -> None:
        self.program, self.problem, self.code = "", "", text.strip().upper()[:9]
        if not CODE.fullmatch(self.code):
            self.problem = "A code has eight letters, like BCDF-GHJK."
            return
        try:
            found = await self._rpc("device_login", {"p_user_code": self.code})
        except AppError as error:
            self.problem = f"{error.message} {error.hint}"
            return
        self.program, self.address = str(found["program"]), str(found["address"])
        self.is_terminal = bool(found["is_terminal"])

    @rx.event
    async def confirm(self) -> rx.event.EventSpec | None:
        return await self._decide(True, "confirmed")

    @rx.event
    async def decline(self) -> rx.event.EventSpec | None:
        return await self._decide(False, "declined")

    async def _decide(self, is_confirmed: bool, word: str) -> rx.event.EventSpec | None:
        if not self.program:
            return None
        role = self.role if self.role in LIMITS and self.role != EVERYTHING else None
        given = {"p_user_code": self.code, "p_is_confirmed": is_confirmed, "p_role": role}
        try:
            done = await self._rpc("decide_device_login", given)
        except AppError as error:
            self.program, self.problem = "", f"{error.message} {error.hint}"
            return None
        self.program, self.decided = "", word
        # The program listens on the browser's own machine.
        back = done.get("return_to")
        return rx.redirect(f"{back}&{urlencode({'state': done['state'] or ''})}") if back else None
