"""My personal tokens: made here, shown once, listed without what lets anybody in, revoked with a question."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState
from app.project.errors import AppError
from app.project.models import Row
from app.project.token_limits import EVERYTHING, LIMITS
from wire.tokens import make_personal_token

DAYS = ("30", "90", "365")


def _limit(row: Row) -> str:
    words = LIMITS[row["role"] or EVERYTHING]
    return f"{words} at {row['path']}" if row["path"] else words


class TokenView(TypedDict):
    """A token as the table shows it."""

    id: str
    name: str
    hint: str
    limit: str
    is_live: bool
    created_at: str
    expires_at: str
    last_used_at: str


class PersonalTokensState(AppState, rx.State):
    """The table, the form, and which token is shown."""

    rows: list[TokenView] = []
    is_open: bool = False
    error: str = ""
    shown_id: str = ""
    shown_name: str = ""
    asking_id: str = ""
    asking_name: str = ""

    async def _load(self) -> None:
        """Read the tokens; what a reload would have left open is closed."""
        self.is_open, self.error, self.shown_id, self.asking_id = False, "", "", ""
        await self._read()

    async def _read(self) -> None:
        names = ("id", "name", "hint", "created_at", "expires_at", "last_used_at")
        found = await self._rpc("my_personal_tokens")
        limits = {row["id"]: _limit(row) for row in found}
        self.rows = [
            {**{name: str(row[name] or "") for name in names}, "limit": limits[row["id"]], "is_live": row["is_live"]}  # type: ignore[typeddict-item]
            for row in found
        ]

    @rx.event
    def set_open(self, is_open: bool) -> None:
        """Open the form, or leave it."""
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
        self.is_open, self.shown_id, self.shown_name = False, str(made["id"]), name
        return rx.call_script(f"window.runyard.secret('{self.shown_id}', '{token.text}')")

    @rx.event
    def forget(self) -> rx.event.EventSpec:
        """Stop showing a token; the page forgets it."""
        gone, self.shown_id = self.shown_id, ""
        return rx.call_script(f"window.runyard.forget('{gone}')") if gone else rx.noop()

    @rx.event
    def ask(self, key: str) -> None:
        """Ask before a token is revoked; nothing closes the question."""
        found = next((row for row in self.rows if row["id"] == key), None)
        self.asking_id, self.asking_name = (key, found["name"]) if found else ("", "")

    @rx.event
    async def revoke(self) -> Any:
        """Revoke the token in question."""
        gone, self.asking_id = self.asking_id, ""
        if not gone:
            return None
        await self._rpc("revoke_personal_token", {"p_token": gone})
        await self._read()
        return rx.toast.success("The token is revoked")
