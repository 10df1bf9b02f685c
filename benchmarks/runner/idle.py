"""Measures the cost of a runner that waits for work, alone and with two hundred others on the same machine."""

import asyncio
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Self

import bcrypt
import httpx

from benchmarks.processes import cpu_seconds, family, memory_mib
from benchmarks.start import memory
from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until
from worker.api.replies import HeartbeatReply
from worker.api.server import Server
from worker.api.transport import Transport
from worker.clock import Clock
from worker.logs.redactor import KnownSecrets
from worker.loops.claim import ClaimLoop
from worker.loops.heartbeat import Heartbeat
from worker.process_status import ProcessStatus
from worker.running.table import JobTable
from worker.session.credentials import Credentials
from worker.session.identity import RunnerIdentity
from worker.session.session import RunnerSession
from worker.settings.load import load_settings

OTHERS = 200
WATCH_SECONDS = 15.0
SETTLE_SECONDS = 3.0
TOKEN = "ryw_" + "0" * 43
REGISTER = """
  with made as (
    insert into public.workers (org_id, name, is_assigned_to_all_modules)
    select %s, 'simulated-' || n, true from generate_series(1, %s) as n returning id
  ), hashed as (
    insert into private.worker_tokens (worker_id, hash, hint)
    select id, %s, '0000' from made cross join generate_series(1, 2) returning worker_id
  )
  select distinct worker_id from hashed
"""
PARTS = ("postgres", "gateway", "functions")


def measure(stack: RunningStack, folder: Path) -> dict[str, Any]:
    """Watch one real runner, then the same one among simulated others."""
    with open_bench(stack, folder) as bench:
        runner = bench.runner()
        time.sleep(SETTLE_SECONDS)
        alone = watch(stack, runner.process.pid)
        with Others(bench) as others:
            time.sleep(SETTLE_SECONDS)
            answered = others.answered
            among = watch(stack, runner.process.pid)
            among["answers_per_second"] = round((others.answered - answered) / WATCH_SECONDS, 1)
    return {"others": OTHERS, "alone": alone, "among": among}


def watch(stack: RunningStack, pid: int) -> dict[str, Any]:
    """Memory now, and CPU in per cent of one core over a while, of the runner and of each part of the stack."""
    processes = {"runner": pid, **{name: stack.part_pid(name) for name in PARTS}}
    before = {name: cpu_seconds(family(each)) for name, each in processes.items()}
    time.sleep(WATCH_SECONDS)
    spent = {name: cpu_seconds(family(each)) - before[name] for name, each in processes.items()}
    held = memory(stack)
    return {
        "cpu_percent": {name: round(seconds / WATCH_SECONDS * 100, 2) for name, seconds in spent.items()},
        "memory_mib": {"runner": memory_mib(family(pid)[:1]), **{name: held[name] for name in PARTS}},
    }


class Others:
    """Runners without a process of their own: real sessions whose real loops send heartbeats and poll on one event loop."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._live = 0
        self.answered = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._tasks = asyncio.run_coroutine_threadsafe(self._start(self._register()), self._loop).result()
        wait_until(self._are_live, timeout_seconds=300)
        return self

    def _are_live(self) -> bool:
        """Whether all have a session; the error of one that failed is raised at once."""
        for task in self._tasks:
            if task.done():
                task.result()
        return self._live == OTHERS

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            self._loop.call_soon_threadsafe(task.cancel)
        gathered = asyncio.run_coroutine_threadsafe(_ended(self._tasks), self._loop)
        gathered.result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _register(self) -> list[str]:
        """Runners with two cheap hashes each: without a second one the edge function burns the time of an expensive one."""
        hashed = bcrypt.hashpw(TOKEN.encode(), bcrypt.gensalt(8)).decode()
        with self._bench.database() as database:
            rows = database.execute(REGISTER, [self._bench.org, OTHERS, hashed]).fetchall()
        return [str(row["worker_id"]) for row in rows]

    async def _start(self, workers: list[str]) -> list["asyncio.Task[None]"]:
        http = httpx.AsyncClient(timeout=30)
        # A few at a time: two hundred at once would only wait for each other.
        turn = asyncio.Semaphore(8)
        return [asyncio.create_task(self._live_one(worker, http, turn)) for worker in workers]

    async def _live_one(self, worker: str, http: httpx.AsyncClient, turn: asyncio.Semaphore) -> None:
        clock, process_status, url = Clock(), ProcessStatus(), self._bench.project.url
        transport = Transport(url, http=http)
        names = {"WORKER_ID": worker, "WORKER_TOKEN": TOKEN, "SUPABASE_URL": url}
        identity = RunnerIdentity(worker, "simulated", str(uuid.uuid4()), Path("/nonexistent"))
        credentials = Credentials(load_settings(environ=names), transport, KnownSecrets())
        session = RunnerSession(transport, credentials, identity, {"hostname": "simulated"}, clock)
        async with turn:
            await session.open()
        server, table = Server(transport, session.renew), JobTable(clock)
        heartbeat = Heartbeat(server, table, process_status, dict, self._count, clock)
        claim = ClaimLoop(server, table, process_status, lambda: True, lambda *_: None, clock, poll_seconds=10)
        self._live += 1
        async with asyncio.TaskGroup() as loops:
            for loop in (session.keep_fresh(), heartbeat.run(), claim.run()):
                loops.create_task(loop)

    def _count(self, _: HeartbeatReply) -> None:
        self.answered += 1


async def _ended(tasks: list["asyncio.Task[None]"]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    names = ("runner", *PARTS)
    print(f"\n{'idle, % of a core and MiB':<28}" + "".join(f"{name:>16}" for name in names))
    for label, found in (("one runner", result["alone"]), (f"and {result['others']} others", result["among"])):
        cells = (f"{found['cpu_percent'][name]:.1f} % {found['memory_mib'][name]:>4} MiB" for name in names)
        print(f"{label:<28}" + "".join(f"{cell:>16}" for cell in cells))
    print(f"{result['among']['answers_per_second']} heartbeats a second were answered", flush=True)
