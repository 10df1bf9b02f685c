"""What a crashed process left on disk: its log is shipped, its end reported, its directory removed."""

import shutil
from contextlib import suppress
from pathlib import Path

from worker.api.server import Server
from worker.children.strays import kill_strays
from worker.clock import Clock
from worker.enums import JobStatus
from worker.errors import Fenced, Rejected, Retryable
from worker.jobs.outcome import Outcome
from worker.jobs.record import JobRecord, leftovers, load_record, remove_record
from worker.logs.batching import BatchRules
from worker.logs.shipper import Shipper
from worker.logs.spool import Spool
from worker.runtime_log import get_logger

CRASHED = {
    "code": "runner_crashed",
    "message": "The runner's process ended in the middle of the job.",
    "hint": "The runner's own log and its supervisor say why.",
}


async def recover(home: Path, server: Server, clock: Clock) -> int:
    """Report and clean up every attempt that an earlier process did not end; return their number."""
    log = get_logger("worker.recovery")
    found = [(folder, load_record(folder)) for folder in leftovers(home)]
    records = [record for _, record in found if record is not None]
    if records:
        log.warning("an earlier process left jobs behind", jobs=[record.job for record in records])
        with suppress(Rejected):
            await server.recover(record.ref for record in records)
    for folder, record in found:
        if record is not None:
            await _finish(folder, record, server, clock)
        remove_record(folder)
    return len(records)


async def _finish(folder: Path, record: JobRecord, server: Server, clock: Clock) -> None:
    log = get_logger("worker.recovery")
    strays = kill_strays(record.cookie)
    spool = Spool(folder)
    if record.outcome is None:
        spool.append("report", f"[runyard] {CRASHED['message']} It was in phase {record.phase}.\n")
    shutil.rmtree(record.root, ignore_errors=True)
    try:
        await _ship(record, spool, server, clock)
        await _report(record, spool, server, clock)
        log.info("reported a job of an earlier process", job=record.job, attempt=record.attempt, strays=strays)
    except (Fenced, Rejected) as error:
        log.info("the server has given the attempt to someone else", job=record.job, why=error.message)
    finally:
        spool.close()


async def _ship(record: JobRecord, spool: Spool, server: Server, clock: Clock) -> None:
    shipper = Shipper(server, record.ref, spool, BatchRules(), clock)
    shipper.drain()
    await shipper.run()
    if shipper.refusal is not None:
        raise shipper.refusal


async def _report(record: JobRecord, spool: Spool, server: Server, clock: Clock) -> None:
    outcome = Outcome(**record.outcome) if record.outcome else Outcome(JobStatus.FAILED, error=dict(CRASHED))
    outcome.status = JobStatus(outcome.status)
    if outcome.is_returned:
        await server.return_job(record.ref, CRASHED["message"])
        return
    reply = await server.finish(record.ref, outcome.as_arguments(spool.summary()))
    with suppress(Retryable):
        await Shipper(server, record.ref, spool, BatchRules(), clock).resend(reply.missing)
