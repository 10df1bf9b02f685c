"""Doing what a heartbeat's answer asks for."""

from collections.abc import Callable
from typing import Any

from worker.api.replies import HeartbeatReply, JobRef
from worker.process_status import ProcessStatus
from worker.running.table import JobTable
from worker.runtime_log import get_logger


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
