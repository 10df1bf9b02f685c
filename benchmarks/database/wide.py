"""An organisation of many groups with runners of their own: what acts on all of it at once, and who serves all of it."""

import asyncio
import time
from statistics import median
from typing import Any

from benchmarks.database import ours, pages
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

GROUPS, MODULES = 200, 10
PLAN_ALL = "select public.start_set(%(org)s, 'PLAN', '') ->> 'waiting'"
ALL_OF_IT = "select id from public.workers where is_assigned_to_all_modules and capacity = 4 limit 1"
# Of every other runner: nobody is available, and each lane has nearer runners that were.
SILENCE = "update private.heartbeats set last_seen_at = now() - interval '1 hour' where worker_id <> %s"
# The jobs of the set have waited for so long that runners which take none of them are named.
AGE = """
update public.provision_jobs set queued_at = now() - interval '10 minutes';
update public.worker_instances set connected_at = now() - interval '1 hour';
analyze;
"""


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """The first set over all groups creates a lane for each; pages and claims then meet all of these lanes."""
    database = bench.database()
    size = f"{sizes.crowd:,} runners, {GROUPS} groups"
    with bench.connect(database) as owner:
        owner.execute("delete from public.modules; delete from public.groups")
        owner.execute("select bench.add_groups(%s, %s, %s)", [GROUPS, MODULES, sizes.crowd])
        pages.add_member(owner)
        owner.execute("vacuum analyze")
        org: Any = owner.execute("select id from public.organizations").fetchone()
    subject = {"org": org[0]}
    with pages.member(bench, database) as person:
        spent = pages.seconds(person, PLAN_ALL, subject) * 1000
        name = f"plan all {GROUPS * MODULES:,} modules ({size})"
        report.add(name, spent / 2000, most=1, unit="ms", once=spent, limit=2000)
        with bench.connect(database) as owner:
            owner.execute(AGE)
        for name in ("list_runners", "runner_facets"):
            question = f"select public.{name}(%(org)s)"
            spent = median(pages.seconds(person, question, subject) * 1000 for _ in range(pages.TIMES))
            report.add(f"{name} ({size})", spent / 100, most=1, unit="ms", median=spent, limit=100)
    with bench.connect(database) as owner:
        worker: Any = owner.execute(ALL_OF_IT).fetchone()
        for nearer in ("available", "silent"):
            spent = asyncio.run(_claim_ms(bench, database, sizes.calls, worker))
            name = f"claim by a runner of {GROUPS} lanes, nearer ones {nearer} ({size})"
            report.add(name, spent / 10, most=1, unit="ms", median=spent, limit=10)
            owner.execute(SILENCE, worker)
    bench.drop(database)


async def _claim_ms(bench: Bench, database: str, calls: int, worker: tuple[str]) -> float:
    """The median claim of a runner that serves every lane; each is undone."""
    claims = next(found for found in ours.sessions(bench, database, 100_000) if str(worker[0]) in found)
    connection = await ours.connect(bench, database, claims)
    spent = []
    for _ in range(calls):
        undone = connection.transaction()
        await undone.start()
        began = time.perf_counter()
        await ours.claim(connection, 1)
        spent.append(time.perf_counter() - began)
        await undone.rollback()
    await connection.close()
    return median(spent) * 1000
