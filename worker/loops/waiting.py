"""Waiting for a wake-up or for a time, whichever comes first."""

import asyncio
from contextlib import suppress


async def wait_for_wake_up(wake_up: asyncio.Event, seconds: float) -> bool:
    """Wait for the wake-up or until the time is over, clear it, and say whether it came."""
    with suppress(TimeoutError):
        await asyncio.wait_for(wake_up.wait(), max(0.0, seconds))
    is_woken = wake_up.is_set()
    wake_up.clear()
    return is_woken
