"""The runner's disk is full before, during and after an apply: jobs are given back, and nothing that was done is lost."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.applying import Apply
from tests.faults.ledger import close_ledger
from tests.faults.seen import watched
from tests.faults.worker_engine import make_engine
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]
SIZE = "160m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small filesystem of its own as the runner's home."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a filesystem cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take the last byte, and what the runner gives back meanwhile."""
    file = disk / "ballast"

    def is_full() -> bool:
        with file.open("ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        ballast.write(b"\0" * size)
        return shutil.disk_usage(disk).free == 0

    wait_until(is_full)
    return file


def test_a_full_disk_costs_no_job_and_is_noticed_when_it_is_over(bench: Bench, disk: Path) -> None:
    worker = bench.register()
    runner = bench.start_worker(worker, home=disk)
    bench.online(worker)
    ballast = fill(disk)
    jobs = [bench.enqueue("PLAN", bench.module()) for _ in range(3)]
    with watched("The runner's disk is full", bench, jobs[0], worker[0], runner) as watch:
        watch.note("the disk is full, and jobs are queued")
        wait_until(lambda: runner.said("degraded"), timeout_seconds=180)
        (instance,) = bench.rows("worker_instances", worker_id=worker[0])
        wait_until(lambda: bench.rows("worker_instances", id=instance["id"])[0]["facts"].get("degraded"))
        assert {bench.job(job)["status"] for job in jobs} == {"QUEUED"}
        wait_until(lambda: bench.rows("workers", id=worker[0])[0]["status_reason"].startswith("Degraded: "))
        watch.poll_once_more()
        watch.note("there is room again")
        ballast.unlink()
        for job in jobs:
            assert bench.wait_job(job)["status"] == "SUCCEEDED"
        watch.poll_once_more()
    close_ledger(bench, jobs).check()


@pytest.fixture
def apply(bench: Bench, tmp_path: Path, disk: Path) -> Iterator[Apply]:
    with Proxy(bench.project.url) as proxy:
        yield Apply(bench, proxy, make_engine(tmp_path / "engine", bench.tofu), home=disk)


def test_a_disk_that_fills_up_in_the_middle_of_an_apply_changes_nothing(apply: Apply, disk: Path) -> None:
    fill(disk)
    apply.end()
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED", "NEEDS_ATTENTION"))


@pytest.mark.slow
def test_a_disk_that_fills_up_before_the_news_is_delivered_changes_nothing(apply: Apply, disk: Path) -> None:
    apply.cut()
    apply.end()
    apply.wait_ended_away()
    fill(disk)
    apply.proxy.mend()
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED"))


@pytest.mark.slow
def test_a_disk_that_is_full_in_a_plan_costs_no_job(bench: Bench, disk: Path, tmp_path: Path) -> None:
    """The engine wraps its message into a box, so that the words of the system do not stand on one line."""
    engine = make_engine(tmp_path / "engine", bench.tofu)
    worker = bench.register()
    runner = bench.start_worker(worker, home=disk, **engine.variables)
    bench.online(worker)
    engine.hold("plan")
    job = bench.enqueue("PLAN", bench.module())
    wait_until(lambda: engine.has_begun("plan", job))
    ballast = fill(disk)
    engine.release("plan")
    assert "disk is full" in bench.given_back(job)
    wait_until(lambda: runner.said("degraded"))
    ballast.unlink()
    ended = bench.wait_job(job)
    assert (ended["status"], ended["error"]) == ("SUCCEEDED", None)
    close_ledger(bench, [job]).check()


@pytest.mark.slow
def test_a_full_disk_and_a_killed_runner_lose_no_state(apply: Apply, disk: Path) -> None:
    """The engine that is left alone writes what it has done to a file that has its room already."""
    bench, book = apply.bench, apply.engine.book
    wait_until(lambda: "line-2." in bench.log_of(apply.job))
    ballast = fill(disk)
    apply.runner.process.kill()
    apply.runner.process.wait(60)
    (left,) = disk.glob(".temp/job-*/source/errored.tfstate")
    wait_until(lambda: left.stat().st_size > 0)
    (book / "go").touch()
    ballast.unlink()
    apply.start_again(home=disk)
    bench.wait_job(apply.job, "NEEDS_ATTENTION")
    info = bench.rpc("state_info", p_module=apply.module)
    assert info["serial"] is not None
    stored = bench.rpc("state_version", p_module=apply.module, p_serial=info["serial"])
    assert "terraform_data" in stored["body"]
