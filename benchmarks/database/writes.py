"""Heartbeats and log chunks: against a bare durable update, and against a row for each line."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from benchmarks.database import ours
from benchmarks.database.figures import WARM_UP, Report, interleave
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes
from benchmarks.outcome import attempt

LINES = 50
HEARTBEAT = "select public.worker_heartbeat('ONLINE', '1.0.0')"
BARE = "update bench.heartbeats set last_seen_at = now() where id = $1"
ROWS = "select bench.append_lines($1, $2, $3, $4)"
CHUNK = "select public.worker_append_logs($1, $2, $3::text::jsonb)"


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    database = bench.database()
    ours.fill(bench, database, 64)
    for part in (_heartbeats, _logs):
        with attempt(part.__name__, report.failed):
            part(bench, sizes, report, database)
    bench.drop(database)


def _heartbeats(bench: Bench, sizes: Sizes, report: Report, database: str) -> None:
    """With the session checked, drain and cancel looked up and the answer made; durable only on the bare side."""
    for clients in (1, 4):
        rates = interleave(
            sizes.repeats,
            {
                "ours": lambda: asyncio.run(rate(bench, database, clients, sizes.seconds, heartbeat)),  # noqa: B023
                "bare": lambda: asyncio.run(rate(bench, database, clients, sizes.seconds, update)),  # noqa: B023
            },
            report,
        )
        name = f"heartbeat, {clients} connections, to a bare durable update"
        report.compare(name, rates, "ours", "bare", least=0.4, unit="/s")


def _logs(bench: Bench, sizes: Sizes, report: Report, database: str) -> None:
    """Fifty lines a call, behind the same fence; and what a line costs on disk."""
    dice = random.Random(4)
    lines = [
        f"module.network.aws_subnet.private[{n}]: Still creating... [id={dice.getrandbits(64):x}]" for n in range(LINES)
    ]
    body = "\n".join(lines) + "\n"
    rates: dict[str, list[float]] = {}
    for clients in (1, 4):
        jobs: dict[Any, tuple[int, int, list[int]]] = {}

        async def job_of(connection: asyncpg.Connection, jobs: Any = jobs) -> tuple[int, int, list[int]]:
            if connection not in jobs:
                answer = json.loads(await connection.fetchval("select public.worker_claim(gen_random_uuid(), 1)::text"))
                job = answer["jobs"][0]
                jobs[connection] = (job["id"], job["attempt"], [0])
            return jobs[connection]  # type: ignore[no-any-return]

        async def chunk(connection: asyncpg.Connection, _: int, job_of: Any = job_of) -> None:
            job, attempt, seq = await job_of(connection)
            seq[0] += 1
            await connection.execute(CHUNK, job, attempt, json.dumps([{"seq": seq[0], "step": "apply", "body": body}]))

        async def rows(connection: asyncpg.Connection, _: int, job_of: Any = job_of) -> None:
            job, attempt, seq = await job_of(connection)
            await connection.execute(ROWS, job, attempt, seq[0], lines)
            seq[0] += LINES

        rates = interleave(
            sizes.repeats,
            {
                "chunks": lambda: asyncio.run(rate(bench, database, clients, sizes.seconds, chunk)),  # noqa: B023
                "rows": lambda: asyncio.run(rate(bench, database, clients, sizes.seconds, rows)),  # noqa: B023
            },
            report,
        )
        name = f"log append, {clients} connections, to a row per line"
        report.compare(name, rates, "chunks", "rows", least=2, unit="calls/s")
    _space(bench, report, database)


def _space(bench: Bench, report: Report, database: str) -> None:
    size = (
        "select (select sum(pg_total_relation_size(c.oid)) from pg_class as c where c.relname ~ '^job_log_chunks_[0-9]+$')"
        "::float / (select sum(line_count) from public.job_log_chunks),"
        " pg_total_relation_size('bench.log_lines')::float / (select count(*) from bench.log_lines)"
    )
    with bench.connect(database) as connection:
        row: Any = connection.execute(size.encode()).fetchone()
    report.compare(
        "log, bytes on disk per line", {"chunks": [row[0]], "rows": [row[1]]}, "chunks", "rows", unit="bytes"
    )


async def heartbeat(connection: asyncpg.Connection, _: int) -> None:
    """A heartbeat that has nothing to say."""
    await connection.fetchval(HEARTBEAT)


async def update(connection: asyncpg.Connection, number: int) -> None:
    """The least that a durable heartbeat could be."""
    await connection.fetchval(BARE, 1 + number % 1000)


async def rate(
    bench: Bench, database: str, clients: int, seconds: float, act: Callable[[asyncpg.Connection, int], Awaitable[None]]
) -> float:
    """Calls per second by so many connections, which have worked before."""
    connections = [await ours.connect(bench, database, claims) for claims in ours.sessions(bench, database, clients)]
    for number, connection in enumerate(connections):
        for _ in range(WARM_UP):
            await act(connection, number)
    counts = [0] * clients

    async def work(number: int) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            await act(connections[number], number + clients * counts[number])
            counts[number] += 1

    began = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(clients)))
    spent = time.perf_counter() - began
    for connection in connections:
        await connection.close()
    return sum(counts) / spent
