"""What a crashed process left on disk: its state is delivered, its log shipped, its end told, its directory removed."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from worker.api.replies import JobRef
from worker.children.strays import kill_strays, wait_for_strays
from worker.children.users import end_processes, user_of
from worker.clock import Clock
from worker.engines.rescue import left_state
from worker.enums import JobStatus
from worker.errors import Fatal, Fenced, Rejected
from worker.job.context import JobContext
from worker.job.outcome import Outcome
from worker.job.record import JobRecord, leftovers, load_record, named_attempt, record_folder, remove_record
from worker.jobs.finishing import finish_completely
from worker.jobs.table import JobTable
from worker.logs.batching import BatchRules
from worker.logs.shipper import Shipper
from worker.logs.spool import Spool
from worker.runtime_log import get_logger
from worker.statebackend.delivery import JournaledState, hand_over
from worker.statebackend.journal import FOLDER as JOURNAL_FOLDER
from worker.statebackend.journal import Journal, keep_journal, kept_entries

CRASHED = "The runner's process ended in the middle of the job"
# The kernel interrupted the engine when the runner died; this is its time to stop in order.
_STRAY_SECONDS = 30.0


# Goes on with an attempt whose executor an earlier process started; told whether it is still ours.
TakeOver = Callable[[JobRecord, bool], None]


async def recover(home: Path, context: JobContext, table: JobTable, clock: Clock, take_over: TakeOver) -> int:
    """Tell the server about every attempt that an earlier process did not end, and clean up after it."""
    found = {folder: load_record(folder) for folder in leftovers(home)}
    for folder in (folder for folder, record in found.items() if record is None):
        if (ref := named_attempt(folder)) is not None:
            keep_journal(folder, context.kept_states, ref)
    records = {folder: record for folder, record in found.items() if record is not None}
    if records:
        get_logger("worker.recovery").warning("an earlier process left jobs", jobs=[r.job for r in records.values()])
    # Asked without records, too: a claim whose answer an earlier process did not live to read is given up at once.
    await _Recovery(context, table, clock).run(records, take_over)
    for folder, record in found.items():
        if record is None or record.executor is None:
            remove_record(folder)
    await hand_over_kept(context)
    return len(records)


async def deliver_left(home: Path, ref: JobRef, context: JobContext, clock: Clock) -> Outcome | None:
    """Deliver what an executor's earlier process left of its own attempt; return how that ended, if it is known."""
    folder = record_folder(home, ref)
    record = load_record(folder)
    if record is None:
        keep_journal(folder, context.kept_states, ref)
    else:
        await _Recovery(context, JobTable(clock), clock).tell(folder, record, {ref})
    remove_record(folder)
    await hand_over_kept(context)
    return None if record is None or record.outcome is None else as_outcome(record)


async def hand_over_kept(context: JobContext) -> None:
    """Give the server the states that wait for a person on this disk."""
    for path, entry in kept_entries(context.kept_states, context.seal):
        await hand_over(context.server, path, entry, "It was kept on the runner's disk.")


def as_outcome(record: JobRecord) -> Outcome:
    """The end that a record knows."""
    outcome = Outcome(**(record.outcome or {}))
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

    async def run(self, records: dict[Path, JobRecord], take_over: TakeOver) -> None:
        """Adopt, tell, and hand over to the server's rules what nobody knows the end of."""
        refs = {record.ref for record in records.values()}
        self._table.recovering |= refs
        try:
            reply = await self._server.recover(refs)
            ours = {each.ref for each in reply.jobs if each.action == "report"}
            for record in records.values():
                if record.executor is not None:
                    take_over(record, record.ref in ours)
            here = {folder: record for folder, record in records.items() if record.executor is None}
            dead = [ref for folder, record in here.items() if (ref := await self.tell(folder, record, ours))]
            if dead:
                await self._server.recover([ref for ref in self._table.refs() if ref not in dead], dead=dead)
        finally:
            self._table.recovering -= refs

    async def tell(self, folder: Path, record: JobRecord, ours: set[JobRef]) -> JobRef | None:
        """Send log and end of one attempt; return it when its end is not known."""
        await asyncio.to_thread(_end_strays, record)
        await self._deliver_state(folder, record)
        spool = Spool(folder, self._context.settings.job_log_stream.batch_size_limit)
        try:
            if record.outcome is None:
                spool.append("report", f"[runyard] {CRASHED}, in phase {record.phase}.\n")
            if record.ref in ours:
                await self._ship(record, spool)
            if record.outcome is None:
                return record.ref if record.ref in ours else None
            await self._finish(record, spool)
        except (Fenced, Rejected) as error:
            self._log.info("the server has decided about the attempt already", job=record.job, why=error.message)
        finally:
            spool.close()
        return None

    async def _deliver_state(self, folder: Path, record: JobRecord) -> None:
        """Deliver what the attempt wrote; what the server does not take any more is kept aside."""
        context, root = self._context, Path(record.root)
        journal = await asyncio.to_thread(
            Journal, folder / JOURNAL_FOLDER, context.kept_states, context.seal, record.ref
        )
        left = await asyncio.to_thread(left_state, root)
        if left or len(journal):
            self._log.warning("delivering state that waited on disk", job=record.job, entries=len(journal) + bool(left))
        state = JournaledState(self._server, journal, self._clock)
        delivering = asyncio.create_task(state.run())
        try:
            if left:
                await state.state_put(record.ref, left, None)
            await state.settled()
        finally:
            delivering.cancel()
        if isinstance(state.refusal, Fatal):
            raise state.refusal
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)

    async def _ship(self, record: JobRecord, spool: Spool) -> None:
        shipper = Shipper(self._server, record.ref, spool, BatchRules(), self._clock)
        shipper.drain()
        await shipper.run()
        if shipper.refusal is not None:
            raise shipper.refusal

    async def _finish(self, record: JobRecord, spool: Spool) -> None:
        outcome = as_outcome(record)
        if outcome.is_returned:
            await self._server.return_job(record.ref, CRASHED, outcome.return_code)
            return
        shipper = Shipper(self._server, record.ref, spool, BatchRules(), self._clock)
        reply = await finish_completely(self._server, record.ref, outcome, spool, shipper)
        self._log.info("told how a job ended", job=record.job, attempt=record.attempt, status=reply.status)


def _end_strays(record: JobRecord) -> None:
    wait_for_strays(record.cookie, _STRAY_SECONDS)
    strays = kill_strays(record.cookie)
    if user := user_of(Path(record.root)):
        strays += end_processes(user)
    get_logger("worker.recovery").info("cleaned up after a job", job=record.job, attempt=record.attempt, strays=strays)
