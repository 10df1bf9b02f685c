"""A channel's token: expiry, refresh, and the effect of a refused one."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import psycopg

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Received, Wire, open_wire

ALICE = "00000000-0000-0000-0000-000000000001"
BOB = "00000000-0000-0000-0000-000000000002"


def binding(table: str) -> dict[str, Any]:
    return {"event": "INSERT", "schema": "public", "table": table}


async def join_for_a_moment(
    wire: Wire, server: RealtimeServer, topic: str, moment: int, bindings: Sequence[Any] = (), **claims: Any
) -> tuple[Received, float]:
    """Join with a token that ends soon, and return the time of its end; where half of it is over by then, with a longer one."""
    for seconds in (moment, 2 * moment, 4 * moment, 8 * moment):
        ends_at = int(time.time() + seconds)
        config = {"postgres_changes": list(bindings)}
        joined = await wire.join(topic, config, access_token=server.token(seconds=seconds, **claims))
        is_joined = joined.payload["status"] == "ok"
        if is_joined and bindings:
            is_joined = (await wire.event("system")).payload["status"] == "ok"
        if is_joined and time.time() < ends_at - seconds / 3:
            return joined, ends_at
        await wire.send(f"realtime:{topic}", "phx_leave", {})
        await wire.drain()
    raise TimeoutError(f"no join within {4 * moment} s")


async def test_an_expired_token_ends_its_channel_and_not_the_socket(realtime: RealtimeServer) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        joined, _ = await join_for_a_moment(wire, realtime, "short", 3)
        assert (await wire.join("long", access_token=realtime.token())).payload["status"] == "ok"
        system = await wire.event("system")
        assert system.topic == "realtime:short"
        assert (system.payload["extension"], system.payload["status"]) == ("system", "error")
        assert system.payload["message"].startswith("Token has expired ")
        closing = await wire.event("phx_close")
        assert (closing.topic, closing.ref) == ("realtime:short", joined.ref)
        leave = await wire.reply(await wire.send("realtime:long", "phx_leave", {}))
        assert leave.payload["status"] == "ok"


async def test_a_refreshed_token_keeps_the_channel_and_its_rows(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        _, expires_at = await join_for_a_moment(wire, realtime, "room", 6, [binding(guarded_table)], sub=ALICE)
        await wire.send("realtime:room", "access_token", {"access_token": realtime.token(sub=ALICE)})
        assert (await wire.event("system")).payload["message"] == "Subscribed to PostgreSQL"
        number = 0
        while time.time() < expires_at + 1:
            number += 1
            sql.execute(f"insert into {guarded_table} values (%s, %s)", [number, ALICE])
            assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == number


async def test_another_users_token_gets_that_users_rows(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(guarded_table)], access_token=realtime.token(sub=ALICE))
        await wire.send("realtime:room", "access_token", {"access_token": realtime.token(sub=BOB)})
        await wire.event("system")
        sql.execute(f"insert into {guarded_table} values (1, %s), (2, %s)", [ALICE, BOB])
        assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == 2


async def test_tokens_of_other_roles_in_the_middle_of_traffic_lose_nobody_a_row(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with (
        open_wire(realtime.url, realtime.publishable_key) as restless,
        open_wire(realtime.url, realtime.publishable_key) as other,
    ):
        await restless.live("room", [binding(table)])
        await other.live("room", [binding(table)])
        roles = ("authenticated", "service_role", "anon")
        for number in range(60):
            token = realtime.token(role=roles[number % 3], sub=ALICE, n=number)
            await restless.send("realtime:room", "access_token", {"access_token": token})
            sql.execute(f"insert into {table} (id) values (%s)", [number])
        got = [(await other.event("postgres_changes")).payload["data"]["record"]["id"] for _ in range(60)]
        assert got == list(range(60))
        assert await restless.drain("phx_close", "phx_error") == []


async def test_refused_tokens_end_the_channel(realtime: RealtimeServer) -> None:
    bad = {
        realtime.token(seconds=-10): "Token has expired",
        "abc": "The token provided is not a valid JWT",
        realtime.token(role="postgres"): 'Role "postgres" is not allowed',
    }
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        for token, words in bad.items():
            await wire.join("room", access_token=realtime.token())
            await wire.send("realtime:room", "access_token", {"access_token": token})
            assert (await wire.event("system")).payload["message"].startswith(words)
            await wire.event("phx_close")


async def test_tokens_that_change_nothing_are_ignored(realtime: RealtimeServer) -> None:
    token = realtime.token()
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(open_wire(realtime.url, realtime.publishable_key))
        await wire.join("room", access_token=token)
        for same in (None, token, realtime.publishable_key, 7):
            await wire.send("realtime:room", "access_token", {"access_token": same})
        await wire.send("realtime:room", "access_token", None)
        assert await wire.drain() == []
