"""A small pool of pipelined connections: first come, first served, with a limit on the wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from stack.rest.wire import DatabaseError, DatabaseGone, Wire


class PoolTimeout(Exception):
    """No connection became free in time."""


class Pool:
    """Opens connections when they are needed, up to `size`, and hands them out in turn."""

    def __init__(self, url: str, size: int = 10, wait_seconds: float = 10.0) -> None:
        self._url = url
        self._size = size
        self._wait_seconds = wait_seconds
        self._idle: list[Wire] = []
        self._open: set[Wire] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[Wire | None]] = deque()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Wire]:
        """Borrow a connection; it comes back outside any transaction."""
        wire = await self.take()
        try:
            yield wire
        finally:
            await self.give_back(wire)

    async def take(self) -> Wire:
        """Borrow a connection; whoever takes one gives it back."""
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_broken:
                return wire
            self._open.discard(wire)
        if self._occupied() < self._size:
            return await self._connect()
        return await self._wait()

    async def give_back(self, wire: Wire) -> None:
        """Return a connection to the next one waiting, or to the idle ones."""
        try:
            await wire.recover()
        except (DatabaseError, DatabaseGone):
            wire.close()
        if wire.is_broken:
            self._open.discard(wire)
            self._pass_on(None)
        elif not self._pass_on(wire):
            self._idle.append(wire)

    def close(self) -> None:
        """Close every connection, borrowed ones included."""
        for wire in self._open:
            wire.close()
        self._open.clear()
        self._idle.clear()

    def _occupied(self) -> int:
        self._open = {wire for wire in self._open if not wire.is_broken}
        return len(self._open) + self._opening

    async def _connect(self) -> Wire:
        self._opening += 1
        try:
            wire = await Wire.connect(self._url)
        except psycopg.Error as error:
            self._pass_on(None)
            raise DatabaseGone(str(error)) from error
        finally:
            self._opening -= 1
        self._open.add(wire)
        return wire

    async def _wait(self) -> Wire:
        waiter: asyncio.Future[Wire | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._wait_seconds):
                wire = await waiter
        except TimeoutError as error:
            self._abandon(waiter)
            raise PoolTimeout from error
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise
        # None means that a place became free, not a connection.
        return wire if wire is not None else await self.take()

    def _abandon(self, waiter: asyncio.Future[Wire | None]) -> None:
        """Hand on what the waiter may have got in the same moment."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter.done() and not waiter.cancelled():
            wire = waiter.result()
            if not self._pass_on(wire) and wire is not None:
                self._idle.append(wire)

    def _pass_on(self, wire: Wire | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(wire)
                return True
        return False
