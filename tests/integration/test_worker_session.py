"""The session against the real edge function and database, and what an operator can look at."""

import json
import re
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.integration.worker_bench import Bench, bench
from tests.support.ports import free_port
from tests.support.waiting import eventually, wait_until
from worker.api.server import Server
from worker.api.transport import Transport
from worker.clock import Clock
from worker.doorbell import Doorbell
from worker.enums import WorkerStatus
from worker.errors import ExitCode, Fatal, Retryable
from worker.logs.redactor import KnownSecrets
from worker.session.credentials import Credentials
from worker.session.identity import take_identity
from worker.session.session import RunnerSession
from worker.settings.load import load_settings
from worker.settings.model import Settings

__all__ = ["bench"]


def settings_for(bench: Bench, worker: tuple[str, str]) -> Settings:
    return load_settings(environ={"WORKER_ID": worker[0], "WORKER_TOKEN": worker[1], "SUPABASE_URL": bench.project.url})


def session_for(bench: Bench, worker: tuple[str, str], transport: Transport, home: Path) -> RunnerSession:
    settings = settings_for(bench, worker)
    identity = take_identity(worker[0], f"i-{uuid4().hex[:6]}", home)
    return RunnerSession(
        transport, Credentials(settings, transport, KnownSecrets()), identity, {"hostname": "here"}, Clock()
    )


@pytest.mark.anyio
async def test_a_session_is_renewed_without_the_token_and_stays_valid(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register()
    async with Transport(bench.project.url) as transport:
        session = session_for(bench, worker, transport, tmp_path)
        await session.open()
        server = Server(transport, session.renew)
        await session.renew()
        with bench.database() as database:
            query = "select renewed_at > opened_at as is_renewed from private.sessions where id = %s"
            row = database.execute(query, [session.grant.session_id]).fetchone()
        assert row == {"is_renewed": True}
        reply = await server.heartbeat(WorkerStatus.ONLINE, "0.1.0", [], None)
        assert reply.lease_seconds > 0
        # The runner requests a late answer again, with a session that has ended.
        with suppress(Retryable, Fatal):
            await server.close_session("the test is over")
        with pytest.raises(Fatal) as caught:
            await server.heartbeat(WorkerStatus.ONLINE, "0.1.0", [], None)
        assert "the test is over" in caught.value.message


@pytest.mark.anyio
async def test_the_doorbell_wakes_for_work_and_for_directives(bench: Bench, tmp_path: Path) -> None:
    import asyncio

    worker = bench.register()
    events: list[str] = []
    async with Transport(bench.project.url) as transport:
        session = session_for(bench, worker, transport, tmp_path)
        await session.open()
        doorbell = Doorbell(bench.project.url, lambda: session.grant, events.append, Clock())
        listening = asyncio.create_task(doorbell.run())

        async def has(event: str) -> bool:
            return event in events

        await eventually(lambda: has("joined"))
        # Only those who are known to be there are woken.
        await Server(transport, session.renew).heartbeat(WorkerStatus.ONLINE, "0.1.0", [], None)
        module = await asyncio.to_thread(bench.module)
        await asyncio.to_thread(bench.enqueue, "PLAN", module)
        await eventually(lambda: has("wake"))
        await asyncio.to_thread(bench.rpc, "drain_worker", p_worker=worker[0], p_reason="x")
        await eventually(lambda: has("directive"))
        # A renewed token is handed over, and wake-ups still arrive.
        await session.renew()
        events.clear()
        await asyncio.to_thread(bench.rpc, "resume_worker", p_worker=worker[0])
        await eventually(lambda: has("directive"))
        listening.cancel()


def test_another_organisation_than_the_records_is_refused_before_anything_is_claimed(bench: Bench) -> None:
    worker = bench.register()
    job = bench.enqueue("PLAN", bench.module())
    runner = bench.start_worker(worker, WORKER_ORGANIZATION_ID=str(uuid4()))
    assert runner.wait() == ExitCode.REFUSED
    last = [each for each in runner.events() if each["level"] == "critical"][-1]
    assert "another organisation" in last["why"]
    assert "WORKER_ORGANIZATION_ID" in last["hint"]
    assert bench.rows("worker_instances", worker_id=worker[0]) == []
    assert bench.job(job)["status"] == "QUEUED"
    bench.start_worker(worker, WORKER_ORGANIZATION_ID=bench.org)
    assert bench.wait_job(job)["status"] == "SUCCEEDED"


def test_a_runner_combines_settings_from_every_source(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register(capacity=4)
    file, secrets = tmp_path / "settings.json", tmp_path / "secrets"
    file.write_text(json.dumps({"Capacity": 3, "Runner": {"Id": worker[0], "Instance": "from-the-file"}}))
    secrets.mkdir()
    (secrets / "WORKER_TOKEN").write_text(worker[1] + "\n")
    unset = {"WORKER_ID": "", "WORKER_TOKEN": "", "WORKER_INSTANCE": ""}
    options = ("--settings", str(file), "--secrets", str(secrets), "--instance", "from-the-command-line")
    bench.start_worker(worker, *options, **unset)
    bench.online(worker)
    (instance,) = bench.rows("worker_instances", worker_id=worker[0])
    assert (instance["name"], instance["capacity"]) == ("from-the-command-line", 3)


def test_metrics_are_served_when_a_port_is_set(bench: Bench) -> None:
    port = free_port()
    bench.runner(RUNYARD__METRICS__PORT=str(port))
    bench.finished("PLAN", bench.module())

    def ended() -> float:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        found = re.search(r'runyard_runner_jobs_total\{status="SUCCEEDED",type="PLAN"\} (\S+)', text)
        return float(found.group(1)) if found and "runyard_runner_connected 1.0" in text else 0

    wait_until(lambda: ended() == 1)


def test_nothing_of_the_worker_is_on_stdout_but_its_own_log(bench: Bench) -> None:
    runner = bench.runner()
    bench.finished("PLAN", bench.module(hooks={"before_init": "echo this belongs to the job"}))
    assert "this belongs to the job" not in runner.output
    assert bench.tokens[runner.worker_id] not in runner.output
