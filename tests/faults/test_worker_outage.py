"""The project is away in the middle of an apply: the engine continues, and nothing that it did is lost."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.applying import Apply, pass_seconds
from tests.faults.ledger import close_ledger
from tests.faults.seen import watched
from tests.faults.worker_engine import make_engine
from tests.faults.worker_proxy import Fault, Proxy
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]


@pytest.fixture
def apply(bench: Bench, tmp_path: Path) -> Iterator[Apply]:
    with Proxy(bench.project.url) as proxy:
        yield Apply(bench, proxy, make_engine(tmp_path / "engine", bench.tofu))


def test_an_apply_that_finishes_during_an_outage_succeeds_once_reported(apply: Apply) -> None:
    apply.cut()
    held = apply.bench.wait_job(apply.job, "NEEDS_ATTENTION")
    assert held["error"]["code"] == "OUT_OF_CONTACT"
    apply.end()
    apply.wait_ended_away()
    assert apply.bench.rpc("state_info", p_module=apply.module)["serial"] is None
    apply.proxy.mend()
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED"))
    assert "resumed" in [event["event"] for event in apply.bench.events_of(apply.job)]


def test_the_next_start_reports_the_apply_of_a_runner_killed_while_the_project_was_away(apply: Apply) -> None:
    apply.cut()
    apply.end()
    apply.wait_ended_away()
    apply.runner.signal(signal.SIGKILL)
    apply.runner.wait()
    apply.proxy.mend()
    apply.start_again()
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED"))


def test_the_state_and_the_log_of_a_released_apply_are_kept_for_a_person(apply: Apply) -> None:
    apply.cut()
    bench, lock = apply.bench, apply.bench.rpc("state_info", p_module=apply.module)["lock"]["id"]
    bench.wait_job(apply.job, "NEEDS_ATTENTION")
    bench.rpc("resolve_attention", p_job=apply.job, p_action="mark_failed", p_proof=lock)
    apply.end()
    apply.wait_ended_away()
    apply.proxy.mend()
    kept = wait_until(lambda: bench.rpc("kept_states", p_job=apply.job), timeout_seconds=180)
    text = bench.rpc("kept_state", p_id=kept[0]["id"])["body"]
    assert [each["type"] for each in json.loads(text)["resources"]] == ["terraform_data"]
    assert bench.job(apply.job)["status"] == "FAILED"
    # The one who decides about it reads what the attempt did until its end.
    wait_until(lambda: "Apply complete! Resources: 1 added" in bench.log_of(apply.job), timeout_seconds=180)
    printed = (apply.engine.book / "printed").read_text().splitlines()
    assert [line for line in printed if line not in bench.log_of(apply.job)] == []
    bench.rpc("store_kept_state", p_id=kept[0]["id"])
    assert bench.finished("PLAN", apply.module)["plan_summary"]["has_changes"] is False


def engine_of(runner: WorkerProcess) -> psutil.Process:
    """The engine itself, inside of whatever isolates it."""
    found = psutil.Process(runner.process.pid).children(recursive=True)
    return next(each for each in found if is_applying(each))


def is_applying(process: psutil.Process) -> bool:
    try:
        return Path(process.exe()).name == "tofu" and "apply" in process.cmdline()
    except psutil.NoSuchProcess:
        return False  # what an apply starts comes and goes


def test_a_killed_engine_leaves_the_job_to_a_person_with_its_lock(apply: Apply) -> None:
    with watched("The engine is killed in an apply", apply.bench, apply.job, apply.worker[0], apply.runner) as watch:
        watch.note("SIGKILL of the engine")
        engine_of(apply.runner).kill()
        ended = apply.bench.wait_job(apply.job, "NEEDS_ATTENTION", "FAILED")
        watch.poll_once_more()
    assert (ended["status"], ended["error"]["code"]) == ("NEEDS_ATTENTION", "engine_killed")
    assert apply.bench.rpc("state_info", p_module=apply.module)["lock"]["job_id"] == apply.job
    apply.close_ledger()


def test_requests_that_arrive_and_answers_that_do_not_lose_nothing(apply: Apply) -> None:
    """The network works one way: everything reaches the project, and the runner receives nothing."""
    apply.proxy.decide = lambda _: Fault.LOSE_REPLY
    apply.end()
    apply.wait_ended_away()
    wait_until(lambda: apply.bench.rpc("state_info", p_module=apply.module)["serial"] is not None, timeout_seconds=180)
    apply.proxy.mend()
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED"))


def test_a_runner_without_a_work_directory_returns_its_jobs_and_recovers_automatically(
    bench: Bench, tmp_path: Path
) -> None:
    blocked = tmp_path / "temp"
    blocked.write_text("not a directory")
    worker = bench.register()
    # Where no folder can be made, no kind of isolation works, and a runner that is root would not start.
    off = {"RUNYARD__ENGINE__ISOLATION__MODE": "off"}
    runner = bench.start_worker(worker, RUNYARD__WORKINGDIRECTORY__TEMPDIRECTORY=str(blocked), **off)
    bench.online(worker)
    jobs = [bench.enqueue("PLAN", bench.module()) for _ in range(3)]
    wait_until(lambda: runner.said("degraded"), timeout_seconds=180)
    (instance,) = bench.rows("worker_instances", worker_id=worker[0])
    wait_until(lambda: bench.rows("worker_instances", id=instance["id"])[0]["facts"].get("degraded"))
    assert {bench.job(job)["status"] for job in jobs} == {"QUEUED"}
    blocked.unlink()
    for job in jobs:
        assert bench.wait_job(job)["status"] == "SUCCEEDED"
    close_ledger(bench, jobs).check()


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("apply_seconds", "outage_seconds"), [(35, 20), (75, 50), (120, 100), (600, 300)])
def test_a_real_outage_inside_of_an_apply(apply: Apply, apply_seconds: int, outage_seconds: int) -> None:
    """Nothing is shortened: leases and sweeps run as they do for people; what a person saw is written down."""
    title = f"The project is away for {outage_seconds} s of an apply of {apply_seconds} s"
    with watched(title, apply.bench, apply.job, apply.worker[0], apply.runner) as watch:
        watch.note("the network is cut")
        apply.proxy.cut()
        pass_seconds(outage_seconds)
        watch.note("the network is back")
        apply.proxy.mend()
        pass_seconds(apply_seconds - outage_seconds)
        watch.note("the apply ends")
        apply.end()
        row = apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED")
        watch.poll_once_more()
    apply.check_whole(row)


@pytest.mark.slow
def test_a_runner_that_dies_in_an_apply_leaves_a_job_that_needs_attention(apply: Apply) -> None:
    with watched("kill -9 of the runner in an apply", apply.bench, apply.job, apply.worker[0], apply.runner) as watch:
        watch.note("kill -9 of the runner")
        apply.runner.signal(signal.SIGKILL)
        apply.runner.wait()
        pass_seconds(10)
        watch.note("it is started again")
        watch.runner = apply.start_again()
        row = apply.bench.wait_job(apply.job, "NEEDS_ATTENTION", "FAILED")
        watch.poll_once_more()
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "RUNNER_LOST")
