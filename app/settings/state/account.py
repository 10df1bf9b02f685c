"""My own account: password and address, sessions, personal tokens, two-step sign-in. Entered text is passed on and never kept."""

from collections.abc import Awaitable
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState, ShownSecret
from app.live.item_form import Removal, Removing
from app.live.page import LivePage
from app.project import two_steps
from app.project.errors import AppError
from app.project.models import BrowserSession, Row
from app.project.runtime import runtime
from app.project.sessions import key_of
from app.project.store import Changed, OrgStore
from app.project.token_limits import EVERYTHING, LIMITS
from app.settings.view.sessions import SessionView, build_views
from app.ui.view import read
from wire.tokens import make_personal_token

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


DAYS = {"30": "In 30 days", "90": "In 90 days", "365": "In a year"}


def _limit(row: Row) -> str:
    words = LIMITS[row["role"] or EVERYTHING]
    return f"{words} at {row['path']}" if row["path"] else words


class TokenView(TypedDict):
    id: str
    name: str
    hint: str
    limit: str
    is_live: bool
    created_at: str
    expires_at: str
    last_used_at: str


class PersonalTokensState(Removing, ShownSecret, rx.State):
    REMOVAL = Removal("revoke_personal_token", "p_token", "The token is revoked")

    rows: list[TokenView] = []
    is_open: bool = False
    error: str = ""
    shown_name: str = ""

    async def _load(self) -> None:
        """Read the tokens; what a reload would have left open is closed."""
        self.is_open, self.error, self.shown_id, self.removing = False, "", "", ""
        await self._read()

    async def _act(self, name: str, args: dict[str, Any], said: str, text: str = "") -> rx.event.EventSpec | None:
        toast = await super()._act(name, args, said, text)
        await self._read()
        return toast

    async def _read(self) -> None:
        self.rows = [read(TokenView, row, limit=_limit(row)) for row in await self._rpc("my_personal_tokens")]

    @rx.event
    def set_open(self, is_open: bool) -> None:
        self.is_open, self.error = is_open, ""

    @rx.event
    async def create(self, form: dict[str, Any]) -> Any:
        """Create a token, and send it to the browser in its own event: a state's var would be sent again and again."""
        name, days = str(form.get("name") or "").strip(), str(form.get("days") or "90")
        if not name or days not in DAYS:
            self.error = "A token needs a name."
            return None
        role, path = str(form.get("limit") or EVERYTHING), str(form.get("path") or "").strip().strip("/")
        token = make_personal_token()
        args = {"p_name": name, "p_token_hash": token.hash, "p_hint": token.hint, "p_days": int(days)}
        args |= {"p_role": None if role == EVERYTHING else role, "p_path": path}
        try:
            made = await self._rpc("create_personal_token", args)
            await self._read()
        except AppError as error:
            self.error = f"{error.message} {error.hint}"
            return None
        self.is_open, self.shown_name = False, name
        return self._reveal(made["id"], token.text)


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
