"""Waiting for PostgreSQL to send something; psycopg's own wait looks at the clock ten times a second, for as long as it lasts."""

import asyncio
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection


async def wait_readable(socket: int, seconds: float | None = None) -> None:
    """Return when something can be read, or after a time."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(socket, readable.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await readable.wait()
    finally:
        loop.remove_reader(socket)


async def wait_notified(connection: AsyncConnection[Any], seconds: float | None = None) -> bool:
    """Wait for a notification; whether one came in time. Those that came with the answer of a query count."""
    now = asyncio.get_running_loop().time
    until = None if seconds is None else now() + seconds
    while not await _is_notified(connection):
        left = None if until is None else until - now()
        if left is not None and left <= 0:
            return False
        await wait_readable(connection.pgconn.socket, left)  # what came may also be a notice, or half a message
    return True


async def _is_notified(connection: AsyncConnection[Any]) -> bool:
    return bool([each async for each in connection.notifies(timeout=0)])
