"""Claim and finish: side by side with other queues, and with pgbench of the same function as the limit.

What has a floor is measured in many short rounds beside its peer; the other peers take part in a few.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.database import ours, peers
from benchmarks.database.figures import WARM_UP, Meter, Report, interleave
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

Drain = Callable[[Meter], int]
Contestants = dict[str, Callable[[], float]]


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """Everybody drains the same number of jobs, at each number of workers."""
    folder, why = peers.graphile_folder()
    if folder is None:
        report.skip("graphile-worker", why)
    if bench.pgbench() is None:
        report.skip("pgbench", "the server's folder and the PATH have none")
    databases = {name: peers.fresh(bench) for name in ("procrastinate", "pgqueuer", "graphile")}
    databases |= {"ours": bench.database(), "limit": bench.database()}
    for workers in sizes.workers:
        one = Round(bench, sizes, databases, workers, folder)
        _report_floors(report, workers, interleave(sizes.pairs, one.with_a_floor(), report))
        _report_others(report, workers, interleave(sizes.repeats, one.others(), report))
        _report_prices(report, workers, {name: [median(values)] for name, values in one.prices.items()})
    for name in databases.values():
        bench.drop(name)


@dataclass
class Round:
    """One number of workers: who takes part, and what each job costs the server."""

    bench: Bench
    sizes: Sizes
    databases: dict[str, str]
    workers: int
    folder: Path | None
    prices: dict[str, list[float]] = field(default_factory=dict)

    def with_a_floor(self) -> Contestants:
        """Runyard and the queue that it is held against; the latter in the middle, so that both are its neighbours."""
        url, jobs, workers = self._url("procrastinate"), self.sizes.jobs, self.workers
        found: dict[str, Drain] = {
            "ours": lambda m: self._ours(workers, 1, m),
            "ours_without_log": lambda m: self._ours(workers, 1, m, log=None),
            "procrastinate": lambda m: asyncio.run(peers.procrastinate_drain(url, jobs, workers, m)),
        }
        # One of procrastinate's workers with so much concurrency is one of our runners with so many slots.
        if workers > 1:
            found["ours_one_runner"] = lambda m: self._ours(1, workers, m, lines=workers)
        return self._rates(found)

    def others(self) -> Contestants:
        """Every other connection, and the server's own limit."""
        url, jobs, workers = self._url, self.sizes.jobs, self.workers
        found: dict[str, Drain] = {
            "pgqueuer": lambda m: asyncio.run(peers.pgqueuer_drain(url("pgqueuer"), jobs, workers, 1, m)),
            "ours": lambda m: self._ours(workers, 1, m),
        }
        folder = self.folder
        if folder is not None:
            found["graphile"] = lambda m: peers.graphile_drain(folder, url("graphile"), jobs, workers, "plain", m)
        if self.sizes.batch:
            found |= self._batched(folder)
        return self._rates(found) | ({"pgbench": self._limit} if self.bench.pgbench() else {})

    def _batched(self, folder: Path | None) -> dict[str, Drain]:
        """Many jobs by one claim, which no runner does; `--full` alone."""
        url, jobs, workers = self._url, self.sizes.jobs, self.workers
        found: dict[str, Drain] = {
            "pgqueuer_batch_10": lambda m: asyncio.run(peers.pgqueuer_drain(url("pgqueuer"), jobs, workers, 10, m)),
            "ours_batch_50": lambda m: self._ours(workers, self.sizes.batch, m),
        }
        if folder is not None:
            found["graphile_batched"] = lambda m: peers.graphile_drain(
                folder, url("graphile"), jobs, workers, "batched", m
            )
        return found

    def _rates(self, found: dict[str, Drain]) -> Contestants:
        return {name: partial(self._rate, name, drain) for name, drain in found.items()}

    def _url(self, name: str) -> str:
        return self.bench.url(self.databases[name])

    def _rate(self, name: str, drain: Drain) -> float:
        meter = Meter(self.bench.cpu_seconds)
        done = drain(meter)
        if done != self.sizes.jobs:
            raise RuntimeError(f"{name}: {done} of {self.sizes.jobs} jobs were done")
        self.prices.setdefault(name, []).append(meter.cpu_seconds * 1000 / done)
        return done / meter.seconds

    def _ours(self, runners: int, slots: int, meter: Meter, *, lines: int = 1, log: str | None = ours.LOG) -> int:
        ours.fill(self.bench, self.databases["ours"], self.sizes.jobs + WARM_UP * runners * lines)
        drained = ours.drain(self.bench, self.databases["ours"], runners, slots, meter, lines=lines, log=log)
        return asyncio.run(drained)

    def _limit(self) -> float:
        """More jobs than it can drain in the time, so that no transaction finds the queue empty."""
        database = self.databases["limit"]
        ours.fill(self.bench, database, round(self.sizes.seconds * 5000))
        rate = ours.pgbench(self.bench, database, self.workers, self.sizes.seconds)
        with self.bench.connect(database) as connection:
            left = connection.execute("select from private.live_jobs where stage = 'READY' limit 1").fetchone()
            connection.execute("delete from private.live_jobs")
            connection.execute("vacuum private.live_jobs")
        if left is None:
            raise RuntimeError("pgbench found the queue empty; fill it with more")
        return rate


def _report_floors(report: Report, workers: int, rates: dict[str, list[float]]) -> None:
    name = f"claim + finish, {workers} workers, to procrastinate"
    report.compare(f"{name}, with a log", rates, "ours", "procrastinate", unit="jobs/s")
    # Without a floor: the rules of a plan cost as much as the queue itself, and stay (decision 36).
    report.compare(name, rates, "ours_without_log", "procrastinate", unit="jobs/s")
    name = f"claim + finish, {workers} workers, with a log in one of 33 partitions, to none"
    report.compare(name, rates, "ours", "ours_without_log", least=1 / 1.2, unit="jobs/s")
    if workers > 1:
        name = f"claim + finish, one runner with {workers} slots, to procrastinate with as many at a time"
        report.compare(name, rates, "ours_one_runner", "procrastinate", least=3.0, unit="jobs/s")


def _report_others(report: Report, workers: int, rates: dict[str, list[float]]) -> None:
    for peer, least in (("pgqueuer", 0.0), ("graphile", 0.0), ("pgbench", 0.7)):
        if peer in rates:
            name = f"claim + finish, {workers} workers, to {peer}"
            report.compare(name, rates, "ours", peer, least=least, unit="jobs/s")
    for peer in ("pgqueuer_batch_10", "graphile_batched"):
        if peer in rates:
            name = f"50 at a time, {workers} workers, to {peer}"
            report.compare(name, rates, "ours_batch_50", peer, unit="jobs/s")


def _report_prices(report: Report, workers: int, prices: dict[str, list[float]]) -> None:
    for peer in ("procrastinate", "pgqueuer", "graphile"):
        if peer in prices:
            name = f"server CPU of a job, {workers} workers, to {peer}"
            report.compare(name, prices, "ours", peer, unit="ms")
