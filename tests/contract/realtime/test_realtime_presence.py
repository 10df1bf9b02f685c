"""Presence: state, differences, updates, and the end of a connection."""

import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire


@pytest.fixture
def room() -> str:
    """A room of the test's own: the sockets of another test may still be leaving theirs."""
    return f"room-{uuid.uuid4().hex[:8]}"


async def joined(
    stack: AsyncExitStack, server: RealtimeServer, room: str, key: str, version: str = "2.0.0", **presence: Any
) -> Wire:
    wire = await stack.enter_async_context(open_wire(server.url, server.publishable_key, version))
    presence = {"key": key, "enabled": True} | presence
    assert (await wire.join(room, {"presence": presence})).payload["status"] == "ok"
    return wire


async def track(wire: Wire, room: str, payload: Any) -> dict[str, Any]:
    ref = await wire.send(f"realtime:{room}", "presence", {"type": "presence", "event": "track", "payload": payload})
    answer: dict[str, Any] = (await wire.reply(ref)).payload
    return answer


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
async def test_everybody_receives_joins_changes_and_leaves(realtime: RealtimeServer, room: str, version: str) -> None:
    async with AsyncExitStack() as stack:
        watcher = await joined(stack, realtime, room, "watcher", version)
        assert (await watcher.event("presence_state")).payload == {}
        async with AsyncExitStack() as inner:
            alice = await joined(inner, realtime, room, "alice", version)
            assert await track(alice, room, {"mood": "fine"}) == {"status": "ok", "response": {}}
            came = (await watcher.event("presence_diff")).payload
            [meta] = came["joins"]["alice"]["metas"]
            assert (meta["mood"], came["leaves"]) == ("fine", {})
            await track(alice, room, {"mood": "fine"})  # the same again changes nothing
            await track(alice, room, {"mood": "tired"})
            changed = (await watcher.event("presence_diff")).payload
            [new], [old] = changed["joins"]["alice"]["metas"], changed["leaves"]["alice"]["metas"]
            assert (new["mood"], new["phx_ref_prev"], old["phx_ref"]) == ("tired", meta["phx_ref"], meta["phx_ref"])
            late = await joined(inner, realtime, room, "late", version)
            state = (await late.event("presence_state")).payload
            assert state == {"alice": {"metas": [new]}}
        gone = (await watcher.event("presence_diff")).payload
        assert (gone["joins"], gone["leaves"]["alice"]["metas"][0]["mood"]) == ({}, "tired")


async def test_one_key_may_be_present_twice(realtime: RealtimeServer, room: str) -> None:
    async with AsyncExitStack() as stack:
        tabs = [await joined(stack, realtime, room, "alice") for _ in range(2)]
        for number, tab in enumerate(tabs):
            await track(tab, room, {"tab": number})
        late = await joined(stack, realtime, room, "")
        state = (await late.event("presence_state")).payload
        assert [meta["tab"] for meta in state["alice"]["metas"]] == [0, 1]
        ref = await tabs[0].send(f"realtime:{room}", "presence", {"event": "UNTRACK"})
        assert (await tabs[0].reply(ref)).payload["status"] == "ok"
        gone = (await late.event("presence_diff")).payload["leaves"]
        assert [meta["tab"] for meta in gone["alice"]["metas"]] == [0]


async def test_tracking_enables_presence(realtime: RealtimeServer, room: str) -> None:
    async with AsyncExitStack() as stack:
        present = await joined(stack, realtime, room, "alice")
        await track(present, room, {})
        late = await joined(stack, realtime, room, "bob", enabled=False)
        assert await late.drain("presence_state") == []
        await track(late, room, {})
        assert set((await late.event("presence_state")).payload) == {"alice", "bob"}


async def test_bad_presence_is_answered(realtime: RealtimeServer, room: str) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, room, "alice")
        answer = await track(wire, room, [1])
        assert answer == {"status": "error", "response": {"reason": "Presence track payload must be a map"}}
        ref = await wire.send(f"realtime:{room}", "presence", {"event": "dance"})
        assert (await wire.reply(ref)).payload["status"] == "error"


async def test_too_many_presence_calls_end_the_channel(realtime: RealtimeServer, room: str) -> None:
    async with AsyncExitStack() as stack:
        wire = await joined(stack, realtime, room, "alice")
        for number in range(6):
            await wire.send(f"realtime:{room}", "presence", {"event": "track", "payload": {"n": number}})
        assert (await wire.event("system")).payload["message"] == "Client presence rate limit exceeded"
        assert (await wire.event("phx_close")).topic == f"realtime:{room}"
