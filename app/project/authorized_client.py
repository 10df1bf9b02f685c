"""Calls made in somebody's name: the session's token is fresh, or the session is over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from app.project import two_steps
from app.project.client import AUTH_SILENT, AuthSession, Client, expiry_of
from app.project.clock import ProjectClock
from app.project.contact import Contact
from app.project.errors import Refused, SignedOut, Unreachable
from app.project.models import BrowserSession, Page, Query
from app.project.sessions import Sessions, key_of, new_sid
from app.project.shapes import shaped

REFRESH_BEFORE_SECONDS = 90.0
# Long enough for every browser; a program may send anything.
MOST_USER_AGENT = 400
# Auth had too many requests, took too long, or renews this very session for another process: it did not judge the token.
NOT_JUDGED = frozenset({"408", "409", "429", "request_timeout", "conflict", "over_request_rate_limit"})


class AuthorizedClient:
    """The way from a session to the project."""

    def __init__(
        self, client: Client, sessions: Sessions, clock: Callable[[], float] = time.time, silence_seconds: float = 4.0
    ) -> None:
        """Join the HTTP client and the table of sessions."""
        self.client = client
        self.sessions = sessions
        self.project_clock = ProjectClock()
        self.contact = Contact(silence_seconds)
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self, auth: AuthSession, user_agent: str = "", address: str = "") -> BrowserSession:
        """Start a session for what Auth just answered; one that lacks its code is none."""
        if two_steps.is_half(auth):
            raise two_steps.NeedsCode(auth, "", "")
        session = BrowserSession(
            sid=new_sid(),
            user_id=auth.user.id,
            email=auth.user.email or "",
            access_token=auth.access_token,
            refresh_token=auth.refresh_token,
            expires_at=expiry_of(auth),
            created_at=self._clock(),
            user_agent=user_agent[:MOST_USER_AGENT],
            address=address,
        )
        await self.sessions.put(session)
        return session

    async def close(self, sid: str) -> None:
        """End a session here first, then at the project, so that a dead network cannot keep it."""
        session = await self.sessions.get(sid)
        await self.sessions.delete(sid)
        if session is not None:
            await self.client.sign_out(session.access_token)

    async def end_others(self, session: BrowserSession) -> None:
        """End every other session of this person: here at once, and at the project."""
        await self.sessions.end_others(session.user_id, session.sid)
        # The project accepts calls only with a live token.
        await self.client.sign_out((await self.fresh(session)).access_token, "others")

    async def end_one(self, session: BrowserSession, key: str) -> None:
        """End another session of this person: here at once, and at the project; one that is over stays over."""
        if key == key_of(session.sid):
            raise Refused("This is the session that you are using.", "Sign out in the menu with your name.")
        ended = await self.sessions.end(session.user_id, key)
        if ended is not None:
            await self.client.sign_out(ended.access_token)

    async def prove(self, session: BrowserSession, password: str) -> None:
        """Refuse anyone who does not know the password: an open laptop is not its owner."""
        try:
            auth = await self.client.sign_in(session.email, password)
        except Refused as error:
            raise Refused("That is not your password.", "Check it and try again.") from error
        # Only to see that it is right: what Auth opened for it is closed again.
        await self.client.sign_out(auth.access_token)

    async def raise_level(self, session: BrowserSession, factor: str, code: str) -> None:
        """Confirm a device; this session continues with two factors, every other one with only one ends."""
        auth = await self.with_token(session, lambda token: two_steps.confirm(self.client, token, factor, code))
        await self._adopt(session, auth)
        await self.sessions.end_others(session.user_id, session.sid)

    async def change_password(self, session: BrowserSession, current: str, password: str) -> None:
        """Change a password after checking the old one, and end every other session: one of them may be a thief's."""
        await self.prove(session, current)
        await self.with_token(session, lambda token: self.client.set_password(token, password))
        await self.end_others(session)

    async def change_email(self, session: BrowserSession, current: str, email: str, redirect_to: str) -> None:
        """Start a change of the email address after checking the password."""
        await self.prove(session, current)
        await self.with_token(session, lambda token: self.client.set_email(token, email, redirect_to))

    async def fresh(self, session: BrowserSession, *, is_forced: bool = False) -> BrowserSession:
        """Return the session with a token that still lives for a while."""
        if not is_forced and session.expires_at - self._clock() > REFRESH_BEFORE_SECONDS:
            return session
        lock = self._locks.setdefault(session.sid, asyncio.Lock())
        async with lock:
            return await self._refresh(session)

    async def _refresh(self, stale: BrowserSession) -> BrowserSession:
        current = await self.sessions.get(stale.sid)
        if current is None:
            raise SignedOut
        # Somebody else may have refreshed while this call waited for the lock.
        if current.access_token != stale.access_token:
            return current
        try:
            auth = await self.client.refresh(current.refresh_token, current.address)
        except Refused as error:
            return await self._after_refusal(current, error)
        if two_steps.is_half(auth):
            # The device that it was raised with was removed, and another one is left: its code is needed.
            await self.sessions.delete(current.sid)
            raise SignedOut
        return await self._adopt(current, auth)

    async def _adopt(self, session: BrowserSession, auth: AuthSession) -> BrowserSession:
        """Go on with newer tokens."""
        session.access_token, session.refresh_token = auth.access_token, auth.refresh_token
        session.expires_at = expiry_of(auth)
        await self.sessions.put(session)
        return session

    async def _after_refusal(self, lost: BrowserSession, error: Refused) -> BrowserSession:
        """Another process may have used the refresh token a moment earlier: take its result."""
        await asyncio.sleep(0.2)
        current = await self.sessions.get(lost.sid)
        if current is not None and current.refresh_token != lost.refresh_token:
            return current
        if error.code in NOT_JUDGED:
            raise Unreachable(*AUTH_SILENT) from error
        await self.sessions.delete(lost.sid)
        raise SignedOut from error

    async def rpc(self, session: BrowserSession, name: str, args: Mapping[str, Any] | None = None) -> Any:
        return await self.with_token(session, lambda token: self.client.rpc(token, name, args))

    async def invoke(self, session: BrowserSession, name: str, body: Mapping[str, Any]) -> Any:
        return await self.with_token(session, lambda token: self.client.invoke(token, name, body))

    async def select(self, session: BrowserSession, table: str, query: Query | None = None) -> Page:
        page: Page = await self.with_token(session, lambda token: self.client.select(token, table, query))
        return Page([shaped(table, row) for row in page.rows], page.total)

    async def with_token(self, session: BrowserSession, call: Callable[[str], Awaitable[Any]]) -> Any:
        """Ask the project for something with this person's token, renewed where it has to be."""
        session = await self.fresh(session)
        try:
            return await self._in_contact(call, session)
        except SignedOut:
            session = await self.fresh(session, is_forced=True)
            return await self._in_contact(call, session)

    async def _in_contact(self, call: Callable[[str], Awaitable[Any]], session: BrowserSession) -> Any:
        async with self.contact.waiting():
            return await call(session.access_token)
