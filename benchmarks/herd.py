"""The cost of one job where thousands of live runners wait for it: claims, messages, and the time until its first step.

The runners are scripted: each has a session, a websocket on its own topic, and claims as a runner does (when it is woken,
and when it has finished). Nothing ends before its time: the part of the idle measures heartbeats and polls at a runner's
pace. Takes about two minutes, with `--full` (5,000 runners) about five.
"""

import asyncio
import json
import os
import platform
import tempfile
import time
import uuid
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import uvloop

from benchmarks.outcome import Outcome
from benchmarks.processes import cpu_seconds, family
from tests.contract.realtime.server import sign
from tests.contract.realtime.wire import Wire, open_wire
from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import RunningStack, start_stack
from tests.support.waiting import eventually
from worker.loops.claim import RUNG_POLL_SECONDS
from worker.loops.heartbeat import HEARTBEAT_SECONDS

RUNNERS = 5000 if os.environ.get("RUNYARD_BENCH_FULL") else 1000
JOBS = 150
JOBS_PER_SECOND = 5
IDLE_SECONDS = 15.0
# The join of a private topic asks the database: so many at a time.
JOINS = 10
AIMS = {"claims_per_job": 3, "messages_per_job": 5, "first_step_p99_ms": 100, "idle_cores": 0.3}
FLEET = """
  with made as (
    insert into public.workers (org_id, name, is_assigned_to_all_modules, status, never_contacted)
    select $1, 'herd-' || n, true, 'ONLINE', false from generate_series(1, $2::integer) as n returning id, org_id
  ), process as (
    insert into public.worker_instances (worker_id, org_id, name, status, capacity, version, engines)
    select m.id, m.org_id, 'one', 'ONLINE', 1, '1.0.0', '{"tofu": "1.12.6"}' from made as m returning id, worker_id
  ), session as (
    insert into private.sessions (worker_id, instance_id, epoch, boot_id)
    select p.worker_id, p.id, 0, gen_random_uuid() from process as p returning id, worker_id, instance_id
  ), beating as (
    insert into private.heartbeats (instance_id, session_id, worker_id, last_seen_at, tick_at)
    select s.instance_id, s.id, s.worker_id, now() + interval '1 hour', date_bin('15 minutes', now(), '2000-01-01')
    from session as s
  )
  select s.id::text as session, s.worker_id::text as worker, s.instance_id::text as instance from session as s
"""


class Herd:
    """The runners, and what they have counted."""

    def __init__(self, stack: RunningStack, http: httpx.AsyncClient) -> None:
        """No runner is connected yet."""
        self._stack = stack
        self._http = http
        self._turn = asyncio.Semaphore(JOINS)
        self.listening = self.messages = self.claims = 0
        self.begun: dict[int, float] = {}
        self.ended = 0

    async def is_listening(self) -> bool:
        """Whether all of them do."""
        return self.listening == RUNNERS

    async def has_ended(self) -> bool:
        """Whether all jobs have."""
        return self.ended >= JOBS

    async def live(self, runner: asyncpg.Record) -> None:
        """Listen on the runner's topic for ever."""
        origin = {"iss": self._stack.settings.auth_issuer, "aud": "authenticated", "exp": int(time.time()) + 7200}
        token = sign(
            self._stack.secrets, {**origin, "role": "worker", "sub": runner["worker"], "sid": runner["session"]}
        )
        async with self._turn:
            opening = open_wire(self._stack.url, self._stack.publishable_key)
            wire = await opening.__aenter__()
            reply = await wire.join(f"worker:{runner['worker']}", {"private": True}, access_token=token)
        if reply.payload["status"] != "ok":
            raise RuntimeError(f"a runner may not listen: {reply.payload}")
        self.listening += 1
        await self._listen(wire, runner["instance"], token)

    async def _listen(self, wire: Wire, instance: str, token: str) -> None:
        while True:
            try:
                async with asyncio.timeout(25):
                    data = str(await wire.connection.recv())
            except TimeoutError:
                await wire.send("phoenix", "heartbeat", {})
                continue
            if '"broadcast"' in data:
                self.messages += 1
                if instance in data:
                    await self._work(token)

    async def _work(self, token: str) -> None:
        """Claim, and claim again after each job, until there is none."""
        while True:
            self.claims += 1
            reply = await self._call(token, "worker_claim", p_request_id=str(uuid.uuid4()), p_slots=1)
            at = time.time()
            if not reply["jobs"]:
                return
            job = reply["jobs"][0]
            self.begun[job["id"]] = at
            ended = {"p_status": "SUCCEEDED", "p_plan_summary": {"has_changes": False}}
            await self._call(token, "worker_finish", p_job=job["id"], p_attempt=job["attempt"], **ended)
            self.ended += 1

    async def _call(self, token: str, name: str, **arguments: Any) -> Any:
        headers = {"apikey": self._stack.publishable_key, "authorization": f"Bearer {token}"}
        reply = await self._http.post(f"{self._stack.url}/rest/v1/rpc/{name}", json=arguments, headers=headers)
        reply.raise_for_status()
        return reply.json()


