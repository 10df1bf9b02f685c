"""Access to private channels: row-level security on `realtime.messages`, probed and rolled back."""

import logging
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import AsyncConnection

from stack.realtime.database import Database
from stack.realtime.errors import JoinRefused
from stack.realtime.queries import QUERIES
from stack.realtime.tokens import RealtimeCaller

log = logging.getLogger("stack.realtime")

NO_PARTITION = "Realtime was unable to find the expected messages partition"


@dataclass(frozen=True, slots=True)
class Policies:
    """The rights of a private channel's user; None is not queried yet."""

    broadcast_read: bool | None = None
    broadcast_write: bool | None = None
    presence_read: bool | None = None
    presence_write: bool | None = None

    @property
    def can_read(self) -> bool:
        """Whether the channel may be joined at all."""
        return bool(self.broadcast_read or self.presence_read)

    def has_lost(self, later: "Policies") -> bool:
        """Whether a newer token lacks a right to read that the older one had."""
        return bool(
            (self.broadcast_read and later.broadcast_read is False)
            or (self.presence_read and later.presence_read is False)
        )


@dataclass(frozen=True, slots=True)
class Asker:
    """A user whose rights on a topic are queried; `headers` is JSON, as policies read it."""

    identity: RealtimeCaller
    topic: str
    headers: str

    @property
    def parameters(self) -> dict[str, Any]:
        """For `become_user`."""
        return {
            "role": self.identity.role,
            "topic": self.topic,
            "claims": self.identity.claims_json,
            "sub": str(self.identity.claims.get("sub") or ""),
            "headers": self.headers,
        }


class Authorizer:
    """Queries PostgreSQL for a user's rights, and leaves no trace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, asker: Asker) -> Policies:
        """Return the user's rights to read, by the probe rows that the user sees."""
        try:
            async with self._rolled_back() as connection:
                await connection.execute(QUERIES["become_service"])
                rows = await (await connection.execute(QUERIES["insert_probes"], asker.parameters)).fetchall()
                probes = {extension: key for key, extension in rows}
                await connection.execute(QUERIES["become_user"], asker.parameters)
                found = await connection.execute(
                    QUERIES["read_probes"], {"topic": asker.topic, "ids": list(probes.values())}
                )
                seen = {key for (key,) in await found.fetchall()}
        except psycopg.Error as error:
            _explain(error)
            return Policies(broadcast_read=False, presence_read=False)
        return Policies(broadcast_read=probes["broadcast"] in seen, presence_read=probes["presence"] in seen)

    async def ended_sessions(self, ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
        """Return those of these sessions that Auth no longer has."""
        if not ids:
            return set()
        async with self._database.connection() as connection:
            found = await connection.execute(QUERIES["ended_sessions"], {"ids": list(ids)})
            return {session for (session,) in await found.fetchall()}

    async def has_session(self, identity: RealtimeCaller) -> bool:
        """Whether Auth still has the session that a person's token was made for; other tokens name none."""
        session = identity.session_id
        return session is None or not await self.ended_sessions([session])

    async def with_write(self, policies: Policies, asker: Asker, extension: str) -> Policies:
        """The policies with the right to write filled in, asking at most once per token."""
        if getattr(policies, f"{extension}_write") is not None:
            return policies
        may_write = await self.may_write(asker, extension)
        if extension == "broadcast":
            return replace(policies, broadcast_write=may_write)
        return replace(policies, presence_write=may_write)

    async def may_write(self, asker: Asker, extension: str) -> bool:
        """Whether an insert as the user goes through."""
        try:
            async with self._rolled_back() as connection:
                await connection.execute(QUERIES["become_user"], asker.parameters)
                await connection.execute(QUERIES["write_probe"], {"topic": asker.topic, "extension": extension})
        except psycopg.Error as error:
            _explain(error)
            return False
        return True

    @asynccontextmanager
    async def _rolled_back(self) -> AsyncIterator[AsyncConnection]:
        async with self._database.connection() as connection, connection.transaction(force_rollback=True):
            yield connection


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
