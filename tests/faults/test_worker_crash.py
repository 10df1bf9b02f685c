"""kill -9 at each phase: nothing lost, nothing applied twice, and an apply is never silently run again."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.faults.worker_proxy import Fault, Proxy
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.extent import sampled
from tests.support.waiting import wait_until

__all__ = ["bench"]


@pytest.fixture
def engine(bench: Bench, tmp_path: Path) -> HeldTofu:
    return make_engine(tmp_path / "engine", bench.tofu)


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    with Proxy(bench.project.url) as made:
        yield made


def start(
    bench: Bench, engine: HeldTofu, worker: tuple[str, str], like: WorkerProcess | None = None, url: str = ""
) -> WorkerProcess:
    """Start a runner with the counting engine; `like` names the dead process whose home it takes over."""
    place = {"instance": like.instance, "home": like.home} if like else {}
    return bench.start_worker(worker, url=url, **engine.variables, **place)  # type: ignore[arg-type]


def kill(runner: WorkerProcess) -> None:
    runner.signal(signal.SIGKILL)
    runner.wait()


@pytest.mark.slow
@pytest.mark.parametrize("phase", sampled(["init", "plan", "show"], 1))
def test_killed_before_infrastructure_changed_the_job_runs_again(bench: Bench, engine: HeldTofu, phase: str) -> None:
    worker = bench.register()
    engine.hold(phase)
    runner = start(bench, engine, worker)
    job = bench.enqueue("APPLY", bench.module())
    wait_until(lambda: engine.has_begun(phase, job), timeout_seconds=180)
    kill(runner)
    engine.release(phase)
    start(bench, engine, worker, like=runner)
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2)
    assert "lost" in [event["event"] for event in bench.events_of(job)]
    assert "ended in the middle of the job" in bench.log_of(job)
    assert list(runner.home.glob(".temp/job-*")) == []
    close_ledger(bench, [job], engine.runs).check()


def test_killed_in_an_apply_a_person_has_to_decide(bench: Bench, engine: HeldTofu) -> None:
    worker = bench.register()
    engine.hold("apply")
    runner = start(bench, engine, worker)
    module = bench.module()
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: engine.has_begun("apply", job), timeout_seconds=180)
    kill(runner)
    engine.release("apply")
    start(bench, engine, worker, like=runner)
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("NEEDS_ATTENTION", 1)
    waiting = bench.enqueue("PLAN", module)
    other = bench.finished("PLAN", bench.module())["id"]
    assert bench.job(waiting)["status"] == "QUEUED"
    close_ledger(bench, [job, waiting, other], engine.runs).check()


def test_killed_between_finish_and_its_reply_the_job_ended_once(bench: Bench, engine: HeldTofu, proxy: Proxy) -> None:
    worker = bench.register()
    proxy.decide = lambda path: Fault.LOSE_REPLY if path.endswith("worker_finish") else Fault.PASS
    runner = start(bench, engine, worker, url=proxy.url)
    job = bench.enqueue("APPLY", bench.module())
    bench.wait_job(job, "SUCCEEDED")
    kill(runner)
    proxy.mend()
    again = start(bench, engine, worker, like=runner, url=proxy.url)
    wait_until(lambda: again.said("end_reported"), timeout_seconds=180)
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"], ended["late_report"]) == ("SUCCEEDED", 1, None)
    close_ledger(bench, [job], engine.runs).check()


def test_the_next_start_reports_an_end_that_a_killed_process_could_not(
    bench: Bench, engine: HeldTofu, proxy: Proxy
) -> None:
    worker = bench.register()
    proxy.decide = lambda path: Fault.CUT if path.endswith("worker_finish") else Fault.PASS
    runner = start(bench, engine, worker, url=proxy.url)
    job = bench.enqueue("APPLY", bench.module())
    wait_until(lambda: proxy.count("worker_finish") >= 1, timeout_seconds=180)
    assert bench.job(job)["status"] == "PROCESSING"
    kill(runner)
    proxy.mend()
    start(bench, engine, worker, like=runner, url=proxy.url)
    # Not the first end: a start that takes longer than the lease finds a job that waits for a person, and ends it.
    ended = bench.wait_job(job, "SUCCEEDED", "FAILED")
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1)
    assert ended["result"]["outputs"]["greeting"]["value"] == "hello world"
    close_ledger(bench, [job], engine.runs).check()


@pytest.mark.slow
def test_killed_before_the_claims_reply_the_job_is_not_stranded(bench: Bench, engine: HeldTofu, proxy: Proxy) -> None:
    worker = bench.register()
    proxy.decide = lambda path: Fault.LOSE_REPLY if path.endswith("worker_claim") else Fault.PASS
    runner = start(bench, engine, worker, url=proxy.url)
    job = bench.enqueue("PLAN", bench.module())
    bench.wait_job(job, "CLAIMED")
    kill(runner)
    proxy.mend()
    start(bench, engine, worker, like=runner, url=proxy.url)
    ended = bench.wait_job(job)
    assert ended["status"] == "SUCCEEDED"
    close_ledger(bench, [job], engine.runs).check()


def test_a_claim_whose_reply_was_lost_is_repeated_with_the_same_id(
    bench: Bench, engine: HeldTofu, proxy: Proxy
) -> None:
    worker = bench.register()
    lost: list[str] = []

    def decide(path: str) -> Fault:
        if path.endswith("worker_claim") and bench.job(job)["status"] == "QUEUED" and not lost:
            lost.append(path)
            return Fault.LOSE_REPLY
        return Fault.PASS

    job = bench.enqueue("PLAN", bench.module())
    proxy.decide = decide
    start(bench, engine, worker, url=proxy.url)
    ended = bench.wait_job(job)
    assert lost
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1)
    close_ledger(bench, [job], engine.runs).check()
