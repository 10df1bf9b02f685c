"""A deployer that is killed at chosen calls to AWS, and starts again."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.integration.cloud.gate import Gate
from tests.integration.worker_bench import Bench, WorkerProcess
from tests.support.waiting import wait_until

TYPES = ["DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER"]


@dataclass(frozen=True)
class Death:
    """At which call; with `is_done` the call took effect, and only its answer was lost."""

    call: str
    is_done: bool = False


@dataclass
class Mortal:
    """One runner with rights in the cloud, and its processes one after the other."""

    bench: Bench
    gate: Gate
    variables: dict[str, str]
    worker: tuple[str, str] = field(init=False)
    process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.worker = self.bench.register(accepted_job_types=TYPES, is_assigned_to_all_modules=True)

    def start(self) -> None:
        """Start a process that calls AWS through the gate."""
        home = self.bench.folder / "deployer"
        self.process = self.bench.start_worker(
            self.worker, instance="deployer", home=home, AWS_ENDPOINT_URL=self.gate.url, **self.variables
        )

    def die_at(self, death: Death) -> None:
        """Choose the next call to die at."""
        self.gate.hold(death.call, is_done=death.is_done)

    def die_and_come_back(self, job: int, deaths: Sequence[Death]) -> None:
        """Kill the process at one call after the other; the first one is held already."""
        for number, death in enumerate(deaths):
            told = f"{death} was not reached"
            assert self.gate.held.wait(180), f"{told}\n{self.bench.log_of(job)}\n{self.process.output[-3000:]}"
            self.process.signal(signal.SIGKILL)
            self.process.wait()
            self.gate.release()
            if number + 1 < len(deaths):
                self.die_at(deaths[number + 1])
            self.start()
            # Not by its status, which a slow test may find gone again.
            wait_until(lambda number=number: self._losses(job) > number)  # type: ignore[misc]
            self._hurry(job)

    def _losses(self, job: int) -> int:
        return [event["event"] for event in self.bench.events_of(job)].count("lost")

    def _hurry(self, job: int) -> None:
        """Spare the test the pause that grows with each lost attempt."""
        with self.bench.database() as connection:
            connection.execute("update private.live_jobs set not_before_at = now() where job_id = %s", [job])
            connection.execute("select public.sweep()")
