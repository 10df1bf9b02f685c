"""The runner's process: put together here, and taken down in the order written at the bottom."""

import asyncio
import functools
import os
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import sdnotify

from worker.api.retrying import retry_for
from worker.api.server import Server
from worker.api.transport import Transport
from worker.attempt.context import JobContext
from worker.attempt.control import Stop, StopCause
from worker.attempt.isolating import check_root, check_secrets, check_strangers, settle_isolation
from worker.children.hardening import hide_from_children
from worker.clock import Clock
from worker.cloud.proof import watch_clouds
from worker.dispatch.base import Dispatcher
from worker.dispatch.choose import dispatcher_for
from worker.enums import CancelKind, WorkerStatus
from worker.errors import ExitCode, Fatal, WorkerError
from worker.finder import HOW_TO_GET_ONE, EngineFinder
from worker.fitness import Fitness, Probe, probe_disk, probe_memory
from worker.host_facts import HostFacts
from worker.logs.redactor import KnownSecrets
from worker.loops.build import Loops, Parts, WakeUps, build_loops
from worker.loops.signals import Signals
from worker.process_status import ProcessStatus
from worker.program import Handover, Program, obstacle
from worker.running.recovery import recover
from worker.running.table import JobTable
from worker.runtime_log import RecentLog, configure_logging, get_logger
from worker.session.credentials import Credentials
from worker.session.identity import RunnerIdentity, take_identity
from worker.session.session import RunnerSession
from worker.settings.model import Settings
from worker.signals import ignore_more
from worker.statebackend.journal import take_seal
from worker.task_protection import TaskProtection
from worker.update.handover import Updater, hand_over
from worker.version import __version__

_ENGINE_CHECK_SECONDS = 5.0
_IMAGE_CHECK_SECONDS = 60.0
_POLL_SECONDS = 0.25
_SINGLE_GIVES_UP_SECONDS = 60.0
# A project that is away for a moment does not show that a new version cannot work here.
_TRIAL_SECONDS = 30.0
# How long reporting killed jobs to the server may take.
_LAST_WORDS_SECONDS = 5.0


def run(settings: Settings, single: bool = False, *, is_trial: bool = False, program: Program | None = None) -> int:
    """Run until asked to leave and return the exit code; `program` is what an update may replace."""
    known = KnownSecrets()
    redactor = known.redactor()
    recent = configure_logging(settings.logging.log_level, settings.logging.format, redactor.redact)
    hide_from_children()
    log = get_logger("worker")

    async def live() -> tuple[ExitCode, Handover | None]:
        try:
            runner = Runner(
                settings, known, Clock(), is_single=single, is_trial=is_trial, program=program, recent=recent
            )
            return await runner.run(), runner.handover
        finally:
            ignore_more()

    try:
        code, handover = asyncio.run(live())
        if handover is not None:
            hand_over(handover, redactor)
        return int(code)
    except Fatal as error:
        log.critical("the runner stops", why=error.message, hint=error.hint, exit_code=int(error.exit_code))
        return int(error.exit_code)
    except WorkerError as error:
        log.critical("the runner stops", why=error.message, hint=error.hint)
        return int(ExitCode.UNEXPECTED)


