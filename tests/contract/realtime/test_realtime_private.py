"""Private channels: policies on realtime.messages decide who reads."""

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire

DENIED = "Unauthorized: You do not have permissions to read from this Channel topic: "


@pytest.fixture
def topic() -> str:
    return f"org:{uuid.uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def policies(sql: psycopg.Connection, topic: str) -> Iterator[None]:
    """Members (claim `orgs`) read."""
    member = "(auth.jwt() -> 'orgs') ? realtime.topic()"
    sql.execute(f"create policy members_read on realtime.messages for select to authenticated using ({member})")
    yield
    sql.execute("drop policy members_read on realtime.messages")


async def joined(stack: AsyncExitStack, server: RealtimeServer, topic: str, token: str, **config: Any) -> Wire:
    wire = await stack.enter_async_context(open_wire(server.url, server.publishable_key))
    reply = await wire.join(topic, {"private": True, **config}, access_token=token)
    assert reply.payload["status"] == "ok", reply
    return wire


async def test_only_members_may_join(realtime: RealtimeServer, topic: str) -> None:
    tokens = {
        realtime.token(orgs=[topic]): "ok",
        realtime.token(orgs=["another"]): "error",
        realtime.token(): "error",
        realtime.publishable_key: "error",
        realtime.token(role="service_role"): "ok",
    }
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        for token, status in tokens.items():
            answer = await wire.join(topic, {"private": True}, access_token=token)
            assert answer.payload["status"] == status
            if status == "error":
                assert answer.payload["response"] == {"reason": DENIED + topic}


async def test_the_database_reaches_private_members(
    realtime: RealtimeServer, sql: psycopg.Connection, topic: str
) -> None:
    async with AsyncExitStack() as stack:
        member = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        sql.execute("""select realtime.send('{"n": 1}', 'wake', %s)""", [topic])
        assert (await member.event("broadcast")).payload["event"] == "wake"


async def test_probes_leave_no_rows(realtime: RealtimeServer, realtime_database: Any, topic: str) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        await wire.drain()
    found = realtime_database.connect("supabase_admin").execute(
        "select count(*) from realtime.messages where topic = %s", [topic]
    )
    assert found.fetchone() == (0,)


async def test_a_newer_token_without_the_right_ends_the_channel(realtime: RealtimeServer, topic: str) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        await wire.send(f"realtime:{topic}", "access_token", {"access_token": realtime.token(orgs=["another"])})
        system = (await wire.event("system")).payload
        assert system["message"] == f"You no longer have permission to read from this Channel topic: {topic}"
        assert (await wire.event("phx_close")).topic == f"realtime:{topic}"


async def test_a_private_channel_carries_row_changes_too(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str, topic: str
) -> None:
    async with AsyncExitStack() as stack:
        bindings = [{"event": "*", "schema": "public", "table": table}]
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic]), postgres_changes=bindings)
        assert (await wire.event("system")).payload["status"] == "ok"
        sql.execute(f"insert into {table} (id) values (1)")
        assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == 1
