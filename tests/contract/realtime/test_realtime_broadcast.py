"""Broadcasts: between clients, by HTTP, from the database; text and binary; acknowledgement, echo, replay."""

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx
import psycopg
import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire

HELLO = {"type": "broadcast", "event": "hello", "payload": {"n": 1}}


def pushed(topic: str, event: str, payload: bytes, *, is_json: bool, ref: str = "7") -> bytes:
    """A broadcast as version 2.0.0 clients send it."""
    parts = [b"1", ref.encode(), topic.encode(), event.encode(), b""]
    return bytes([3, *map(len, parts), int(is_json)]) + b"".join(parts) + payload


async def joined(
    stack: AsyncExitStack, server: RealtimeServer, topic: str, version: str = "2.0.0", **broadcast: Any
) -> Wire:
    wire = await stack.enter_async_context(open_wire(server.url, server.publishable_key, version))
    assert (await wire.join(topic, {"broadcast": broadcast})).payload["status"] == "ok"
    return wire


async def test_a_broadcast_reaches_all_others_in_their_version(realtime: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        sender = await joined(stack, realtime, "room", "1.0.0")
        one, two = await joined(stack, realtime, "room", "1.0.0"), await joined(stack, realtime, "room")
        elsewhere = await joined(stack, realtime, "other")
        await sender.send("realtime:room", "broadcast", HELLO)
        for wire in (one, two):
            message = await wire.event("broadcast")
            assert (message.topic, message.payload, message.ref) == ("realtime:room", HELLO, None)
        assert await sender.drain("broadcast") == []
        assert await elsewhere.drain("broadcast") == []


async def test_self_and_ack(realtime: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, "room", self=True, ack="true")
        ref = await wire.send("realtime:room", "broadcast", HELLO)
        assert (await wire.reply(ref)).payload == {"status": "ok", "response": {}}
        assert (await wire.event("broadcast")).payload == HELLO


async def test_binary_broadcasts_are_passed_on_unread(realtime: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        sender = await joined(stack, realtime, "room", ack=True)
        old, new = await joined(stack, realtime, "room", "1.0.0"), await joined(stack, realtime, "room")
        await sender.connection.send(pushed("realtime:room", "hello", b'{"n": 1}', is_json=True))
        assert (await old.event("broadcast")).payload == HELLO
        assert await new.binary() == b"\x04\x0d\x05\x00\x01realtime:roomhello" + b'{"n": 1}'
        assert (await sender.reply("7")).payload["status"] == "ok"
        await sender.connection.send(pushed("realtime:room", "raw", b"\x00\xff\x01", is_json=False, ref="8"))
        assert await new.binary() == b"\x04\x0d\x03\x00\x00realtime:roomraw" + b"\x00\xff\x01"
        await sender.reply("8")
        assert await old.drain("broadcast") == []  # version 1.0.0 has no such message


async def test_a_payload_beyond_the_limit_is_refused(realtime: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, "room", ack=True)
        other = await joined(stack, realtime, "room")
        ref = await wire.send("realtime:room", "broadcast", HELLO | {"payload": {"x": "y" * 3_000_001}})
        answer = (await wire.reply(ref)).payload
        assert (answer["status"], answer["response"]) == ("error", {"reason": "payload_size_exceeded"})
        assert await other.drain("broadcast") == []


async def test_the_database_broadcasts_after_commit(realtime: RealtimeServer, sql: psycopg.Connection) -> None:
    async with AsyncExitStack() as stack:
        wire, old = await joined(stack, realtime, "room"), await joined(stack, realtime, "room", "1.0.0")
        with sql.transaction(force_rollback=True):
            sql.execute("""select realtime.send('{"n": 0}', 'hello', 'room', false)""")
        sql.execute("""select realtime.send('{"n": 1}', 'hello', 'room', false)""")
        for listener in (wire, old):
            message = (await listener.event("broadcast")).payload
            assert (message["type"], message["event"], message["payload"]["n"]) == ("broadcast", "hello", 1)
            assert message["meta"]["id"] == message["payload"]["id"]
        sql.execute("""select realtime.send('{"n": 2}', 'hello', 'room', true)""")
        sql.execute("""select realtime.send('{"n": 3}', 'hello', 'room', false)""")
        assert (await wire.event("broadcast")).payload["payload"]["n"] == 3  # the private room is another


@pytest.fixture
def post(realtime: RealtimeServer) -> Any:
    def send(path: str, body: Any, token: str = "", **headers: str) -> httpx.Response:
        own = {"apikey": realtime.publishable_key, "content-type": "application/json"} | headers
        if token:
            own["authorization"] = f"Bearer {token}"
        content = body if isinstance(body, bytes) else json.dumps(body)
        return httpx.post(f"{realtime.url}/realtime/v1/api/broadcast{path}", content=content, headers=own, timeout=30)

    return send


async def test_http_broadcasts_many(realtime: RealtimeServer, post: Any) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, "room")
        message = {"topic": "room", "event": "hello", "payload": {"n": 1}}
        answer = post("", {"messages": [message, message | {"payload": {"n": 2}}]})
        assert (answer.status_code, answer.content) == (202, b"")
        assert [(await wire.event("broadcast")).payload["payload"] for _ in range(2)] == [{"n": 1}, {"n": 2}]


async def test_http_broadcasts_one_by_its_address(realtime: RealtimeServer, post: Any) -> None:
    async with AsyncExitStack() as stack:
        old, new = await joined(stack, realtime, "a room", "1.0.0"), await joined(stack, realtime, "a room")
        assert post("/a%20room/events/hello", {"n": 1}).status_code == 202
        assert (await old.event("broadcast")).payload == HELLO
        assert (await new.binary()).endswith(b'{"n":1}')
        binary = post("/a%20room/events/raw", b"\x00\xff", **{"content-type": "application/octet-stream"})
        assert binary.status_code == 202
        assert (await new.binary()).endswith(b"\x00\xff")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("", b"no json", 400),
        ("", b"[" * 3000 + b"]" * 3000, 400),
        ("", b'{"messages":' + b"[" * 500 + b"]" * 500 + b"}", 400),
        ("", b'{"messages": [{"topic": "\xff\xfe"}]}', 400),
        ("", {}, 422),
        ("", {"messages": []}, 422),
        ("", {"messages": [7]}, 422),
        ("", {"messages": [{"topic": "room", "event": "x"}]}, 422),
        ("", {"messages": [{"topic": 1, "event": "x", "payload": {}}]}, 422),
        ("", {"messages": [{"topic": "room", "event": "x", "payload": {"x": "y" * 3_100_000}}]}, 422),
        ("/room/events/x", b"no json", 400),
    ],
)
async def test_http_refuses_malformed_or_oversized_messages(post: Any, path: str, body: Any, status: int) -> None:
    answer = post(path, body)
    assert answer.status_code == status
    assert set(answer.json()) & {"errors", "message"}


async def test_http_requires_a_key_and_a_known_content_type(realtime: RealtimeServer, post: Any) -> None:
    body = {"messages": [{"topic": "room", "event": "x", "payload": {}}]}
    assert post("", body, apikey="").status_code == 401
    assert post("", body, realtime.token(seconds=-60)).status_code == 401
    assert post("", body, realtime.token(role="postgres")).status_code == 401
    assert post("/room/events/x", {}, **{"content-type": "text/plain"}).status_code == 415
