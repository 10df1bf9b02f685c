"""The stores of sessions: in this process (session_files.py: and in files), or in Redis when several share them."""

import dataclasses
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from app.project.models import BrowserSession, KeptSession

IDLE_SECONDS = 14 * 24 * 3600


class Sessions(Protocol):
    """A table of sessions, keyed by the opaque id in the cookie."""

    async def get(self, sid: str) -> BrowserSession | None: ...

    async def put(self, session: BrowserSession) -> None:
        """Keep a session, new or changed."""
        ...

    async def delete(self, sid: str) -> None: ...

    async def of(self, user_id: str) -> list[KeptSession]:
        """List somebody's live sessions; a listing does not count as use."""
        ...

    async def end(self, user_id: str, key: str) -> BrowserSession | None:
        """Forget one session of somebody, and return what it was."""
        ...

    async def end_others(self, user_id: str, sid: str) -> None:
        """Forget every session of somebody but one."""
        ...


def new_sid() -> str:
    return secrets.token_urlsafe(32)


def key_of(sid: str) -> str:
    """Name a session by its id's hash, so that anyone who sees the name cannot use it as a cookie."""
    return hashlib.sha256(sid.encode()).hexdigest()


class MemorySessions:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rows: dict[str, tuple[BrowserSession, float]] = {}

    async def get(self, sid: str) -> BrowserSession | None:
        session, ends_at = self._rows.get(sid, (None, 0.0))
        if session is None or ends_at < self._clock():
            self._rows.pop(sid, None)
            return None
        self._rows[sid] = (session, self._clock() + IDLE_SECONDS)
        return session

    async def put(self, session: BrowserSession) -> None:
        self._sweep()
        self._rows[session.sid] = (session, self._clock() + IDLE_SECONDS)

    async def delete(self, sid: str) -> None:
        self._rows.pop(sid, None)

    async def of(self, user_id: str) -> list[KeptSession]:
        self._sweep()
        theirs = [row for row in self._rows.values() if row[0].user_id == user_id]
        return [KeptSession(key_of(session.sid), session, ends_at - IDLE_SECONDS) for session, ends_at in theirs]

    async def end(self, user_id: str, key: str) -> BrowserSession | None:
        found = next((kept.session for kept in await self.of(user_id) if kept.key == key), None)
        if found is not None:
            await self.delete(found.sid)
        return found

    async def end_others(self, user_id: str, sid: str) -> None:
        theirs = [other for other, (session, _) in self._rows.items() if session.user_id == user_id]
        for other in theirs:
            if other != sid:
                del self._rows[other]

    def _sweep(self) -> None:
        now = self._clock()
        for sid in [sid for sid, (_, ends_at) in self._rows.items() if ends_at < now]:
            del self._rows[sid]


class RedisSessions:
    PREFIX = "runyard:session:"

    def __init__(self, redis: Any, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    def _key(self, sid: str) -> str:
        return self.PREFIX + key_of(sid)

    async def get(self, sid: str) -> BrowserSession | None:
        body = await self._redis.getex(self._key(sid), ex=IDLE_SECONDS)
        return None if body is None else BrowserSession(sid=sid, **json.loads(body))

    async def put(self, session: BrowserSession) -> None:
        body = dataclasses.asdict(session)
        del body["sid"]
        await self._redis.set(self._key(session.sid), json.dumps(body), ex=IDLE_SECONDS)
        await self._redis.sadd(self._keys_of(session.user_id), self._key(session.sid))
        await self._redis.expire(self._keys_of(session.user_id), IDLE_SECONDS)

    async def delete(self, sid: str) -> None:
        await self._redis.delete(self._key(sid))

    async def of(self, user_id: str) -> list[KeptSession]:
        keys = await self._redis.smembers(self._keys_of(user_id))
        found = [await self._kept(user_id, key) for key in keys]
        return [kept for kept in found if kept is not None]

    async def _kept(self, user_id: str, key: str) -> KeptSession | None:
        body, seconds = await self._redis.get(key), await self._redis.ttl(key)
        if body is None:
            await self._redis.srem(self._keys_of(user_id), key)
            return None
        # The id itself is not kept here: only the browser has it.
        session = BrowserSession(sid="", **json.loads(body))
        return KeptSession(key.removeprefix(self.PREFIX), session, self._clock() - (IDLE_SECONDS - seconds))

    async def end(self, user_id: str, key: str) -> BrowserSession | None:
        found = next((kept.session for kept in await self.of(user_id) if kept.key == key), None)
        if found is not None:
            await self._redis.delete(self.PREFIX + key)
            await self._redis.srem(self._keys_of(user_id), self.PREFIX + key)
        return found

    @staticmethod
    def _keys_of(user_id: str) -> str:
        return f"runyard:sessions-of:{user_id}"

    async def end_others(self, user_id: str, sid: str) -> None:
        for key in await self._redis.smembers(self._keys_of(user_id)):
            if key != self._key(sid):
                await self._redis.delete(key)
                await self._redis.srem(self._keys_of(user_id), key)