class Runner:
    """One process's life."""

    def __init__(
        self, settings: Settings, known: KnownSecrets, clock: Clock, *, is_single: bool, is_trial: bool = False,
        program: Program | None = None, recent: RecentLog | None = None,
    ) -> None:  # fmt: skip
        """Made on the event loop; what needs a connection is made in `run`."""
        self._settings = settings
        self._known = known
        self._clock = clock
        self._process_status = ProcessStatus(capacity=settings.capacity or 1, is_single=is_single)
        self._is_trial = is_trial
        self._obstacle = obstacle(program)
        self._program = None if self._obstacle else program
        self._recent = recent
        self._wake_ups = WakeUps()
        self._table = JobTable(clock)
        self._signals = Signals(self._process_status, self._table, self._wake_ups.heartbeat.set)
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log = get_logger("worker")

    @property
    def handover(self) -> Handover | None:
        """The handover to the program that replaces this process; none if it received a stop signal in the meantime."""
        return self._process_status.handover if self._signals.count == 0 else None

    async def run(self) -> ExitCode:
        """Connect, work, leave."""
        settings = self._settings
        identity = take_identity(
            str(settings.runner.id), settings.runner.instance, settings.working_directory.working_directory
        )
        self._log.info("starting", version=__version__, url=settings.server.url, instance=identity.instance)
        try:
            async with Transport(settings.server.url, timeout_seconds=settings.server.timeout_seconds) as transport:
                return await self._connected(identity, transport)
        finally:
            identity.release()

    async def _connected(self, identity: RunnerIdentity, transport: Transport) -> ExitCode:
        self._signals.install()
        credentials = Credentials(self._settings, transport, self._known)
        environ = dict(os.environ)
        finder = EngineFinder(self._settings.engine.additional_binary_paths, environ)
        await finder.refresh()
        if not finder.found and not self._settings.dispatcher.is_remote:
            self._log.warning("no engine was found", id="no_engine", hint=HOW_TO_GET_ONE)
        isolation = await settle_isolation(self._settings, environ, finder)
        check_root(isolation)
        facts = HostFacts(self._settings, finder, self._process_status, isolation.fact, self._program, self._recent)
        session = await self._open_session(transport, credentials, identity, facts)
        if session is None:
            return ExitCode.OK
        check_strangers(isolation, session.grant.worker)
        check_secrets(self._settings, session.grant.worker)
        server = Server(transport, session.renew, on_fatal=self._on_fatal)
        if self._is_trial:
            return await self._prove(server, facts)
        dispatcher = dispatcher_for(self._settings)
        context = JobContext(
            self._settings, server, finder, environ, take_seal(self._settings.working_directory.working_directory),
            self._known, TaskProtection(environ.get("ECS_AGENT_URI", "")), isolation,
        )  # fmt: skip
        parts = Parts(
            context, session, identity, facts, self._table, self._process_status, self._clock, self._wake_ups, dispatcher,
            self._updater(identity), Fitness(self._process_status, self._clock, identity.home, self._wake_ups.both),
        )  # fmt: skip
        try:
            return await self._live(parts, build_loops(parts), finder)
        finally:
            if dispatcher is not None:
                await dispatcher.close()

    async def _prove(self, server: Server, facts: HostFacts) -> ExitCode:
        """Show that this version can work here, for the old version: one heartbeat, no job."""
        await retry_for(_TRIAL_SECONDS, lambda: server.heartbeat(WorkerStatus.DRAINING, __version__, [], facts()))
        with suppress(WorkerError):
            await server.close_session("a trial of this version")
        self._log.info("this version can work here", version=__version__)
        return ExitCode.OK

    def _updater(self, identity: RunnerIdentity) -> Updater | None:
        if self._program is None:
            if self._settings.update.enabled and not self._process_status.is_single:
                self._log.warning("cannot update itself", id="cannot_update", why=self._obstacle)
            return None
        announce = self._wake_ups.heartbeat.set
        return Updater(self._program, identity.home, self._process_status, self._table.wait_empty, announce)

    async def _open_session(
        self, transport: Transport, credentials: Credentials, identity: RunnerIdentity, facts: HostFacts
    ) -> RunnerSession | None:
        """Open the session, unless a signal comes first."""
        organization = self._settings.runner.organization_id
        session = RunnerSession(
            transport,
            credentials,
            identity,
            facts(),
            self._clock,
            organization_id=str(organization) if organization else None,
        )
        is_short = self._process_status.is_single or self._is_trial
        give_up_after = _SINGLE_GIVES_UP_SECONDS if is_short else None
        opening = asyncio.create_task(session.open(give_up_after=give_up_after))
        while not opening.done():
            await asyncio.wait([opening], timeout=_POLL_SECONDS)
            if self._process_status.is_leaving:
                opening.cancel()
                return None
        opening.result()
        return session

    async def _live(self, parts: Parts, loops: Loops, finder: EngineFinder) -> ExitCode:
        server = parts.context.server
        running = [
            parts.session.keep_fresh(), loops.heartbeat.run(), self._table.watch_leases(), self._watch_engines(finder),
            watch_clouds(self._process_status, self._wake_ups.heartbeat.set, self._clock.sleep),
        ]  # fmt: skip
        running.append(parts.fitness.run(self._probes(parts, finder)))
        if parts.dispatcher is not None:
            running.append(self._watch_image(parts.dispatcher))
        if self._settings.server.realtime:
            running.append(loops.doorbell.run())
        # AWS's library is an extra: a runner without it leaves the deciding to others.
        if self._settings.scaling.enabled and find_spec("boto3") is not None:
            running.append(loops.scaler.run())
        running.append(self._recover_then_claim(parts, loops))
        tasks: list[asyncio.Task[None]] = [asyncio.create_task(loop) for loop in running]
        sdnotify.SystemdNotifier().notify("READY=1")
        try:
            return await self._until_done(tasks)
        finally:
            await self._take_down(tasks, server)

    def _probes(self, parts: Parts, finder: EngineFinder) -> dict[str, Probe]:
        """Map each thing that the runner may lack to the probe that tries it again."""
        folders = self._settings.working_directory
        on_disk = functools.partial(probe_disk, folders.working_directory, folders.temp_directory)
        probes: dict[str, Probe] = {
            "disk": on_disk,
            "work_directory": on_disk,
            "memory": probe_memory,
            "engine": finder.probe,
        }
        if parts.dispatcher is not None:
            probes |= {"dispatcher": parts.dispatcher.probe, "image": parts.dispatcher.probe}
        return probes

    async def _recover_then_claim(self, parts: Parts, loops: Loops) -> None:
        await recover(parts.identity.home, parts.context, self._table, self._clock, loops.starter.take_over)
        await loops.claim.run()

    async def _until_done(self, tasks: list["asyncio.Task[None]"]) -> ExitCode:
        """Wait for the first reason to leave."""
        leaving = asyncio.create_task(self._left())
        waited: list[asyncio.Future[Any]] = [leaving, self._fatal, *tasks]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            failed = [each for each in (self._fatal, *tasks) if each.done()]
            if failed:
                await self._stop_for_good(failed[0].exception())
                failed[0].result()
            return await leaving
        finally:
            leaving.cancel()

    async def _left(self) -> ExitCode:
        """Wait until the process may leave: told to, or its single job done, and nothing runs."""
        while not (
            self._process_status.is_leaving or (self._process_status.is_single and self._process_status.has_claimed)
        ):
            await self._clock.sleep(_POLL_SECONDS)
        emptied = asyncio.create_task(self._table.wait_empty())
        killed = asyncio.create_task(self._signals.is_killing.wait())
        await asyncio.wait([emptied, killed], return_when=asyncio.FIRST_COMPLETED)
        if not emptied.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await emptied
        killed.cancel()
        if self._signals.is_killing.is_set():
            return ExitCode.STOPPED
        is_failed = self._process_status.is_single and self._process_status.jobs_failed > 0
        return ExitCode.JOB_FAILED if is_failed else ExitCode.OK

    async def _stop_for_good(self, why: BaseException | None) -> None:
        """The session is over: stop what runs in order. After a defect of ours, jobs that change things continue to their end."""
        is_over = isinstance(why, Fatal)
        words = "The runner's session has ended." if is_over else "The runner leaves because of a defect of its own."
        for handle in self._table.handles():
            if is_over or not handle.control.has_touched:
                handle.control.request(Stop(CancelKind.GRACEFUL, StopCause.LEASE, words))
        with suppress(TimeoutError):
            seconds = self._settings.engine.stop_grace_seconds + 5 if is_over else None
            async with asyncio.timeout(seconds):
                await self._table.wait_empty()

    async def _take_down(self, tasks: list["asyncio.Task[None]"], server: Server) -> None:
        """Order: claims and heartbeats stop, jobs' tasks end, the session is closed, connections are closed by `run`."""
        # A service that reports its stop is ended after a while; one that only becomes another version does not stop.
        notice = f"STATUS=updating to {handover.version}" if (handover := self.handover) else "STOPPING=1"
        sdnotify.SystemdNotifier().notify(notice)
        jobs = [handle.task for handle in self._table.handles() if handle.task is not None]
        for task in [*tasks, *jobs]:
            task.cancel()
        await asyncio.gather(*tasks, *jobs, return_exceptions=True)
        with suppress(WorkerError):
            await server.close_session("process exited")
        self._log.info("left")

    async def _watch_engines(self, finder: EngineFinder) -> None:
        while True:
            before = (dict(finder.versions), finder.note())
            await self._clock.sleep(_ENGINE_CHECK_SECONDS)
            await finder.refresh()
            if (finder.versions, finder.note()) != before:
                self._wake_ups.both()

    async def _watch_image(self, dispatcher: Dispatcher) -> None:
        """Learn which engines executors have: an image may be pulled, or another one take its name."""
        while True:
            engines = await dispatcher.engines()
            if engines != self._process_status.image_engines:
                self._process_status.image_engines = engines
                self._wake_ups.both()
            await self._clock.sleep(_IMAGE_CHECK_SECONDS)

    def _on_fatal(self, error: Fatal) -> None:
        if not self._fatal.done():
            self._fatal.set_exception(error)
