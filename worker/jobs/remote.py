"""One attempt that is executed elsewhere: the runner starts it, beats for it, and sees how it ends."""

import asyncio
from contextlib import suppress

from worker.dispatch.base import LOST, Dispatcher, Execution
from worker.dispatch.order import Order, passed_variables
from worker.enums import CancelKind, JobStatus
from worker.errors import JobCancelled, JobFailed, JobInterrupted, RunnerUnfit, WorkerError
from worker.exit_codes import ExitCode
from worker.job.approval import approved_hooks
from worker.job.context import JobContext
from worker.job.control import StopCause
from worker.job.outcome import Outcome, failure
from worker.job.spec import read_spec
from worker.jobs.table import JobHandle
from worker.runtime_log import get_logger

# Exit codes with which an executor says that it has told the server how the job ended.
TOLD = (ExitCode.OK, ExitCode.JOB_FAILED)
UNKNOWN_LOG = {"is_incomplete": True}
# For the place to notice what its executor did.
SLACK_SECONDS = 30.0


class RemoteAttempt:
    """Has the same `run` as an attempt that is executed here."""

    def __init__(self, handle: JobHandle, context: JobContext, dispatcher: Dispatcher) -> None:
        """Nothing is started yet."""
        self._handle = handle
        self._server = context.server
        self._settings = context.settings
        self._environ = context.environ
        self._dispatcher = dispatcher
        self._log = get_logger("worker.dispatch").bind(job=handle.job.id, attempt=handle.job.attempt)

    async def run(self) -> Outcome:
        """Start the executor, wait for its end, and leave nothing of it behind."""
        try:
            execution = await self._dispatcher.start(await self._order())
        except RunnerUnfit:
            raise
        except WorkerError as error:
            self._log.error("the executor cannot be started", why=error.message)
            return await self._finish(failure(error))
        except Exception as error:  # noqa: BLE001  (a library's own error is an answer, too: the job must not vanish)
            self._log.exception("the executor cannot be started")
            return await self._finish(failure(_unforeseen(error)))
        self._log.info("the executor runs", dispatcher=self._settings.dispatcher.type.value)
        try:
            code = await self._watch(execution)
        finally:
            await execution.remove()
        self._log.info("the executor ended", exit_code=code, why=execution.why)
        if code in TOLD:
            return Outcome(JobStatus.SUCCEEDED if code == ExitCode.OK else JobStatus.FAILED)
        return await self._speak_for(execution)

    async def _order(self) -> Order:
        grant = await self._server.job_grant(self._handle.ref)
        ref, settings = self._handle.ref, self._settings
        key, token = grant["publishable_key"], grant["access_token"]
        approved = await asyncio.to_thread(approved_hooks, read_spec(self._handle.job), settings)
        passed = passed_variables(settings, self._environ)
        return Order(
            ref.job, ref.attempt, str(settings.runner.id), settings.server.url, key, token, tuple(approved), passed
        )

    async def _watch(self, execution: Execution) -> int:
        """Wait for the end; each wish to stop, and each grace that has passed, takes one rung more: stop, kill, give up."""
        control, ended = self._handle.control, asyncio.ensure_future(execution.wait())
        rungs = [execution.stop, execution.kill]
        try:
            while True:
                try:
                    async with asyncio.timeout(self._patience(len(rungs))):
                        await control.run_step(_end_of(ended))
                    return ended.result()
                except (JobCancelled, JobInterrupted, TimeoutError):
                    if not rungs:
                        return LOST
                    if control.stop is not None and control.stop.kind is CancelKind.KILL:
                        rungs = rungs[-1:]
                    await rungs.pop(0)()
        finally:
            ended.cancel()

    def _patience(self, rungs_left: int) -> float | None:
        """Say how long to wait: for ever at first, and for its grace once it was asked to stop."""
        return None if rungs_left > 1 else self._settings.engine.stop_grace_seconds + SLACK_SECONDS

    async def _speak_for(self, execution: Execution) -> Outcome:
        """End an attempt whose executor is gone without a word, unless only a person may decide about it."""
        stop = self._handle.control.stop
        if stop is not None and stop.cause is StopCause.CANCELLED:
            outcome = failure(JobCancelled(stop.message, code="cancelled"))
        else:
            hint = "See the place where executors run: its events say more."
            outcome = failure(JobFailed(f"The executor was lost: {execution.why}", code="executor_lost", hint=hint))
        try:
            seen = await self._server.job(self._handle.ref, has_payload=False)
        except WorkerError as error:
            # Fenced: the executor had told the end after all, or the attempt is not ours any more.
            self._log.info("the attempt has ended already", why=error.message)
            return outcome
        if seen.get("has_touched"):
            # Nobody renews the lease from here on; the database flags the job for a person and keeps its state locked.
            self._log.error("the executor was lost while it changed infrastructure", why=execution.why)
            return outcome
        return await self._finish(outcome)

    async def _finish(self, outcome: Outcome) -> Outcome:
        with suppress(WorkerError):
            await self._server.finish(self._handle.ref, outcome.as_arguments(UNKNOWN_LOG))
        return outcome


def _unforeseen(error: Exception) -> JobFailed:
    """Words for what no dispatcher expects of its library."""
    return JobFailed(
        f"The executor could not be started: {type(error).__name__}: {error}", code="dispatcher_failed",
        hint="Check the dispatcher's settings on the runner; `runyard-worker doctor` tries them.",
    )  # fmt: skip


async def _end_of(ended: "asyncio.Future[int]") -> None:
    """Wait without ending what is waited for."""
    await asyncio.shield(ended)
