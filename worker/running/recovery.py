"""Recovery of attempts that a crashed process left on disk: delivers state, ships log, reports end, removes directory."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from worker.api.replies import JobRef
from worker.attempt import outcome as ends
from worker.attempt.context import JobContext
from worker.children.users import end_processes, kill_orphans, user_of, wait_for_orphans
from worker.clock import Clock
from worker.engines.rescue import left_state
from worker.enums import WRITING_TYPES, JobStatus
from worker.errors import Fatal, Fenced, Rejected, Retryable
from worker.logs.shipper import BatchRules, Shipper
from worker.logs.spool import Spool
from worker.running.reporter import finish_completely
from worker.running.table import JobTable
from worker.runtime_log import get_logger
from worker.statebackend.delivery import JournaledState, hand_over
from worker.statebackend.journal import FOLDER as JOURNAL_FOLDER
from worker.statebackend.journal import Journal, keep_journal, kept_entries

CRASHED = "The runner's process ended in the middle of the job"
# The kernel interrupted the engine when the runner died; this is its time to stop in order.
_ORPHAN_SECONDS = 30.0

# Continues an attempt whose executor an earlier process started; receives whether it is still ours.
TakeOver = Callable[[ends.SavedAttempt, bool], None]


async def recover(home: Path, context: JobContext, table: JobTable, clock: Clock, take_over: TakeOver) -> int:
    """Report every attempt to the server that an earlier process did not end, and clean up after it."""
    found = {folder: ends.load_attempt(folder) for folder in ends.leftovers(home)}
    for folder in (folder for folder, saved in found.items() if saved is None):
        if (ref := ends.named_attempt(folder)) is not None:
            keep_journal(folder, context.kept_states, ref)
    attempts = {folder: saved for folder, saved in found.items() if saved is not None}
    if attempts:
        get_logger("worker.recovery").warning("an earlier process left jobs", jobs=[r.job for r in attempts.values()])
    # Asked without any, too: a claim whose answer an earlier process did not live to read is given up at once.
    recovery = _Recovery(context, table, clock)
    await recovery.run(attempts, take_over)
    for folder, saved in found.items():
        if saved is None or (saved.executor is None and saved.ref not in recovery.untold):
            ends.remove_attempt(folder)
    await hand_over_kept(context)
    return len(attempts)


async def deliver_left(home: Path, ref: JobRef, context: JobContext, clock: Clock) -> ends.Outcome | None:
    """Deliver what an executor's earlier process left of its own attempt; return how that ended, if it is known."""
    folder = ends.attempt_folder(home, ref)
    saved = ends.load_attempt(folder)
    if saved is None:
        keep_journal(folder, context.kept_states, ref)
    else:
        recovery = _Recovery(context, JobTable(clock), clock)
        await recovery.tell(folder, saved, {ref})
        if ref in recovery.untold:
            return None
    ends.remove_attempt(folder)
    await hand_over_kept(context)
    return None if saved is None or saved.outcome is None else as_outcome(saved)


def as_outcome(saved: ends.SavedAttempt) -> ends.Outcome:
    """The end that was saved."""
    outcome = ends.Outcome(**(saved.outcome or {}))
    outcome.status = JobStatus(outcome.status)
    return outcome


