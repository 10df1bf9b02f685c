"""The doorbell: the loops that a message wakes, and the time at which it does."""

import asyncio
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock
from worker.doorbell import Doorbell

pytestmark = pytest.mark.anyio


def message(**payload: Any) -> dict[str, Any]:
    return {"type": "broadcast", "event": "wake", "payload": payload}


class Listener:
    """Records the wake-ups of the doorbell."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.doorbell = Doorbell("http://localhost", self._no_session, self.heard.append, HandClock())

    def _no_session(self) -> Any:
        raise AssertionError("nobody connects here")

    async def hears(self, *expected: str) -> None:
        async def is_silent() -> bool:
            repeat = self.doorbell._repeat
            is_over = repeat is None or repeat.when() < asyncio.get_running_loop().time()
            return is_over and len(self.heard) >= len(expected)

        await eventually(is_silent)
        assert self.heard == list(expected)


async def test_a_message_from_a_busy_queue_wakes_twice() -> None:
    """Jobs that arrived while the database sent no second wake-up had none."""
    listener = Listener()
    listener.doorbell._notifier("wake")(message(lane=1, again_ms=20))
    await listener.hears("wake", "wake")


async def test_the_repeat_comes_once_after_the_last_wake_up() -> None:
    listener = Listener()
    for _ in range(3):
        listener.doorbell._notifier("wake")(message(again_ms=20))
    await listener.hears("wake", "wake", "wake", "wake")


async def test_a_wake_up_without_a_pause_is_not_repeated() -> None:
    listener = Listener()
    listener.doorbell._notifier("directive")(message())
    assert (listener.heard, listener.doorbell._repeat) == (["directive"], None)


@pytest.mark.parametrize("odd", [None, "x", {}, {"payload": None}, {"payload": {"again_ms": "soon"}}])
async def test_an_odd_message_wakes_and_kills_nobody(odd: Any) -> None:
    listener = Listener()
    listener.doorbell._notifier("wake")(odd)
    assert (listener.heard, listener.doorbell._repeat) == (["wake"], None)
