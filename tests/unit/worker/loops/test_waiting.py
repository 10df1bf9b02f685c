"""Waiting for a wake-up or for a time."""

import asyncio

import pytest

from worker.clock import wait_for_wake_up

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(4))
async def test_a_loop_that_is_cancelled_while_it_is_woken_ends(turns: int) -> None:
    """A runner's last job frees its slot, which wakes the claims, in the moment in which the process stops them."""
    wake_up = asyncio.Event()

    async def loop() -> None:
        while True:
            await wait_for_wake_up(wake_up, 600)

    task = asyncio.create_task(loop())
    await asyncio.sleep(0.01)
    wake_up.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=5)
    task.cancel()
    assert ended


async def test_waiting_returns_whether_it_was_woken() -> None:
    wake_up = asyncio.Event()
    assert not await wait_for_wake_up(wake_up, 0)
    wake_up.set()
    assert await wait_for_wake_up(wake_up, 600)
    assert not wake_up.is_set()
