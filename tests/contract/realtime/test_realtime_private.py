"""Private channels: policies on realtime.messages decide who reads and who writes."""

import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import psycopg
import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire

HELLO = {"type": "broadcast", "event": "hello", "payload": {"n": 1}}
DENIED = "Unauthorized: You do not have permissions to read from this Channel topic: "


@pytest.fixture
def topic() -> str:
    return f"org:{uuid.uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def policies(sql: psycopg.Connection, topic: str) -> Iterator[None]:
    """Members (claim `orgs`) read; those who are also writers (claim `writes`) write."""
    member = "(auth.jwt() -> 'orgs') ? realtime.topic()"
    sql.execute(f"create policy members_read on realtime.messages for select to authenticated using ({member})")
    sql.execute(
        "create policy writers_write on realtime.messages for insert to authenticated"
        f" with check ({member} and (auth.jwt() ->> 'writes')::boolean)"
    )
    yield
    sql.execute("drop policy members_read on realtime.messages")
    sql.execute("drop policy writers_write on realtime.messages")


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


async def test_only_the_broadcasts_of_writers_are_delivered(realtime: RealtimeServer, topic: str) -> None:
    async with AsyncExitStack() as stack:
        reader = await joined(stack, realtime, topic, realtime.token(orgs=[topic], sub="r"))
        writer = await joined(stack, realtime, topic, realtime.token(orgs=[topic], writes=True))
        public = await stack.enter_async_context(open_wire(realtime.url, realtime.publishable_key))
        await public.join(topic)
        await reader.send(f"realtime:{topic}", "broadcast", HELLO)
        assert await reader.drain() == []  # a denied write is silent
        assert await writer.drain("broadcast") == []
        await writer.send(f"realtime:{topic}", "broadcast", HELLO)
        assert (await reader.event("broadcast")).payload == HELLO
        assert await public.drain("broadcast") == []


async def test_the_database_reaches_private_members(
    realtime: RealtimeServer, sql: psycopg.Connection, topic: str
) -> None:
    async with AsyncExitStack() as stack:
        member = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        sql.execute("""select realtime.send('{"n": 1}', 'wake', %s)""", [topic])
        assert (await member.event("broadcast")).payload["event"] == "wake"


async def test_probes_leave_no_rows(realtime: RealtimeServer, realtime_database: Any, topic: str) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic], writes=True))
        await wire.send(f"realtime:{topic}", "broadcast", HELLO)
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


async def test_a_newer_token_with_more_rights_is_used(realtime: RealtimeServer, topic: str) -> None:
    async with AsyncExitStack() as stack:
        listener = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        await wire.send(f"realtime:{topic}", "broadcast", HELLO | {"event": "denied"})
        fresh = realtime.token(orgs=[topic], writes=True)
        await wire.send(f"realtime:{topic}", "access_token", {"access_token": fresh})
        await wire.send(f"realtime:{topic}", "broadcast", HELLO)
        assert (await listener.event("broadcast")).payload == HELLO


async def test_stored_broadcasts_are_replayed_once(
    realtime: RealtimeServer, sql: psycopg.Connection, topic: str
) -> None:
    for number in (1, 2, 3):
        sql.execute("select realtime.send(jsonb_build_object('n', %s::int), 'hello', %s)", [number, topic])
    since = int((time.time() - 3600) * 1000)
    async with AsyncExitStack() as stack:
        wire = await joined(
            stack, realtime, topic, realtime.token(orgs=[topic]), broadcast={"replay": {"since": since, "limit": 2}}
        )
        got = [(await wire.event("broadcast")).payload for _ in range(2)]
        assert [item["payload"]["n"] for item in got] == [2, 3]
        assert all(item["meta"]["replayed"] is True for item in got)
        for config, reason in (
            ({"private": False, "broadcast": {"replay": {"since": 0}}}, "Replay is not allowed for public channels"),
            ({"private": True, "broadcast": {"replay": {"since": 0, "limit": 26}}}, "Replay params are not valid"),
            ({"private": True, "broadcast": {"replay": "x"}}, "Replay params are not valid"),
        ):
            answer = await wire.join(topic, config, access_token=realtime.token(orgs=[topic]))
            assert answer.payload["response"]["reason"] == f"UnableToReplayMessages: {reason}"


async def test_http_applies_the_same_policies(realtime: RealtimeServer, topic: str) -> None:
    address = f"{realtime.url}/realtime/v1/api/broadcast"
    headers = {"apikey": realtime.publishable_key}
    async with AsyncExitStack() as stack:
        member = await joined(stack, realtime, topic, realtime.token(orgs=[topic]))
        message = {"topic": topic, "event": "hello", "payload": {"n": 1}, "private": True}
        for token, single in ((realtime.token(orgs=[topic]), 403), (realtime.token(orgs=[topic], writes=True), 202)):
            own = headers | {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(headers=own, timeout=30) as client:
                one = await client.post(f"{address}/{topic}/events/hello?private=true", json={"n": 1})
                assert one.status_code == single
                many = await client.post(address, json={"messages": [message]})
                assert many.status_code == 202
        await member.binary()
        assert (await member.event("broadcast")).payload == HELLO
        assert await member.drain("broadcast") == []


async def test_a_private_channel_carries_row_changes_too(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str, topic: str
) -> None:
    async with AsyncExitStack() as stack:
        bindings = [{"event": "*", "schema": "public", "table": table}]
        wire = await joined(stack, realtime, topic, realtime.token(orgs=[topic]), postgres_changes=bindings)
        assert (await wire.event("system")).payload["status"] == "ok"
        sql.execute(f"insert into {table} (id) values (1)")
        assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == 1
