"""The runner's reaction to signals: after one, finish and leave; after two, stop the jobs in order; after more, kill them."""

import asyncio
from collections.abc import Callable

from worker.attempt.control import Stop, StopCause
from worker.enums import CancelKind
from worker.process_status import ProcessStatus
from worker.running.table import JobTable
from worker.runtime_log import get_logger
from worker.signals import STOPPING

WORDS = "The runner received a stop signal."


class Signals:
    """Counts SIGTERM and SIGINT alike."""

    def __init__(self, process_status: ProcessStatus, table: JobTable, on_change: Callable[[], None]) -> None:
        """`on_change` lets the heartbeat tell the server at once."""
        self._process_status = process_status
        self._table = table
        self._on_change = on_change
        self._log = get_logger("worker.signals")
        self.count = 0
        self.is_killing = asyncio.Event()

    def install(self) -> None:
        """Listen from now on."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self.received)

    def received(self) -> None:
        """Take the next step."""
        self.count += 1
        self._process_status.is_leaving = True
        if self.count == 1:
            self._log.info("leaving: finishing what runs, taking nothing new", id="leaving", running=len(self._table))
        elif self.count == 2:
            self._log.warning("leaving now: stopping the jobs in order", id="leaving_now", running=len(self._table))
            self._stop(CancelKind.GRACEFUL)
        else:
            self._log.error("leaving at once: killing the jobs", id="leaving_at_once", running=len(self._table))
            self._stop(CancelKind.KILL)
            self.is_killing.set()
        self._on_change()

    def _stop(self, kind: CancelKind) -> None:
        for handle in self._table.handles():
            handle.control.request(Stop(kind, StopCause.SHUTDOWN, WORDS))
