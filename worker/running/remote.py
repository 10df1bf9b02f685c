"""One attempt that is executed elsewhere: the runner starts it, sends heartbeats for it, and sees how it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from worker import errors
from worker.api.replies import JobRef
from worker.api.retrying import retry_for
from worker.attempt.context import JobContext
from worker.attempt.control import StopCause
from worker.attempt.outcome import Outcome, SavedAttempt, attempt_folder, failure, remove_attempt, save_attempt
from worker.attempt.spec import read_spec
from worker.clock import Clock, backoff
from worker.dispatch.base import LOST, Dispatcher, Execution, Order, executor_name, passed_variables
from worker.enums import CancelKind, JobStatus
from worker.running.table import JobHandle
from worker.runtime_log import get_logger
from worker.steps.hooks import approved_hooks

# Exit codes of an executor that has reported to the server how the job ended.
TOLD = (errors.ExitCode.OK, errors.ExitCode.JOB_FAILED)
UNKNOWN_LOG = {"is_incomplete": True}
# For the place to notice what its executor did.
SLACK_SECONDS = 30.0
# Time for the project to confirm that the attempt has ended after the executor reported it; past it the executor's word counts.
ASK_SECONDS = 60.0

Rungs = list[Callable[[], Awaitable[None]]]


class LetGo(Exception):
    """The runner leaves, and the executor continues its change alone; the next start takes it over."""


class RemoteAttempt:
    """Has the same `run` as an attempt that is executed here."""

    def __init__(
        self, handle: JobHandle, context: JobContext, home: Path, dispatcher: Dispatcher, clock: Clock,
        *, running: Callable[[], list[JobRef]],
    ) -> None:  # fmt: skip
        """Nothing is started yet; `running` names every attempt that this process has."""
        self._handle = handle
        self._server = context.server
        self._settings = context.settings
        self._environ = context.environ
        self._dispatcher = dispatcher
        self._clock = clock
        self._running = running
        self._folder = attempt_folder(home, handle.ref)
        self._name = executor_name(handle.ref, str(context.settings.runner.id))
        self._log = get_logger("worker.dispatch").bind(job=handle.job.id, attempt=handle.job.attempt)

    async def run(self) -> Outcome:
        """Start the executor, wait for its end, and leave nothing of it behind."""
        ref, kind = self._handle.ref, self._handle.job.type.value
        save_attempt(self._folder, SavedAttempt(ref.job, ref.attempt, kind, "", "", executor=self._name))
        try:
            execution = await self._dispatcher.start(await self._order())
        except errors.RunnerUnfit:
            remove_attempt(self._folder)
            raise
        except errors.WorkerError as error:
            self._log.error("the executor cannot be started", why=error.message)
            return await self._give_up(error)
        except Exception as error:  # noqa: BLE001  (a library's own error is an answer, too: the job must not vanish)
            self._log.exception("the executor cannot be started")
            failed = errors.JobFailed(
                f"The executor could not be started: {type(error).__name__}: {error}", code="dispatcher_failed",
                hint="Check the dispatcher's settings on the runner; `runyard-worker doctor` tries them.",
            )  # fmt: skip
            return await self._give_up(failed)
        self._log.info("the executor runs", dispatcher=self._settings.dispatcher.type.value)
        return await self._see_through(execution, [execution.stop, execution.kill])

    async def _give_up(self, error: Exception) -> Outcome:
        remove_attempt(self._folder)
        return await self._finish(failure(error))

    async def take_over(self, *, is_ours: bool) -> Outcome:
        """Continue the execution that an earlier process started; an attempt that is not ours any more stops in order."""
        execution = await self._find()
        if execution is None:
            remove_attempt(self._folder)
            return await self._speak_for("it no longer exists")
        self._log.info(
            "took over the executor of an earlier process", id="executor_taken_over", name=self._name, is_ours=is_ours
        )
        if not is_ours:
            await execution.stop()
        return await self._see_through(execution, [execution.stop, execution.kill] if is_ours else [execution.kill])

    async def _find(self) -> Execution | None:
        failures = 0
        while True:
            try:
                return await self._dispatcher.find(self._name)
            except errors.RunnerUnfit as error:
                failures += 1
                self._log.warning("the executor is not found yet", name=self._name, why=error.message)
                await self._clock.sleep(backoff(failures, first=1.0, most=30.0))

    async def _order(self) -> Order:
        ref, settings = self._handle.ref, self._settings
        grant = await self._grant()
        key, token = grant["publishable_key"], grant["access_token"]
        approved = await asyncio.to_thread(approved_hooks, read_spec(self._handle.job), settings)
        passed = passed_variables(settings, self._environ)
        return Order(
            ref.job, ref.attempt, str(settings.runner.id), settings.server.url, key, token, tuple(approved), passed
        )

    async def _grant(self) -> dict[str, Any]:
        try:
            return await self._server.job_grant(self._handle.ref)
        except (errors.Retryable, errors.Rejected) as error:
            if error.is_ours and isinstance(error, errors.Rejected):
                raise
            # No job's fault: it is given back, and this runner pauses.
            words = f"The project gave no credential for the executor: {error.message}"
            raise errors.RunnerUnfit(words, code="dispatcher", hint=error.hint) from error

    async def _see_through(self, execution: Execution, rungs: Rungs) -> Outcome:
        try:
            code = await self._end(execution, rungs)
        except errors.RunnerUnfit:
            # It never began, such as for lack of its image, or with an image that is not an executor.
            await execution.remove()
            remove_attempt(self._folder)
            raise
        if code not in TOLD and await self._has_touched() and await execution.restart():
            self._log.warning(
                "the executor was lost in the middle of a change: it delivers what it left",
                id="executor_redelivers",
                why=execution.why,
            )
            code = await self._end(execution, [execution.stop, execution.kill])
        await execution.remove()
        remove_attempt(self._folder)
        self._log.info("the executor ended", id="executor_ended", exit_code=code, why=execution.why)
        if code in TOLD:
            return Outcome(JobStatus.SUCCEEDED if code == errors.ExitCode.OK else JobStatus.FAILED)
        return await self._speak_for(execution.why)

    async def _end(self, execution: Execution, rungs: Rungs) -> int:
        """Wait for the end; a success that the project does not know of does not count."""
        code = await self._watch(execution, rungs)
        seen = await self._still_open() if code == errors.ExitCode.OK else None
        if seen is None:
            return code
        if not seen.get("has_touched"):
            raise errors.RunnerUnfit(
                f"The executor did not report its job: {execution.why}, before it had told anything.", code="image",
                hint="Is the dispatcher's image a Runyard worker image, and does its entry point run the command that it is given?",
            )  # fmt: skip
        execution.why += ", and did not report how the job ended"
        return LOST

    async def _still_open(self) -> dict[str, Any] | None:
        """Ask for the attempt; nothing where it has ended, is another's, or nobody can say."""
        try:
            return await retry_for(ASK_SECONDS, self._ask)
        except errors.WorkerError:
            return None

    async def _watch(self, execution: Execution, rungs: Rungs) -> int:
        """Wait for the end; each wish to stop, and each grace that has passed, takes one step more: stop, kill, give up."""
        control, ended = self._handle.control, asyncio.ensure_future(execution.wait())
        try:
            while True:
                try:
                    async with asyncio.timeout(self._patience(len(rungs))):
                        await control.run_step(_end_of(ended))
                    return ended.result()
                except (errors.JobCancelled, errors.JobInterrupted, TimeoutError) as error:
                    if isinstance(error, errors.JobInterrupted) and await self._may_be_changing():
                        raise LetGo from error
                    if not rungs:
                        return LOST
                    if control.stop is not None and control.stop.kind is CancelKind.KILL:
                        rungs = rungs[-1:]
                    await rungs.pop(0)()
        finally:
            ended.cancel()

    def _patience(self, rungs_left: int) -> float | None:
        """Return how long to wait: for ever at first, and for its grace after a request to stop."""
        return None if rungs_left > 1 else self._settings.engine.stop_grace_seconds + SLACK_SECONDS

    async def _may_be_changing(self) -> bool:
        """Ask once; without an answer it may be ours: an executor stops an attempt that is no longer its own."""
        try:
            return bool((await self._ask()).get("has_touched"))
        except (errors.Fenced, errors.Rejected):
            return False
        except errors.WorkerError:
            return True

    async def _has_touched(self) -> bool:
        """Ask until the project answers: until then nothing of the executor is removed."""
        try:
            seen = await retry_for(None, self._ask)
        except errors.WorkerError:
            return False
        return bool(seen.get("has_touched"))

    async def _ask(self) -> dict[str, Any]:
        """Read the attempt's status; an answer of something on the way to the project does not count."""
        try:
            return await self._server.job(self._handle.ref, has_payload=False)
        except errors.Rejected as error:
            if error.is_ours:
                raise
            raise errors.Retryable(error.message) from error

    async def _speak_for(self, why: str) -> Outcome:
        """End an attempt whose executor vanished without a report, unless only a person may decide about it."""
        stop, ref = self._handle.control.stop, self._handle.ref
        if stop is not None and stop.cause is StopCause.CANCELLED:
            outcome = failure(errors.JobCancelled(stop.message, code="cancelled"))
        else:
            hint = "See the place where executors run: its events say more."
            outcome = failure(errors.JobFailed(f"The executor was lost: {why}", code="executor_lost", hint=hint))
        try:
            seen = await retry_for(None, self._ask)
            if not seen.get("has_touched"):
                return await self._finish(outcome)
            # The database flags the job for a person and keeps its state locked.
            self._log.error("the executor was lost while it changed infrastructure", id="executor_lost", why=why)
            await self._server.recover([each for each in self._running() if each != ref], dead=[ref])
        except errors.WorkerError as error:
            # Fenced: the executor had told the end after all, or the attempt is not ours any more.
            self._log.info("the attempt has ended already", why=error.message)
        return outcome

    async def _finish(self, outcome: Outcome) -> Outcome:
        with suppress(errors.WorkerError):
            await self._server.finish(self._handle.ref, outcome.as_arguments(UNKNOWN_LOG))
        return outcome


async def _end_of(ended: "asyncio.Future[int]") -> None:
    """Wait for something without cancelling it."""
    await asyncio.shield(ended)
