"""Signals: the first lets the jobs finish, the second stops them in order, the third kills them."""

import pytest

from tests.unit.worker.fakes import HandClock
from worker.api.replies import ClaimedJob
from worker.attempt.control import JobControl, Lease
from worker.enums import CancelKind, JobType
from worker.loops.signals import Signals
from worker.process_status import ProcessStatus
from worker.running.table import JobHandle, JobTable


@pytest.mark.parametrize(
    ("count", "kind", "is_killing"),
    [
        (1, None, False),
        (2, CancelKind.GRACEFUL, False),
        (3, CancelKind.KILL, True),
        (5, CancelKind.KILL, True),
    ],
)
def test_each_signal_takes_the_next_step(count: int, kind: CancelKind | None, is_killing: bool) -> None:
    clock, process_status, told = HandClock(), ProcessStatus(), list[int]()
    table = JobTable(clock)
    running = JobHandle(ClaimedJob(id=1, attempt=1, type=JobType.PLAN), Lease(clock.time, 60), JobControl(1))
    table.add(running)
    signals = Signals(process_status, table, lambda: told.append(signals.count))
    assert not process_status.is_leaving
    for _ in range(count):
        signals.received()
    assert process_status.is_leaving
    assert (running.control.stop and running.control.stop.kind) == kind
    assert signals.is_killing.is_set() is is_killing
    assert told == list(range(1, count + 1))
