"""Two-step sign-in of my account: the devices that make codes, one that is being added, one that is removed, recovery codes."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState
from app.project import two_steps
from app.project.errors import AppError
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.settings.state.sessions import SessionsState

LONGEST_NAME = 60
FIRST_NAME = "Authenticator app"


class DeviceView(TypedDict):
    id: str
    name: str
    created_at: str


class TwoStepsState(AppState, rx.State):
    """The content of the page; a new device's secret is here only while its dialog is open."""

    devices: list[DeviceView] = []
    is_on: bool = False
    is_adding: bool = False
    new_id: str = ""
    picture: str = ""
    secret: str = ""
    error: str = ""
    removing_id: str = ""
    removing_name: str = ""
    is_last: bool = False
    codes: list[str] = []
    codes_left: int = 0

    async def _load(self, session: BrowserSession) -> None:
        """Read the devices; what a reload would have left open is closed."""
        self._close()
        client = runtime().authorized.client
        found = await runtime().authorized.with_token(session, lambda token: two_steps.devices(client, token))
        self.codes_left = int(await self._rpc("recovery_codes_left"))
        self.devices = [{"id": one.id, "name": one.name, "created_at": one.created_at} for one in found]
        self.is_on = bool(found)

    def _close(self) -> None:
        self.is_adding, self.new_id, self.picture, self.secret, self.error = False, "", "", "", ""
        self.removing_id = self.removing_name = ""
        self.codes = []

    async def _mine(self) -> BrowserSession:
        return await (await self._who())._must_session()

    @rx.event
    def begin(self) -> None:
        self._close()
        self.is_adding = True

    @rx.event
    def close(self) -> None:
        self._close()

    @rx.event
    async def add(self, form: dict[str, Any]) -> None:
        name = str(form.get("name") or "").strip()[:LONGEST_NAME] or FIRST_NAME
        client, session = runtime().authorized.client, await self._mine()
        try:
            made = await runtime().authorized.with_token(session, lambda token: two_steps.add(client, token, name))
        except AppError as error:
            self.error = _words(error)
            return
        self.new_id, self.picture, self.secret, self.error = made.id, made.picture, made.secret, ""

    @rx.event
    async def confirm(self, form: dict[str, Any]) -> Any:
        if not self.new_id:
            return None
        session = await self._mine()
        try:
            await runtime().authorized.raise_level(session, self.new_id, str(form.get("code") or ""))
            await self._load(session)
            await (await self.get_state(SessionsState))._load()
            if not self.codes_left:
                await self._draw_codes(session)
        except AppError as error:
            self.error = _words(error)
            return None
        return rx.toast.success("Two-step sign-in is on", description="All your other sessions have ended.")

    async def _draw_codes(self, session: BrowserSession) -> None:
        client = runtime().authorized.client
        drawn = await runtime().authorized.with_token(
            session, lambda token: two_steps.renew_recovery_codes(client, token)
        )
        self.codes, self.codes_left = drawn, len(drawn)

    @rx.event
    async def renew_codes(self) -> Any:
        """Replace the recovery codes, and show the new ones once."""
        await self._draw_codes(await self._mine())
        return None

    @rx.event
    def ask_remove(self, key: str) -> None:
        """Ask before a device is removed; the last one's own code proves that it is not somebody else's hand."""
        found = next((one for one in self.devices if one["id"] == key), None)
        if found is not None:
            self.removing_id, self.removing_name, self.error = key, found["name"], ""
            self.is_last = len(self.devices) == 1

    @rx.event
    async def remove(self, form: dict[str, Any]) -> Any:
        if not self.removing_id:
            return None
        client, session, factor = runtime().authorized.client, await self._mine(), self.removing_id
        try:
            if self.is_last:
                await runtime().authorized.raise_level(session, factor, str(form.get("code") or ""))
            await runtime().authorized.with_token(session, lambda token: two_steps.remove(client, token, factor))
            await self._load(session)
        except AppError as error:
            self.error = _words(error)
            return None
        return rx.toast.success("The device is removed")


def _words(error: AppError) -> str:
    return f"{error.message} {error.hint}"
