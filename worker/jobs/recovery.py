"""What a crashed process left on disk: its log is shipped, its end reported, its directory removed."""

import asyncio
import shutil
from pathlib import Path

from worker.api.replies import JobRef
from worker.api.server import Server
from worker.children.strays import kill_strays, wait_for_strays
from worker.clock import Clock
from worker.engines.rescue import rescue_state
from worker.enums import JobStatus
from worker.errors import Fenced, Rejected
from worker.job.outcome import Outcome
from worker.job.record import JobRecord, leftovers, load_record, remove_record
from worker.jobs.finishing import finish_completely
from worker.jobs.table import JobTable
from worker.logs.batching import BatchRules
from worker.logs.shipper import Shipper
from worker.logs.spool import Spool
from worker.runtime_log import get_logger

CRASHED = "The runner's process ended in the middle of the job"
# The kernel interrupted the engine when the runner died; this is its time to stop in order.
_STRAY_SECONDS = 30.0


async def recover(home: Path, rescued: Path, server: Server, table: JobTable, clock: Clock) -> int:
    """Tell the server about every attempt that an earlier process did not end, and clean up after it."""
    found = {folder: load_record(folder) for folder in leftovers(home)}
    records = {folder: record for folder, record in found.items() if record is not None}
    if records:
        get_logger("worker.recovery").warning("an earlier process left jobs", jobs=[r.job for r in records.values()])
    # Asked without records, too: a claim whose answer an earlier process did not live to read is given up at once.
    await _Recovery(rescued, server, table, clock).run(records)
    for folder in found:
        remove_record(folder)
    return len(records)


class _Recovery:
    """One pass over what was left."""

    def __init__(self, rescued: Path, server: Server, table: JobTable, clock: Clock) -> None:
        self._rescued = rescued
        self._server = server
        self._table = table
        self._clock = clock
        self._log = get_logger("worker.recovery")

    async def run(self, records: dict[Path, JobRecord]) -> None:
        """Adopt, tell, and hand over to the server's rules what nobody knows the end of."""
        refs = {record.ref for record in records.values()}
        self._table.recovering |= refs
        try:
            reply = await self._server.recover(refs)
            ours = {each.ref for each in reply.jobs if each.action == "report"}
            dead = [ref for folder, record in records.items() if (ref := await self._tell(folder, record, ours))]
            if dead:
                await self._server.recover(dead, are_dead=True)
        finally:
            self._table.recovering -= refs

    async def _tell(self, folder: Path, record: JobRecord, ours: set[JobRef]) -> JobRef | None:
        """Send log and end of one attempt; return it when its end is not known."""
        await asyncio.to_thread(self._clean, record)
        spool = Spool(folder)
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

    def _clean(self, record: JobRecord) -> None:
        wait_for_strays(record.cookie, _STRAY_SECONDS)
        strays = kill_strays(record.cookie)
        kept = rescue_state(Path(record.root), self._rescued, record.ref)
        shutil.rmtree(record.root, ignore_errors=True)
        self._log.info("cleaned up after a job", job=record.job, attempt=record.attempt, strays=strays, rescued=kept)

    async def _ship(self, record: JobRecord, spool: Spool) -> None:
        shipper = Shipper(self._server, record.ref, spool, BatchRules(), self._clock)
        shipper.drain()
        await shipper.run()
        if shipper.refusal is not None:
            raise shipper.refusal

    async def _finish(self, record: JobRecord, spool: Spool) -> None:
        outcome = Outcome(**(record.outcome or {}))
        outcome.status = JobStatus(outcome.status)
        if outcome.is_returned:
            await self._server.return_job(record.ref, CRASHED)
            return
        shipper = Shipper(self._server, record.ref, spool, BatchRules(), self._clock)
        reply = await finish_completely(self._server, record.ref, outcome, spool, shipper)
        self._log.info("told how a job ended", job=record.job, attempt=record.attempt, status=reply.status)
