"""A token that is rotated or revoked in the middle of a job."""

import secrets
from pathlib import Path

import bcrypt
import pytest

from tests.faults.applying import forget_heartbeats
from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.waiting import wait_until
from worker.errors import ExitCode

__all__ = ["bench"]


@pytest.fixture
def engine(bench: Bench, tmp_path: Path) -> HeldTofu:
    return make_engine(tmp_path / "engine", bench.tofu)


def start(bench: Bench, engine: HeldTofu, worker: tuple[str, str]) -> WorkerProcess:
    return bench.start_worker(worker, **engine.variables)


def rotate(bench: Bench, worker: str) -> str:
    """Give the runner a new token; the old one and the session that it opened are valid for another hour."""
    token = f"ryw_{secrets.token_hex(20)}"
    hashed = bcrypt.hashpw(token.encode(), bcrypt.gensalt(8)).decode()
    bench.rpc(
        "rotate_worker_token", p_worker=worker, p_token_hash=hashed, p_token_hint=token[-4:], p_overlap_seconds=3600
    )
    return token


def revoke(bench: Bench, worker: tuple[str, str]) -> None:
    tokens = bench.rpc("list_worker_tokens", p_worker=worker[0])
    (token,) = [each["id"] for each in tokens if worker[1].endswith(each["hint"])]
    bench.rpc("revoke_worker_token", p_token=token)


def test_a_token_rotated_in_the_middle_of_a_job_disturbs_nobody(bench: Bench, engine: HeldTofu) -> None:
    worker = bench.register()
    engine.hold("plan")
    runner = start(bench, engine, worker)
    job = bench.enqueue("APPLY", bench.module())
    wait_until(lambda: engine.has_begun("plan", job))
    token = rotate(bench, worker[0])
    engine.release("plan")
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1)
    # The session continues and takes more work; only a new one needs the new token.
    more = bench.finished("PLAN", bench.module())["id"]
    runner.stop()
    revoke(bench, worker)
    assert start(bench, engine, worker).wait() == ExitCode.REFUSED
    start(bench, engine, (worker[0], token))
    last = bench.finished("PLAN", bench.module())["id"]
    close_ledger(bench, [job, more, last], engine.runs).check()


def test_a_token_revoked_in_the_middle_of_a_plan_stops_the_runner_and_another_finishes_the_job(
    bench: Bench, engine: HeldTofu
) -> None:
    worker, other = bench.register(), bench.register()
    engine.hold("plan")
    runner = start(bench, engine, worker)
    job = bench.enqueue("APPLY", bench.module())
    wait_until(lambda: engine.has_begun("plan", job))
    revoke(bench, worker)
    assert runner.wait() == ExitCode.SESSION_ENDED
    assert [each for each in runner.events() if each["level"] == "critical" and "revoked" in each["why"]]
    assert list(runner.home.glob(".temp/job-*")) == []
    engine.release("plan")
    forget_heartbeats(bench, worker[0])
    start(bench, engine, other)
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("SUCCEEDED", 2, other[0])
    close_ledger(bench, [job], engine.runs).check()


def test_a_token_revoked_in_the_middle_of_an_apply_leaves_the_decision_to_a_person(
    bench: Bench, engine: HeldTofu
) -> None:
    worker, other = bench.register(), bench.register()
    engine.hold("apply")
    runner = start(bench, engine, worker)
    job = bench.enqueue("APPLY", bench.module())
    wait_until(lambda: engine.has_begun("apply", job))
    revoke(bench, worker)
    assert runner.wait() == ExitCode.SESSION_ENDED
    engine.release("apply")
    forget_heartbeats(bench, worker[0])
    start(bench, engine, other)
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("NEEDS_ATTENTION", 1)
    close_ledger(bench, [job], engine.runs).check()
