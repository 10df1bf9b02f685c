"""A whole stack whose parts are killed: the real client comes back and hears of later rows."""

import asyncio
import os
import signal
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from supabase import acreate_client
from tests.support.stack import RunningStack
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
TABLE = (
    "create table public.notes_for_restarts (id int primary key);"
    "grant select on public.notes_for_restarts to anon;"
    "alter publication supabase_realtime add table public.notes_for_restarts"
)


def pids(stack: RunningStack, words: str) -> list[int]:
    family = psutil.Process(stack.process.pid).children(recursive=True)
    return [process.pid for process in family if words in " ".join(process.cmdline() or [process.name()])]


def insert(stack: RunningStack, number: int) -> None:
    with psycopg.connect(stack.db_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = on")
        connection.execute("insert into public.notes_for_restarts values (%s)", [number])


async def hears(stack: RunningStack, live: "asyncio.Queue[Any]", changes: "asyncio.Queue[Any]", number: int) -> None:
    """Wait until the changes flow again, and then for a row."""
    await asyncio.wait_for(live.get(), 120)
    await asyncio.to_thread(insert, stack, number)
    change = await asyncio.wait_for(changes.get(), 120)
    assert change["data"]["record"] == {"id": number}


async def test_clients_come_back_after_kill_9(fresh_stack: RunningStack) -> None:
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
        for pid in pids(fresh_stack, "granian"):
            os.kill(pid, signal.SIGKILL)
        await hears(fresh_stack, live, changes, 2)
        [postmaster] = pids(fresh_stack, "postgres -D")
        os.kill(postmaster, signal.SIGKILL)
        await hears(fresh_stack, live, changes, 3)
        await eventually(lambda: asyncio.to_thread(fresh_stack.is_healthy))
    finally:
        await client.remove_all_channels()
        await client.realtime.close()
