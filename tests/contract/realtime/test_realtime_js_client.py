"""The real supabase-js in the protocol version 1.0.0, against the project that the environment names or our own stack."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from tests.contract.conftest import User
from tests.contract.realtime.agent import Agent, start_agent
from tests.support.stack import Project


@pytest.fixture
async def agent(project: Project) -> AsyncIterator[Agent]:
    async with start_agent(project) as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"room-{uuid.uuid4().hex[:8]}"


def binding(table: str, **more: Any) -> dict[str, Any]:
    return {"event": "*", "schema": "public", "table": table, **more}


async def test_row_changes_and_filters(agent: Agent, db: psycopg.Connection, notes: str, name: str) -> None:
    await agent.subscribed(name, bindings=[binding(notes, filter="id=eq.2")])
    db.execute(f"insert into {notes} (id, body) values (1, 'not mine'), (2, 'mine')")
    db.execute(f"update {notes} set body = 'changed' where id = 2")
    db.execute(f"delete from {notes} where id = 2")
    inserted, updated, deleted = [(await agent.kind("change", name))["change"] for _ in range(3)]
    assert (inserted["eventType"], inserted["new"]["body"], inserted["errors"]) == ("INSERT", "mine", None)
    assert (updated["new"]["body"], updated["old"]) == ("changed", {"id": 2})
    assert (deleted["eventType"], deleted["old"]) == ("DELETE", {"id": 2})


async def test_a_user_gets_their_own_rows(
    agent: Agent, db: psycopg.Connection, diaries: str, name: str, alice: User, bob: User
) -> None:
    await agent.do("auth", token=alice.token)
    await agent.subscribed(name, bindings=[binding(diaries)])
    db.execute(f"insert into {diaries} (id, owner) values (1, %s)", [bob.id])
    db.execute(f"insert into {diaries} (id, owner) values (2, %s)", [alice.id])
    assert (await agent.kind("change", name))["change"]["new"]["id"] == 2


async def test_the_database_broadcasts(agent: Agent, db: psycopg.Connection, name: str) -> None:
    await agent.subscribed(name)
    db.execute("select realtime.send('{\"n\": 1}', 'ring', %s, false)", [name])
    message = (await agent.kind("broadcast", name))["message"]
    assert (message["event"], message["payload"]["n"]) == ("ring", 1)


async def test_private_channels(
    agent: Agent, db: psycopg.Connection, name: str, alice: User, bob: User, only: Any
) -> None:
    only(alice)
    await agent.do("auth", token=bob.token)
    await agent.do("subscribe", name=name, config={"private": True})
    denied = await agent.kind("status", name)
    assert denied["status"] == "CHANNEL_ERROR"
    assert "You do not have permissions to read from this Channel topic" in denied["error"]
    await agent.do("unsubscribe", name=name)
    await agent.do("auth", token=alice.token)
    await agent.subscribed(f"{name}-again", config={"private": True})
    db.execute("select realtime.send('{\"n\": 1}', 'hello', %s)", [f"{name}-again"])
    assert (await agent.kind("broadcast", f"{name}-again"))["message"]["payload"]["n"] == 1


async def test_leaving(agent: Agent, name: str) -> None:
    await agent.subscribed(name)
    assert await agent.do("unsubscribe", name=name) == "ok"
    assert (await agent.kind("status", name))["status"] == "CLOSED"