async def run_jobs(bench: Bench, herd: Herd) -> dict[str, Any]:
    """One job after the other at a steady pace; the rings, the claims, and when each began."""
    modules = [await asyncio.to_thread(bench.module) for _ in range(20)]
    herd.messages = herd.claims = 0
    made: dict[int, float] = {}
    started = time.perf_counter()
    for number in range(JOBS):
        await asyncio.sleep(max(0.0, started + number / JOBS_PER_SECOND - time.perf_counter()))
        arguments = {"p_org": bench.org, "p_type": "PLAN", "p_module": modules[number % 20], "p_options": {}}
        job = await asyncio.to_thread(bench.rpc, "enqueue_job", **arguments)
        made[job["id"]] = datetime.fromisoformat(job["created_at"]).timestamp()
    await eventually(herd.has_ended, 120)
    waits = sorted((herd.begun[job] - at) * 1000 for job, at in made.items())
    return {
        "claims_per_job": round(herd.claims / JOBS, 2),
        "messages_per_job": round(herd.messages / JOBS, 2),
        "first_step_p50_ms": round(waits[JOBS // 2], 1),
        "first_step_p99_ms": round(waits[JOBS * 99 // 100], 1),
    }


async def idle(stack: RunningStack, sessions: Iterable[str]) -> dict[str, Any]:
    """PostgreSQL's share of a core for the heartbeats and polls of everybody, at a runner's pace, on one connection."""
    claims = [json.dumps({"role": "worker", "sid": session}) for session in sessions]
    url = stack.settings.database_url("authenticator", stack.secrets.password("authenticator"))
    connection = await asyncpg.connect(url, server_settings={"role": "worker"})
    beats = round(len(claims) / (HEARTBEAT_SECONDS * 5 / 6) * IDLE_SECONDS)
    every = round(RUNG_POLL_SECONDS / (HEARTBEAT_SECONDS * 5 / 6))
    pid = stack.part_pid("postgres")
    before, started = cpu_seconds(family(pid)), time.perf_counter()
    for number in range(beats):
        await asyncio.sleep(max(0.0, started + number / beats * IDLE_SECONDS - time.perf_counter()))
        await connection.execute("select set_config('request.jwt.claims', $1, false)", claims[number % len(claims)])
        await connection.execute("select public.worker_heartbeat('ONLINE', '1.0.0', '[]', null)")
        if number % every == 0:
            await connection.execute("select public.worker_claim(gen_random_uuid(), 1)")
    seconds = time.perf_counter() - started
    spent = cpu_seconds(family(pid)) - before
    await connection.close()
    return {"idle_cores": round(spent / beats * len(claims) / (HEARTBEAT_SECONDS * 5 / 6), 3), "idle_pace": round(
        IDLE_SECONDS / seconds, 2)}  # fmt: skip


async def measure(stack: RunningStack, bench: Bench) -> dict[str, Any]:
    """Everybody listens; then jobs come; then nothing happens."""
    database = await asyncpg.connect(stack.db_url)
    fleet = await database.fetch(FLEET, uuid.UUID(bench.org), RUNNERS)
    await database.execute("analyze public.workers, public.worker_instances, private.heartbeats, private.sessions")
    await database.close()
    async with httpx.AsyncClient(timeout=60) as http:
        herd = Herd(stack, http)
        living = [asyncio.create_task(herd.live(runner)) for runner in fleet]
        began = time.perf_counter()
        await eventually(herd.is_listening, 400)
        print(f"{RUNNERS:,} runners listen after {time.perf_counter() - began:.0f} s", flush=True)
        found = {"runners": RUNNERS, **await run_jobs(bench, herd)}
        found |= await idle(stack, [runner["session"] for runner in fleet])
        for task in living:
            task.cancel()
        await asyncio.gather(*living, return_exceptions=True)
    return found


def show(found: dict[str, Any]) -> None:
    """Print each figure beside its aim."""
    print(f"{found['runners']:,} idle live runners, load {os.getloadavg()[0]:.1f}")
    for name, most in AIMS.items():
        print(f"  {name.replace('_', ' '):<22}{found[name]:>10} (aim ≤ {most}){'' if found[name] <= most else ' ✗'}")


def main() -> None:
    """Measure, show, keep."""
    outcome = Outcome("herd")
    outcome.parts |= {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as name, outcome.part("the stack"):
        folder = Path(name)
        (folder / "stack").mkdir()
        with start_stack(folder / "stack", "--no-dashboard", "--no-demo") as stack, open_bench(stack, folder) as bench:
            found = uvloop.run(measure(stack, bench))
            outcome.parts["herd"] = found
            show(found)
            for figure in ("claims_per_job", "messages_per_job"):
                outcome.ratio(figure.replace("_", " "), found[figure], is_less_better=True)
    outcome.keep()


if __name__ == "__main__":
    main()
