"""Broadcasts come from the database; clients listen."""

from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire

HELLO = {"type": "broadcast", "event": "hello", "payload": {"n": 1}}


async def joined(stack: AsyncExitStack, server: RealtimeServer, topic: str) -> Wire:
    wire = await stack.enter_async_context(open_wire(server.url, server.publishable_key))
    assert (await wire.join(topic)).payload["status"] == "ok"
    return wire


@pytest.mark.parametrize(("event", "payload"), [("broadcast", HELLO), ("presence", {"event": "track"}), ("x", None)])
async def test_a_client_that_sends_is_told_that_it_cannot(realtime: RealtimeServer, event: str, payload: Any) -> None:
    async with AsyncExitStack() as stack:
        sender, other = await joined(stack, realtime, "room"), await joined(stack, realtime, "room")
        answer = (await sender.reply(await sender.send("realtime:room", event, payload))).payload
        assert answer["status"] == "error"
        assert "clients listen" in answer["response"]["reason"]
        assert await other.drain("broadcast", "presence_diff") == []


async def test_the_database_broadcasts_after_commit(realtime: RealtimeServer, sql: psycopg.Connection) -> None:
    async with AsyncExitStack() as stack:
        one, two = await joined(stack, realtime, "room"), await joined(stack, realtime, "room")
        elsewhere = await joined(stack, realtime, "other")
        with sql.transaction(force_rollback=True):
            sql.execute("""select realtime.send('{"n": 0}', 'hello', 'room', false)""")
        sql.execute("""select realtime.send('{"n": 1}', 'hello', 'room', false)""")
        for listener in (one, two):
            message = (await listener.event("broadcast")).payload
            assert (message["type"], message["event"], message["payload"]["n"]) == ("broadcast", "hello", 1)
            assert message["meta"]["id"] == message["payload"]["id"]
        sql.execute("""select realtime.send('{"n": 2}', 'hello', 'room', true)""")
        sql.execute("""select realtime.send('{"n": 3}', 'hello', 'room', false)""")
        assert (await one.event("broadcast")).payload["payload"]["n"] == 3  # the private room is another
        assert await elsewhere.drain("broadcast") == []
