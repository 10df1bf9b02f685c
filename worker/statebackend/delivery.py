"""State through the journal: acknowledged when it is safe on disk, delivered in order when the server answers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.api.replies import JobRef, StateReply
from worker.api.server import Server
from worker.clock import Clock, backoff
from worker.errors import ODD_TRIES, Fatal, Fenced, Locked, Rejected, Retryable, WorkerError
from worker.runtime_log import get_logger
from worker.statebackend.journal import Entry, Journal, Kind

LONGEST_PAUSE = 10.0
# About a minute: a disk that fails for longer does not recover without help.
DISK_TRIES = 12
# For a first state, and for how many of the size that is known; sealed, one is a little longer than it is.
RESERVED_BYTES = 4 * 1024 * 1024
RESERVED_STATES = 3
# The lock that the engine asks for must not overtake the unlock of the command before it.
_LOCK_WAITS_SECONDS = 60.0
# For a project that hangs instead of being away.
_KNOWN_WAITS_SECONDS = 5.0


class JournaledState:
    """One attempt's state, as its engine sees it."""

    def __init__(self, server: Server, journal: Journal, clock: Clock) -> None:
        """Whatever waits in the journal already is delivered first."""
        self._server = server
        self._journal = journal
        self._clock = clock
        self._read: StateReply | None = None
        self._has_more = asyncio.Event()
        self._changed = asyncio.Condition()
        self._log = get_logger("worker.state")
        self.refusal: WorkerError | None = None
        self._failures = 0

    async def state_get(self, ref: JobRef) -> StateReply:
        """Read what this attempt wrote last, or the server's; in an outage, what the server said before."""
        if self._journal.newest is not None:
            return StateReply(exists=True, body=self._journal.newest)
        try:
            # An earlier read is still true, since this attempt owns the state: the engine does not have to wait.
            async with asyncio.timeout(None if self._read is None else _KNOWN_WAITS_SECONDS):
                self._read = await self._server.state_get(ref, seconds=60.0 if self._read is None else 0.0)
        except (Retryable, TimeoutError):
            if self._read is None:
                raise
        return self._read

    async def reserve(self) -> None:
        """Take room on disk for some states of the size that is known, before an engine begins to change things."""
        known = (self._read.body if self._read else None) or ""
        await asyncio.to_thread(self._journal.reserve, RESERVED_BYTES + RESERVED_STATES * len(known.encode()))

    async def state_put(self, ref: JobRef, body: str, lock_id: str | None) -> None:
        """Acknowledge a state once it is on disk; without a disk, once the server has it."""
        try:
            await asyncio.to_thread(self._journal.append, Kind.PUT, lock_id, body)
        except OSError as error:
            self._log.error("the journal cannot be written; the state goes to the server at once", why=str(error))
            await self.settled()
            await self._server.state_put(ref, body, lock_id, seconds=120.0)
            self._read = StateReply(exists=True, body=body)
            self._journal.newest = None
            return
        self._has_more.set()

    async def state_lock(self, ref: JobRef, lock: Mapping[str, Any]) -> None:
        """Lock at the server, after everything that was written before."""
        try:
            async with asyncio.timeout(_LOCK_WAITS_SECONDS):
                await self.settled()
        except TimeoutError as error:
            raise Retryable("The project does not answer; the state cannot be locked.") from error
        await self._server.state_lock(ref, lock)

    async def state_unlock(self, ref: JobRef, lock_id: str) -> None:
        """Unlock once everything that was written before has been delivered."""
        try:
            await asyncio.to_thread(self._journal.append, Kind.UNLOCK, lock_id)
        except OSError:
            await self.settled()
            await self._server.state_unlock(ref, lock_id, seconds=60.0)
            return
        self._has_more.set()

    async def run(self) -> None:
        """Deliver entries in order until cancelled or the session is over."""
        while not isinstance(self.refusal, Fatal):
            entry = self._journal.first
            if entry is None:
                await self._has_more.wait()
                self._has_more.clear()
                continue
            try:
                await self._deliver(entry)
                self._failures = 0
            except (Retryable, OSError) as error:
                self._failures += 1
                if isinstance(error, OSError) and self._failures > DISK_TRIES:
                    raise
                if self._failures == 1:
                    self._log.warning(_not_yet(error), id="state_waits", job=entry.job, why=str(error))
                await self._clock.sleep(backoff(self._failures, first=0.2, most=LONGEST_PAUSE))
        await self._note()

    async def fail(self, error: Fatal) -> None:
        """Nothing is delivered any more: what waits stays on disk for the next start, and nobody waits for it here."""
        self.refusal = error
        await self._note()

    async def settled(self) -> None:
        """Wait until nothing waits in the journal, or the session is over and the next start delivers it."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._journal) == 0 or isinstance(self.refusal, Fatal))

    async def _deliver(self, entry: Entry) -> None:
        try:
            await self._send(entry)
            await asyncio.to_thread(self._journal.delivered, entry)
        except Fatal as error:
            self.refusal = error
            self._log.warning("the session is over; the state waits on disk for the next start", job=entry.job)
        except (Fenced, Locked, Rejected) as error:
            if not error.is_ours and self._failures < ODD_TRIES:
                raise Retryable(error.message) from error
            await self._refused(entry, error)
        finally:
            await self._note()

    async def _send(self, entry: Entry) -> None:
        if entry.kind is Kind.PUT:
            await self._server.state_put(entry.ref, entry.body, entry.lock_id, seconds=0.0)
        else:
            await self._server.state_unlock(entry.ref, entry.lock_id or "", seconds=0.0)

    async def _refused(self, entry: Entry, error: WorkerError) -> None:
        """Keep what the server does not store any more; an unlock that is refused has nothing to keep."""
        self.refusal = error
        if entry.kind is Kind.UNLOCK:
            await asyncio.to_thread(self._journal.delivered, entry)
            return
        path = await asyncio.to_thread(self._journal.set_aside, entry)
        self._log.error("a state was not stored; it is kept aside", job=entry.job, why=error.message, file=str(path))
        await hand_over(self._server, path, entry, error.message)

    async def _note(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _not_yet(error: Exception) -> str:
    if isinstance(error, OSError):
        return "the journal's disk fails; what it has is delivered again until it can be removed"
    return "the project does not take the state yet; it is safe on disk"


async def hand_over(server: Server, path: Path, entry: Entry, why: str) -> bool:
    """Give the server a state that was set aside; the file goes only when it has been taken."""
    try:
        await server.keep_state(entry.ref, entry.number, entry.body, entry.written_at, why)
    except WorkerError as error:
        get_logger("worker.state").warning(
            "the state that was not stored stays on the runner", file=str(path), why=error.message
        )
        return False
    await asyncio.to_thread(path.unlink, missing_ok=True)
    return True
