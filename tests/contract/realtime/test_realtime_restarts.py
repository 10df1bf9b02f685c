"""A whole stack whose parts are killed: the real client reconnects and receives later rows."""

import asyncio
from typing import Any

import psycopg
import pytest

from supabase import acreate_client
from tests.support.stack import RunningStack

pytestmark = pytest.mark.slow
TABLE = (
    "create table public.notes_for_restarts (id int primary key);"
    "grant select on public.notes_for_restarts to anon;"
    "alter publication supabase_realtime add table public.notes_for_restarts"
)


def insert(stack: RunningStack, number: int) -> None:
    with psycopg.connect(stack.db_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = on")
        connection.execute("insert into public.notes_for_restarts values (%s)", [number])


async def hears(stack: RunningStack, live: "asyncio.Queue[Any]", changes: "asyncio.Queue[Any]", number: int) -> None:
    """Wait until the changes flow again, and then for a row; an earlier message may report that the database was away."""
    async with asyncio.timeout(180):
        while (await live.get()).status != "ok":
            pass
    await asyncio.to_thread(insert, stack, number)
    async with asyncio.timeout(180):
        change = await changes.get()
    assert change["data"]["record"] == {"id": number}


async def test_clients_reconnect_after_kill_9(fresh_stack: RunningStack) -> None:
    with psycopg.connect(fresh_stack.db_url, autocommit=True) as connection:
        connection.execute(TABLE)
    client = await acreate_client(fresh_stack.url, fresh_stack.publishable_key)
    live: asyncio.Queue[Any] = asyncio.Queue()
    changes: asyncio.Queue[Any] = asyncio.Queue()
    channel: Any = client.channel("room").on_system(live.put_nowait)
    channel.on_postgres_changes("INSERT", changes.put_nowait, schema="public", table="notes_for_restarts")
    await channel.subscribe()
    try:
        await hears(fresh_stack, live, changes, 1)
        for number, part in ((2, "gateway"), (3, "postgres")):
            await asyncio.to_thread(fresh_stack.kill_part, part)
            await hears(fresh_stack, live, changes, number)
    finally:
        await client.remove_all_channels()
        await client.realtime.close()
