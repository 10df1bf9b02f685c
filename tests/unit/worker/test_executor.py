"""The executor's own process, apart from the job that it runs."""

import asyncio
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, refusal
from worker.api.replies import ClaimedJob
from worker.enums import JobType
from worker.executor import Executor
from worker.job.control import JobControl
from worker.job.lease import Lease
from worker.jobs.table import JobHandle
from worker.logs.redactor import Redactor
from worker.settings import load_settings

pytestmark = pytest.mark.anyio
WORKER = "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11"


async def truth(value: object) -> bool:
    return bool(value)


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
async def test_only_the_projects_own_word_stops_the_engine(answer: Any, is_stopped: bool) -> None:
    environ = {
        "WORKER_ID": WORKER,
        "SUPABASE_URL": "http://x",
        "RUNYARD_JOB_ID": "1",
        "RUNYARD_JOB_ATTEMPT": "1",
        "RUNYARD_JOB_TOKEN": "t",
    }
    clock, network = HandClock(), Network(lambda *_: answer if len(network.calls) <= 2 else {"lease_seconds": 60})
    executor = Executor(load_settings(environ=environ), Redactor(), clock)
    executor._server = network.server()
    control = JobControl(1)
    executor._handle = JobHandle(ClaimedJob(id=1, attempt=1, type=JobType.APPLY), Lease(clock.time, 60), control)
    pulse = asyncio.create_task(executor._pulse())
    await eventually(lambda: truth(len(network.calls) > 3 or pulse.done()))
    assert not pulse.done()
    pulse.cancel()
    assert (control.stop is not None) is is_stopped
