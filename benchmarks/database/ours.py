"""Runyard's own functions, called as runners call them: as the role `worker`, with a session's claims."""

import asyncio
import json
import os
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from benchmarks.database.figures import WARM_UP, Meter
from benchmarks.database.server import Bench

STEP = Path(__file__).parent / "sql" / "step.sql"
CALL = "select public.worker_step($1::uuid, $2::text::jsonb, $3)::text"


def sessions(bench: Bench, database: str, count: int) -> list[str]:
    """The claims of so many runners."""
    with bench.connect(database) as connection:
        rows = connection.execute(
            "select s.id::text, s.worker_id::text from private.sessions as s order by s.id limit %s", [count]
        )
        return [json.dumps({"role": "worker", "sid": sid, "sub": worker}) for sid, worker in rows]


def fill(bench: Bench, database: str, count: int, *, priority: int = 100) -> None:
    """Jobs that are ready; statistics as autovacuum would have them."""
    with bench.connect(database) as connection:
        connection.execute("select bench.add_ready(%s, %s::smallint, null)", [count, priority])
        connection.execute("vacuum analyze private.live_jobs")
        connection.execute("analyze public.provision_jobs")


async def connect(bench: Bench, database: str, claims: str) -> asyncpg.Connection:
    """A runner's connection, in the way REST would set it up."""
    settings = {"role": "worker", "request.jwt.claims": claims}
    return await asyncpg.connect(bench.url(database, "authenticator"), server_settings=settings)


async def drain(bench: Bench, database: str, workers: int, batch: int, meter: Meter) -> int:
    """Claim and finish everything with so many runners, whose connections have worked before."""
    connections = [await connect(bench, database, claims) for claims in sessions(bench, database, workers)]
    for connection in connections:
        await _warm_up(connection)
    with meter:
        done = await asyncio.gather(*(_work(connection, batch) for connection in connections))
    for connection in connections:
        await connection.close()
    return sum(done)


async def step(connection: asyncpg.Connection, finished: list[dict[str, Any]], slots: int) -> list[dict[str, Any]]:
    """Finish these and claim so many; what to finish next."""
    answer = json.loads(await connection.fetchval(CALL, uuid.uuid4(), json.dumps(finished), slots))
    return [{"job": job["id"], "attempt": job["attempt"], "status": "SUCCEEDED"} for job in answer["jobs"]]


async def _warm_up(connection: asyncpg.Connection) -> None:
    finished: list[dict[str, Any]] = []
    for _ in range(WARM_UP):
        finished = await step(connection, finished, 1)
    await step(connection, finished, 0)


async def _work(connection: asyncpg.Connection, batch: int) -> int:
    done = 0
    finished = await step(connection, [], batch)
    while finished:
        done += len(finished)
        finished = await step(connection, finished, batch)
    return done


def pgbench(bench: Bench, database: str, workers: int, seconds: float, script: Path = STEP) -> float:
    """Transactions per second by one pgbench for each runner: each has a session, as runners do."""
    program = bench.pgbench()
    assert program
    started = []
    for claims in sessions(bench, database, workers):
        command = [str(program), "-n", "-M", "prepared", "-c", "1", "-T", str(max(1, round(seconds)))]
        command += ["-D", "job=0", "-D", "attempt=0", "-f", str(script)]
        started.append(
            subprocess.Popen(
                command,
                env=_environment(bench, database, claims),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    total = 0.0
    for process in started:
        output = process.communicate()[0]
        found = re.search(r"tps = ([0-9.]+)", output)
        if process.returncode:
            raise RuntimeError(f"pgbench: {output}")
        # On a machine that is busy elsewhere one of many may not get a single transaction through.
        total += float(found.group(1)) if found else 0.0
    return total


def _environment(bench: Bench, database: str, claims: str) -> dict[str, str]:
    place = urlsplit(bench.url(database, "authenticator"))
    escaped = claims.replace("\\", "\\\\").replace(" ", "\\ ")
    return dict(os.environ) | {
        "PGHOST": str(place.hostname),
        "PGPORT": str(place.port),
        "PGUSER": "authenticator",
        "PGPASSWORD": bench.secrets.password("authenticator"),
        "PGDATABASE": database,
        "PGOPTIONS": f"-c role=worker -c request.jwt.claims={escaped}",
    }
