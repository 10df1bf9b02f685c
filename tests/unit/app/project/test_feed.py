"""The feed: a topic that the database keeps silent for a while is asked once more after it."""

from typing import Any, cast

import pytest

from app.project.feed import OrgFeed
from app.project.store import OrgStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_what_had_no_wake_up_is_read_after_the_pause() -> None:
    store = OrgStore("org")
    heard: list[tuple[str, str]] = []
    store.listen(lambda table, row_id: heard.append((table, row_id)))
    nothing = cast("Any", None)
    feed = OrgFeed(store, nothing, nothing, nothing, nothing)
    for _ in range(2):
        feed._notify("log", "7", 20)
    feed._notify("groups", "g", None)

    async def is_silent() -> bool:
        return not feed._repeats

    await eventually(is_silent)
    assert heard == [("log", "7"), ("log", "7"), ("groups", "g"), ("log", "7")]
