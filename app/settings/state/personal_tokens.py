"""My personal tokens: made here, shown once, listed without what lets anybody in, revoked with a question."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.session import ShownSecret
from app.live.item_form import Removal, Removing
from app.project.errors import AppError
from app.project.models import Row
from app.project.token_limits import EVERYTHING, LIMITS
from app.ui.view import read
from wire.tokens import make_personal_token

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
