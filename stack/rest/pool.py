"""A small pool of pipelined connections: first come, first served, with a limit on the wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from stack.rest.connection import Connection, DatabaseError, DatabaseGone


class PoolTimeout(Exception):
    """No connection became free in time."""


class Pool:
    """Opens connections when they are needed, up to `size`, and hands them out in turn."""

    def __init__(self, url: str, size: int = 10, wait_seconds: float = 10.0) -> None:
        self._url = url
        self._size = size
        self._wait_seconds = wait_seconds
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Borrow a connection; it is returned outside any transaction."""
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give_back(connection)

    async def take(self) -> Connection:
        """Borrow a connection; the caller gives it back."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_broken:
                return connection
            self._open.discard(connection)
        if self._occupied() < self._size:
            return await self._connect()
        return await self._wait()

    async def give_back(self, connection: Connection) -> None:
        """Return a connection to the next one waiting, or to the idle ones."""
        try:
            await connection.recover()
        except (DatabaseError, DatabaseGone):
            connection.close()
        if connection.is_broken:
            self._open.discard(connection)
            self._pass_on(None)
        elif not self._pass_on(connection):
            self._idle.append(connection)

    def close(self) -> None:
        """Close every connection, borrowed ones included."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def _occupied(self) -> int:
        self._open = {connection for connection in self._open if not connection.is_broken}
        return len(self._open) + self._opening

    async def _connect(self) -> Connection:
        self._opening += 1
        try:
            connection = await Connection.connect(self._url)
        except psycopg.Error as error:
            self._pass_on(None)
            raise DatabaseGone(str(error)) from error
        finally:
            self._opening -= 1
        self._open.add(connection)
        return connection

    async def _wait(self) -> Connection:
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._wait_seconds):
                connection = await waiter
        except TimeoutError as error:
            self._abandon(waiter)
            raise PoolTimeout from error
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise
        # None means that a place became free, not a connection.
        return connection if connection is not None else await self.take()

    def _abandon(self, waiter: asyncio.Future[Connection | None]) -> None:
        """Hand on what the waiter may have got in the same moment."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter.done() and not waiter.cancelled():
            connection = waiter.result()
            if not self._pass_on(connection) and connection is not None:
                self._idle.append(connection)

    def _pass_on(self, connection: Connection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False
