"""Wait for a condition, never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")
# A look that takes long costs others their processor: the pause after it is so many times as long, and at most this many seconds.
REST, LONGEST = 5, 0.5


def wait_until(condition: Callable[[], Found], timeout_seconds: float = 180, every_seconds: float = 0.05) -> Found:
    """Return the condition's first truthy answer."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        began_at = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"not true within {timeout_seconds} s: {condition}; last answer {answer!r}")
        time.sleep(max(every_seconds, min(REST * (now - began_at), LONGEST)))


async def eventually(
    condition: Callable[[], Awaitable[Found]], timeout_seconds: float = 180, every_seconds: float = 0.05
) -> Found:
    """Return the asynchronous condition's first truthy answer."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = await condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {timeout_seconds} s: {condition}; last answer {answer!r}")
        await asyncio.sleep(every_seconds)
