"""The one place that decides whether a job must stop, and stops its child."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wire.spans import span
from worker.children.child import Child, Command, Sink, stop_with_grace
from worker.enums import CancelKind
from worker.errors import EngineKilled, JobCancelled, JobInterrupted, JobTimedOut, WorkerError

# The engine needs time between the interrupt and the end of the lease to stop in order.
_MARGIN = 0.25

_URGENCY = {CancelKind.AFTER_STEP: 0, CancelKind.GRACEFUL: 1, CancelKind.KILL: 2}

# A sandbox tells a child's death by a signal as 128 and its number; no engine has such an exit code of its own.
_SIGNALLED = 128


class StopCause(StrEnum):
    """The cause of a wish to stop the job."""

    CANCELLED = "cancelled"
    LEASE = "lease"
    SHUTDOWN = "shutdown"
    TIME = "time"


@dataclass(frozen=True)
class Stop:
    """A wish to stop: how, why, and in which words."""

    kind: CancelKind
    cause: StopCause
    message: str


class JobControl:
    """Stops can only become more urgent; the engine gets at most one SIGINT."""

    def __init__(self, grace_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """`grace_seconds` lie between the interrupt and the kill."""
        self._grace_seconds = grace_seconds
        self._sleep = sleep
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None
        self._ladder: asyncio.Task[None] | None = None
        self.stop: Stop | None = None
        self.has_touched = False
        """Whether infrastructure may have changed: from then on no silence of the project stops the job."""

    @property
    def is_stopping(self) -> bool:
        """Whether the current step is being stopped; a wish to stop after it does not count."""
        return self.stop is not None and self.stop.kind is not CancelKind.AFTER_STEP

    def request(self, stop: Stop) -> None:
        """Ask the job to stop; a wish that is not more urgent than an earlier one changes nothing."""
        if self.stop is not None and _URGENCY[stop.kind] <= _URGENCY[self.stop.kind]:
            return
        # A lost lease or a shutdown explains more than the kill that follows it.
        cause = self.stop if self.stop is not None and stop.cause is StopCause.SHUTDOWN else stop
        self.stop = Stop(stop.kind, cause.cause, cause.message)
        self._act(stop.kind)

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Stop what takes longer, as a member would: interrupt the engine, and kill it when its grace has passed."""
        words = f"The job did not end within its time limit of {span(seconds)}."
        stop = Stop(CancelKind.GRACEFUL, StopCause.TIME, words)
        timer = asyncio.get_running_loop().call_later(seconds, self.request, stop)
        try:
            yield
        finally:
            timer.cancel()

    def check(self, *, is_between_steps: bool = False) -> None:
        """Raise when the job has to stop here; AFTER_STEP counts only between two steps."""
        if self.stop is not None and (is_between_steps or self.stop.kind is not CancelKind.AFTER_STEP):
            raise self.stop_error()

    def stop_error(self) -> WorkerError:
        """Return the error that ends the job."""
        assert self.stop is not None
        if self.stop.cause is StopCause.CANCELLED:
            return JobCancelled(self.stop.message, code="cancelled")
        if self.stop.cause is StopCause.TIME:
            return JobTimedOut(
                self.stop.message, code="time_limit",
                hint="The log shows what it was at. If it needs longer, raise the limit of the module, its group or the organisation.",
            )  # fmt: skip
        return JobInterrupted(self.stop.message, code=f"runner_{self.stop.cause}")

    async def run_step(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a step so that a stop also ends it where it waits for something other than a child."""
        self._task = asyncio.ensure_future(_as_coroutine(work))
        try:
            await self._task
        except asyncio.CancelledError:
            if self._task.cancelled() and self.stop is not None:
                raise self.stop_error() from None
            self._task.cancel()
            raise
        finally:
            self._task = None
            work.close()

    async def run_child(
        self, command: Command, on_output: Sink, on_errors: Sink | None = None, *, is_changing: bool = False
    ) -> int:
        """Run a child to its end; one that was stopped on the way raises the stop, unless it ended well all the same."""
        self.check()
        self._child = Child.start(command, is_output_split=on_errors is not None)
        try:
            code = await self._child.run(on_output, on_errors)
            if is_changing and (code < 0 or code > _SIGNALLED):
                raise self._killed(code)
            if code != 0 and (self._child.is_interrupted or self._child.is_killed):
                self.check()
            return code
        finally:
            self._child = None
            if self._ladder is not None:
                self._ladder.cancel()
                self._ladder = None

    def _killed(self, code: int) -> EngineKilled:
        number = -code if code < 0 else code - _SIGNALLED
        words = f"The engine was killed by signal {number} while it changed infrastructure."
        return EngineKilled(
            f"{words} {self.stop.message}" if self.stop is not None else words, code="engine_killed",
            hint="What it had not written to its state yet is not known. Look with a refresh-only plan, then decide.",
        )  # fmt: skip

    def _act(self, kind: CancelKind) -> None:
        if kind is CancelKind.AFTER_STEP:
            return
        if self._child is None:
            if self._task is not None:
                self._task.cancel()
        elif kind is CancelKind.KILL:
            self._child.kill()
        elif self._ladder is None:
            self._ladder = asyncio.ensure_future(stop_with_grace(self._child, self._grace_seconds, self._sleep))


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


@dataclass
class Lease:
    """Counted on the runner's monotonic clock from the moment the request was *sent*.

    The server began to count when it received the request, which is later; so this lease always ends first.
    """

    sent_at: float
    seconds: float

    @property
    def stop_at(self) -> float:
        """When to interrupt the work, so that it has stopped before the lease can have run out."""
        return self.sent_at + self.seconds * (1 - _MARGIN)

    def renew(self, sent_at: float, seconds: float) -> None:
        """Take over an answer; answers may arrive out of order, so an older one changes nothing."""
        if sent_at > self.sent_at:
            self.sent_at, self.seconds = sent_at, seconds
