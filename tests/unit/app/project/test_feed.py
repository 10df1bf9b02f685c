"""The feed: a topic for which the database pauses its messages is read once more after the pause, and no failure ends the feed."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
import respx
from structlog.testing import capture_logs

from app.project import feed as feed_module
from app.project.asker import Turns
from app.project.authorized_client import AuthorizedClient
from app.project.client import Client
from app.project.errors import Unreachable
from app.project.feed import OrgFeed
from app.project.hub import TabHub, View
from app.project.models import BrowserSession
from app.project.sessions import MemorySessions
from app.project.settings import Settings
from app.project.store import Link, OrgStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_changes_without_a_wake_up_are_read_after_the_pause() -> None:
    store = OrgStore("org")
    heard: list[tuple[str, str]] = []
    store.listen(lambda table, row_id: heard.append((table, row_id)))
    nothing = cast("Any", None)
    feed = OrgFeed(store, nothing, nothing, nothing, nothing, nothing)
    for _ in range(2):
        feed._notify("log", "7", 20)
    feed._notify("groups", "g", None)

    async def is_silent() -> bool:
        return not feed._repeats

    await eventually(is_silent)
    assert heard == [("log", "7"), ("log", "7"), ("groups", "g"), ("log", "7")]


@asynccontextmanager
async def running(feed: OrgFeed) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(feed.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK_SECONDS", "HURRY_SECONDS", "OVERVIEW_SECONDS"):
        monkeypatch.setattr(feed_module, name, 0.001)


async def test_a_feed_continues_after_every_failure(no_pauses: None) -> None:
    faults: list[Exception] = [Unreachable(), Unreachable(), RuntimeError("no file"), RuntimeError("no file")]
    asked: list[Exception | None] = []

    async def member() -> BrowserSession | None:
        asked.append(faults.pop(0) if faults else None)
        if asked[-1] is not None:
            raise asked[-1]
        return None

    store, nothing = OrgStore("org"), cast("Any", None)
    assert store.link is Link.JOINING, "a first load does not count as a failure"
    store.set_link(Link.LIVE)
    feed = OrgFeed(store, nothing, nothing, member, nothing, nothing)
    with capture_logs() as logs:
        async with running(feed) as task:

            async def is_asked_again() -> bool:
                return task.done() or asked.count(None) > 4

            await eventually(is_asked_again)
            assert not task.done()
        assert task.cancelled()
    assert [entry["event"] for entry in logs] == ["feed_loop_failed"] * 4
    assert {entry["loop"] for entry in logs} == {"OrgFeed._watch_rows", "OrgFeed._watch_overview"}
    assert store.link is Link.POLLING


@respx.mock
async def test_pages_are_offline_while_nobody_s_token_can_be_renewed(no_pauses: None) -> None:
    respx.post("http://project.test/auth/v1/token").mock(side_effect=httpx.ConnectError("refused"))
    authorized = AuthorizedClient(Client(Settings("http://project.test", "key", "")), MemorySessions())
    held = BrowserSession("sid", "u", "ops@example.com", "a", "r", time.time() - 5, 0.0)
    await authorized.sessions.put(held)
    hub, store, nothing = TabHub(authorized, cast("Any", None)), OrgStore("org"), cast("Any", None)
    hub.enter(View("tab", "socket", "sid", "org", "page", frozenset()))
    assert await hub.member("org") is held
    other = BrowserSession("other", "v", "dev@example.com", "b", "s", time.time() + 3600, 0.0)
    await authorized.sessions.put(other)
    hub.enter(View("second", "socket", "other", "org", "page", frozenset()))
    assert await hub.member("org") is other
    hub.leave("second")
    store.is_loaded = True
    store.set_link(Link.LIVE)

    async def is_offline() -> bool:
        return store.link is Link.OFFLINE

    async with running(
        OrgFeed(store, authorized, nothing, lambda: hub.member("org"), lambda _: False, Turns(asyncio.Event()))
    ):
        await eventually(is_offline)
    await authorized.client.aclose()
