"""Ships a job's log from the spool to the server, in order, for as long as it takes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from worker.api.replies import JobRef
from worker.api.server import Server
from worker.clock import Clock, backoff, wait_for_wake_up
from worker.errors import Fatal, Fenced, Rejected, Retryable
from worker.logs.spool import Chunk, Spool
from worker.runtime_log import get_logger


@dataclass(frozen=True)
class BatchRules:
    """The settings of `JobLogStream`."""

    period_seconds: float = 5.0
    most_events: int = 50
    is_first_at_once: bool = True


MOST_BYTES = 1024 * 1024
MOST_CHUNKS = 256


class Shipper:
    """Sends chunks by number; what the server already has is sent again without harm."""

    def __init__(
        self, server: Server, ref: JobRef, spool: Spool, rules: BatchRules, clock: Clock,
        *, on_fenced: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`on_fenced` is called when the attempt is no longer ours."""
        self._server = server
        self._ref = ref
        self._spool = spool
        self._clock = clock
        self._batch = Batch(rules)
        self._on_fenced = on_fenced
        self._loop = asyncio.get_running_loop()
        self._wake_up = asyncio.Event()
        self._next = 1
        self._is_closing = False
        self._log = get_logger("worker.logs")
        self.refusal: Fenced | Rejected | Fatal | None = None

    def added(self, lines: int) -> None:
        """Count lines that were written to the spool; callable from any thread."""
        self._loop.call_soon_threadsafe(self._count, lines)

    async def run(self) -> None:
        """Ship until `drain` was called and everything is sent, or the server refuses."""
        failures = 0
        while self.refusal is None and not (self._is_closing and self._next > self._spool.last_seq):
            self._cut_when_due()
            if self._next > self._spool.last_seq:
                pause = min(1.0, max(0.01, self._batch.due_at() - self._clock.monotonic()))
                await wait_for_wake_up(self._wake_up, pause)
                continue
            try:
                await self._send_some()
                failures = 0
            except Retryable as error:
                failures += 1
                self._log.debug("log not shipped yet", job=self._ref.job, why=error.message)
                await self._sync()
                await self._clock.sleep(backoff(failures, first=0.2, most=10.0))
            except (Fenced, Rejected, Fatal) as error:
                self._refused(error)

    def drain(self) -> None:
        """No more text will come: cut what is left and let `run` end when all is sent."""
        self._spool.cut()
        self._is_closing = True
        self._wake_up.set()

    async def resend(self, missing: list[tuple[int, int]], *, is_late: bool = False) -> None:
        """Send again what the server lacks; `is_late` for an attempt that has lost its job."""
        for first, last in missing:
            start = first
            while start <= min(last, self._spool.last_seq):
                chunks = self._some(start, last)
                await self._server.append_logs(self._ref, [vars(each) for each in chunks], is_late=is_late)
                start = chunks[-1].seq + 1

    async def _sync(self) -> None:
        """While the server does not take it, the log is as safe as the disk is."""
        with suppress(OSError):
            await asyncio.to_thread(self._spool.sync)

    def _count(self, lines: int) -> None:
        self._batch.add(lines, self._clock.monotonic())
        if self._batch.due_at() <= self._clock.monotonic():
            self._wake_up.set()

    def _cut_when_due(self) -> None:
        if self._batch.due_at() <= self._clock.monotonic():
            self._spool.cut()
            self._batch.sent(self._clock.monotonic())

    async def _send_some(self) -> None:
        chunks = self._some(self._next, self._spool.last_seq)
        await self._server.append_logs(self._ref, [vars(each) for each in chunks])
        self._next = chunks[-1].seq + 1

    def _some(self, first: int, last: int) -> list[Chunk]:
        chosen: list[Chunk] = []
        size = 0
        for chunk in self._spool.read(first, last):
            size += len(chunk.body)
            if chosen and (size > MOST_BYTES or len(chosen) >= MOST_CHUNKS):
                break
            chosen.append(chunk)
        return chosen

    def _refused(self, error: Fenced | Rejected | Fatal) -> None:
        self.refusal = error
        self._log.warning("the server refuses this attempt's log", job=self._ref.job, why=error.message)
        if isinstance(error, Fenced):
            self._on_fenced(error.message)


@dataclass
class Batch:
    """The lines that were written since the last batch left."""

    rules: BatchRules
    last_sent_at: float = float("-inf")
    events: int = 0
    first_event_at: float = field(default=float("inf"))

    def add(self, events: int, now: float) -> None:
        """Count lines that were written just now."""
        if events and not self.events:
            self.first_event_at = now
        self.events += events

    def due_at(self) -> float:
        """Return when the batch has to leave: now or earlier, later, or never while it is empty."""
        if not self.events:
            return float("inf")
        if self.events >= self.rules.most_events:
            return float("-inf")
        is_fresh = self.first_event_at - self.last_sent_at >= self.rules.period_seconds
        if self.rules.is_first_at_once and is_fresh:
            return self.first_event_at
        return self.first_event_at + self.rules.period_seconds

    def sent(self, now: float) -> None:
        """Begin a new batch."""
        self.last_sent_at, self.events = now, 0
        self.first_event_at = float("inf")
