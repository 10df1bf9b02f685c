"""Waiting for a bell or for a time, whichever comes first."""

import asyncio
from contextlib import suppress


async def wait_for_bell(bell: asyncio.Event, seconds: float) -> bool:
    """Wait until the bell rings or the time is over, silence the bell, and tell whether it rang."""
    with suppress(TimeoutError):
        await asyncio.wait_for(bell.wait(), max(0.0, seconds))
    rang = bell.is_set()
    bell.clear()
    return rang
