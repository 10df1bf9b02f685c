"""The Auth service's database: named queries as `supabase_auth_admin`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, cast

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from stack.sqlsplit import load_queries

Row = dict[str, Any]


QUERIES = load_queries(files("stack.auth").joinpath("sql", "queries.sql").read_text())


class Transaction:
    """Runs named queries on one connection."""

    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection

    async def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row."""
        cursor = await self._connection.execute(QUERIES[name], values)
        return await cursor.fetchone()

    async def all(self, name: str, /, **values: Any) -> list[Row]:
        """Every row."""
        cursor = await self._connection.execute(QUERIES[name], values)
        return await cursor.fetchall()

    async def do(self, name: str, /, **values: Any) -> int:
        """The number of rows changed."""
        cursor = await self._connection.execute(QUERIES[name], values)
        return cursor.rowcount


class Store:
    """A small pool; each `transaction` commits as a whole."""

    def __init__(self, url: str, size: int = 4) -> None:
        self._pool = AsyncConnectionPool(
            url,
            min_size=0,
            max_size=size,
            open=False,
            timeout=10,
            check=AsyncConnectionPool.check_connection,
            kwargs={"row_factory": dict_row, "application_name": "runyard-auth", "connect_timeout": 5},
        )

    async def open(self) -> None:
        """Start the pool; connections are made when they are needed."""
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One transaction: committed at the end, undone by an exception."""
        async with self._pool.connection() as connection:
            yield Transaction(cast("psycopg.AsyncConnection[Row]", connection))
