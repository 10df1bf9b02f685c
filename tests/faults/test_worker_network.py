"""A bad network: errors, slowness, lost replies, partitions, a stopped process, a restarted database."""

import os
import random
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.faults.applying import forget_heartbeats, silence_seconds
from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.faults.worker_proxy import Fault, Proxy
from tests.integration.worker_bench import Bench, WorkerProcess, bench, open_bench, until
from tests.support.extent import sampled
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until

__all__ = ["bench"]

# `make faults` runs more rounds; `make test` runs one.
ROUNDS = int(os.environ.get("RUNYARD_FAULT_ROUNDS", "1"))
LEASE_SECONDS = 60

# A folder for PYTHONPATH: the wall clock of a process that starts with it is off by what a file says.
JUMPING_CLOCK = Path(__file__).parent / "jumping_clock"


@pytest.fixture
def engine(bench: Bench, tmp_path: Path) -> HeldTofu:
    return make_engine(tmp_path / "engine", bench.tofu)


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    with Proxy(bench.project.url) as made:
        yield made


def runner_behind(bench: Bench, proxy: Proxy, engine: HeldTofu, **options: object) -> WorkerProcess:
    worker = bench.register(**options)
    runner = bench.start_worker(worker, url=proxy.url, **engine.variables)
    bench.online(worker)
    return runner


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_bad_network_delays_jobs_and_spoils_none(bench: Bench, proxy: Proxy, engine: HeldTofu, seed: int) -> None:
    rng = random.Random(seed)
    weights = {Fault.PASS: 60, Fault.ERROR: 10, Fault.TOO_MANY: 5, Fault.SLOW: 5, Fault.LOSE_REPLY: 12, Fault.CUT: 8}
    runner_behind(bench, proxy, engine, capacity=2)
    proxy.decide = lambda path: rng.choices(list(weights), list(weights.values()))[0] if "/rpc/" in path else Fault.PASS
    jobs = [bench.enqueue("APPLY", bench.module()) for _ in range(6 * ROUNDS)]
    ended = [bench.wait_job(job, seconds=240 + 60 * ROUNDS) for job in jobs]
    assert {row["status"] for row in ended} == {"SUCCEEDED"}
    assert {row["attempt"] for row in ended} == {1}
    assert proxy.count("/rpc/", Fault.LOSE_REPLY) > 0
    close_ledger(bench, jobs, engine.runs).check()


@pytest.mark.parametrize("way", sampled(["both ways", "answers only"], 1))
def test_a_partition_within_the_lease_is_survived_and_the_log_is_whole(
    bench: Bench, proxy: Proxy, engine: HeldTofu, tmp_path: Path, way: str
) -> None:
    runner = runner_behind(bench, proxy, engine)
    gate = tmp_path / "go"
    hook = f"echo before; {until(gate)}; i=0; while [ $i -lt 500 ]; do echo cut off $i; i=$((i+1)); done"
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": hook}))
    bench.wait_step(job, "before-plan")
    if way == "both ways":
        proxy.cut()
    else:
        proxy.decide = lambda _: Fault.LOSE_REPLY
    gate.touch()
    wait_until(lambda: runner.said("cut_off"), timeout_seconds=180)
    proxy.mend()
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1)
    assert "cut off 499\n" in bench.log_of(job)
    close_ledger(bench, [job], engine.runs).check()


def test_a_replaced_runner_that_returns_can_write_nothing(bench: Bench, engine: HeldTofu, tmp_path: Path) -> None:
    worker = bench.register()
    paths = engine.variables
    first = bench.start_worker(worker, **paths)
    bench.online(worker)
    gate = tmp_path / "go"
    hook = f"echo attempt $RUNYARD_JOB_ATTEMPT waits; [ $RUNYARD_JOB_ATTEMPT -gt 1 ] || {until(gate)}"
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": hook}))
    bench.wait_step(job, "before-plan")
    first.signal(signal.SIGSTOP)
    other = bench.register()
    bench.start_worker(other, **paths)
    forget_heartbeats(bench, worker[0])
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("SUCCEEDED", 2, other[0])
    serial = bench.rpc("state_info", p_module=ended["module_id"])["serial"]
    gate.touch()
    first.signal(signal.SIGCONT)
    wait_until(lambda: first.said("job_ended"), timeout_seconds=180)
    assert bench.job(job)["status"] == "SUCCEEDED"
    assert bench.rpc("state_info", p_module=ended["module_id"])["serial"] == serial
    assert not engine.has_begun("apply", job, attempt=1)
    close_ledger(bench, [job], engine.runs).check()
    assert bench.finished("PLAN", bench.module())["status"] == "SUCCEEDED"


