"""The feed: a bell that the database keeps silent for a while is rung once more after it."""

from typing import Any, cast

import pytest

from app.project.feed import Feed
from app.project.store import OrgStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_what_was_not_rung_for_is_looked_for_after_the_pause() -> None:
    store = OrgStore("org")
    heard: list[tuple[str, str]] = []
    store.listen(lambda table, row_id: heard.append((table, row_id)))
    nothing = cast("Any", None)
    feed = Feed(store, nothing, nothing, nothing, nothing)
    for _ in range(2):
        feed._ring("log", "7", 20)
    feed._ring("groups", "g", None)

    async def is_silent() -> bool:
        return not feed._echoes

    await eventually(is_silent)
    assert heard == [("log", "7"), ("log", "7"), ("groups", "g"), ("log", "7")]
