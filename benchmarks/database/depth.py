"""Measures the slowdown of a claim by finished jobs, queued jobs, jobs ahead that are not for this runner, an idle transaction."""

import asyncio
import json
import time
import uuid
from statistics import median
from typing import Any

import asyncpg

from benchmarks.database import ours
from benchmarks.database.figures import WARM_UP, Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes
from benchmarks.outcome import attempt

CLAIM = "select public.worker_claim($1::uuid, 1)::text"


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """Each condition beside a database with a thousand queued jobs and nothing else."""
    small = bench.database()
    ours.fill(bench, small, 1000)
    conditions = {
        f"claim at {sizes.queued:,} queued + {sizes.finished:,} finished": (_deep, 1.3),
        f"claim behind {sizes.ahead:,} jobs for others": (_blocked, 1.1),
    }
    for name, (make, most) in conditions.items():
        with attempt(name, report.failed):
            database = make(bench, sizes)
            compare(bench, sizes, report, (small, database), name, most)
            bench.drop(database)
    with attempt("claim over dead entries", report.failed):
        _measure_dead(bench, sizes, report, small)
    bench.drop(small)


def _measure_dead(bench: Bench, sizes: Sizes, report: Report, small: str) -> None:
    """Measure the cost of a forgotten transaction until the roles' time limits end it. A figure to know, not a promise."""
    database = bench.database()
    with bench.connect(database) as idle:
        idle.execute("begin isolation level repeatable read")
        idle.execute("select count(*) from private.live_jobs")
        ours.fill(bench, database, sizes.dead + 1000)
        asyncio.run(_leave_dead(bench, database, sizes.dead))
        name = f"claim over {sizes.dead:,} dead entries, transaction open"
        compare(bench, sizes, report, (small, database), name, 0)
        idle.execute("rollback")
    bench.drop(database)


def compare(bench: Bench, sizes: Sizes, report: Report, databases: tuple[str, str], name: str, most: float) -> None:
    """The claim in the second database to the claim in the first."""
    pairs = [asyncio.run(_claim_ms(bench, databases, sizes.calls)) for _ in range(sizes.repeats)]
    ratio = median(here / usual for usual, here in pairs)
    usual, here = (median(side) for side in zip(*pairs, strict=True))
    report.add(name, ratio, most=most, unit="ms", usual=usual, here=here)


async def _claim_ms(bench: Bench, databases: tuple[str, str], calls: int) -> tuple[float, ...]:
    """The median claim of each in milliseconds. They take turns call by call: what disturbs one disturbs the other."""
    connections = []
    for database in databases:
        await asyncio.to_thread(_refill, bench, database, calls)
        connections.append(await ours.connect(bench, database, ours.sessions(bench, database, 1)[0]))
    spent: list[list[float]] = [[], []]
    for _ in range(calls + WARM_UP):
        for connection, times in zip(connections, spent, strict=True):
            times.append(await _claim_once(connection))
    for connection in connections:
        await connection.close()
    return tuple(median(times[WARM_UP:]) * 1000 for times in spent)


async def _claim_once(connection: asyncpg.Connection) -> float:
    began = time.perf_counter()
    answer = json.loads(await connection.fetchval(CLAIM, uuid.uuid4()))
    seconds = time.perf_counter() - began
    for job in answer["jobs"]:
        await connection.execute(ours.FINISH, job["id"], job["attempt"], ours.LOG)
    if not answer["jobs"]:
        raise RuntimeError("there was nothing to claim")
    return seconds


def _refill(bench: Bench, database: str, calls: int) -> None:
    with bench.connect(database) as connection:
        connection.execute("select bench.add_ready(%s, 100::smallint, null)", [calls + WARM_UP])


def _deep(bench: Bench, sizes: Sizes) -> str:
    database = bench.database()
    with bench.connect(database) as connection:
        connection.execute("select bench.add_finished(%s)", [sizes.finished])
    ours.fill(bench, database, sizes.queued)
    return database


def _blocked(bench: Bench, sizes: Sizes) -> str:
    """More urgent jobs, pinned to a runner that is not the one that claims."""
    database = bench.database()
    mine = json.loads(ours.sessions(bench, database, 1)[0])["sub"]
    with bench.connect(database) as connection:
        other: Any = connection.execute("select id from public.workers where id <> %s limit 1", [mine]).fetchone()
        connection.execute("select bench.add_ready(%s, 10::smallint, %s)", [sizes.ahead, other[0]])
    ours.fill(bench, database, 1000)
    return database


async def _leave_dead(bench: Bench, database: str, count: int) -> None:
    """Claim and finish so many, while the open transaction keeps vacuum from removing what they leave."""
    connection = await ours.connect(bench, database, ours.sessions(bench, database, 1)[0])
    done = 0
    while done < count:
        jobs = await ours.claim(connection, 100)
        await ours.finish(connection, jobs)
        done += len(jobs)
    await connection.close()
