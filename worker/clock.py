"""Time, passed in so that tests and other clocks can take its place."""

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the loops need to know about time."""

    def monotonic(self) -> float:
        """Seconds that never go back and go on while the machine sleeps."""
        ...

    def now(self) -> datetime:
        """The wall clock, for what people read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        """Read the boot clock: a suspended laptop must not think its lease still holds."""
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def now(self) -> datetime:
        """Read the wall clock in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


def jittered(seconds: float, spread: float = 0.2) -> float:
    """Spread a delay so that a fleet does not beat in step."""
    return seconds * random.uniform(1 - spread, 1 + spread)


def backoff(failures: int, *, first: float = 0.5, most: float = 30.0) -> float:
    """Grow a delay with each failure in a row, jittered, up to a ceiling."""
    return jittered(min(most, first * 2 ** min(failures, 16)), 0.3)