class _Recovery:
    """One pass over what was left."""

    def __init__(self, context: JobContext, table: JobTable, clock: Clock) -> None:
        self._context = context
        self._server = context.server
        self._table = table
        self._clock = clock
        self._log = get_logger("worker.recovery")
        # Ends that something on the way to the project refused: the next start tells them.
        self.untold: set[JobRef] = set()

    async def run(self, attempts: dict[Path, ends.SavedAttempt], take_over: TakeOver) -> None:
        """Adopt, tell, and hand over to the server's rules what nobody knows the end of."""
        refs = {saved.ref for saved in attempts.values()}
        self._table.recovering |= refs
        try:
            reply = await self._server.recover(refs)
            ours = {each.ref for each in reply.jobs if each.action == "report"}
            for saved in attempts.values():
                if saved.executor is not None:
                    take_over(saved, saved.ref in ours)
            here = {folder: saved for folder, saved in attempts.items() if saved.executor is None}
            dead = [ref for folder, saved in here.items() if (ref := await self.tell(folder, saved, ours))]
            if dead:
                await self._server.recover([ref for ref in self._table.refs() if ref not in dead], dead=dead)
        finally:
            self._table.recovering -= refs

    async def tell(self, folder: Path, saved: ends.SavedAttempt, ours: set[JobRef]) -> JobRef | None:
        """Send log and end of one attempt; return it when its end is not known."""
        await asyncio.to_thread(_end_orphans, saved)
        await self._deliver_state(folder, saved)
        spool = Spool(folder, self._context.settings.job_log_stream.batch_size_limit)
        try:
            if saved.outcome is None:
                spool.append("report", f"[runyard] {CRASHED}, in phase {saved.phase}.\n")
            if saved.ref in ours:
                await self._ship(saved, spool)
            if saved.outcome is None:
                return saved.ref if saved.ref in ours else None
            await self._finish(saved, spool)
        except (Fenced, Rejected) as error:
            if error.is_ours:
                self._log.info("the server has decided about the attempt already", job=saved.job, why=error.message)
            else:
                self.untold.add(saved.ref)
                self._log.warning("the end is kept on disk for the next start", job=saved.job, why=error.message)
        finally:
            spool.close()
        return None

    async def _deliver_state(self, folder: Path, saved: ends.SavedAttempt) -> None:
        """Deliver what the attempt wrote; what the server does not take any more is kept aside."""
        context, root = self._context, Path(saved.root)
        journal = await asyncio.to_thread(
            Journal, folder / JOURNAL_FOLDER, context.kept_states, context.seal, saved.ref
        )
        # A job that only reads has none to leave, whatever its hooks have put there.
        left = await asyncio.to_thread(left_state, root) if saved.type in WRITING_TYPES else None
        if left or len(journal):
            self._log.warning("delivering state that waited on disk", job=saved.job, entries=len(journal) + bool(left))
        state = JournaledState(self._server, journal, self._clock)
        delivering = asyncio.create_task(state.run())
        settling = asyncio.create_task(self._settle(state, saved, left))
        try:
            await asyncio.wait({delivering, settling}, return_when=asyncio.FIRST_COMPLETED)
            # A delivery that failed for good, such as of a disk: nobody may wait for it.
            await (delivering if delivering.done() and delivering.exception() else settling)
        finally:
            delivering.cancel()
            settling.cancel()
        if isinstance(state.refusal, Fatal):
            raise state.refusal
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)

    async def _settle(self, state: JournaledState, saved: ends.SavedAttempt, left: str | None) -> None:
        if left:
            await state.state_put(saved.ref, left, None)
        await state.settled()

    async def _ship(self, saved: ends.SavedAttempt, spool: Spool) -> None:
        shipper = Shipper(self._server, saved.ref, spool, BatchRules(), self._clock)
        shipper.drain()
        await shipper.run()
        if shipper.refusal is not None:
            raise shipper.refusal

    async def _finish(self, saved: ends.SavedAttempt, spool: Spool) -> None:
        outcome = as_outcome(saved)
        shipper = Shipper(self._server, saved.ref, spool, BatchRules(), self._clock)
        try:
            reply = await finish_completely(self._server, saved.ref, outcome, spool, shipper)
        except Retryable as error:
            # An attempt that changed nothing is not given back: no heartbeat names it any more, and its lease ends.
            self._log.warning("a job is not given back: its lease ends instead", job=saved.job, why=error.message)
            return
        self._log.info(
            "reported how a job ended", id="end_reported", job=saved.job, attempt=saved.attempt, status=reply.status
        )


def _end_orphans(saved: ends.SavedAttempt) -> None:
    wait_for_orphans(saved.cookie, _ORPHAN_SECONDS)
    orphans = kill_orphans(saved.cookie)
    if user := user_of(Path(saved.root)):
        orphans += end_processes(user)
    get_logger("worker.recovery").info("cleaned up after a job", job=saved.job, attempt=saved.attempt, orphans=orphans)


async def hand_over_kept(context: JobContext) -> None:
    """Give the server the states that wait for a person on this disk."""
    _name_moved(context)
    for path, entry in kept_entries(context.kept_states, context.seal):
        await hand_over(context.server, path, entry, "It was kept on the runner's disk.")


def _name_moved(context: JobContext) -> None:
    """Name the states of this runner that wait for a project at another address: it may have moved."""
    ours = context.kept_states
    for other in context.kept_of_all.glob(f"*/{ours.name}"):
        if other != ours and any(other.iterdir()):
            get_logger("worker.recovery").warning(
                "states of this runner wait for a project at another address",
                folder=str(other), hint=f"If that project is this one, move the files to {ours} and start again.",
            )  # fmt: skip
