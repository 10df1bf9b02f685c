"""An apply in an executor of a real Docker or a real Kubernetes, behind proxies that can be cut."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import pytest

from tests.faults.applying import lose
from tests.faults.ledger import close_ledger
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, WorkerProcess
from tests.support.real_docker import IMAGE_VARIABLE
from tests.support.waiting import wait_until

IMAGE = os.environ.get(IMAGE_VARIABLE, "runyard-worker")
SECONDS = 25
MODULE = f"""
resource "terraform_data" "slow" {{
  provisioner "local-exec" {{
    command = "i=0; while [ $i -lt {SECONDS} ]; do i=$((i+1)); echo line-$i.; sleep 1; done"
  }}
}}
output "greeting" {{ value = "hello" }}
"""


def address_of(interface: str) -> str:
    """This machine's address on the network of the executors."""
    found = [each.address for each in psutil.net_if_addrs().get(interface, []) if each.family.name == "AF_INET"]
    if not found:
        pytest.skip(f"there is no interface {interface}: executors could not reach this machine")
    return found[0]


@dataclass
class Place:
    """A place where executors run: the runner's variables for it, and facts that are visible from outside."""

    variables: dict[str, str]
    host: str
    exists: Callable[[str], bool]


class RealApply:
    """A runner that executes its jobs in that place, in the middle of an apply of half a minute."""

    def __init__(self, bench: Bench, place: Place, to_runner: Proxy, to_executor: Proxy) -> None:
        self.bench, self.place = bench, place
        self.to_runner, self.to_executor = to_runner, to_executor
        self.worker = bench.register()
        self.runner = self.start_runner()
        bench.online(self.worker)
        self.module = bench.module(source={"files": {"main.tf": MODULE}})
        self.job = bench.enqueue("APPLY", self.module)
        bench.wait_step(self.job, "apply", seconds=180)
        wait_until(lambda: "line-2." in bench.log_of(self.job), timeout_seconds=180, every_seconds=0.5)
        self.ends_at = time.monotonic() + SECONDS

    @property
    def name(self) -> str:
        return f"runyard-job-{self.job}-1-{self.worker[0][:8]}"

    def start_runner(self) -> WorkerProcess:
        return self.bench.start_worker(
            self.worker, url=self.to_runner.url, instance="dispatching", home=self.bench.folder / "runner-home",
            RUNYARD_JOB_DISPATCHER_DATA_IMAGE=IMAGE, RUNYARD_JOB_DISPATCHER_DATA_API_URL=self.to_executor.url,
            RUNYARD__ENGINE__ADDITIONALBINARYPATHS="/nonexistent", **self.place.variables,
        )  # type: ignore[arg-type]  # fmt: skip

    def hold(self) -> None:
        """Cut everything off, and let the time pass that a silent runner has."""
        self.to_runner.cut()
        self.to_executor.cut()
        lose(self.bench, self.worker[0])

    def mend(self) -> None:
        self.to_runner.mend()
        self.to_executor.mend()

    def wait_for_its_end(self) -> None:
        """The apply has ended by its own clock."""
        wait_until(lambda: time.monotonic() > self.ends_at, timeout_seconds=2 * SECONDS, every_seconds=0.5)

    def check_whole(self) -> None:
        """State, outputs and every line of the log exist, and nothing of the executor is left."""
        row = self.bench.wait_job(self.job, "SUCCEEDED", "FAILED")
        assert (row["status"], row["attempt"], row["error"]) == ("SUCCEEDED", 1, None), row["error"]
        log = self.bench.log_of(self.job)
        assert [n for n in range(1, SECONDS + 1) if f"line-{n}." not in log] == []
        assert row["result"]["outputs"]["greeting"]["value"] == "hello"
        info = self.bench.rpc("state_info", p_module=self.module)
        assert (info["lock"], info["serial"] is not None) == (None, True)
        wait_until(lambda: not self.place.exists(self.name), timeout_seconds=180, every_seconds=0.5)
        close_ledger(self.bench, [self.job]).check()


def goes_on_through_an_outage(apply: RealApply) -> None:
    """The project is away until the apply has ended; the job needs attention meanwhile, and is whole when the project answers."""
    apply.hold()
    held = apply.bench.wait_job(apply.job, "NEEDS_ATTENTION")
    assert held["error"]["code"] == "OUT_OF_CONTACT"
    apply.wait_for_its_end()
    assert apply.place.exists(apply.name), "its runner does not remove it meanwhile"
    apply.mend()
    apply.check_whole()


def outlives_its_runner(apply: RealApply) -> None:
    """The runner dies and is started again: the executor is taken over and not stopped."""
    apply.runner.process.kill()
    apply.runner.wait()
    again = apply.start_runner()
    wait_until(lambda: again.said("executor_taken_over"), timeout_seconds=180)
    apply.check_whole()
