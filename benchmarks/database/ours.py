"""Runyard's own functions, called as runners call them: as the role `worker`, with a session's claims."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import uuid
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from benchmarks.database.figures import WARM_UP, Meter
from benchmarks.database.server import Bench

STEP = Path(__file__).parent / "sql" / "step.sql"
CLAIM = "select public.worker_claim($1::uuid, $2)::text"
FINISH = "select public.worker_finish($1, $2, 'SUCCEEDED', p_plan_summary => '{\"has_changes\": false}', p_log => $3)"
# The log that crowd.sql stores for each job, as its runner announces it.
LOG = json.dumps({"last_seq": 1, "bytes": 11, "sha256": hashlib.sha256(b"No changes.").hexdigest()})
TIDY = "vacuum analyze private.live_jobs, public.provision_jobs, public.job_events"


def sessions(bench: Bench, database: str, count: int) -> list[str]:
    """The claims of so many runners."""
    with bench.connect(database) as connection:
        rows = connection.execute(
            "select s.id::text, s.worker_id::text from private.sessions as s order by s.id limit %s", [count]
        )
        return [json.dumps({"role": "worker", "sid": sid, "sub": worker}) for sid, worker in rows]


def fill(bench: Bench, database: str, count: int, *, priority: int = 100) -> None:
    """Jobs that are ready; tables and statistics as autovacuum would have them, so that it does not come in between."""
    with bench.connect(database) as connection:
        connection.execute("select bench.add_ready(%s, %s::smallint, null)", [count, priority])
        connection.execute(TIDY)


def settings(bench: Bench, database: str) -> dict[str, str]:
    """Return the settings of REST for a request of a runner: its role, and the settings of that role."""
    with bench.connect(database) as connection:
        rows = connection.execute(
            "select split_part(s, '=', 1), split_part(s, '=', 2) from pg_db_role_setting as d, unnest(d.setconfig) as s"
            " where d.setrole = 'worker'::regrole"
        )
        return {"role": "worker"} | dict(rows.fetchall())


async def connect(bench: Bench, database: str, claims: str) -> asyncpg.Connection:
    """A runner's connection, in the way REST would set it up."""
    wanted = settings(bench, database) | {"request.jwt.claims": claims}
    return await asyncpg.connect(bench.url(database, "authenticator"), server_settings=wanted)


async def drain(
    bench: Bench, database: str, runners: int, slots: int, meter: Meter, *, lines: int = 1, log: str | None = LOG
) -> int:
    """Claim and finish everything with so many runners, each of which has so many connections that have worked before."""
    fleet = [
        [await connect(bench, database, claims) for _ in range(lines)] for claims in sessions(bench, database, runners)
    ]
    for connection in chain(*fleet):
        await _warm_up(connection)
    with meter:
        done = await asyncio.gather(*(_work(connections, slots, log) for connections in fleet))
    for connection in chain(*fleet):
        await connection.close()
    return sum(done)


async def claim(connection: asyncpg.Connection, slots: int) -> list[dict[str, Any]]:
    """Claim up to so many jobs."""
    jobs: list[dict[str, Any]] = json.loads(await connection.fetchval(CLAIM, uuid.uuid4(), slots))["jobs"]
    return jobs


async def finish(connection: asyncpg.Connection, jobs: list[dict[str, Any]], log: str | None = LOG) -> None:
    """Finish them one by one, and announce the log of each."""
    for job in jobs:
        await connection.execute(FINISH, job["id"], job["attempt"], log)


async def _warm_up(connection: asyncpg.Connection) -> None:
    for _ in range(WARM_UP):
        await finish(connection, await claim(connection, 1))


async def _work(connections: list[asyncpg.Connection], slots: int, log: str | None) -> int:
    """Jobs end at the same time on as many connections as there are, like the tasks of a runner."""
    done = 0
    while jobs := await claim(connections[0], slots):
        await asyncio.gather(*(finish(line, jobs[n :: len(connections)], log) for n, line in enumerate(connections)))
        done += len(jobs)
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
    wanted = settings(bench, database) | {"request.jwt.claims": escaped}
    return dict(os.environ) | {
        "PGHOST": str(place.hostname),
        "PGPORT": str(place.port),
        "PGUSER": "authenticator",
        "PGPASSWORD": bench.secrets.password("authenticator"),
        "PGDATABASE": database,
        "PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in wanted.items()),
    }
