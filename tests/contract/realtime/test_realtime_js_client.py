"""The real supabase-js in both protocol versions, against the project that the environment names or our own stack."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from tests.contract.conftest import User
from tests.contract.realtime.agent import Agent, start_agent
from tests.support.stack import Project


@pytest.fixture(params=["1.0.0", "2.0.0"])
async def agent(project: Project, request: pytest.FixtureRequest) -> AsyncIterator[Agent]:
    async with start_agent(project, request.param) as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"room-{uuid.uuid4().hex[:8]}"


def binding(table: str, **more: Any) -> dict[str, Any]:
    return {"event": "*", "schema": "public", "table": table, **more}


async def test_row_changes_and_filters(agent: Agent, db: psycopg.Connection, notes: str, name: str) -> None:
    await agent.subscribed(name, bindings=[binding(notes, filter="id=gt.1")])
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


async def test_broadcasts_text_and_binary(agent: Agent, project: Project, name: str) -> None:
    async with start_agent(project, "2.0.0") as other:
        await agent.subscribed(name, config={"broadcast": {"ack": True, "self": True}})
        await other.subscribed(name)
        assert await agent.do("send", name=name, event="hello", payload={"n": 1}) == "ok"
        for listener in (agent, other):
            message = (await listener.kind("broadcast", name))["message"]
            assert (message["event"], message["payload"]) == ("hello", {"n": 1})
        await other.do("http_send", name=name, event="posted", payload={"n": 2})
        assert (await agent.kind("broadcast", name))["message"]["payload"] == {"n": 2}


async def test_binary_payloads_between_new_clients(project: Project, name: str) -> None:
    async with start_agent(project, "2.0.0") as one, start_agent(project, "2.0.0") as two:
        await one.subscribed(name)
        await two.subscribed(name)
        await one.do("send_bytes", name=name, event="raw", bytes=[0, 255, 7])
        message = (await two.kind("broadcast", name))["message"]
        assert (message["event"], message["payload"]) == ("raw", {"bytes": [0, 255, 7]})


async def test_the_database_broadcasts(agent: Agent, db: psycopg.Connection, name: str) -> None:
    await agent.subscribed(name)
    db.execute("select realtime.send('{\"n\": 1}', 'ring', %s, false)", [name])
    message = (await agent.kind("broadcast", name))["message"]
    assert (message["event"], message["payload"]["n"]) == ("ring", 1)


async def test_presence(agent: Agent, project: Project, name: str) -> None:
    async with start_agent(project, "2.0.0") as other:
        await agent.subscribed(name, config={"presence": {"key": "alice", "enabled": True}})
        await other.subscribed(name, config={"presence": {"key": "bob", "enabled": True}})
        assert await agent.do("track", name=name, payload={"mood": "fine"}) == "ok"
        seen = await other.hear(lambda event: event["kind"] == "presence" and "alice" in event["state"])
        assert seen["state"]["alice"][0]["mood"] == "fine"
        assert await agent.do("untrack", name=name) == "ok"
        await other.hear(lambda event: event["kind"] == "presence" and "alice" not in event["state"])


async def test_private_channels(agent: Agent, name: str, alice: User, bob: User, only: Any) -> None:
    only(alice)
    await agent.do("auth", token=bob.token)
    await agent.do("subscribe", name=name, config={"private": True})
    denied = await agent.kind("status", name)
    assert denied["status"] == "CHANNEL_ERROR"
    assert "You do not have permissions to read from this Channel topic" in denied["error"]
    await agent.do("unsubscribe", name=name)
    await agent.do("auth", token=alice.token)
    await agent.subscribed(f"{name}-again", config={"private": True, "broadcast": {"self": True}})
    await agent.do("send", name=f"{name}-again", event="hello", payload={"n": 1})
    assert (await agent.kind("broadcast", f"{name}-again"))["message"]["payload"] == {"n": 1}


async def test_leaving(agent: Agent, name: str) -> None:
    await agent.subscribed(name)
    assert await agent.do("unsubscribe", name=name) == "ok"
    assert (await agent.kind("status", name))["status"] == "CLOSED"
