"""The dashboard's live feed against the real stack: it goes live, heals, and is handed from member to member."""

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
from app.project.hub import Hub, View
from app.project.live_queries import live_query
from app.project.models import Session
from app.project.runtime import build_runtime
from app.project.settings import Settings
from app.project.store import Link, OrgStore
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
PASSWORD = "correct-horse-battery"
TOPICS = frozenset({"workers", "link"})
RUNNERS = live_query("list_runners", ("workers", "worker_instances"), "workers")


async def until(is_so: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        await asyncio.sleep(0.05)


@dataclass
class House:
    """A hub with people who look."""

    stack: RunningStack
    authorized: AuthorizedClient
    hub: Hub

    async def sign_up(self) -> Session:
        email = f"{uuid.uuid4().hex[:10]}@example.com"
        auth = await self.authorized.client.sign_up(email, PASSWORD, "http://localhost:3000/login")
        assert auth is not None
        return await self.authorized.open(auth)

    async def organisation(self, owner: Session) -> str:
        slug = uuid.uuid4().hex[:10]
        org = await self.authorized.rpc(owner, "create_organization", {"p_name": slug, "p_slug": slug})
        return str(org["id"])

    async def look(self, session: Session, org_id: str, tab: str = "") -> OrgStore:
        view = View(tab or uuid.uuid4().hex, "socket", session.sid, org_id, "page", TOPICS)
        self.hub.enter(view)
        store = await self.hub.open(org_id, session)
        await self.hub.ask(view.tab, org_id, session, [RUNNERS])
        return store

    async def register(self, owner: Session, org_id: str, name: str) -> str:
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
async def house(running_stack: RunningStack) -> AsyncIterator[House]:
    runtime = build_runtime(Settings(running_stack.url, running_stack.publishable_key, running_stack.url))
    yield House(running_stack, runtime.authorized, runtime.hub)
    await runtime.hub.aclose()
    await runtime.authorized.client.aclose()


async def test_changes_arrive_while_somebody_looks(house: House) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    store = await house.look(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    worker_id = await house.register(owner, org_id, "prod-eu")
    await until(lambda: worker_id in house.listed(store))
    house.sql("update workers set status = 'ONLINE' where id = %s", worker_id)
    await until(lambda: house.listed(store)[worker_id]["status"] == "ONLINE")
    changed = (await asyncio.wait_for(house.hub.changes(), 10))[org_id]
    assert worker_id in changed.ids("workers")
    assert RUNNERS.key in changed.tables


async def test_another_organisations_rows_never_come(house: House) -> None:
    mine, theirs = await house.sign_up(), await house.sign_up()
    my_org, their_org = await house.organisation(mine), await house.organisation(theirs)
    my_store, their_store = await house.look(mine, my_org), await house.look(theirs, their_org)
    await until(lambda: my_store.link is their_store.link is Link.LIVE)
    await house.register(theirs, their_org, "not-mine")
    worker_id = await house.register(mine, my_org, "mine")
    await until(lambda: worker_id in house.listed(my_store))
    assert [row["name"] for row in house.listed(my_store).values()] == ["mine"]
    await until(lambda: house.listed(their_store))
    assert [row["name"] for row in house.listed(their_store).values()] == ["not-mine"]


async def test_an_unpublished_table_wakes_instead(house: House) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    store = await house.look(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    notified: list[str] = []
    store.listen(lambda table, _row_id: notified.append(table))
    await house.authorized.rpc(owner, "upsert_group", {"p_org": org_id, "p_path": "platform"})
    await until(lambda: "groups" in notified)


async def test_a_restart_of_the_project_heals_and_nothing_is_stale(house: House) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    worker_id = await house.register(owner, org_id, "prod-eu")
    store = await house.look(owner, org_id)
    await until(lambda: store.link is Link.LIVE)
    gateway = house.stack.part_pid("gateway")
    os.kill(gateway, signal.SIGKILL)
    house.sql("update workers set status_reason = 'changed in the gap' where id = %s", worker_id)
    await until(lambda: store.link is not Link.LIVE)
    await until(lambda: store.link is Link.LIVE, 120)
    assert house.listed(store)[worker_id]["status_reason"] == "changed in the gap"
    house.sql("update workers set status_reason = 'changed afterwards' where id = %s", worker_id)
    await until(lambda: house.listed(store)[worker_id]["status_reason"] == "changed afterwards")


async def test_the_channel_is_handed_on_when_its_member_signs_out(house: House) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    first = await house.authorized.open(await house.authorized.client.sign_in(owner.email, PASSWORD))
    store = await house.look(first, org_id, "tab-1")
    await until(lambda: store.link is Link.LIVE)
    await house.look(owner, org_id, "tab-2")
    await house.authorized.close(first.sid)
    worker_id = await house.register(owner, org_id, "after-the-handover")
    await until(lambda: worker_id in house.listed(store))
    member = await house.hub.member(org_id)
    assert member is not None
    assert member.sid == owner.sid


async def test_nobody_looking_lets_the_feed_go(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.project.hub.LINGER_SECONDS", 0.0)
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    first = await house.look(owner, org_id, "tab-1")
    await house.hub.prune(["tab-1"])
    assert await house.hub.open(org_id, owner) is first
    await house.hub.prune([])
    await asyncio.sleep(0.01)
    await house.hub.prune([])
    assert house.hub.views(org_id) == []
    assert await house.hub.open(org_id, owner) is not first


async def test_without_realtime_the_rows_are_read_again_and_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    monkeypatch.setattr(house.hub._realtime, "_settings", Settings("http://127.0.0.1:9", "x", "x"))
    store = await house.look(owner, org_id)
    worker_id = await house.register(owner, org_id, "prod-eu")
    await until(lambda: worker_id in house.listed(store))
    assert store.link is Link.POLLING


async def test_without_the_project_the_mark_says_offline(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await house.sign_up()
    org_id = await house.organisation(owner)
    store = await house.look(owner, org_id)
    await until(lambda: store.link is Link.LIVE)

    async def refuse(request: httpx.Request, **_options: Any) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    monkeypatch.setattr(house.authorized.client._http, "send", refuse)
    await house.hub._realtime.close()
    await until(lambda: store.link is Link.OFFLINE)
