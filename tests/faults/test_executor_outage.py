"""An executor in the middle of a change outlives its runner's process, its own connection and itself."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.settings import PROJECT
from tests.faults.applying import SLOW, lose
from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.waiting import wait_until
from tests.unit.worker.dispatch.docker_api import DockerApi
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import serve

__all__ = ["bench"]


class Dispatched:
    """A runner that executes its jobs on a Docker host, and an apply in an executor there that ends when the test opens its gate."""

    def __init__(
        self, bench: Bench, docker: DockerApi, address: str, engine: HeldTofu, proxies: tuple[Proxy, Proxy]
    ) -> None:
        self.bench, self.docker, self.address, self.engine = bench, docker, address, engine
        self.to_runner, self.to_executor = proxies
        self.worker = bench.register()
        self.runner = self.start_runner()
        bench.online(self.worker)
        files = {"main.tf": SLOW.format(book=engine.book)}
        self.module = bench.module(source={"files": files})
        self.job = bench.enqueue("APPLY", self.module)
        wait_until((engine.book / "begun").exists, timeout_seconds=180)

    @property
    def name(self) -> str:
        return f"runyard-job-{self.job}-1-{self.worker[0][:8]}"

    @property
    def left(self) -> Path:
        """The folder in its container's home in which the executor keeps its attempt."""
        return self.docker.bin_folder.parent / ".runyard" / "runner" / "executors" / "jobs" / f"{self.job}-1"

    def start_runner(self, **more: Any) -> WorkerProcess:
        return self.bench.start_worker(
            self.worker, url=self.to_runner.url, instance="dispatching", home=self.bench.folder / "runner-home",
            RUNYARD_JOB_DISPATCHER_TYPE="docker",
            RUNYARD_JOB_DISPATCHER_DATA_HOST=f"tcp://{self.address}",
            RUNYARD_JOB_DISPATCHER_DATA_IMAGE="runyard-worker",
            RUNYARD_JOB_DISPATCHER_DATA_LOCAL_IMAGE="true",
            RUNYARD_JOB_DISPATCHER_DATA_API_URL=self.to_executor.url,
            RUNYARD__ENGINE__ADDITIONALBINARYPATHS="/nonexistent",
        )  # fmt: skip

    def pass_time(self) -> None:
        """Skip the time that a silent runner has."""
        lose(self.bench, self.worker[0])

    def end(self) -> None:
        (self.engine.book / "go").touch()

    def is_running(self) -> bool:
        return self.docker.boxes[self.name].exit_code() is None

    def outcome(self) -> Any:
        return json.loads((self.left / "job.json").read_text())["outcome"]

    def check_whole(self) -> None:
        """Resources, state, log and outputs are as if nothing had been, and nothing of the executor is left."""
        row = self.bench.wait_job(self.job, "SUCCEEDED", "FAILED")
        assert (row["status"], row["attempt"], row["error"]) == ("SUCCEEDED", 1, None), self.bench.log_of(self.job)[
            -3000:
        ]
        info = self.bench.rpc("state_info", p_module=self.module)
        assert info["lock"] is None
        stored = self.bench.rpc("state_version", p_module=self.module, p_serial=info["serial"])
        assert [each["type"] for each in json.loads(stored["body"])["resources"]] == ["terraform_data"]
        assert "Apply complete! Resources: 1 added" in self.bench.log_of(self.job)
        wait_until(lambda: self.docker.removed == [self.name], timeout_seconds=180)
        close_ledger(self.bench, [self.job], self.engine.runs, {self.job: self.engine.book / "printed"}).check()


@pytest.fixture
def dispatched(bench: Bench, tmp_path: Path) -> Iterator[Dispatched]:
    engine = make_engine(tmp_path / "engine", bench.tofu)
    shown = "".join(f"export {name}={value!r}\n" for name, value in engine.variables.items())
    script = f'{shown}export HOME={tmp_path} PYTHONPATH={PROJECT}\nexec {sys.executable} -m worker.cli "$@"'
    docker = DockerApi(write_executor(tmp_path / "image", script))
    with (
        Proxy(bench.project.url) as to_runner,
        Proxy(bench.project.url) as to_executor,
        serve(docker.routes()) as address,
    ):
        yield Dispatched(bench, docker, address, engine, (to_runner, to_executor))
        (engine.book / "go").touch()
        bench.close()
        for box in docker.boxes.values():
            box.signal("SIGKILL")


