"""Putting jobs into the queue, one by one and many at once, and how soon an idle runner has one: beside procrastinate."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from statistics import median, quantiles
from typing import Any

import asyncpg
from procrastinate import App, PsycopgConnector

from benchmarks.database import ours, peers
from benchmarks.database.figures import WARM_UP, Report, interleave
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

MEMBER = "5b0a7a52-0000-4000-8000-000000000002"
ONE = "select public.enqueue_job($1, 'OUTPUT', $2)"
MANY = "select public.enqueue_jobs($1, 'OUTPUT', $2)"
CLAIM = "select public.worker_claim($1::uuid, 1)::text"
BULK = 1000


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """Each side with its own functions on the same server, in turns."""
    database, peer = bench.database(), peers.fresh(bench)
    with bench.connect(database) as connection:
        connection.execute("insert into auth.users (id, email) values (%s, 'bench@example.org')", [MEMBER])
        connection.execute(
            "insert into public.memberships (org_id, user_id, email, role)"
            " select id, %s, 'bench@example.org', 'operator' from public.organizations",
            [MEMBER],
        )
    for name, least, count, mine, theirs in (
        ("enqueue one by one", 0, sizes.enqueued, _one_by_one, _defer_one_by_one),
        (f"enqueue {BULK:,} at once", 1.2, BULK, _at_once, _defer_at_once),
    ):
        rates = interleave(
            sizes.repeats,
            {
                "ours": lambda act=mine, n=count: asyncio.run(_ours(bench, database, n, act)),  # type: ignore[misc]
                "procrastinate": lambda act=theirs, n=count: asyncio.run(_theirs(bench.url(peer), n, act)),  # type: ignore[misc]
            },
            report,
        )
        report.compare(f"{name}, to procrastinate", rates, "ours", "procrastinate", least=least, unit="jobs/s")
    _latency(bench, sizes, report, (database, peer))
    bench.drop(database)
    bench.drop(peer)


async def _ours(bench: Bench, database: str, count: int, act: Callable[..., Awaitable[None]]) -> float:
    connection, org, modules = await _member(bench, database)
    await _one_by_one(connection, org, modules[:WARM_UP])
    began = time.perf_counter()
    await act(connection, org, modules[:count])
    seconds = time.perf_counter() - began
    await connection.close()
    return count / seconds


async def _member(bench: Bench, database: str) -> tuple[asyncpg.Connection, uuid.UUID, list[uuid.UUID]]:
    """A person's connection, an organisation, and modules that have nothing in the queue."""
    with bench.connect(database) as owner:
        owner.execute("delete from private.live_jobs")
        owner.execute(ours.TIDY)
        org: Any = owner.execute("select id from public.organizations").fetchone()
        modules = [row[0] for row in owner.execute("select id from public.modules order by id limit %s", [BULK])]
    claims = json.dumps({"role": "authenticated", "sub": MEMBER, "email": "bench@example.org"})
    settings = {"role": "authenticated", "request.jwt.claims": claims}
    connection = await asyncpg.connect(bench.url(database, "authenticator"), server_settings=settings)
    return connection, org[0], modules


async def _one_by_one(connection: asyncpg.Connection, org: uuid.UUID, modules: list[uuid.UUID]) -> None:
    for module in modules:
        await connection.fetchval(ONE, org, module)


async def _at_once(connection: asyncpg.Connection, org: uuid.UUID, modules: list[uuid.UUID]) -> None:
    await connection.fetchval(MANY, org, modules)


async def _theirs(url: str, count: int, act: Callable[..., Awaitable[None]]) -> float:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=2))
    task = app.task(name="work")(_nothing)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await peers.vacuum(url, peers.PROCRASTINATE)
        await _defer_one_by_one(task, WARM_UP)
        began = time.perf_counter()
        await act(task, count)
        return count / (time.perf_counter() - began)


async def _nothing(n: int) -> None:
    """The task itself is not what is measured."""


async def _defer_one_by_one(task: Any, count: int) -> None:
    for n in range(count):
        await task.defer_async(n=n)


async def _defer_at_once(task: Any, count: int) -> None:
    await task.batch_defer_async(*({"n": n} for n in range(count)))


def _latency(bench: Bench, sizes: Sizes, report: Report, databases: tuple[str, str]) -> None:
    """From the wish to the runner's having it: the calls here, the doorbell's way between them in benchmarks.realtime."""
    database, peer = databases
    sides: dict[str, list[float]] = {"ours": [], "procrastinate": []}
    for _ in range(sizes.repeats):
        sides["ours"] += asyncio.run(_wake(bench, database, sizes.wakes))
        sides["procrastinate"] += asyncio.run(_wake_theirs(bench.url(peer), sizes.wakes))
    for name, pick in (("median", median), ("99th of 100", lambda values: quantiles(values, n=100)[98])):
        found = {side: [pick(values) * 1000] for side, values in sides.items()}
        report.compare(f"idle, enqueue to claimed, {name}, to procrastinate", found, "ours", "procrastinate", unit="ms")


async def _wake(bench: Bench, database: str, count: int) -> list[float]:
    person, org, modules = await _member(bench, database)
    runner = await ours.connect(bench, database, ours.sessions(bench, database, 1)[0])
    spent = []
    for module in modules[: count + WARM_UP]:
        began = time.perf_counter()
        await person.fetchval(ONE, org, module)
        job = json.loads(await runner.fetchval(CLAIM, uuid.uuid4()))["jobs"][0]
        spent.append(time.perf_counter() - began)
        await runner.execute(ours.FINISH, job["id"], job["attempt"], None)
    await person.close()
    await runner.close()
    return spent[WARM_UP:]


async def _wake_theirs(url: str, count: int) -> list[float]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=4))
    woken = asyncio.Event()

    @app.task(name="wake")
    async def wake() -> None:
        woken.set()

    spent = []
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(queues=["wake"], install_signal_handlers=False))
        for _ in range(count + WARM_UP):
            woken.clear()
            began = time.perf_counter()
            await wake.configure(queue="wake").defer_async()
            await woken.wait()
            spent.append(time.perf_counter() - began)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return spent[WARM_UP:]
