"""Where sessions are kept: in this process (session_files.py: and in files), or in Redis when several share them."""

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

    async def end_others(self, user_id: str, sid: str) -> None:
        """Forget every session of somebody but one."""
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

    async def end_others(self, user_id: str, sid: str) -> None:
        """Forget every session of somebody but one."""
        theirs = [other for other, (session, _) in self._rows.items() if session.user_id == user_id]
        for other in theirs:
            if other != sid:
                del self._rows[other]

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
        await self._redis.sadd(self._keys_of(session.user_id), self._key(session.sid))
        await self._redis.expire(self._keys_of(session.user_id), IDLE_SECONDS)

    async def delete(self, sid: str) -> None:
        """Forget a session."""
        await self._redis.delete(self._key(sid))

    @staticmethod
    def _keys_of(user_id: str) -> str:
        return f"runyard:sessions-of:{user_id}"

    async def end_others(self, user_id: str, sid: str) -> None:
        """Forget every session of somebody but one."""
        for key in await self._redis.smembers(self._keys_of(user_id)):
            if key != self._key(sid):
                await self._redis.delete(key)
                await self._redis.srem(self._keys_of(user_id), key)
