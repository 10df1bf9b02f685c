"""The executor: runs the one job that a dispatcher started it for, with a credential for nothing else."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from worker.api.replies import ClaimedJob, JobRef, read_answer
from worker.api.retrying import retry_for
from worker.api.server import Server
from worker.api.transport import Transport
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl, Lease, Stop, StopCause
from worker.attempt.isolating import settle_isolation
from worker.attempt.outcome import attempt_folder
from worker.children.hardening import hide_from_children
from worker.clock import Clock, backoff
from worker.enums import CancelKind, JobStatus
from worker.errors import ExitCode, Fatal, Retryable, WorkerError
from worker.finder import EngineFinder
from worker.logs.redactor import KnownSecrets
from worker.running.attempt_runner import Attempt
from worker.running.recovery import deliver_left
from worker.running.table import JobHandle, JobTable
from worker.runtime_log import configure_logging, get_logger
from worker.session.credentials import ask
from worker.settings.model import Settings
from worker.signals import STOPPING
from worker.statebackend.journal import take_seal

PULSE_SECONDS = 10.0
# The project may be away when we begin: nothing has been done yet, so wait for it as long as a lease is valid.
FIRST_SECONDS = 45.0
RENEW_SECONDS = 9 * 60.0


def run_executor(settings: Settings) -> int:
    """Run the job and return the exit code that the dispatcher reads."""
    known = KnownSecrets()
    configure_logging(settings.logging.log_level, settings.logging.format, known.redactor().redact)
    hide_from_children()
    log = get_logger("worker.executor")
    try:
        return int(asyncio.run(Executor(settings, known, Clock()).run()))
    except WorkerError as error:
        log.critical("the executor stops", why=error.message, hint=error.hint)
        return int(error.exit_code if isinstance(error, Fatal) else ExitCode.UNEXPECTED)


class Executor:
    """One process, one attempt."""

    def __init__(self, settings: Settings, known: KnownSecrets, clock: Clock) -> None:
        executor = settings.executor
        assert executor.job_id is not None
        assert executor.attempt is not None
        assert executor.token is not None
        self._settings = settings
        self._clock = clock
        self._ref = JobRef(job=executor.job_id, attempt=executor.attempt)
        self._token = executor.token.get_secret_value()
        self._key = executor.publishable_key or ""
        self._signals = 0
        self._log = get_logger("worker.executor").bind(job=executor.job_id, attempt=executor.attempt)
        self._known = known
        known.add(self._token)

    async def run(self) -> ExitCode:
        """Fetch the job, run it, report how it ended."""
        settings = self._settings
        async with Transport(settings.server.url, timeout_seconds=settings.server.timeout_seconds) as transport:
            self._transport = transport
            transport.use(publishable_key=self._key, token=self._token)
            self._server = Server(transport, self._renew)
            if attempt_folder(self._home(), self._ref).exists():
                return await self._deliver_left()
            sent_at = self._clock.monotonic()
            job = read_answer(ClaimedJob, await retry_for(FIRST_SECONDS, lambda: self._server.job(self._ref)))
            control = JobControl(settings.engine.stop_grace_seconds, self._clock.sleep)
            self._handle = JobHandle(job, Lease(sent_at, job.lease_seconds), control)
            return await self._work()

    async def _deliver_left(self) -> ExitCode:
        """An earlier process of this executor died: nothing is run again, what it left is delivered."""
        self._log.warning("an earlier process of this executor died; delivering what it left")
        outcome = await deliver_left(self._home(), self._ref, await self._job_context(), self._clock)
        if outcome is None:
            return ExitCode.UNEXPECTED
        return ExitCode.OK if outcome.status is JobStatus.SUCCEEDED else ExitCode.JOB_FAILED

    async def _work(self) -> ExitCode:
        table = JobTable(self._clock)
        table.add(self._handle)
        self._listen()
        loops = [asyncio.create_task(loop) for loop in (self._pulse(), self._keep_fresh(), table.watch_leases())]
        try:
            attempt = Attempt(self._handle, await self._job_context(), self._home(), self._clock)
            outcome = await attempt.run()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        if not outcome.is_returned and attempt_folder(self._home(), self._ref).exists():
            # Its end, or a state, waits on this disk, which goes with a container that ended as it should.
            return ExitCode.UNEXPECTED
        is_success = outcome.status is JobStatus.SUCCEEDED and not outcome.is_returned
        return ExitCode.OK if is_success else ExitCode.JOB_FAILED

    async def _job_context(self) -> JobContext:
        environ = dict(os.environ)
        finder = EngineFinder(self._settings.engine.additional_binary_paths, environ)
        await finder.refresh()
        isolation = await settle_isolation(self._settings, environ, finder)
        seal = take_seal(self._settings.working_directory.working_directory)
        return JobContext(self._settings, self._server, finder, environ, seal, self._known, isolation=isolation)

    def _home(self) -> Path:
        home = self._settings.working_directory.working_directory / "executors"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return home

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        """Stop in order at the first signal: the place where we run sends no second one before it kills."""
        self._signals += 1
        self._stopping = asyncio.ensure_future(self._stop())

    async def _stop(self) -> None:
        """Ask the server first why we are to stop: a cancelled job is not given back to the queue."""
        with suppress(WorkerError, TimeoutError):
            async with asyncio.timeout(5):
                await self._poll()
        kind = CancelKind.GRACEFUL if self._signals == 1 else CancelKind.KILL
        self._handle.control.request(Stop(kind, StopCause.SHUTDOWN, "The executor received a stop signal."))

    async def _poll(self) -> None:
        """Learn whether the attempt is still ours, for how long, and whether it is to stop."""
        sent_at = self._clock.monotonic()
        seen = await self._server.job(self._ref, has_payload=False)
        self._handle.lease.renew(sent_at, float(seen.get("lease_seconds") or 0))
        if kind := seen.get("cancel_kind"):
            self._handle.cancel(CancelKind(kind))

    async def _pulse(self) -> None:
        """Poll every few seconds; what the server gave up is stopped, and silence ends with the lease."""
        while True:
            await self._clock.sleep(PULSE_SECONDS)
            try:
                await self._poll()
            except WorkerError as error:
                if isinstance(error, Retryable) or not error.is_ours:
                    self._log.warning("the server does not answer", why=error.message)
                else:
                    self._handle.control.request(Stop(CancelKind.GRACEFUL, StopCause.LEASE, error.message))

    async def _keep_fresh(self) -> None:
        failures = 0
        while True:
            await self._clock.sleep(backoff(failures) if failures else RENEW_SECONDS)
            try:
                await self._renew()
                failures = 0
            except WorkerError as error:
                failures += 1
                self._log.warning("the credential is not renewed yet", why=error.message)

    async def _renew(self) -> None:
        reply = await ask(self._transport, "worker-session", {"renew": True}, is_authorised=True)
        self._transport.use(publishable_key=self._key, token=str(reply["access_token"]))
