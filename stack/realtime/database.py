"""The connections that joins use, and hosted's words when there are none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from stack.realtime.errors import DatabaseAway
from stack.realtime.stream import TEXT_OPTIONS
from stack.sqlsplit import load_queries

QUERIES = load_queries(files("stack.realtime").joinpath("sql", "queries.sql").read_text())


class Database:
    """A small pool as authenticator, which may become the API roles and nothing else."""

    def __init__(self, url: str, size: int, timeout_seconds: float) -> None:
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=size,
            open=False,
            timeout=timeout_seconds,
            reconnect_timeout=timeout_seconds,
            check=AsyncConnectionPool.check_connection,
            kwargs={"options": TEXT_OPTIONS, "application_name": "realtime_joins"},
        )
        self._roles: frozenset[str] = frozenset()

    async def open(self) -> None:
        """Start filling the pool in the background."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A checked connection; `DatabaseAway` when there is none or it breaks."""
        try:
            async with self._pool.connection() as connection:
                yield connection
        except (PoolTimeout, PoolClosed) as error:
            raise DatabaseAway(str(error)) from error
        except psycopg.OperationalError as error:
            if isinstance(error, psycopg.errors.QueryCanceled):
                raise
            raise DatabaseAway(str(error)) from error

    async def may_become(self, role: str) -> bool:
        """Whether a token's role is one of the API's; asked again when it seems not, as migrations add roles."""
        if role not in self._roles:
            async with self.connection() as connection:
                rows = await (await connection.execute(QUERIES["api_roles"])).fetchall()
            self._roles = frozenset(name for (name,) in rows)
        return role in self._roles