def test_a_half_open_doorbell_costs_no_more_than_a_poll(bench: Bench, proxy: Proxy, engine: HeldTofu) -> None:
    runner = runner_behind(bench, proxy, engine)
    wait_until(lambda: runner.said("doorbell_connected"))
    proxy.half_open()
    job = bench.finished("PLAN", bench.module())
    close_ledger(bench, [job["id"]], engine.runs).check()


@pytest.mark.slow
def test_a_half_open_doorbell_is_noticed_and_reconnected(bench: Bench, proxy: Proxy, engine: HeldTofu) -> None:
    runner = runner_behind(bench, proxy, engine)
    wait_until(lambda: runner.said("doorbell_connected"))
    proxy.half_open()
    wait_until(lambda: runner.said("doorbell_gone"), timeout_seconds=180)
    proxy.mend()
    wait_until(lambda: sum(each.get("id") == "doorbell_connected" for each in runner.events()) == 2)


def test_a_wall_clock_that_jumps_changes_nothing(bench: Bench, engine: HeldTofu, tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    worker = bench.register()
    runner = bench.start_worker(
        worker, PYTHONPATH=str(JUMPING_CLOCK), JUMPING_CLOCK=str(offset),
        **engine.variables,
    )  # fmt: skip
    jobs = []
    for days in (400, -400):
        engine.hold("plan")
        jobs.append(bench.enqueue("APPLY", bench.module()))
        wait_until(lambda: engine.has_begun("plan", jobs[-1]))
        offset.write_text(str(days * 86400))
        # One heartbeat of the new time at least: it renews the lease, or it would be lost here.
        seen = last_seen(bench, worker[0])
        wait_until(lambda seen=seen: last_seen(bench, worker[0]) > seen)
        engine.release("plan")
        assert bench.wait_job(jobs[-1])["status"] == "SUCCEEDED"
    assert {bench.job(job)["attempt"] for job in jobs} == {1}
    years = {each["timestamp"][:4] for each in runner.events()}
    assert len(years) > 1, "the clock did not jump"
    close_ledger(bench, jobs, engine.runs).check()


def last_seen(bench: Bench, worker: str) -> datetime:
    with bench.database() as database:
        row = database.execute("select last_seen_at from private.heartbeats where worker_id = %s", [worker]).fetchone()
        assert row
        return datetime.fromisoformat(str(row["last_seen_at"]))


@pytest.mark.slow
def test_a_runner_that_cannot_renew_interrupts_its_engine_before_the_lease_ends(
    bench: Bench, proxy: Proxy, engine: HeldTofu
) -> None:
    runner = runner_behind(bench, proxy, engine)
    engine.hold("plan")
    job = bench.enqueue("PLAN", bench.module())
    wait_until(lambda: engine.has_begun("plan", job))
    proxy.cut()
    wait_until(lambda: runner.said("lease_lost"), timeout_seconds=180)
    engine.release("plan")
    proxy.mend()
    ended = bench.wait_job(job, seconds=240)
    assert ended["status"] in {"SUCCEEDED", "FAILED"}
    close_ledger(bench, [job], engine.runs).check()


@pytest.mark.slow
def test_a_job_succeeds_after_its_runner_was_stopped_for_two_leases(bench: Bench, engine: HeldTofu) -> None:
    worker = bench.register()
    runner = bench.start_worker(worker, **engine.variables)
    engine.hold("plan")
    job = bench.enqueue("PLAN", bench.module())
    wait_until(lambda: engine.has_begun("plan", job))
    runner.signal(signal.SIGSTOP)
    wait_until(lambda: silence_seconds(bench, worker[0]) > 2 * LEASE_SECONDS, timeout_seconds=240, every_seconds=1)
    engine.release("plan")
    runner.signal(signal.SIGCONT)
    assert bench.wait_job(job, seconds=240)["status"] == "SUCCEEDED"
    close_ledger(bench, [job], engine.runs).check()


@pytest.mark.slow
def test_a_restarted_database_and_a_killed_gateway_cost_time_only(fresh_stack: RunningStack, tmp_path: Path) -> None:
    with open_bench(fresh_stack, tmp_path) as bench:
        engine = make_engine(tmp_path / "engine", bench.tofu)
        bench.runner(**engine.variables)
        gate = tmp_path / "go"
        jobs = [bench.enqueue("APPLY", bench.module(hooks={"before_plan": until(gate)})) for _ in range(2)]
        bench.wait_step(jobs[0], "before-plan")
        with bench.database() as database:
            database.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = 'authenticator'"
            )
        killed = {name: fresh_stack.part_pid(name) for name in ("postgres", "gateway")}
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)
        gate.touch()
        for name, pid in killed.items():
            fresh_stack.wait_replaced(name, pid)
        for job in jobs:
            assert bench.wait_job(job)["status"] == "SUCCEEDED"
        close_ledger(bench, jobs, engine.runs).check()
