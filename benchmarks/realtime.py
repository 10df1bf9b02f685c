"""Commit to client: how long after its commit a row change reaches Realtime's subscribers.

Beside them a bare consumer reads the same WAL in the same run: the ratio shows what the server adds, on any machine.
Run as `python -m benchmarks.realtime`. All subscribers live in this one process, so with 200 of them a good part of
what is measured is this process reading.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg

from benchmarks.outcome import Outcome
from stack.realtime.stream import RowChange, open_stream
from tests.contract.realtime.server import sign
from tests.contract.realtime.wire import Wire, open_wire
from tests.support.stack import RunningStack, start_stack
from tests.support.waiting import eventually

PADDING = "x" * 200
TABLES = """
drop table if exists public.bench_open, public.bench_guarded;
create table public.bench_open (id int primary key, owner int, body text);
create table public.bench_guarded (id int primary key, owner int, body text);
alter table public.bench_guarded enable row level security;
create policy everybody_signed_in on public.bench_guarded for select to authenticated
  using ((auth.jwt() ->> 'sub') is not null);
grant select on public.bench_open, public.bench_guarded to anon, authenticated;
alter publication supabase_realtime add table public.bench_open, public.bench_guarded;
"""


@dataclass(frozen=True)
class Scenario:
    """So many subscribers, so many rows a second."""

    table: str
    subscribers: int
    per_second: float

    @property
    def label(self) -> str:
        policies = "RLS" if self.table == "bench_guarded" else "no RLS"
        return f"{self.subscribers} × {self.per_second:g}/s, {policies}"


SCENARIOS = (
    Scenario("bench_open", 1, 100),
    Scenario("bench_guarded", 1, 100),
    Scenario("bench_open", 200, 5),
    Scenario("bench_guarded", 200, 5),
)


@dataclass
class Times:
    """The times of each row's commit and of its arrival at each listener."""

    committed: dict[int, float] = field(default_factory=dict)
    bare: dict[int, float] = field(default_factory=dict)
    arrived: list[tuple[int, float]] = field(default_factory=list)


