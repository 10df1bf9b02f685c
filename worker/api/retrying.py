"""Retry policies, named so that each call can show its own."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

from worker.errors import Retryable

Answer = TypeVar("Answer")


def _wait_hint(error: Exception) -> bool | float:
    if not isinstance(error, Retryable):
        return False
    return error.retry_after_seconds or True


async def retry_for(seconds: float | None, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a call that may be repeated until it is answered; None means for ever."""
    policy = stamina.retry_context(
        on=_wait_hint, attempts=None, timeout=seconds, wait_initial=0.2, wait_max=10.0, wait_jitter=0.5
    )
    async for attempt in policy:
        with attempt:
            return await call()
    raise AssertionError("unreachable")  # the policy returns or raises
