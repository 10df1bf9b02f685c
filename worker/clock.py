"""Time, passed in so that tests and other clocks can take its place."""

import asyncio
import random
import time
from contextlib import suppress
from datetime import UTC, datetime


class Clock:
    """The machine's own clock; tests pass another one."""

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


# Beyond the first a clock is worth a word, beyond the second tokens and signatures are refused.
SKEW_WARNING_SECONDS = 5
SKEW_LIMIT_SECONDS = 60
# A skew is logged again when it changes, not when the network was slower.
_SKEW_STEP_SECONDS = 3


class Skew:
    """The difference between this machine's clock and the server's, from the time in the server's answers."""

    def __init__(self) -> None:
        self.reported: int | None = None

    def note(self, server_time: str | None, asked_at: datetime, answered_at: datetime) -> None:
        """Compare with the moment between question and answer; a slow answer cannot show a small skew."""
        try:
            theirs = datetime.fromisoformat(server_time or "")
            skew = (asked_at + (answered_at - asked_at) / 2 - theirs).total_seconds()
        except (TypeError, ValueError):
            return
        doubt = abs((answered_at - asked_at).total_seconds()) / 2
        if abs(skew) <= SKEW_WARNING_SECONDS + doubt:
            self.reported = None
        elif self.reported is None or abs(skew - self.reported) > _SKEW_STEP_SECONDS + doubt:
            self.reported = round(skew)


def jittered(seconds: float, spread: float = 0.2) -> float:
    """Spread a delay so that a fleet does not send its heartbeats in step."""
    return seconds * random.uniform(1 - spread, 1 + spread)


def backoff(failures: int, *, first: float = 0.5, most: float = 30.0) -> float:
    """Grow a delay with each failure in a row, jittered, up to a ceiling."""
    return jittered(min(most, first * 2 ** min(failures, 16)), 0.3)


async def wait_for_wake_up(wake_up: asyncio.Event, seconds: float) -> bool:
    """Wait for the wake-up or until the time is over, clear it, and return whether it came."""
    # Not `wait_for`: Python 3.11's swallows a cancellation that meets the wake-up, and a loop that has to end would continue.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await wake_up.wait()
    is_woken = wake_up.is_set()
    wake_up.clear()
    return is_woken