def test_a_runner_killed_in_the_middle_of_an_apply_finds_its_executor_again(dispatched: Dispatched) -> None:
    dispatched.runner.signal(signal.SIGKILL)
    dispatched.runner.wait()
    again = dispatched.start_runner()
    wait_until(lambda: again.said("executor_taken_over"), timeout_seconds=180)
    assert dispatched.is_running()
    dispatched.end()
    dispatched.check_whole()


@pytest.mark.slow
def test_a_second_stop_signal_leaves_the_executor_running(dispatched: Dispatched) -> None:
    for count in (1, 2):
        dispatched.runner.signal(signal.SIGTERM)
        wait_until(lambda count=count: leaving(dispatched.runner) >= count, timeout_seconds=180)  # type: ignore[misc]
    assert dispatched.runner.wait() == 0
    assert dispatched.is_running()
    dispatched.end()
    # No other process is left: the executor itself holds the attempt and reports its end.
    assert dispatched.bench.wait_job(dispatched.job, "SUCCEEDED", "FAILED", "QUEUED")["status"] == "SUCCEEDED"
    assert dispatched.docker.removed == []
    dispatched.start_runner()
    dispatched.check_whole()


def leaving(runner: WorkerProcess) -> int:
    return sum(str(each.get("id")).startswith("leaving") for each in runner.events())


def test_an_executor_that_is_cut_off_continues_and_its_runner_does_not_remove_it(dispatched: Dispatched) -> None:
    dispatched.to_executor.cut()
    dispatched.end()
    wait_until(dispatched.outcome, timeout_seconds=180)
    assert dispatched.bench.job(dispatched.job)["status"] == "PROCESSING"
    assert dispatched.is_running()
    assert dispatched.docker.removed == []
    dispatched.to_executor.mend()
    dispatched.check_whole()


@pytest.mark.slow
def test_a_job_needs_attention_while_the_whole_project_is_away_and_succeeds_afterwards(dispatched: Dispatched) -> None:
    dispatched.to_executor.cut()
    dispatched.to_runner.cut()
    dispatched.pass_time()
    held = dispatched.bench.wait_job(dispatched.job, "NEEDS_ATTENTION")
    assert held["error"]["code"] == "OUT_OF_CONTACT"
    dispatched.end()
    wait_until(dispatched.outcome, timeout_seconds=180)
    dispatched.to_executor.mend()
    dispatched.to_runner.mend()
    dispatched.check_whole()


def test_an_executor_that_died_with_its_state_undelivered_is_started_once_more_to_deliver_it(
    dispatched: Dispatched,
) -> None:
    dispatched.to_executor.cut()
    dispatched.end()
    wait_until(lambda: dispatched.outcome() and list(dispatched.left.glob("state/*.entry")), timeout_seconds=180)
    dispatched.docker.boxes[dispatched.name].signal("SIGKILL")
    dispatched.to_executor.mend()
    dispatched.check_whole()


def test_the_end_of_an_executor_killed_with_its_engine_is_reported_at_once_and_the_lock_is_kept(
    dispatched: Dispatched,
) -> None:
    dispatched.docker.boxes[dispatched.name].signal("SIGKILL")
    row = dispatched.bench.wait_job(dispatched.job, "NEEDS_ATTENTION", "FAILED", "QUEUED")
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "RUNNER_LOST")
    assert dispatched.bench.rpc("state_info", p_module=dispatched.module)["lock"]["job_id"] == dispatched.job
    assert "The runner's process ended in the middle of the job" in dispatched.bench.log_of(dispatched.job)
    close_ledger(dispatched.bench, [dispatched.job], dispatched.engine.runs).check()
