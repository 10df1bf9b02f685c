"""Replaces hosted Supabase's pg_net: wakes the function that sends notifications when something is due."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psycopg

from cli.launcher.journal import Journal
from stack.listening import wait_notified

POLL_EVERY_SECONDS = 3.0
# The function sends for 40 s at most; whatever it could not finish is due again when its lease is over.
_TIMEOUT_SECONDS = 60.0
# A call that waits for a slow receiver must not delay what others receive.
_MOST_CALLS = 4
# A burst of events becomes few calls: the function accepts 240 a minute.
_PAUSE_SECONDS = 0.3
_OPTIONS = "-c statement_timeout=10s"
# Another project's database may not have it.
_IS_OURS = "select to_regprocedure('private.has_due_deliveries()') is not null"
_IS_DUE = "select private.has_due_deliveries()"
_LISTEN = "listen runyard_deliveries"
_Connection = psycopg.AsyncConnection[Any]


class Notifier:
    """Calls the function that sends, while there is something to send."""

    def __init__(self, database_url: str, functions_url: str, journal: Journal) -> None:
        self._database_url = database_url
        self._functions_url = functions_url
        self._journal = journal
        self._said = ""
        self.calls: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Poll when the database announces messages, and every few seconds; ends with the connection."""
        try:
            async with self.opened() as connection:
                await connection.execute(_LISTEN)
                while True:
                    await self.poll(connection)
                    if await wait_notified(connection, POLL_EVERY_SECONDS):
                        await asyncio.sleep(_PAUSE_SECONDS if self.calls else 0)
        except psycopg.Error as error:
            self._say(error)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[_Connection]:
        """Connect to the database; calls of the function end with the connection."""
        connect = psycopg.AsyncConnection.connect(
            self._database_url, autocommit=True, connect_timeout=5, options=_OPTIONS
        )
        async with await connect as connection:
            try:
                yield connection
            finally:
                for call in self.calls:
                    call.cancel()

    async def poll(self, connection: _Connection) -> None:
        """Wake the function if something is due."""
        if len(self.calls) < _MOST_CALLS and await self._is_due(connection):
            call = asyncio.create_task(self._wake())
            self.calls.add(call)
            call.add_done_callback(self.calls.discard)

    async def _wake(self) -> None:
        """Call the function; trouble is written down once, and the next poll tries again."""
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
                (await client.post(f"{self._functions_url}/notify", json={"deliver": True})).raise_for_status()
            self._said = ""
        except httpx.HTTPError as error:
            self._say(error)

    async def _is_due(self, connection: _Connection) -> bool:
        async def is_true(query: Any) -> bool:
            return bool(await (await connection.execute(query)).fetchone() == (True,))

        return await is_true(_IS_OURS) and await is_true(_IS_DUE)

    def _say(self, error: Exception) -> None:
        words = str(error).strip().split("\n", 1)[0]
        if words != self._said:
            self._said = words
            self._journal.note("notify", f"not sent, trying again: {words}")
