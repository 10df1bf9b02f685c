"""Keeps the schema cache current: read at the start, and again on `notify pgrst`."""

import asyncio
import logging

import psycopg

from stack.listening import wait_notified
from stack.rest.catalog import SchemaCatalog, load_catalog

QUIET_SECONDS = 0.02
RETRY_SECONDS = 1.0
log = logging.getLogger("stack.rest")


class CatalogStore:
    """Holds the current catalogue; `run` is a task for the life of the process."""

    def __init__(self, url: str, schemas: tuple[str, ...]) -> None:
        self._url = url
        self._schemas = schemas
        self.current: SchemaCatalog | None = None
        self._loaded = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> SchemaCatalog | None:
        """The catalogue, waiting for the first one; None when there is none yet."""
        if self.current is None:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._loaded.wait()
            except TimeoutError:
                return None
        return self.current

    async def run(self) -> None:
        """Listen and reload for ever, through restarts of the database."""
        logged = ""
        while True:
            try:
                await self._listen()
            except psycopg.Error as error:
                # The same problem is logged once, not every second.
                if str(error) != logged:
                    logged = str(error)
                    log.warning("The schema cache cannot be kept current, trying again: %s", logged)
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=5, application_name="runyard-rest-listen"
        )
        async with connection:
            await connection.execute("listen pgrst")
            await self._load(connection)
            while True:
                await wait_notified(connection)
                # A migration notifies many times; one reload serves them all.
                async for _ in connection.notifies(timeout=QUIET_SECONDS):
                    pass
                await self._load(connection)

    async def _load(self, connection: psycopg.AsyncConnection) -> None:
        version = self.current.version + 1 if self.current else 1
        self.current = await load_catalog(connection, self._schemas, version)
        self._loaded.set()
