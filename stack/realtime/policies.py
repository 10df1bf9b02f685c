"""Access to private channels: row-level security on `realtime.messages`, probed and rolled back."""

import logging
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import psycopg

from stack.auth.tokens import ApiCaller
from stack.realtime.database import QUERIES, Database
from stack.realtime.errors import JoinRefused

log = logging.getLogger("stack.realtime")

NO_PARTITION = "Realtime was unable to find the expected messages partition"


@dataclass(frozen=True, slots=True)
class Asker:
    """A user whose rights on a topic are queried; `headers` is JSON, as policies read it."""

    identity: ApiCaller
    topic: str
    headers: str

    @property
    def parameters(self) -> dict[str, Any]:
        """For `may_read`."""
        return {
            "role": self.identity.role,
            "topic": self.topic,
            "claims": self.identity.claims_json.decode(),
            "sub": str(self.identity.claims.get("sub") or ""),
            "headers": self.headers,
        }


class Authorizer:
    """Queries PostgreSQL for a user's rights, and leaves no trace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def may_read(self, asker: Asker) -> bool:
        """Whether the user sees a broadcast that is put into the topic and taken back."""
        try:
            async with self._database.connection() as connection:
                answer = await connection.execute(QUERIES["may_read"], asker.parameters, prepare=True)
                return (await answer.fetchone()) == (True,)
        except psycopg.Error as error:
            _explain(error)
            return False

    async def ended_sessions(self, sessions: Collection[str]) -> set[str]:
        """Return those of these sessions that Auth no longer has."""
        if not sessions:
            return set()
        ids = {session: _uuid(session) for session in sessions}
        async with self._database.connection() as connection:
            found = await connection.execute(QUERIES["ended_sessions"], {"ids": list(ids.values())})
            ended = {session for (session,) in await found.fetchall()}
        return {session for session, key in ids.items() if key in ended}

    async def has_session(self, identity: ApiCaller) -> bool:
        """Whether Auth still has the session that a person's token was made for; other tokens name none."""
        session = identity.session
        return session is None or not await self.ended_sessions([session])


def _uuid(text: str) -> uuid.UUID:
    """An id; what is none is nobody's session."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)


def _explain(error: psycopg.Error) -> None:
    """A plain denial is an answer; anything else is sent to the client, or raised where a retry may help."""
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return
    if isinstance(error, psycopg.errors.QueryCanceled):
        raise JoinRefused("QueryCanceled", str(error.diag.message_primary)) from error
    if isinstance(error, psycopg.errors.CheckViolation):
        raise JoinRefused("MissingPartition", NO_PARTITION) from error
    if isinstance(error, psycopg.OperationalError):
        raise error
    log.warning("RlsPolicyError: %s", error.diag.message_primary)
