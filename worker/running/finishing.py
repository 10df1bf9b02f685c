"""Ending an attempt together with its log: the server lists what it lacks, and gets it."""

import functools
from typing import Any

from worker.api.replies import FinishReply, JobRef
from worker.api.retrying import retry_for
from worker.api.server import Server
from worker.attempt.outcome import Outcome
from worker.enums import JobStatus
from worker.logs.shipper import Shipper
from worker.logs.spool import Spool
from worker.runtime_log import get_logger

_MOST_ROUNDS = 3


async def finish_completely(
    server: Server, ref: JobRef, outcome: Outcome, spool: Spool, shipper: Shipper
) -> FinishReply:
    """Finish or give back; while parts of the log are missing send them and do it again, and at last without them."""
    for _ in range(_MOST_ROUNDS):
        reply = await _end(server, ref, outcome, spool.summary())
        if not reply.missing:
            _say(ref, reply)
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


def _say(ref: JobRef, reply: FinishReply) -> None:
    if reply.is_late:
        get_logger("worker.jobs").warning(
            "the end came too late and is kept as a late report", job=ref.job, attempt=ref.attempt, status=reply.status
        )
