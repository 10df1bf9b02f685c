"""Waiting for a wake-up or for a time, whichever comes first."""

import asyncio
from contextlib import suppress


async def wait_for_wake_up(wake_up: asyncio.Event, seconds: float) -> bool:
    """Wait for the wake-up or until the time is over, clear it, and return whether it came."""
    # Not `wait_for`: Python 3.11's swallows a cancellation that meets the wake-up, and a loop that has to end would continue.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await wake_up.wait()
    is_woken = wake_up.is_set()
    wake_up.clear()
    return is_woken
