"""The heartbeat: shows that we are alive, renews leases, and brings directives back."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from worker.api.replies import HeartbeatReply, JobRef
from worker.api.server import Server
from worker.clock import Clock, backoff, wait_for_wake_up
from worker.errors import Rejected, Retryable
from worker.process_status import ProcessStatus
from worker.running.table import JobTable
from worker.runtime_log import get_logger
from worker.version import __version__


class Directives:
    """Turns an answer into changes of the table, the process's status and what wakes the loops."""

    def __init__(
        self, table: JobTable, process_status: ProcessStatus, *, wake_claim: Callable[[], None], wake_heartbeat: Callable[[], None],
        own_capacity: int | None,
    ) -> None:  # fmt: skip
        """`own_capacity` is the operator's setting; it can lower the runner's."""
        self._table = table
        self._process_status = process_status
        self._wake_claim = wake_claim
        self._wake_heartbeat = wake_heartbeat
        self._own_capacity = own_capacity
        self._announced: str | None = None
        self._log = get_logger("worker.directives")

    def obey(self, reply: HeartbeatReply) -> None:
        """Act on everything in one answer."""
        for wish in reply.cancel:
            handle = self._table.find(JobRef(job=wish.job, attempt=wish.attempt))
            if handle is not None:
                handle.cancel(wish.kind, wish.reason)
        self._drain(is_wanted=reply.drain, reason=reply.drain_reason)
        self.resize(reply.worker)
        self._announce(reply.update)
        if reply.has_work:
            self._wake_claim()

    def _drain(self, *, is_wanted: bool, reason: str | None) -> None:
        if is_wanted == self._process_status.is_drained_by_server:
            return
        self._process_status.is_drained_by_server = is_wanted
        words, event = ("draining", "draining") if is_wanted else ("taking jobs again", "resumed")
        self._log.info(words, id=event, reason=reason)
        self._wake_heartbeat()
        self._wake_claim()

    def resize(self, runner: dict[str, Any]) -> None:
        """Take the runner's capacity over, or the operator's setting where that is less; the server gives no more."""
        allowed = runner.get("capacity")
        if not isinstance(allowed, int):
            return
        capacity = max(1, min(allowed, self._own_capacity or allowed))
        if capacity != self._process_status.capacity:
            self._log.info(
                "capacity changed", id="capacity_changed", before=self._process_status.capacity, now=capacity
            )
            self._process_status.capacity = capacity
            self._wake_claim()

    def _announce(self, update: dict[str, Any] | None) -> None:
        version = str(update.get("version")) if update else None
        if version != self._announced:
            self._announced = version
            if update:
                self._log.info("a newer version is published", version=version, is_breaking=update.get("is_breaking"))


# Between 10 and 15 s: four to six heartbeats in the minute after which a runner counts as gone.
HEARTBEAT_SECONDS = 15.0
_EARLIEST = 2 / 3
# While cut off the next try comes sooner: a lease may be running out.
_LONGEST_PAUSE = 5.0

Obey = Callable[[HeartbeatReply], None]


class Heartbeat:
    """Sends heartbeats for ever; the wake-up makes the next one come at once."""

    def __init__(
        self, server: Server, table: JobTable, process_status: ProcessStatus, facts: Callable[[], dict[str, Any]], obey: Obey, clock: Clock,
        *, wake_up: asyncio.Event | None = None,
    ) -> None:  # fmt: skip
        """`facts` is called before each heartbeat; only changed facts are sent; `wake_up` may be set before there is a heartbeat."""
        self._server = server
        self._table = table
        self._process_status = process_status
        self._facts = facts
        self._obey = obey
        self._clock = clock
        self._log = get_logger("worker.heartbeat")
        self._sent_facts: dict[str, Any] | None = None
        self._seconds = HEARTBEAT_SECONDS
        self.wake_up = wake_up or asyncio.Event()

    async def run(self) -> None:
        """Send heartbeats until the process ends."""
        failures = 0
        while True:
            try:
                await self.send()
                failures = 0
            except (Retryable, Rejected) as error:
                self._note_failure(error, failures)
                failures += 1
            pause = (
                backoff(failures, first=1.0, most=_LONGEST_PAUSE)
                if failures
                else self._seconds * random.uniform(_EARLIEST, 1)
            )
            await wait_for_wake_up(self.wake_up, pause)

    async def send(self) -> None:
        """Send one and act on the answer."""
        refs = self._table.refs()
        facts = self._facts()
        changed_facts = facts if facts != self._sent_facts else None
        sent_at, asked_at = self._clock.monotonic(), self._clock.now()
        reply = await self._server.heartbeat(self._process_status.status, __version__, refs, changed_facts)
        self._sent_facts = facts
        self._process_status.skew.note(reply.server_time, asked_at, self._clock.now())
        self._seconds = min(15.0, max(1.0, reply.heartbeat_seconds))
        self._table.renew(refs, sent_at, reply.lease_seconds, reply.lost)
        if not self._process_status.is_connected:
            self._process_status.is_connected = True
            self._log.info("connected", status=self._process_status.status)
        self._obey(reply)

    def forget_facts(self) -> None:
        """Send all facts with the next heartbeat, because the session is a new one."""
        self._sent_facts = None

    def _note_failure(self, error: Retryable | Rejected, failures: int) -> None:
        self._process_status.is_connected = False
        if failures % 10 == 0:
            self._log.warning(
                "no heartbeat: cut off from the server", id="cut_off", why=error.message, failures=failures + 1
            )
