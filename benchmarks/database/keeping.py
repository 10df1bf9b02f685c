"""Measures the cost for others of keeping things: a replication slot beside heartbeats, and the end of old logs."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import sql

from benchmarks.database import writes
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes
from benchmarks.outcome import attempt

SLOT = "bench_slot"
EVERY_SECONDS = 0.1
CHANGES = (
    "select count(*) from pg_logical_slot_get_binary_changes(%s, null, null, 'proto_version', '1', 'publication_names',"
    " 'supabase_realtime')"
)
LINES = 50


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    database = bench.database()
    for part in (_heartbeats_beside_a_slot, _retention):
        with attempt(part.__name__, report.failed):
            part(bench, sizes, report, database)
    bench.drop(database)


def _heartbeats_beside_a_slot(bench: Bench, sizes: Sizes, report: Report, database: str) -> None:
    """Heartbeats are not in the publication and leave next to nothing in the WAL: a decoder of it should not be felt."""
    alone, beside, changes = [], [], 0
    for _ in range(sizes.repeats):
        alone.append(_heartbeats(bench, database, sizes.seconds))
        with _decoded(bench, database) as seen:
            beside.append(_heartbeats(bench, database, sizes.seconds))
        changes += sum(seen)
    sides = {"without": alone, "with_slot": beside}
    report.compare("heartbeat beside a logical slot, to none", sides, "with_slot", "without", unit="/s")
    report.facts["changes_decoded_from_heartbeats"] = changes


def _heartbeats(bench: Bench, database: str, seconds: float) -> float:
    return asyncio.run(writes.rate(bench, database, 4, seconds, writes.heartbeat))


@contextmanager
def _decoded(bench: Bench, database: str) -> Iterator[list[int]]:
    """Somebody who reads the changes ten times a second, as Realtime does."""
    seen: list[int] = []
    is_over = threading.Event()
    with bench.connect(database) as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [SLOT])

        def read() -> None:
            while not is_over.wait(EVERY_SECONDS):
                row: Any = connection.execute(CHANGES, [SLOT]).fetchone()
                seen.append(row[0])

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield seen
        finally:
            is_over.set()
            reader.join()
            connection.execute("select pg_drop_replication_slot(%s)", [SLOT])


def _retention(bench: Bench, sizes: Sizes, report: Report, database: str) -> None:
    """The same lines: as chunks in the partition of a day, and as rows among those of other days."""
    with bench.connect(database) as connection:
        connection.execute("select bench.add_old_logs(%s, %s)", [sizes.old_lines // LINES, LINES])
        partition: Any = connection.execute("select private.log_partition_name(current_date - 400)").fetchone()
        dropped = _seconds(connection, sql.SQL("drop table private.{}").format(sql.Identifier(partition[0])))
        deleted = _seconds(connection, sql.SQL("delete from bench.log_lines where job_id = -1"))
        deleted += _seconds(connection, sql.SQL("vacuum bench.log_lines"))
    name = f"end of {sizes.old_lines:,} old lines, to deleting rows"
    report.compare(name, {"dropped": [dropped], "deleted": [deleted]}, "dropped", "deleted", most=0.1, unit="s")


def _seconds(connection: Any, statement: sql.Composable) -> float:
    began = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - began
