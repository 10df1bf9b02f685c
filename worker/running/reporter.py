"""Tells the server where a job is, always by the newest picture, and ends an attempt together with its log."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from worker.api.replies import FinishReply, JobRef
from worker.api.retrying import retry_for
from worker.api.server import Server
from worker.attempt.outcome import Outcome
from worker.clock import Clock, backoff
from worker.enums import CancelKind, JobPhase, JobStatus, StepStatus
from worker.errors import ODD_TRIES, Fatal, Fenced, Rejected, Retryable, WorkerError
from worker.logs.shipper import Shipper
from worker.logs.spool import Spool
from worker.runtime_log import get_logger

OnCancel = Callable[[CancelKind], None]


class Reporter:
    """Sends steps and phase in the background; pictures that were overtaken are never sent."""

    def __init__(
        self, server: Server, ref: JobRef, clock: Clock, *, on_cancel: OnCancel, on_fenced: Callable[[str], None]
    ) -> None:
        """`on_cancel` and `on_fenced` are called when an answer requires it."""
        self._server = server
        self._ref = ref
        self._clock = clock
        self._on_cancel = on_cancel
        self._on_fenced = on_fenced
        self._steps: list[dict[str, Any]] = []
        self._phase = JobPhase.PREPARE
        self._summary: dict[str, Any] | None = None
        self._version = self._summarised = 0
        self._sent = 0
        self._changed = asyncio.Event()
        self._answered = asyncio.Event()
        self._error: WorkerError | None = None
        self._log = get_logger("worker.jobs")

    def begin(self, name: str, title: str, phase: JobPhase, first_seq: int) -> None:
        """A step begins."""
        self._phase = phase
        self._add(name, title, phase, StepStatus.RUNNING, self._clock.now().isoformat(), first_seq)

    def end(self, status: StepStatus, last_seq: int) -> None:
        """The current step has ended."""
        step = self._steps[-1]
        step |= {"status": status, "finished_at": self._clock.now().isoformat(), "last_seq": last_seq}
        self._note()

    def skip(self, name: str, title: str, phase: JobPhase) -> None:
        """A step will not run, because one before it failed."""
        self._add(name, title, phase, StepStatus.SKIPPED)

    def _add(
        self, name: str, title: str, phase: JobPhase, status: StepStatus, at: str | None = None, seq: int | None = None
    ) -> None:
        times = {"started_at": at, "finished_at": None, "first_seq": seq, "last_seq": None}
        self._steps.append({"name": name, "title": title, "phase": phase, "status": status, **times})
        self._note()

    def summarise(self, summary: dict[str, Any] | None) -> None:
        """The plan's summary is known, or has changed."""
        self._summary = summary
        self._note()
        self._summarised = self._version

    async def run(self) -> None:
        """Send each newest picture until cancelled."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._sent < self._version and self._error is None:
                try:
                    await self._send()
                    failures = 0
                except (Retryable, Fenced, Rejected, Fatal) as error:
                    is_odd = isinstance(error, Rejected) and not error.is_ours and failures < ODD_TRIES
                    if not (isinstance(error, Retryable) or is_odd):
                        self._give_up(error)
                        continue
                    failures += 1
                    self._log.debug("a report was not answered", why=error.message)
                    await self._clock.sleep(backoff(failures, first=0.2, most=5.0))

    async def confirmed(self) -> None:
        """Wait until the server has acknowledged everything that was noted so far."""
        wanted = self._version
        while self._sent < wanted:
            if self._error is not None:
                raise self._error
            self._answered.clear()
            await self._answered.wait()

    def fail(self, error: WorkerError) -> None:
        """Nothing is reported any more: fail everyone who waits for an acknowledgement."""
        self._error = error
        self._answered.set()

    async def _send(self) -> None:
        version = self._version
        steps = [dict(step) for step in self._steps]
        # The server keeps the summary: that of a large plan is not sent again with each step.
        summary = self._summary if self._summarised > self._sent else None
        kind = await self._server.report(self._ref, self._phase, steps, summary)
        self._sent = version
        self._answered.set()
        if kind:
            self._on_cancel(CancelKind(kind))

    def _give_up(self, error: Fenced | Rejected | Fatal) -> None:
        self.fail(error)
        self._log.warning("the server refuses reports of this attempt", job=self._ref.job, why=error.message)
        if isinstance(error, Fenced):
            self._on_fenced(error.message)

    def _note(self) -> None:
        self._version += 1
        self._changed.set()


_MOST_ROUNDS = 3


async def finish_completely(
    server: Server, ref: JobRef, outcome: Outcome, spool: Spool, shipper: Shipper
) -> FinishReply:
    """Finish or give back; while parts of the log are missing send them and do it again, and at last without them."""
    for _ in range(_MOST_ROUNDS):
        reply = await _end(server, ref, outcome, spool.summary())
        if not reply.missing:
            if reply.is_late:
                words = "the end came too late and is kept as a late report"
                get_logger("worker.jobs").warning(words, job=ref.job, attempt=ref.attempt, status=reply.status)
            return reply
        # An attempt that a person released while we were away is not ours any more; the server still wants its log.
        is_late = reply.is_late or reply.status != JobStatus.PROCESSING
        await retry_for(None, functools.partial(shipper.resend, reply.missing, is_late=is_late))
    return await _end(server, ref, outcome, {**spool.summary(), "is_incomplete": True})


async def _end(server: Server, ref: JobRef, outcome: Outcome, log: dict[str, Any]) -> FinishReply:
    if not outcome.is_returned:
        return await server.finish(ref, outcome.as_arguments(log))
    words = (outcome.error or {}).get("message", "The runner is leaving.")
    return await server.return_job(ref, words, outcome.return_code, log)
