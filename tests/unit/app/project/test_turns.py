"""Turns: questions wait while tabs are shown something, and only a few wait for an answer at a time."""

import asyncio
from typing import Any, cast

import pytest

from app.project import asker as asker_module
from app.project.asker import AT_ONCE, Turns
from app.project.hub import TabHub
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def take(turns: Turns, asking: list[int], over: asyncio.Event) -> None:
    async with turns.take():
        asking.append(1)
        await over.wait()


async def test_a_few_are_asked_at_a_time() -> None:
    calm, over = asyncio.Event(), asyncio.Event()
    calm.set()
    turns, asking = Turns(calm), cast("list[int]", [])
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3 * AT_ONCE):
            tasks.create_task(take(turns, asking, over))
        await asyncio.sleep(0.02)
        before = len(asking)
        over.set()
    assert (before, len(asking)) == (AT_ONCE, 3 * AT_ONCE)


@pytest.mark.parametrize("is_storm", [False, True])
async def test_tabs_are_shown_what_is_known_first_unless_that_never_ends(
    monkeypatch: pytest.MonkeyPatch, is_storm: bool
) -> None:
    monkeypatch.setattr(asker_module, "CALM_SECONDS", 0.05 if is_storm else 60)
    calm, over, asking = asyncio.Event(), asyncio.Event(), cast("list[int]", [])
    over.set()
    task = asyncio.create_task(take(Turns(calm), asking, over))
    await asyncio.sleep(0.01)
    assert asking == []
    if not is_storm:
        calm.set()
    async with asyncio.timeout(5):
        await task
    assert asking == [1]


async def test_it_is_calm_when_changes_are_waited_for_and_not_from_the_next_change_on() -> None:
    hub = TabHub(cast("Any", None), cast("Any", None))
    waiting = asyncio.create_task(hub.changes())

    async def is_calm() -> bool:
        return hub._calm.is_set()

    await eventually(is_calm)
    hub._note("org", "workers", "1")
    assert not await is_calm()
    assert list(await waiting) == ["org"]
    assert not await is_calm(), "it is shown to nobody yet"
