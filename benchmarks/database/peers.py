"""The same drain by other queues, as they are shipped. Their connections, too, have worked before the clock starts."""

import asyncio
import json
import shutil
import subprocess
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import procrastinate
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode
from procrastinate import App, PsycopgConnector

from benchmarks.database.figures import WARM_UP, Meter
from benchmarks.database.server import Bench
from stack.settings import Settings

GRAPHILE = "graphile-worker@0.17.3"
SCRIPT = Path(__file__).parent / "graphile.mjs"
PROCRASTINATE = "procrastinate_jobs, procrastinate_events"


async def procrastinate_drain(url: str, jobs: int, workers: int, meter: Meter) -> int:
    """Defer in bulk, then one worker with that concurrency until the queue is empty."""
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=workers + 2))
    done = 0

    @app.task(name="work")
    async def work(n: int) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        for count, clock in ((WARM_UP * workers, nullcontext()), (jobs, meter)):
            numbers: list[dict[str, Any]] = [{"n": n} for n in range(count)]
            await work.batch_defer_async(*numbers)
            await vacuum(url, PROCRASTINATE)
            done = 0
            with clock:
                await app.run_worker_async(
                    concurrency=workers,
                    wait=False,
                    install_signal_handlers=False,
                    listen_notify=False,
                    delete_jobs="never",
                )
    return done


async def pgqueuer_drain(url: str, jobs: int, workers: int, batch: int, meter: Meter) -> int:
    """Several managers in one process, each of which takes `batch` at a time."""
    done = 0
    async with asyncpg.create_pool(url, min_size=2, max_size=workers + 4) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        if not await pool.fetchval("select to_regclass('pgqueuer')"):
            await queries.install()
        for count, clock in ((WARM_UP * workers, nullcontext()), (jobs, meter)):
            await queries.enqueue(["work"] * count, [None] * count, [0] * count)
            await vacuum(url, "pgqueuer, pgqueuer_log")
            managers = [PgQueuer(AsyncpgPoolDriver(pool)) for _ in range(workers)]
            done = 0
            for manager in managers:

                @manager.entrypoint("work")
                async def work(job: Job) -> None:
                    nonlocal done
                    done += 1

            with clock:
                await asyncio.gather(
                    *(m.run(timedelta(seconds=1), batch_size=batch, mode=QueueExecutionMode.drain) for m in managers)
                )
    return done


async def vacuum(url: str, tables: str) -> None:
    """As `ours.fill` does, before the clock starts: no side is measured on what earlier rounds left behind."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"vacuum analyze {tables}")
    await connection.close()


def graphile_folder() -> tuple[Path | None, str]:
    """Return the folder in which graphile-worker is installed, outside of the clone; or the reason why it is not."""
    folder = Settings().cache_folder / "benchmarks" / "graphile"
    if (folder / "node_modules" / "graphile-worker").exists():
        return folder, ""
    if not shutil.which("npm"):
        return None, "there is no npm"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", GRAPHILE]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (None, f"npm could not install it: {made.stderr[-200:]}") if made.returncode else (folder, "")


def graphile_drain(folder: Path, url: str, jobs: int, workers: int, mode: str, meter: Meter) -> int:
    """Its own clock counts, so that starting Node and filling the queue do not; the server's CPU has them in it."""
    command = ["node", str(SCRIPT), url, str(jobs), str(WARM_UP * workers), str(workers), mode]
    with meter:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"graphile-worker: {done.stderr[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    meter.seconds = answer["seconds"]
    return int(answer["done"])


def versions() -> dict[str, str]:
    """Return the versions of the queues that ours is measured against."""
    return {"procrastinate": procrastinate.__version__, "graphile-worker": GRAPHILE.partition("@")[2]}


def fresh(bench: Bench) -> str:
    """An empty database for a peer's own schema."""
    return bench.database("template0")
