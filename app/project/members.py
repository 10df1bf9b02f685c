"""Memberships, read from the project and cached for seconds."""

import time
from collections.abc import Callable

from app.project.authorized_client import AuthorizedClient
from app.project.errors import NotThere
from app.project.models import BrowserSession

BELIEVED_SECONDS = 5.0


class Members:
    """Whether a session's user may see an organisation; a change of members makes the next call check again."""

    def __init__(self, authorized: AuthorizedClient, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nobody yet."""
        self._authorized = authorized
        self._clock = clock
        self._seen: dict[str, tuple[float, frozenset[str]]] = {}

    def note(self, session: BrowserSession, org_ids: frozenset[str]) -> None:
        """Take what the project has just answered."""
        now = self._clock()
        self._seen = {sid: seen for sid, seen in self._seen.items() if now - seen[0] < BELIEVED_SECONDS}
        self._seen[session.sid] = (now, org_ids)

    def forget(self) -> None:
        """Ask again about everybody: somebody's membership changed."""
        self._seen.clear()

    async def is_member(self, session: BrowserSession, org_id: str) -> bool:
        """Return whether this person belongs to the organisation now."""
        at, org_ids = self._seen.get(session.sid, (float("-inf"), frozenset()))
        if self._clock() - at >= BELIEVED_SECONDS:
            rows = await self._authorized.rpc(session, "my_organizations")
            org_ids = frozenset(str(row["id"]) for row in rows or [])
            self.note(session, org_ids)
        return org_id in org_ids

    async def check(self, session: BrowserSession, org_id: str) -> None:
        """Raise unless this person belongs to the organisation."""
        if not await self.is_member(session, org_id):
            raise NotThere("You are not a member of this organisation.", "Ask one of its admins for an invitation.")
