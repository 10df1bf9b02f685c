"""The real supabase-py (asynchronous), against the project that the environment names or our own stack."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from supabase import AsyncClient, acreate_client
from tests.contract.conftest import User
from tests.support.stack import Project

PATIENCE = 180.0


@asynccontextmanager
async def connected(project: Project, token: str | None = None) -> AsyncIterator[AsyncClient]:
    client = await acreate_client(project.url, project.publishable_key)
    if token is not None:
        await client.realtime.set_auth(token)
    try:
        yield client
    finally:
        await client.remove_all_channels()
        await client.realtime.close()


class Ear:
    """A channel whose every word is kept."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.states: asyncio.Queue[str] = asyncio.Queue()
        self.changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.system: asyncio.Queue[Any] = asyncio.Queue()

    def on_changes(self, table: str, **more: Any) -> "Ear":
        self.channel.on_postgres_changes("*", self.changes.put_nowait, schema="public", table=table, **more)
        self.channel.on_system(self.system.put_nowait)
        return self

    def on_broadcast(self, event: str) -> "Ear":
        self.channel.on_broadcast(event, self.messages.put_nowait)
        return self

    async def subscribe(self, *, has_changes: bool = False) -> "Ear":
        await self.channel.subscribe(lambda state, _: self.states.put_nowait(state.value))
        assert await soon(self.states) == "SUBSCRIBED"
        if has_changes:
            assert (await soon(self.system)).status == "ok"
        return self


async def soon(queue: "asyncio.Queue[Any]") -> Any:
    async with asyncio.timeout(PATIENCE):
        return await queue.get()


@pytest.fixture
def name() -> str:
    return f"room-{uuid.uuid4().hex[:8]}"


async def test_row_changes(project: Project, db: psycopg.Connection, notes: str, name: str) -> None:
    async with connected(project) as client:
        ear = await Ear(client.channel(name)).on_changes(notes).subscribe(has_changes=True)
        db.execute(f"insert into {notes} (id, body) values (1, 'a')")
        db.execute(f"update {notes} set body = 'b'")
        db.execute(f"delete from {notes}")
        inserted, updated, deleted = [(await soon(ear.changes))["data"] for _ in range(3)]
        assert (inserted["type"], inserted["record"]) == ("INSERT", {"id": 1, "body": "a"})
        assert (updated["record"], updated["old_record"]) == ({"id": 1, "body": "b"}, {"id": 1})
        assert (deleted["type"], deleted["old_record"]) == ("DELETE", {"id": 1})


async def test_filters(project: Project, db: psycopg.Connection, notes: str, name: str) -> None:
    async with connected(project) as client:
        ear = await Ear(client.channel(name)).on_changes(notes, filter="id=eq.2").subscribe(has_changes=True)
        db.execute(f"insert into {notes} (id) select generate_series(1, 4)")
        assert (await soon(ear.changes))["data"]["record"]["id"] == 2


async def test_users_get_their_own_rows_and_anon_none(
    project: Project, db: psycopg.Connection, diaries: str, name: str, alice: User, bob: User
) -> None:
    async with connected(project, alice.token) as hers, connected(project, bob.token) as his, connected(project) as no:
        ears = [
            await Ear(client.channel(name)).on_changes(diaries).subscribe(has_changes=True)
            for client in (hers, his, no)
        ]
        db.execute(f"insert into {diaries} (id, owner) values (1, %s)", [alice.id])
        assert (await soon(ears[0].changes))["data"]["record"]["id"] == 1
        db.execute(f"insert into {diaries} (id, owner) values (2, %s)", [bob.id])
        assert (await soon(ears[1].changes))["data"]["record"]["id"] == 2
        db.execute(f"delete from {diaries}")
        assert (await soon(ears[2].changes))["data"]["type"] == "DELETE"


async def test_the_database_broadcasts(project: Project, db: psycopg.Connection, name: str) -> None:
    async with connected(project) as client:
        ear = await Ear(client.channel(name)).on_broadcast("hello").subscribe()
        db.execute("select realtime.send('{\"n\": 3}', 'hello', %s, false)", [name])
        assert (await soon(ear.messages))["payload"]["n"] == 3


async def test_private_channels(
    project: Project, db: psycopg.Connection, name: str, alice: User, bob: User, only: Callable[[User], None]
) -> None:
    only(alice)
    private: Any = {"config": {"private": True}}
    async with connected(project, alice.token) as hers, connected(project, bob.token) as his:
        ear = await Ear(hers.channel(name, private)).on_broadcast("ring").subscribe()
        db.execute("select realtime.send('{\"n\": 1}', 'ring', %s)", [name])
        assert (await soon(ear.messages))["payload"]["n"] == 1
        denied: asyncio.Queue[Any] = asyncio.Queue()
        channel = his.channel(name, private)
        await channel.subscribe(lambda state, error: denied.put_nowait((state.value, str(error))))
        state, reason = await soon(denied)
        assert state == "CHANNEL_ERROR"
        assert "You do not have permissions to read" in reason


async def test_a_new_token_decides_which_rows_arrive(
    project: Project, db: psycopg.Connection, diaries: str, name: str, alice: User, bob: User
) -> None:
    async with connected(project, alice.token) as client:
        ear = await Ear(client.channel(name)).on_changes(diaries).subscribe(has_changes=True)
        await client.realtime.set_auth(bob.token)
        assert (await soon(ear.system)).message == "Subscribed to PostgreSQL"
        db.execute(f"insert into {diaries} (id, owner) values (1, %s), (2, %s)", [alice.id, bob.id])
        assert (await soon(ear.changes))["data"]["record"]["id"] == 2


async def test_a_client_can_leave_a_channel_and_join_it_again(
    project: Project, db: psycopg.Connection, notes: str, name: str
) -> None:
    async with connected(project) as client:
        first = await Ear(client.channel(name)).on_changes(notes).subscribe(has_changes=True)
        await first.channel.unsubscribe()
        assert await soon(first.states) == "CLOSED"
        # The server's own phx_close follows its reply, and this client hands it to the holder of the topic by then:
        # the answer to another join comes after it.
        await Ear(client.channel(f"{name}-other")).subscribe()
        again = await Ear(client.channel(name)).on_changes(notes).subscribe(has_changes=True)
        db.execute(f"insert into {notes} (id) values (1)")
        assert (await soon(again.changes))["data"]["record"]["id"] == 1
        assert first.changes.empty()
