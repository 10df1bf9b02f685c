"""Ten thousand runners that send a heartbeat every 15 s: what it costs in CPU, and what it leaves behind."""

import asyncio
import itertools
import time
from typing import Any

import asyncpg

from benchmarks.database import ours
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

CONNECTIONS = 8
EVERY_SECONDS = 15
COUNTERS = """
select pg_total_relation_size(t.relid) as heap, pg_current_wal_lsn() - '0/0' as wal, t.n_dead_tup as dead,
  (select count(*) from realtime.messages) as messages, t.n_tup_hot_upd::float / greatest(1, t.n_tup_upd) as hot
from pg_stat_all_tables as t where t.relid = 'private.heartbeats'::regclass
"""


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    database = bench.database()
    with bench.connect(database) as connection:
        connection.execute("select bench.add_runners(%s, 1)", [sizes.runners])
        connection.execute("vacuum analyze")
    claims = ours.sessions(bench, database, sizes.runners)
    asyncio.run(_heartbeat(bench, database, claims, EVERY_SECONDS))
    before, cpu, began = _counters(bench, database), bench.cpu_seconds(), time.perf_counter()
    late = asyncio.run(_heartbeat(bench, database, claims, sizes.fleet_seconds))
    seconds = time.perf_counter() - began
    cores = (bench.cpu_seconds() - cpu) / seconds
    after = _counters(bench, database)
    heartbeats = sizes.fleet_seconds * sizes.runners / EVERY_SECONDS
    name = f"{sizes.runners:,} runners' heartbeats, CPU of two cores"
    report.add(
        name,
        cores / 2,
        most=0.5,
        unit="cores",
        server=cores,
        heartbeats_per_second=heartbeats / seconds,
        behind_seconds=late,
    )
    sides = {"after": [after["heap"]], "before": [before["heap"]]}
    report.compare("size of the heartbeats' table after to before", sides, "after", "before", most=1.1, unit="bytes")
    wal = (after["wal"] - before["wal"]) / heartbeats
    report.facts["fleet"] = {
        "wal_bytes_per_heartbeat": round(wal, 1),
        "realtime_messages": after["messages"] - before["messages"],
        "dead_rows": after["dead"],
        "hot_share": round(after["hot"], 3),
        "sweep_ms": _sweep_ms(bench, database),
    }
    print(f"  {report.facts['fleet']}")
    bench.drop(database)


async def _heartbeat(bench: Bench, database: str, claims: list[str], seconds: float) -> float:
    """Heartbeats at their time, from a few pooled connections; how far they are behind at the end."""
    pace = EVERY_SECONDS / len(claims)
    began = time.perf_counter()
    turn = itertools.count()
    last = round(seconds / pace)

    async def work() -> None:
        connection: asyncpg.Connection = await asyncpg.connect(
            bench.url(database, "authenticator"), server_settings=ours.settings(bench, database)
        )
        while (number := next(turn)) < last:
            await asyncio.sleep(max(0.0, began + number * pace - time.perf_counter()))
            await connection.execute("select bench.heartbeat_as($1)", claims[number % len(claims)])
        await connection.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return max(0.0, time.perf_counter() - began - seconds)


def _counters(bench: Bench, database: str) -> dict[str, Any]:
    with bench.connect(database) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        cursor = connection.execute(COUNTERS.encode())
        names = [column.name for column in cursor.description or ()]
        row: Any = cursor.fetchone()
    return {name: float(value or 0) for name, value in zip(names, row, strict=True)}


def _sweep_ms(bench: Bench, database: str) -> float:
    with bench.connect(database) as connection:
        spent = []
        for _ in range(5):
            began = time.perf_counter()
            connection.execute("select private.sweep()")
            spent.append(time.perf_counter() - began)
    return round(sorted(spent)[2] * 1000, 2)
