"""A child that writes as fast as it can delays no heartbeat and fills no memory."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import Network
from worker.attempt.control import JobControl, Stop, StopCause
from worker.children.child import Command
from worker.clock import Clock
from worker.enums import CancelKind
from worker.errors import JobCancelled
from worker.logs.job_log import JobLog
from worker.logs.redactor import Redactor
from worker.logs.spool import Spool
from worker.loops.heartbeat import Heartbeat
from worker.process_status import ProcessStatus
from worker.running.table import JobTable

pytestmark = pytest.mark.anyio
# The shortest pause that a server may request.
HEARTBEAT_SECONDS = 1.0
LEASE_SECONDS = 60
HEARTBEATS = 6
SHOWN_BYTES = 24 * 1024 * 1024
ALLOWED_GROWTH = 48 * 1024 * 1024
SECRETS = [f"a-secret-of-the-host-{number:03}" for number in range(40)]


class Heartbeats:
    """A heartbeat against a server that notes when each heartbeat arrived."""

    def __init__(self) -> None:
        clock = Clock()
        self.times: list[float] = []

        def answer(_: str, __: dict[str, Any]) -> Any:
            self.times.append(clock.monotonic())
            return {"lease_seconds": LEASE_SECONDS, "heartbeat_seconds": HEARTBEAT_SECONDS}

        self.heartbeat = Heartbeat(
            Network(answer).server(), JobTable(clock), ProcessStatus(), dict, lambda _: None, clock
        )

    async def has_sent_enough(self) -> bool:
        return len(self.times) > HEARTBEATS

    def longest_gap(self) -> float:
        return max(later - earlier for earlier, later in itertools.pairwise(self.times))


class Flood:
    """`yes`, read as a step reads its engine."""

    def __init__(self, folder: Path) -> None:
        self.control = JobControl(grace_seconds=1)
        self.log = JobLog(Spool(folder), Redactor(SECRETS), lambda _: None, most_bytes=SHOWN_BYTES)
        self.bytes = 0
        self._command = Command(
            ("yes", "a line of output without meaning that is repeated again and again"), folder, {}
        )

    async def run(self) -> None:
        with pytest.raises(JobCancelled):
            await self.control.run_child(self._command, self._take)

    async def _take(self, data: bytes) -> None:
        self.bytes += len(data)
        await asyncio.to_thread(self.log.write, data)

    async def is_over_its_limits(self) -> bool:
        return self.bytes > SHOWN_BYTES + ALLOWED_GROWTH

    def stop(self) -> None:
        self.control.request(Stop(CancelKind.KILL, StopCause.CANCELLED, "enough"))


async def test_output_at_full_speed_delays_no_heartbeat_and_fills_no_memory(tmp_path: Path) -> None:
    heartbeats, flood = Heartbeats(), Flood(tmp_path)
    before = psutil.Process().memory_info().rss
    sending, flooding = asyncio.create_task(heartbeats.heartbeat.run()), asyncio.create_task(flood.run())
    await eventually(heartbeats.has_sent_enough)
    await eventually(flood.is_over_its_limits)
    grown = psutil.Process().memory_info().rss - before
    flood.stop()
    await flooding
    sending.cancel()
    assert heartbeats.longest_gap() < LEASE_SECONDS / 2, "a machine may be slow; a lease must not end by output"
    assert grown < ALLOWED_GROWTH
