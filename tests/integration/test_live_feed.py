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


async def test_two_members_of_one_organisation_with_different_groups_never_receive_each_others_rows(
    people: People,
) -> None:
    """500 changes, in one process: no row, name or count of the other's group is in any answer or change."""
    owner = await people.sign_up()
    org_id = await people.organisation(owner)
    jobs = live_query("list_jobs", ("provision_jobs",), "provision_jobs", limit=200)
    stores: dict[str, OrgStore] = {}
    heard: dict[str, list[tuple[str, str]]] = {group: [] for group in ("red", "blue")}
    for group, rows in heard.items():
        spec = {"p_org": org_id, "p_group_path": group, "p_name": "x"}
        module = await people.authorized.rpc(owner, "create_module", spec)
        people.sql(
            "insert into provision_jobs (org_id, number, type, module_id, module_path, group_path, priority,"
            " approvals_required, status, finished_at)"
            " select %s, n, 'PLAN', %s, %s, %s, 100, 0, 'FAILED', now() from generate_series(%s::integer, %s::integer) as n",
            org_id, module["id"], f"{group}/x", group, *((1, 250) if group == "red" else (251, 500)),
        )  # fmt: skip
        guest = await people.sign_up()
        people.sql(
            "insert into memberships (org_id, user_id, email, role) values (%s, %s, %s, 'guest')",
            org_id,
            guest.user_id,
            guest.email,
        )
        bound = {"p_org": org_id, "p_path": group, "p_role": "viewer", "p_kind": "member", "p_subject": guest.user_id}
        await people.authorized.rpc(owner, "grant_role", bound)
        room = await people.hub.members.check(guest, org_id)
        view = View(group, "socket", guest.sid, org_id, "page", TOPICS, room=room)
        people.hub.enter(view)
        stores[group] = await people.hub.open(org_id, guest)
        await people.hub.ask(view.tab, org_id, guest, [jobs])
        stores[group].listen(lambda table, row_id, rows=rows: rows.append((table, row_id)))
    assert stores["red"] is not stores["blue"]
    await until(lambda: all(store.link is Link.LIVE for store in stores.values()))
    people.sql("update provision_jobs set message = 'changed' where org_id = %s", org_id)

    def changed(group: str) -> set[str]:
        return {row_id for table, row_id in heard[group] if table == "provision_jobs"}

    await until(lambda: len(changed("red")) == len(changed("blue")) == 250)
    assert changed("red").isdisjoint(changed("blue"))
    for group, store in stores.items():
        held = store.live_queries.held(jobs)
        assert held is not None
        assert {row["module_path"] for row in held.rows()} == {f"{group}/x"}
        assert held.answer["total"] == 250
        assert store.overview["counts"]["jobs"] == {}


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
