"""Memberships and what members see, read from the project and cached for seconds."""

import time
from collections.abc import Callable, Iterable

from app.project.authorized_client import AuthorizedClient
from app.project.errors import NotThere
from app.project.models import BrowserSession, Row

BELIEVED_SECONDS = 5.0


def room_of(row: Row) -> str:
    """Name the feed of somebody's organisation: one for all who see all of it, and one for each set of prefixes."""
    sees = row.get("sees")
    return str(row["id"]) if sees is None else " ".join([str(row["id"]), "sees", *sorted(sees)])


class Members:
    """Whether a session's user may see an organisation; a change of members makes the next call check again."""

    def __init__(self, authorized: AuthorizedClient, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nobody yet."""
        self._authorized = authorized
        self._clock = clock
        self._seen: dict[str, tuple[float, dict[str, str]]] = {}

    def note(self, session: BrowserSession, rows: Iterable[Row]) -> None:
        """Take the organisations that the project has just answered."""
        now = self._clock()
        self._seen = {sid: seen for sid, seen in self._seen.items() if now - seen[0] < BELIEVED_SECONDS}
        self._seen[session.sid] = (now, {str(row["id"]): room_of(row) for row in rows})

    def forget(self) -> None:
        """Ask again about everybody: somebody's membership changed."""
        self._seen.clear()

    async def is_member(self, session: BrowserSession, org_id: str) -> bool:
        """Return whether this person belongs to the organisation now."""
        return await self.room(session, org_id) is not None

    async def room(self, session: BrowserSession, org_id: str) -> str | None:
        """Name the feed that this person may share now; none for somebody outside."""
        at, _ = self._seen.get(session.sid, (float("-inf"), {}))
        if self._clock() - at >= BELIEVED_SECONDS:
            self.note(session, await self._authorized.rpc(session, "my_organizations") or [])
        return self._seen[session.sid][1].get(org_id)

    async def check(self, session: BrowserSession, org_id: str) -> str:
        """Name the feed that this person may share; raise unless they belong to the organisation."""
        room = await self.room(session, org_id)
        if room is None:
            raise NotThere("You are not a member of this organisation.", "Ask one of its admins for an invitation.")
        return room
