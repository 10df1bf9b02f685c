"""Starts claimed jobs and takes note of how they end."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from worker.api.replies import ClaimedJob
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl, Lease, Stop, StopCause
from worker.attempt.outcome import LACKS, Outcome, SavedAttempt, given_back
from worker.clock import Clock
from worker.dispatch.base import Dispatcher
from worker.enums import CancelKind, JobStatus, JobType
from worker.errors import RunnerUnfit, WorkerError
from worker.fitness import Fitness, no_directory
from worker.process_status import ProcessStatus
from worker.running.attempt_runner import Attempt
from worker.running.remote import LetGo, RemoteAttempt
from worker.running.table import JobHandle, JobTable
from worker.runtime_log import get_logger
from worker.update.handover import Updater
from worker.update.recipe import is_own_update

OnEnd = Callable[[JobType, JobStatus, float], None]


class JobStarter:
    """One task for each job."""

    def __init__(
        self, table: JobTable, process_status: ProcessStatus, context: JobContext, home: Path, clock: Clock, *,
        dispatcher: Dispatcher | None, updater: Updater | None, fitness: Fitness,
        on_free: Callable[[], None], on_end: OnEnd | None = None,
    ) -> None:  # fmt: skip
        """`on_free` is called when a slot becomes free, `on_end` when a job has ended."""
        self._table = table
        self._process_status = process_status
        self._context = context
        self._home = home
        self._dispatcher = dispatcher
        self._updater = updater
        self._fitness = fitness
        self._clock = clock
        self._on_free = on_free
        self._on_end = on_end
        self._log = get_logger("worker.jobs")

    def start(self, job: ClaimedJob, sent_at: float) -> None:
        """Begin a job that was just claimed; its lease counts from the moment the claim was sent."""
        handle = self._take(job, sent_at)
        if self._process_status.is_leaving:
            # The answer to a claim that was sent before the stop signal.
            handle.control.request(Stop(CancelKind.GRACEFUL, StopCause.SHUTDOWN, "The runner is leaving."))
        handle.task = asyncio.create_task(self._run(handle, self._work(handle)))

    def take_over(self, saved: SavedAttempt, is_ours: bool) -> None:
        """Continue an attempt whose executor an earlier process started."""
        if self._dispatcher is None:
            self._log.error("no dispatcher is set: an executor is left to itself", job=saved.job, name=saved.executor)
            return
        job = ClaimedJob(id=saved.job, attempt=saved.attempt, type=JobType(saved.type))
        handle = self._take(job, self._clock.monotonic())
        handle.task = asyncio.create_task(self._run(handle, self._remote(handle).take_over(is_ours=is_ours)))

    def _take(self, job: ClaimedJob, sent_at: float) -> JobHandle:
        control = JobControl(self._context.settings.engine.stop_grace_seconds, self._clock.sleep)
        handle = JobHandle(job, Lease(sent_at, job.lease_seconds), control)
        handle.is_remote = self._dispatcher is not None and not is_own_update(job)
        self._table.add(handle)
        return handle

    def _remote(self, handle: JobHandle) -> RemoteAttempt:
        assert self._dispatcher is not None
        return RemoteAttempt(handle, self._context, self._home, self._dispatcher, self._clock, running=self._table.refs)

    async def _work(self, handle: JobHandle) -> Outcome:
        if handle.is_remote:
            return await self._remote(handle).run()
        return await Attempt(handle, self._context, self._home, self._clock, self._updater).run()

    async def _run(self, handle: JobHandle, work: Coroutine[Any, Any, Outcome]) -> None:
        began = self._clock.monotonic()
        try:
            outcome = await self._attempt(handle, work)
            self._note(handle, outcome, self._clock.monotonic() - began)
        except LetGo:
            self._log.warning("the executor continues alone; the next start takes it over", job=handle.job.id)
        finally:
            self._table.remove(handle)
            self._on_free()

    async def _attempt(self, handle: JobHandle, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            return await work
        except LetGo:
            raise
        except OSError as error:
            return await self._give_back(handle, no_directory(error))
        except RunnerUnfit as error:
            return await self._give_back(handle, error)
        except Exception as error:  # noqa: BLE001  (whatever it is, only this job ends)
            # The job's record stays on disk, and the next start reports it; the runner itself continues.
            self._log.exception("a job ended and its end was not reported", job=handle.job.id)
            self._process_status.last_error = f"job {handle.job.id}: {type(error).__name__}: {error}"
            return Outcome(JobStatus.FAILED, error={"code": "runner_error", "message": str(error)})

    async def _give_back(self, handle: JobHandle, lack: RunnerUnfit) -> Outcome:
        """Return a job that could not even begin, such as on a full disk: another runner may have what this one lacks."""
        outcome = given_back(lack)
        with suppress(WorkerError):
            await self._context.server.return_job(handle.ref, f"{lack.message} {lack.hint}".strip(), lack.code)
        return outcome

    def _note(self, handle: JobHandle, outcome: Outcome, seconds: float) -> None:
        if self._on_end is not None:
            self._on_end(handle.job.type, outcome.status, seconds)
        if outcome.status is not JobStatus.SUCCEEDED:
            self._process_status.jobs_failed += 1
        error = outcome.error or {}
        if outcome.is_returned and outcome.return_code in LACKS:
            self._process_status.last_error = error.get("message")
            self._fitness.lacks(RunnerUnfit(**{key: error.get(key, "") for key in ("message", "code", "hint")}))
        elif not outcome.is_returned:
            self._fitness.works()
