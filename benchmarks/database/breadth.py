"""Measures whether a claim depends on the number of runners, or of lanes that one of them serves: it must not."""

import asyncio
import time
from functools import partial

from benchmarks.database import depth, ours
from benchmarks.database.figures import WARM_UP, Report, interleave
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes
from benchmarks.outcome import attempt

LANES = (1, 5, 20)


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    for part in (_runners, _lanes):
        with attempt(part.__name__, report.failed):
            part(bench, sizes, report)


def _runners(bench: Bench, sizes: Sizes, report: Report) -> None:
    """The template has 16 runners; the other side has as many more as there are in a large fleet."""
    few, many = bench.database(), bench.database()
    with bench.connect(many) as connection:
        connection.execute("select bench.add_runners(%s, 1)", [sizes.crowd])
        connection.execute("vacuum analyze")
    for database in (few, many):
        ours.fill(bench, database, 1000)
    depth.compare(bench, sizes, report, (few, many), f"claim among {sizes.crowd:,} runners, to 16", 1.1)
    bench.drop(few)
    bench.drop(many)


def _lanes(bench: Bench, sizes: Sizes, report: Report) -> None:
    """A lane for each priority, all of them served by every runner; jobs spread evenly."""
    databases = {lanes: bench.database() for lanes in LANES}
    rates = interleave(
        sizes.repeats,
        {f"lanes_{n}": partial(_drain, bench, database, n, sizes.jobs) for n, database in databases.items()},
        report,
    )
    for lanes in LANES[1:]:
        report.compare(f"claim + finish from {lanes} lanes, to one", rates, f"lanes_{lanes}", "lanes_1", unit="jobs/s")
    for database in databases.values():
        bench.drop(database)


def _drain(bench: Bench, database: str, lanes: int, jobs: int) -> float:
    for number in range(lanes):
        ours.fill(bench, database, -(-(jobs + WARM_UP) // lanes), priority=100 + number)
    return asyncio.run(_steps(bench, database, jobs))


async def _steps(bench: Bench, database: str, jobs: int) -> float:
    connection = await ours.connect(bench, database, ours.sessions(bench, database, 1)[0])
    for number in range(jobs):
        if number == WARM_UP:
            began = time.perf_counter()
        await ours.finish(connection, await ours.claim(connection, 1))
    seconds = time.perf_counter() - began
    while left := await ours.claim(connection, 100):
        await ours.finish(connection, left)
    await connection.close()
    return (jobs - WARM_UP) / seconds
