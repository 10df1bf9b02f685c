"""The schema cache: what the exposed schemas hold, read at the start, and again on `notify pgrst`."""

import asyncio
import logging
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import psycopg

from stack.listening import wait_notified

SQL = files("stack.rest").joinpath("sql")
QUERIES = {name: SQL.joinpath(f"{name}.sql").read_text() for name in ("tables", "functions", "role_settings")}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument a caller may give."""

    name: str
    type: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function."""

    schema: str
    name: str
    arguments: tuple[Argument, ...]
    returns_rows: bool
    is_void: bool
    is_json: bool
    is_volatile: bool

    def accepts(self, keys: frozenset[str]) -> bool:
        """Whether a call with exactly these named arguments fits."""
        names = {argument.name for argument in self.arguments}
        return keys <= names and all(a.name in keys for a in self.arguments if a.is_required)


@dataclass(frozen=True)
class SchemaCatalog:
    """Everything the REST service knows of the database."""

    schemas: tuple[str, ...]
    version: int = 0
    tables: set[tuple[str, str]] = field(default_factory=set)
    functions: dict[tuple[str, str], list[Function]] = field(default_factory=dict)
    role_settings: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # A call's statement is made once for each set of arguments; gone with the catalogue.
    calls: dict[tuple[str, str, frozenset[str]], tuple[Function, bytes]] = field(default_factory=dict)


async def load_catalog(
    connection: psycopg.AsyncConnection, schemas: tuple[str, ...], version: int = 0
) -> SchemaCatalog:
    """Read the catalogue in one snapshot."""
    catalog = SchemaCatalog(schemas, version)
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.execute("set transaction isolation level repeatable read")
        await cursor.execute("set local search_path = ''")
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for name, query in QUERIES.items():
            await cursor.execute(query.encode(), {"schemas": list(schemas)})
            rows[name] = await cursor.fetchall()
    catalog.tables.update((schema, name) for schema, name in rows["tables"])
    for schema, name, arguments, *kind in rows["functions"]:
        function = Function(schema, name, tuple(Argument(**argument) for argument in arguments), *kind)
        catalog.functions.setdefault((schema, name), []).append(function)
    for role, name, value in rows["role_settings"]:
        catalog.role_settings.setdefault(role, []).append((name, value))
    return catalog


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