def percentiles(seconds: list[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    ordered = sorted(seconds)
    return {f"p{part}_ms": round(ordered[len(ordered) * part // 100] * 1000, 2) for part in (50, 95)}


def write(url: str, scenario: Scenario, count: int, times: Times) -> None:
    """Insert rows one by one, and note when each commit was acknowledged."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"truncate public.{scenario.table}".encode())
        started = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, started + number / scenario.per_second - time.perf_counter()))
            connection.execute(f"insert into public.{scenario.table} values (%s, 1, %s)".encode(), [number, PADDING])
            times.committed[number] = time.perf_counter()


async def read_bare(url: str, times: Times) -> None:
    """The same WAL without a server in between."""
    async with open_stream(url) as stream:
        async for message in stream.messages():
            if isinstance(message, RowChange) and message.new is not None:
                times.bare[int(str(message.new[0]))] = time.perf_counter()


async def read_socket(wire: Wire, times: Times) -> None:
    """One subscriber, that only looks for the row's number."""
    async for data in wire.connection:
        at = time.perf_counter()
        start = str(data).find('"record":{"id":')
        if start >= 0:
            times.arrived.append((int(str(data)[start + 15 :].split(",", 1)[0]), at))


@asynccontextmanager
async def subscribers(stack: RunningStack, scenario: Scenario) -> AsyncIterator[list[Wire]]:
    """Live subscribers, each with claims of its own."""
    origin = {"iss": stack.settings.auth_issuer, "aud": "authenticated"}
    async with AsyncExitStack() as opened:
        wires = []
        for number in range(scenario.subscribers):
            wire = await opened.enter_async_context(open_wire(stack.url, stack.publishable_key))
            claims = {**origin, "role": "authenticated", "sub": f"user-{number}", "exp": int(time.time()) + 3600}
            binding = {"event": "*", "schema": "public", "table": scenario.table}
            await wire.live(f"bench-{number}", [binding], access_token=sign(stack.secrets, claims))
            wires.append(wire)
        yield wires


async def measure(stack: RunningStack, scenario: Scenario, seconds: float) -> dict[str, Any]:
    """One scenario: latencies of all subscribers, of the bare consumer, and the server's memory."""
    times, count = Times(), int(scenario.per_second * seconds)
    replication = stack.settings.database_url(
        "supabase_replication_admin", stack.secrets.password("supabase_replication_admin")
    )
    async with subscribers(stack, scenario) as wires:
        readers = [asyncio.create_task(read_socket(wire, times)) for wire in wires]
        readers.append(asyncio.create_task(read_bare(replication, times)))
        await asyncio.sleep(1)
        await asyncio.to_thread(write, stack.db_url, scenario, count, times)
        expected = count * scenario.subscribers
        await eventually(lambda: _true(lambda: len(times.arrived) >= expected and len(times.bare) >= count))
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        memory = server_memory(stack)
    return summary(scenario, times, memory)


async def _true(condition: Callable[[], bool]) -> bool:
    return condition()


def summary(scenario: Scenario, times: Times, memory: int) -> dict[str, Any]:
    """The row of the table."""
    realtime = percentiles([at - times.committed[number] for number, at in times.arrived])
    bare = percentiles([at - times.committed[number] for number, at in times.bare.items()])
    return {
        "scenario": scenario.label,
        "messages": len(times.arrived),
        "realtime": realtime,
        "bare": bare,
        "added_p50_ms": round(realtime["p50_ms"] - bare["p50_ms"], 2),
        "server_rss_mb": memory >> 20,
    }


def server_memory(stack: RunningStack) -> int:
    """The resident memory of the gateway's worker process."""
    family = psutil.Process(stack.process.pid).children(recursive=True)
    return max((rss for process in family if (rss := gateway_memory(process))), default=0)


def gateway_memory(process: psutil.Process) -> int:
    """The resident memory of one of the gateway's processes, and nothing of another or of one that has gone."""
    try:
        is_gateway = "granian" in " ".join(process.cmdline() or [process.name()])
        return int(process.memory_info().rss) if is_gateway else 0
    except psutil.NoSuchProcess:
        return 0


def show(rows: list[dict[str, Any]]) -> None:
    """The table a person reads."""
    print(f"{'subscribers × rows':>24} | {'p50 ms':>8} {'p95 ms':>8} | bare {'p50':>6} {'p95':>6} | added | RSS MB")
    for row in rows:
        own, bare = row["realtime"], row["bare"]
        print(
            f"{row['scenario']:>24} | {own['p50_ms']:>8} {own['p95_ms']:>8}"
            f" | {bare['p50_ms']:>11} {bare['p95_ms']:>6} | {row['added_p50_ms']:>5} | {row['server_rss_mb']:>6}"
        )


async def run(stack: RunningStack, seconds: float, outcome: Outcome) -> None:
    """All scenarios."""
    outcome.parts["rows"] = rows = []
    with psycopg.connect(stack.db_url, autocommit=True) as connection:
        connection.execute(TABLES.encode())
    for scenario in SCENARIOS:
        with outcome.part(scenario.label):
            rows.append(row := await measure(stack, scenario, seconds))
            bare, own = row["bare"]["p50_ms"], row["realtime"]["p50_ms"]
            outcome.ratio(f"{scenario.label}, to bare", own / bare, is_less_better=True)


def main() -> None:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    outcome = Outcome("realtime")
    with outcome.part("the stack"), tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        limits = {
            "RUNYARD_REALTIME_ALLOW_PUBLIC": "true",
            "RUNYARD_PG_FSYNC": "true",
        }
        with start_stack(Path(folder), "--no-dashboard", "--no-demo", **limits) as stack:
            asyncio.run(run(stack, options.seconds, outcome))
    show(outcome.parts.get("rows", []))
    outcome.keep()


if __name__ == "__main__":
    main()
