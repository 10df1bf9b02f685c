"""The doorbell: what a message rings, and when."""

import asyncio
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock
from worker.doorbell import Doorbell

pytestmark = pytest.mark.anyio


def message(**payload: Any) -> dict[str, Any]:
    return {"type": "broadcast", "event": "wake", "payload": payload}


class House:
    """Hears the bell."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.bell = Doorbell("http://localhost", self._no_session, self.heard.append, HandClock())

    def _no_session(self) -> Any:
        raise AssertionError("nobody connects here")

    async def hears(self, *expected: str) -> None:
        async def is_silent() -> bool:
            echo = self.bell._echo
            is_over = echo is None or echo.when() < asyncio.get_running_loop().time()
            return is_over and len(self.heard) >= len(expected)

        await eventually(is_silent)
        assert self.heard == list(expected)


async def test_a_busy_bell_is_answered_twice() -> None:
    """Jobs that came while the database kept it silent were not rung for."""
    house = House()
    house.bell._ringer("wake")(message(lane=1, again_ms=20))
    await house.hears("wake", "wake")


async def test_the_echo_comes_once_after_the_last_ring() -> None:
    house = House()
    for _ in range(3):
        house.bell._ringer("wake")(message(again_ms=20))
    await house.hears("wake", "wake", "wake", "wake")


async def test_a_ring_without_a_pause_has_no_echo() -> None:
    house = House()
    house.bell._ringer("directive")(message())
    assert (house.heard, house.bell._echo) == (["directive"], None)


@pytest.mark.parametrize("odd", [None, "x", {}, {"payload": None}, {"payload": {"again_ms": "soon"}}])
async def test_an_odd_message_rings_and_kills_nobody(odd: Any) -> None:
    house = House()
    house.bell._ringer("wake")(odd)
    assert (house.heard, house.bell._echo) == (["wake"], None)
