"""One attempt from what is saved of it on disk to the server's acknowledgement."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from worker import enums
from worker.attempt.context import JobContext
from worker.attempt.control import Stop, StopCause
from worker.attempt.outcome import Outcome, SavedAttempt, attempt_folder, failure, remove_attempt, save_attempt
from worker.attempt.spec import read_spec
from worker.attempt.workspace import Step, Workspace
from worker.children.users import kill_orphans
from worker.clock import Clock
from worker.engines.rescue import ERRORED_STATE
from worker.errors import Fatal, Fenced, JobInterrupted, Rejected, Retryable, RunnerUnfit, WorkerError
from worker.files.own_files import reserve_own
from worker.fitness import lacking
from worker.logs.job_log import JobLog
from worker.logs.shipper import BatchRules, Shipper
from worker.logs.spool import Spool
from worker.running.reporter import Reporter, finish_completely
from worker.running.step_loop import StepLoop
from worker.running.table import JobHandle
from worker.runtime_log import get_logger
from worker.statebackend.backend import StateBackend
from worker.statebackend.delivery import RESERVED_BYTES, JournaledState
from worker.statebackend.journal import FOLDER as JOURNAL_FOLDER
from worker.statebackend.journal import Journal
from worker.steps.recipes import recipe
from worker.update.handover import Updater
from worker.update.recipe import is_own_update, update_recipe

# Given back before the engine that changes things was started.
NOT_BEGUN = "not_begun"
_DEFECT = "A part of the runner failed, and the job cannot continue without it."


class Attempt:
    """Owns everything that one attempt needs; `run` never raises for what the job did."""

    def __init__(
        self, handle: JobHandle, context: JobContext, home: Path, clock: Clock, updater: Updater | None = None
    ) -> None:
        """Open the spool and save what is known; nothing of the job has begun yet."""
        job, stream = handle.job, context.settings.job_log_stream
        self._handle, self._context, self._updater = handle, context, updater
        self._space: Workspace | None = None
        self._defect: Exception | None = None
        self._folder = attempt_folder(home, handle.ref)
        root = context.settings.working_directory.temp_directory / f"job-{job.id}-{job.attempt}-{secrets.token_hex(4)}"
        self._saved = SavedAttempt(job.id, job.attempt, job.type.value, str(root), secrets.token_hex(16))
        save_attempt(self._folder, self._saved)
        self._spool = Spool(self._folder, stream.batch_size_limit)
        journal = Journal(self._folder / JOURNAL_FOLDER, context.kept_states, context.seal, handle.ref)
        self._state = JournaledState(context.server, journal, clock)
        rules = BatchRules(stream.period_seconds, stream.batch_size_limit, stream.eagerly_emit_first_event)
        self._shipper = Shipper(context.server, handle.ref, self._spool, rules, clock, on_fenced=self._fenced)
        self._jlog = JobLog(self._spool, context.secrets.redactor(), self._shipper.added)
        self._reporter = Reporter(context.server, handle.ref, clock, on_cancel=handle.cancel, on_fenced=self._fenced)
        self._log = get_logger("worker.jobs").bind(job=job.id, attempt=job.attempt)

    async def run(self) -> Outcome:
        """Run the steps, report, and clean up."""
        self._log.info("job begins", type=self._handle.job.type, module=self._handle.job.module_path)
        async with self._background() as shipping:
            outcome = await self._work()
            await asyncio.to_thread(self._keep, outcome)
            await self._tidy(outcome)
            self._shipper.drain()
            await shipping
            # Only with its state: an end that is reported before it would let the next job begin from an older one.
            await self._state.settled()
            await self._deliver(outcome)
            # Only now: the job's result has been reported, so that nothing is lost if the task ends.
            await self._context.protection.release(self._handle.ref)
        self._log.info("job ended", id="job_ended", status=outcome.status, code=(outcome.error or {}).get("code"))
        return outcome

    async def _work(self) -> Outcome:
        is_read_only = self._handle.job.type not in enums.WRITING_TYPES
        async with StateBackend(self._state, self._handle.ref, is_read_only=is_read_only) as backend:
            try:
                space = self._workspace(backend)
                limits, kind = space.spec.time_limits, self._handle.job.type
                with self._handle.control.limited(limits.plan if kind in enums.LOOKING_TYPES else limits.apply):
                    await StepLoop(space, self._reporter, self._note_phase).run(self._steps(space))
                return Outcome(enums.JobStatus.SUCCEEDED, space.result, None, space.plan_summary)
            except Exception as error:  # noqa: BLE001  (whatever it is, the job ends and the runner continues)
                return self._failed(error)
            finally:
                if self._space is not None:
                    await self._space.leaving.aclose()

    def _steps(self, space: Workspace) -> list[Step]:
        job = self._handle.job
        if is_own_update(job):
            return update_recipe(space, self._updater)
        if job.type in enums.LIFECYCLE_TYPES:
            # AWS's library is an extra: a runner that deploys no others need not have it.
            from worker.cloud.lifecycle import lifecycle_recipe

            return lifecycle_recipe(job.type)
        return recipe(job.type, space.spec, has_saved_plan=job.plan_job_id is not None)

    def _workspace(self, backend: StateBackend) -> Workspace:
        space = Workspace(
            self._handle.job, read_spec(self._handle.job), self._context, self._jlog, self._handle.control,
            Path(self._saved.root), backend, cookie=self._saved.cookie,
        )  # fmt: skip
        space.on_summary = lambda: self._reporter.summarise(space.plan_summary)
        self._space = space
        return space

    def _failed(self, error: Exception) -> Outcome:
        # The runner does not give back a job that its own defect stopped: the job would meet the defect again, for ever.
        if self._defect and isinstance(error, JobInterrupted):
            error = self._defect
        elif isinstance(error, OSError):
            error = lacking(error) or error
        outcome = failure(error)
        if self._space is None:
            self._jlog.say(f"[runyard] {outcome.error['message'] if outcome.error else error}")
        else:
            outcome.result, outcome.plan_summary = self._space.result, self._space.plan_summary
        # The runner stopped it, for reasons of its own: before infrastructure changed, it can simply be done again.
        if isinstance(error, JobInterrupted | RunnerUnfit) and not self._handle.control.has_touched:
            outcome.is_returned = True
            # The server may know that a change begins although its answer never arrived.
            outcome.return_code = error.code if isinstance(error, RunnerUnfit) else NOT_BEGUN
        return outcome

    async def _note_phase(self, phase: enums.JobPhase) -> None:
        if phase.value != self._saved.phase:
            if phase in enums.CHANGING_PHASES:
                await self._reserve()
            self._saved.phase = phase.value
            with suppress(OSError):
                await asyncio.to_thread(save_attempt, self._folder, self._saved)

    async def _reserve(self) -> None:
        """Take room for the state before it changes: a runner that has none gives the job back."""
        space = self._space
        try:
            await self._state.reserve()
            if (
                space is not None
                and space.work.is_absolute()
                and space.spec.module.engine is not enums.EngineName.PULUMI
            ):
                # The engine writes it when nobody takes its state, such as after the runner's death.
                await asyncio.to_thread(reserve_own, space.root, space.work / ERRORED_STATE, RESERVED_BYTES)
        except OSError as error:
            # Any other reason, such as a filesystem that reserves nothing, leaves the job as safe as it was.
            if (lack := lacking(error)) is not None and lack.code == "disk":
                raise lack from error

    def _keep(self, outcome: Outcome) -> None:
        """Put the outcome on disk before anything else: it and its log must survive a crash from here on."""
        self._saved.outcome = vars(outcome)
        with suppress(OSError):
            self._spool.sync()
            save_attempt(self._folder, self._saved)

    async def _tidy(self, outcome: Outcome) -> None:
        """The last step, which always runs: report how it ended, and leave nothing behind."""
        self._jlog.begin_step("report")
        self._reporter.begin("report", "Report and clean up", enums.JobPhase.REPORT, self._spool.last_seq + 1)
        orphans = await asyncio.to_thread(kill_orphans, self._saved.cookie)
        if orphans:
            self._jlog.say(f"Ended {orphans} processes that the job had left behind.")
        status = enums.StepStatus.SUCCEEDED
        try:
            if self._space is not None:
                await asyncio.to_thread(self._space.remove)
        except OSError as error:
            status = enums.StepStatus.FAILED
            self._jlog.say(f"The job's directory could not be removed: {error}")
        self._jlog.say(f"Job {outcome.status.lower()}." if not outcome.is_returned else "Given back to the queue.")
        self._spool.cut()
        self._reporter.end(status, self._spool.last_seq)

    async def _deliver(self, outcome: Outcome) -> None:
        """Report to the server how it ended, send what it lacks, and forget the attempt."""
        server, ref = self._context.server, self._handle.ref
        try:
            if isinstance(self._state.refusal, Fatal):
                raise self._state.refusal
            with suppress(Fenced, Rejected):
                await self._reporter.confirmed()
            await finish_completely(server, ref, outcome, self._spool, self._shipper)
        except WorkerError as error:
            if isinstance(error, Retryable | Fatal) or not error.is_ours:
                self._log.warning("the end is kept on disk for the next start", why=error.message)
                self._spool.close()
                return
            self._log.warning("the server does not take this attempt's end", why=error.message)
        self._spool.close()
        remove_attempt(self._folder)

    @asynccontextmanager
    async def _background(self) -> AsyncIterator["asyncio.Task[None]"]:
        shipping = asyncio.create_task(self._shipping())
        others = [asyncio.create_task(each) for each in (self._reporting(), self._delivering())]
        try:
            yield shipping
        finally:
            for task in (shipping, *others):
                task.cancel()
            await asyncio.gather(shipping, *others, return_exceptions=True)

    async def _shipping(self) -> None:
        await self._has_ended_well(self._shipper.run())

    async def _reporting(self) -> None:
        if not await self._has_ended_well(self._reporter.run()):
            self._reporter.fail(Rejected(_DEFECT, code="runner_error"))

    async def _delivering(self) -> None:
        if not await self._has_ended_well(self._state.run()):
            await self._state.fail(Fatal(_DEFECT))

    async def _has_ended_well(self, part: Awaitable[None]) -> bool:
        """Run a part to its end; a defect of it stops the job in order, unless the job has begun to change things."""
        try:
            await part
        except Exception as error:  # noqa: BLE001  (whatever it is, nobody may wait for ever for what has ended)
            self._log.exception("a part of the job's attempt failed unexpectedly", id="part_failed")
            self._defect = error
            if not self._handle.control.has_touched:
                self._handle.control.request(Stop(enums.CancelKind.GRACEFUL, StopCause.LEASE, _DEFECT))
            return False
        return True

    def _fenced(self, why: str) -> None:
        self._handle.control.request(Stop(enums.CancelKind.GRACEFUL, StopCause.LEASE, why))
