"""The order in which passwords are checked."""

import asyncio
import threading
import time

import pytest

from stack.auth.errors import AuthError
from stack.auth.passwords import Passwords, Turns

pytestmark = pytest.mark.anyio


async def test_a_flood_of_one_organisation_is_served_in_turn_with_the_others() -> None:
    passwords, served = Passwords(rounds=6, threads=2), []
    hashed = await passwords.hash("correct horse", owner="flood")

    async def check(owner: str) -> None:
        await passwords.verify("wrong", hashed, owner=owner)
        served.append(owner)

    await asyncio.gather(*[check("flood") for _ in range(30)], check("second"), check("third"))
    passwords.close()
    assert {"second", "third"} <= set(served[:6])
    assert served[6:] == ["flood"] * 26


async def test_a_flood_leaves_a_thread_to_the_others_and_rests_between_its_turns() -> None:
    turns, gate, spans = Turns(threads=2, company_seconds=3600), threading.Event(), list[tuple[float, float]]()

    def work() -> None:
        began_at = time.monotonic()
        gate.wait()
        spans.append((began_at, time.monotonic()))

    flood = [asyncio.create_task(turns.run("flood", work)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await turns.run("other", lambda: "served") == "served", "though a check of the flood is not finished"
    gate.set()
    await asyncio.gather(*flood)
    turns.close()
    (began_at, ended_at), (again_at, _) = spans
    assert again_at - ended_at >= 3 * (ended_at - began_at)


async def test_an_owner_with_a_full_queue_is_refused_and_the_others_are_not() -> None:
    turns, gate = Turns(threads=1, most_of_one=2), threading.Event()
    waiting = [asyncio.create_task(turns.run("flood", gate.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(AuthError) as refused:
        await turns.run("flood", gate.wait)
    assert refused.value.status == 429
    other = asyncio.create_task(turns.run("other", lambda: "served"))
    gate.set()
    assert await other == "served"
    await asyncio.gather(*waiting)
    turns.close()


async def test_work_that_is_cancelled_while_it_waits_passes_its_turn_on() -> None:
    turns, gate = Turns(threads=1), threading.Event()
    running = asyncio.create_task(turns.run("a", gate.wait))
    await asyncio.sleep(0)
    cancelled = asyncio.create_task(turns.run("b", gate.wait))
    await asyncio.sleep(0)
    cancelled.cancel()
    last = asyncio.create_task(turns.run("c", lambda: "served"))
    await asyncio.sleep(0)
    gate.set()
    assert (await running, await last) == (True, "served")
    assert await turns.run("d", lambda: "again") == "again"
    turns.close()
