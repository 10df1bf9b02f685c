"""Jobs with 1,000 variables: a claim must not notice them, and the job fetches them in one short call."""

import asyncio
import time
from statistics import median

from benchmarks.database import depth, ours
from benchmarks.database.figures import WARM_UP, Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

COUNT = 1000
AIM_MS = 100.0
PUT = """
insert into public.variables (org_id, path, kind, name, value, created_by_label)
select o.id, '', 'input', 'v' || n, to_jsonb(repeat('x', 100)), 'bench' from public.organizations as o, generate_series(1, %s) as n
"""
GIVE = """
insert into private.job_variables (job_id, variables)
select l.job_id, array(select v.id from public.variables as v where v.org_id = j.org_id)
from private.live_jobs as l join public.provision_jobs as j on j.id = l.job_id
"""
FETCH = "select public.worker_variables($1, $2)::text"


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """The same jobs without variables beside those that have them."""
    none, many = bench.database(), bench.database()
    for database in (none, many):
        ours.fill(bench, database, sizes.jobs)
    with bench.connect(many) as connection:
        connection.execute(PUT, [COUNT])
        connection.execute(GIVE)
        connection.execute("vacuum analyze")
    milliseconds = asyncio.run(_fetch(bench, many, sizes.calls))
    report.add(
        f"fetch of {COUNT:,} variables, to the aim",
        milliseconds / AIM_MS,
        most=1,
        unit="ms",
        fetch=milliseconds,
        aim=AIM_MS,
    )
    depth.compare(bench, sizes, report, (none, many), f"claim with {COUNT:,} variables, to none", 1.1)
    bench.drop(none)
    bench.drop(many)


async def _fetch(bench: Bench, database: str, calls: int) -> float:
    """The median of a runner's calls, in milliseconds."""
    connection = await ours.connect(bench, database, ours.sessions(bench, database, 1)[0])
    (job,) = await ours.claim(connection, 1)
    spans = []
    for _ in range(WARM_UP + calls // 10):
        began = time.perf_counter()
        await connection.fetchval(FETCH, job["id"], job["attempt"])
        spans.append((time.perf_counter() - began) * 1000)
    await ours.finish(connection, [job])
    await connection.close()
    return median(spans[WARM_UP:])
