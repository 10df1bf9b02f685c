"""The executor's own process, apart from the job that it runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, refusal
from worker.api.replies import ClaimedJob
from worker.attempt.control import JobControl, Lease
from worker.attempt.outcome import Outcome, attempt_folder, given_back
from worker.enums import JobStatus, JobType
from worker.errors import ExitCode, RunnerUnfit
from worker.executor import Executor
from worker.logs.redactor import KnownSecrets
from worker.running.table import JobHandle
from worker.settings.load import load_settings

pytestmark = pytest.mark.anyio
WORKER = "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11"


async def truth(value: object) -> bool:
    return bool(value)


def executor_of(network: Network, **more: str) -> tuple[Executor, JobControl]:
    environ = {
        "WORKER_ID": WORKER,
        "SUPABASE_URL": "http://x",
        "RUNYARD_JOB_ID": "1",
        "RUNYARD_JOB_ATTEMPT": "1",
        "RUNYARD_JOB_TOKEN": "t",
        **more,
    }
    clock, control = HandClock(), JobControl(1)
    executor = Executor(load_settings(environ=environ), KnownSecrets(), clock)
    executor._server = network.server()
    executor._handle = JobHandle(ClaimedJob(id=1, attempt=1, type=JobType.APPLY), Lease(clock.time, 60), control)
    return executor, control


@pytest.mark.parametrize(
    ("is_kept", "is_returned", "code"),
    [(True, False, ExitCode.UNEXPECTED), (False, False, ExitCode.JOB_FAILED), (True, True, ExitCode.JOB_FAILED)],
)
async def test_an_end_that_waits_on_the_disk_does_not_count_as_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool, is_returned: bool, code: ExitCode
) -> None:
    class Ended:
        def __init__(self, handle: JobHandle, _context: object, home: Path, _clock: object) -> None:
            if is_kept:
                attempt_folder(home, handle.ref).mkdir(parents=True)

        async def run(self) -> Outcome:
            return given_back(RunnerUnfit("full", code="disk")) if is_returned else Outcome(JobStatus.FAILED)

    monkeypatch.setattr("worker.executor.Attempt", Ended)
    executor, _ = executor_of(
        Network(lambda *_: {"lease_seconds": 60}), RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY=str(tmp_path)
    )
    assert await executor._work() is code


@pytest.mark.parametrize(
    ("answer", "is_stopped"),
    [
        ((404, {"message": "no Route"}), False),
        ((403, {}), False),
        ((401, {}), False),
        (refusal("RY410"), True),
        (refusal("RY404"), True),
    ],
)
async def test_only_the_projects_own_refusal_stops_the_engine(answer: Any, is_stopped: bool) -> None:
    network = Network(lambda *_: answer if len(network.calls) <= 2 else {"lease_seconds": 60})
    executor, control = executor_of(network)
    pulse = asyncio.create_task(executor._pulse())
    await eventually(lambda: truth(len(network.calls) > 3 or pulse.done()))
    assert not pulse.done()
    pulse.cancel()
    assert (control.stop is not None) is is_stopped
