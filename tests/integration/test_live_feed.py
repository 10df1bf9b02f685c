"""The dashboard's live feed against the real stack: it becomes live, recovers, and is handed from member to member."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

from app.project.authorized_client import AuthorizedClient
from app.project.hub import TabHub, View
from app.project.live_queries import live_query
from app.project.models import BrowserSession
from app.project.runtime import build_runtime
from app.project.settings import Settings
from app.project.store import Link, OrgStore
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
PASSWORD = "correct-horse-battery"
TOPICS = frozenset({"workers", "link"})
RUNNERS = live_query("list_runners", ("workers", "worker_instances"), "workers")


async def until(is_so: Callable[[], Any], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        await asyncio.sleep(0.05)


@dataclass
class People:
    """A hub with people who look."""

    stack: RunningStack
    authorized: AuthorizedClient
    hub: TabHub

    async def sign_up(self) -> BrowserSession:
        email = f"{uuid.uuid4().hex[:10]}@example.com"
        auth = await self.authorized.client.sign_up(email, PASSWORD, "http://localhost:3000/login")
        assert auth is not None
        return await self.authorized.open(auth)

    async def organisation(self, owner: BrowserSession) -> str:
        slug = uuid.uuid4().hex[:10]
        org = await self.authorized.rpc(owner, "create_organization", {"p_name": slug, "p_slug": slug})
        return str(org["id"])

    async def open(self, session: BrowserSession, org_id: str, tab: str = "") -> OrgStore:
        view = View(tab or uuid.uuid4().hex, "socket", session.sid, org_id, "page", TOPICS)
        self.hub.enter(view)
        store = await self.hub.open(org_id, session)
        await self.hub.ask(view.tab, org_id, session, [RUNNERS])
        return store

    async def register(self, owner: BrowserSession, org_id: str, name: str) -> str:
        arguments = {"p_org": org_id, "p_name": name, "p_token_hash": "$2b$10$" + "a" * 53, "p_token_hint": "abcd"}
        return str((await self.authorized.rpc(owner, "register_worker", arguments))["id"])

    @staticmethod
    def listed(store: OrgStore) -> dict[str, dict[str, Any]]:
        """The runners that a page would list now, by id; shared ones belong to other tests."""
        held = store.live_queries.held(RUNNERS)
        assert held is not None
        return {row["id"]: row for row in held.rows() if not row["is_shared"]}

    def sql(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.stack.db_url, autocommit=True) as connection:
            connection.execute(statement, values)


@pytest.fixture
async def people(running_stack: RunningStack) -> AsyncIterator[People]:
    runtime = build_runtime(Settings(running_stack.url, running_stack.publishable_key, running_stack.url))
    yield People(running_stack, runtime.authorized, runtime.hub)
    await runtime.hub.aclose()
    await runtime.authorized.client.aclose()


async def test_changes_arrive_while_somebody_looks(people: People) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    store = await people.open(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    worker_id = await people.register(owner, org_id, "prod-eu")
    await until(lambda: worker_id in people.listed(store))
    people.sql("update workers set status = 'ONLINE' where id = %s", worker_id)
    await until(lambda: people.listed(store)[worker_id]["status"] == "ONLINE")
    async with asyncio.timeout(60):
        changed = (await people.hub.changes())[org_id]
    assert worker_id in changed.ids("workers")
    assert RUNNERS.key in changed.tables


async def test_rows_of_another_organisation_never_arrive(people: People) -> None:
    mine, theirs = await people.sign_up(), await people.sign_up()
    my_org, their_org = await people.organisation(mine), await people.organisation(theirs)
    my_store, their_store = await people.open(mine, my_org), await people.open(theirs, their_org)
    await until(lambda: my_store.link is their_store.link is Link.LIVE)
    await people.register(theirs, their_org, "not-mine")
    worker_id = await people.register(mine, my_org, "mine")
    await until(lambda: worker_id in people.listed(my_store))
    assert [row["name"] for row in people.listed(my_store).values()] == ["mine"]
    await until(lambda: people.listed(their_store))
    assert [row["name"] for row in people.listed(their_store).values()] == ["not-mine"]


async def test_an_unpublished_table_wakes_instead(people: People) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    store = await people.open(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    notified: list[str] = []
    store.listen(lambda table, _row_id: notified.append(table))
    await people.authorized.rpc(owner, "upsert_group", {"p_org": org_id, "p_path": "platform"})
    await until(lambda: "groups" in notified)


async def test_a_restart_of_the_project_heals_and_nothing_is_stale(people: People) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    worker_id = await people.register(owner, org_id, "prod-eu")
    store = await people.open(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    gateway = people.stack.part_pid("gateway")
    os.kill(gateway, signal.SIGKILL)
    people.sql("update workers set status_reason = 'changed in the gap' where id = %s", worker_id)
    await until(lambda: store.link is not Link.LIVE)
    await until(lambda: store.link is Link.LIVE, 120)
    await until(lambda: people.listed(store)[worker_id]["status_reason"] == "changed in the gap")
    people.sql("update workers set status_reason = 'changed afterwards' where id = %s", worker_id)
    await until(lambda: people.listed(store)[worker_id]["status_reason"] == "changed afterwards")


async def test_the_channel_is_handed_on_when_its_member_signs_out(people: People) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    first = await people.authorized.open(await people.authorized.client.sign_in(owner.email, PASSWORD))
    store = await people.open(first, org_id, "tab-1")
    await until(lambda: store.link is Link.LIVE)
    await people.open(owner, org_id, "tab-2")
    await people.authorized.close(first.sid)
    worker_id = await people.register(owner, org_id, "after-the-handover")
    await until(lambda: worker_id in people.listed(store))
    member = await people.hub.member(org_id)
    assert member is not None
    assert member.sid == owner.sid


async def test_a_feed_without_viewers_is_closed(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.project.hub.LINGER_SECONDS", -1.0)
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    first = await people.open(owner, org_id, "tab-1")
    await people.hub.prune(["tab-1"])
    assert await people.hub.open(org_id, owner) is first
    await people.hub.prune([])
    await people.hub.prune([])
    assert people.hub.views(org_id) == []
    assert await people.hub.open(org_id, owner) is not first


async def test_rows_are_polled_without_realtime(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    monkeypatch.setattr(people.hub._realtime, "_settings", Settings("http://127.0.0.1:9", "x", "x"))
    store = await people.open(owner, org_id)
    worker_id = await people.register(owner, org_id, "prod-eu")
    await until(lambda: worker_id in people.listed(store))
    assert store.link is Link.POLLING


async def test_the_link_is_offline_while_the_project_is_unreachable(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    store = await people.open(owner, org_id)
    await until(lambda: store.link is Link.LIVE)

    async def refuse(request: httpx.Request, **_options: Any) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    monkeypatch.setattr(people.authorized.client._http, "send", refuse)
    await people.hub._realtime.close()
    await until(lambda: store.link is Link.OFFLINE)
