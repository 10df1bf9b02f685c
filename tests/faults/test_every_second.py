"""kill -9 of the runner in each second of an apply: whatever the engine made is in the state, and nothing is done twice."""

import json
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.applying import pass_seconds
from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.extent import sampled
from tests.support.waiting import wait_until

__all__ = ["bench"]
SECONDS = tuple(range(11))
NAMES = ("first", "second", "third")


def three_things(engine: HeldTofu) -> str:
    """Three resources one after the other, two seconds each, that record on their own what they print and that they exist."""
    blocks, before = [], ""
    for name in NAMES:
        blocks.append(
            f'resource "terraform_data" "{name}" {{\n  {before}\n  provisioner "local-exec" {{\n'
            f'    command = "for i in 1 2 3 4; do echo {name}-$i. | tee -a {engine.book}/printed; sleep 0.5; done; '
            f'echo {name} >> {engine.book}/created"\n  }}\n}}'
        )
        before = f"depends_on = [terraform_data.{name}]"
    return "\n".join(blocks)


def words_in(book: Path) -> list[str]:
    return book.read_text().split() if book.exists() else []


def reached(bench: Bench, job: int, runner: WorkerProcess) -> str:
    """Return the part of a job's output that the runner has: on its disk, or sent already."""
    kept = ""
    for file in runner.home.glob("instances/*/jobs/*/**/*"):
        with suppress(OSError):
            kept += file.read_text(errors="replace")
    return kept + bench.log_of(job)


def names_in_state(bench: Bench, module: str) -> set[str]:
    info = bench.rpc("state_info", p_module=module)
    if info["serial"] is None:
        return set()
    stored = bench.rpc("state_version", p_module=module, p_serial=info["serial"])
    return {each["name"] for each in json.loads(stored["body"])["resources"]}


@pytest.mark.parametrize("second", sampled(SECONDS, 1))
def test_a_runner_killed_in_this_second_loses_nothing(bench: Bench, tmp_path: Path, second: int) -> None:
    engine = make_engine(tmp_path / "engine", bench.tofu)
    worker = bench.register()
    runner = bench.start_worker(worker, **engine.variables)
    bench.online(worker)
    module = bench.module(source={"files": {"main.tf": three_things(engine)}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: bench.job(job)["status"] != "QUEUED", timeout_seconds=180, every_seconds=0.05)
    pass_seconds(second)
    # What has reached the runner must not be lost; what is on its way to it dies with it.
    printed = words_in(engine.book / "printed")
    wait_until(lambda: all(line in reached(bench, job, runner) for line in printed))
    runner.signal(signal.SIGKILL)
    runner.wait()
    bench.start_worker(worker, instance=runner.instance, home=runner.home, **engine.variables)
    row = bench.wait_job(job)
    made = set(words_in(engine.book / "created"))
    assert made <= names_in_state(bench, module), f"made {made}, killed in second {second}, phase {row['phase']}"
    if row["status"] == "NEEDS_ATTENTION":
        lock = bench.rpc("state_info", p_module=module)["lock"]
        # Between the apply's announcement and the engine's own lock there is nothing to lock yet.
        assert lock["job_id"] == job if lock else not made
    else:
        assert row["status"] == "SUCCEEDED", row["error"]
        assert made == set(NAMES)
    log = bench.log_of(job)
    assert [line for line in printed if line not in log] == [], f"lines lost, killed in second {second}"
    close_ledger(bench, [job], engine.runs).check()
