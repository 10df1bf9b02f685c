"""Asking for work: at every wake-up, every minute or two while wake-ups come, and every ten seconds without them."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from worker.api.replies import ClaimedJob
from worker.api.server import Server
from worker.clock import Clock, backoff, jittered, wait_for_wake_up
from worker.errors import Rejected, Retryable
from worker.process_status import ProcessStatus
from worker.running.table import JobTable
from worker.runtime_log import get_logger

Start = Callable[[ClaimedJob, float], None]

# Heartbeats are answered with "there is work" as well, so while the doorbell is live nobody waits for this.
RUNG_POLL_SECONDS = 90.0


@dataclass
class _Request:
    """One claim; while its answer is unknown it is repeated unchanged, so that no job is stranded."""

    slots: int
    sent_at: float
    id: uuid.UUID = field(default_factory=uuid.uuid4)


class ClaimLoop:
    """Fills free slots; `start` is given each job with the moment the claim was first sent."""

    def __init__(
        self, server: Server, table: JobTable, process_status: ProcessStatus, is_ready: Callable[[], bool], start: Start, clock: Clock,
        *, poll_seconds: float, is_rung: Callable[[], bool] = lambda: False, wake_up: asyncio.Event | None = None,
    ) -> None:  # fmt: skip
        """`is_ready` returns whether the runner has any engine, `is_rung` whether the doorbell is live."""
        self._server = server
        self._table = table
        self._process_status = process_status
        self._is_ready = is_ready
        self._start = start
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._is_rung = is_rung
        self._log = get_logger("worker.claim")
        self._open: _Request | None = None
        self._failures = 0
        self.wake_up = wake_up or asyncio.Event()

    async def run(self) -> None:
        """Ask for work until the process ends."""
        while True:
            try:
                await self.claim()
                self._failures = 0
            except (Retryable, Rejected) as error:
                if self._failures % 10 == 0:
                    self._log.warning("the claim was not answered", id="claim_unanswered", why=error.message)
                self._failures += 1
            await wait_for_wake_up(self.wake_up, self.pause())

    def pause(self) -> float:
        """Return the seconds to wait for a wake-up before the next claim."""
        if self._failures:
            return backoff(self._failures, first=0.5, most=self._poll_seconds)
        if self._is_rung():
            return jittered(max(RUNG_POLL_SECONDS, self._poll_seconds), 1 / 3)
        return jittered(self._poll_seconds, 0.1)

    async def claim(self) -> None:
        """Claim once for every free slot, or repeat the claim whose answer was lost."""
        request = self._open or self._new_request()
        if request is None:
            return
        self._open = request
        try:
            reply = await self._server.claim(request.id, request.slots)
        except Rejected:
            self._open = None
            raise
        self._open = None
        self._process_status.has_claimed = self._process_status.has_claimed or bool(reply.jobs)
        for job in reply.jobs:
            self._start(job, request.sent_at)
        # The queue may hold more than we could take; a slot that is still free asks again at the next wake-up.

    def _new_request(self) -> _Request | None:
        slots = self._process_status.free_slots(len(self._table))
        if slots == 0 or not self._is_ready():
            return None
        return _Request(slots, self._clock.monotonic())
