"""The attempts that this process runs right now."""

import asyncio
from dataclasses import dataclass, field

from worker.api.replies import ClaimedJob, JobRef
from worker.attempt.control import JobControl, Lease, Stop, StopCause
from worker.clock import Clock
from worker.enums import CancelKind
from worker.runtime_log import get_logger

_LEASE_OVER = Stop(
    CancelKind.GRACEFUL,
    StopCause.LEASE,
    "The runner could not renew its lease in time and stopped the job itself.",
)
_LOST = Stop(CancelKind.GRACEFUL, StopCause.LEASE, "The server gave this attempt up; it is no longer this runner's.")


@dataclass(eq=False)
class JobHandle:
    """One running attempt."""

    job: ClaimedJob
    lease: Lease
    control: JobControl
    task: asyncio.Task[None] | None = field(default=None)
    is_remote: bool = False
    is_out_of_contact: bool = False

    @property
    def ref(self) -> JobRef:
        """The attempt's name."""
        return JobRef(job=self.job.id, attempt=self.job.attempt)

    def cancel(self, kind: CancelKind, by: str | None = None) -> None:
        """Stop on request; a heartbeat, a report's answer and an executor's poll may each be the first to learn of it."""
        if self.control.stop is None:
            get_logger("worker.jobs").info(
                "cancelling", id="cancelling", job=self.job.id, attempt=self.job.attempt, kind=kind, by=by
            )
        message = f"Cancelled by {by}." if by else "Cancelled on request."
        self.control.request(Stop(kind, StopCause.CANCELLED, message))


class JobTable:
    """Knows what runs, renews leases and stops what lost its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._handles: dict[JobRef, JobHandle] = {}
        self.recovering: set[JobRef] = set()
        self._changed = asyncio.Event()
        self._log = get_logger("worker.jobs")

    def __len__(self) -> int:
        """The number of running attempts."""
        return len(self._handles)

    def add(self, handle: JobHandle) -> None:
        """Begin to run an attempt."""
        self._handles[handle.ref] = handle
        self._note()

    def remove(self, handle: JobHandle) -> None:
        """Forget an attempt that has ended."""
        self._handles.pop(handle.ref, None)
        self._note()

    def refs(self) -> list[JobRef]:
        """The attempts that a heartbeat reports: those that run, and those of a dead process that are being reported."""
        return [*self._handles, *self.recovering]

    def handles(self) -> list[JobHandle]:
        """All running attempts."""
        return list(self._handles.values())

    def find(self, ref: JobRef) -> JobHandle | None:
        """One running attempt."""
        return self._handles.get(ref)

    def renew(self, refs: list[JobRef], sent_at: float, seconds: float, lost: list[JobRef]) -> None:
        """Take over a heartbeat's answer for the attempts that were reported in it."""
        for ref in refs:
            handle = self._handles.get(ref)
            if handle is None:
                continue
            if ref in lost:
                self._log.warning("the server gave the attempt up", job=ref.job, attempt=ref.attempt)
                handle.control.request(_LOST)
            else:
                handle.lease.renew(sent_at, seconds)
                handle.is_out_of_contact = False

    async def watch_leases(self) -> None:
        """Interrupt each attempt that changes nothing yet before its lease can have run out, even with a dead network."""
        while True:
            now = self._clock.monotonic()
            for handle in self.handles():
                if handle.lease.stop_at <= now and not handle.control.is_stopping:
                    self._lease_over(handle)
            # Short naps, so that a stopped and continued process notices at once.
            await self._clock.sleep(1.0)

    def _lease_over(self, handle: JobHandle) -> None:
        """Stop an attempt that another runner may get; nobody else ever gets one that has begun to change things."""
        about = {"job": handle.job.id, "attempt": handle.job.attempt}
        if handle.is_remote:
            # Its executor knows the phase and keeps the same rule.
            return
        if not handle.control.has_touched:
            self._log.error("lease not renewed in time, stopping", id="lease_lost", **about)
            handle.control.request(_LEASE_OVER)
        elif not handle.is_out_of_contact:
            handle.is_out_of_contact = True
            self._log.warning("out of contact in the middle of a change: it continues, its state is kept here", **about)

    async def wait_empty(self, besides: JobRef | None = None) -> None:
        """Return when nothing runs any more, besides the one that waits for it."""
        while any(ref != besides for ref in self._handles):
            self._changed.clear()
            await self._changed.wait()

    def _note(self) -> None:
        self._changed.set()
