"""Where sessions are kept: in this process, or in Redis when several processes share them."""

import dataclasses
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from app.project.models import Session

IDLE_SECONDS = 14 * 24 * 3600


class Sessions(Protocol):
    """A table of sessions, keyed by the opaque id in the cookie."""

    async def get(self, sid: str) -> Session | None:
        """Find a live session."""
        ...

    async def put(self, session: Session) -> None:
        """Keep a session, new or changed."""
        ...

    async def delete(self, sid: str) -> None:
        """Forget a session."""
        ...


def new_sid() -> str:
    """Make an unguessable session id."""
    return secrets.token_urlsafe(32)


class MemorySessions:
    """Sessions of a single process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Start empty."""
        self._clock = clock
        self._rows: dict[str, tuple[Session, float]] = {}

    async def get(self, sid: str) -> Session | None:
        """Find a live session."""
        session, ends_at = self._rows.get(sid, (None, 0.0))
        if session is None or ends_at < self._clock():
            self._rows.pop(sid, None)
            return None
        self._rows[sid] = (session, self._clock() + IDLE_SECONDS)
        return session

    async def put(self, session: Session) -> None:
        """Keep a session, new or changed."""
        self._sweep()
        self._rows[session.sid] = (session, self._clock() + IDLE_SECONDS)

    async def delete(self, sid: str) -> None:
        """Forget a session."""
        self._rows.pop(sid, None)

    def _sweep(self) -> None:
        now = self._clock()
        for sid in [sid for sid, (_, ends_at) in self._rows.items() if ends_at < now]:
            del self._rows[sid]


class RedisSessions:
    """Sessions that several dashboard processes share."""

    def __init__(self, redis: Any) -> None:
        """Use an asyncio Redis client."""
        self._redis = redis

    @staticmethod
    def _key(sid: str) -> str:
        # Hashed, so that whoever can list Redis keys cannot use one as a cookie.
        return "runyard:session:" + hashlib.sha256(sid.encode()).hexdigest()

    async def get(self, sid: str) -> Session | None:
        """Find a live session."""
        body = await self._redis.getex(self._key(sid), ex=IDLE_SECONDS)
        return None if body is None else Session(sid=sid, **json.loads(body))

    async def put(self, session: Session) -> None:
        """Keep a session, new or changed."""
        body = dataclasses.asdict(session)
        del body["sid"]
        await self._redis.set(self._key(session.sid), json.dumps(body), ex=IDLE_SECONDS)

    async def delete(self, sid: str) -> None:
        """Forget a session."""
        await self._redis.delete(self._key(sid))
