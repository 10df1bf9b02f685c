"""Starts every part in order, keeps them running, stops them in the opposite order."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cli.launcher.demo.prepare import Demo, prepare_demo
from cli.launcher.journal import Journal
from cli.launcher.notifier import POLL_EVERY_SECONDS, Notifier
from cli.launcher.parts import dashboard_part, functions_part, gateway_part, postgres_part
from cli.launcher.process import Part, PartRunner
from cli.launcher.runfiles import RunFiles
from cli.launcher.sweeper import SWEEP_EVERY_SECONDS, Sweeper
from stack.bootstrap import bootstrap
from stack.errors import Closing
from stack.functions import functions_fingerprint
from stack.migrations import applied_versions, list_migrations, migrate, seed
from stack.postgres import check_port, find_cluster
from stack.secrets import Secrets
from stack.settings import Settings, command

STATE_EVERY_SECONDS = 1.0
RELOAD_EVERY_SECONDS = 1.0
# Linux keeps the port of a connection for 60 s after its end.
CLOSING_SECONDS = 70
# Parts that use the API stop first, the database last.
STOP_LAST = {"functions": 1, "gateway": 2, "postgres": 3}


@dataclass(frozen=True)
class Wanted:
    """The optional parts to start."""

    dashboard: bool = True
    demo: bool = True


class Supervisor:
    """One run of `make up`."""

    def __init__(self, settings: Settings, secrets: Secrets, journal: Journal, wanted: Wanted) -> None:
        self.settings = settings
        self.secrets = secrets
        self.journal = journal
        self.wanted = wanted
        self.files = RunFiles(settings)
        self.cluster = find_cluster(settings, secrets)
        self.runners: list[PartRunner] = []
        self.started_at = time.time()
        self._end = asyncio.Event()

    async def run(self) -> None:
        """Start, serve until told to end, stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end.set)
        with self.files.hold():
            await self._publish_state()
            publishing = asyncio.create_task(self._repeat(STATE_EVERY_SECONDS, self._publish_state))
            try:
                await self._until_end(self._clear_the_way())
                await self._until_end(self._start())
                await self._until_end(self._serve())
            finally:
                publishing.cancel()
                await self._stop()

    @property
    def _owner_url(self) -> str:
        return self.settings.database_url("postgres", self.secrets.password("postgres"))

    @property
    def _ports(self) -> dict[str, tuple[int, str]]:
        """The port of each part, and what it is for."""
        ports = {
            "postgres": (self.settings.postgres_port, "PostgreSQL"),
            "gateway": (self.settings.gateway_port, "the API"),
            "functions": (self.settings.functions_port, "the edge functions"),
        }
        return ports | ({"dashboard": (self.settings.dashboard_port, "the dashboard")} if self.wanted.dashboard else {})

    async def _clear_the_way(self) -> None:
        """End a server that a killed supervisor left behind, then insist on free ports."""
        self.cluster.stop()
        for name in self._ports:
            await self._wait_for_port(name)

    async def _wait_for_port(self, part: str) -> None:
        """Wait for a connection that has this port to end; refuse at once a port that another process listens on."""
        deadline = time.monotonic() + CLOSING_SECONDS
        noted = False
        while part in self._ports:
            try:
                check_port(*self._ports[part])
                break
            except Closing as error:
                if time.monotonic() > deadline:
                    raise
                if not noted:
                    self.journal.note(
                        "supervisor", f"{error.message} Waiting for its end, at most {CLOSING_SECONDS} s."
                    )
                noted = True
            await asyncio.sleep(0.5)

    async def _until_end(self, work: Awaitable[None]) -> None:
        """Do the work, but drop it as soon as somebody asks us to end."""
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(self._end.wait())
        await asyncio.wait([task, end], return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _start(self) -> None:
        self.journal.say(f"Starting Runyard; state in {self.settings.home}")
        await asyncio.to_thread(self.cluster.prepare)
        try:
            async with asyncio.TaskGroup() as group:
                # Building the page takes longest and needs none of the others.
                if self.wanted.dashboard:
                    group.create_task(self._start_part(dashboard_part(self.settings, self.secrets)))
                services = group.create_task(self._start_services())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        self.files.mark_ready()
        self._greet(services.result())

    async def _start_services(self) -> Demo | None:
        await self._start_part(postgres_part(self.cluster))
        await asyncio.to_thread(self._prepare_database)
        await asyncio.gather(
            self._start_part(gateway_part(self.settings)), self._start_part(functions_part(self.settings, self.secrets))
        )
        return await self._start_demo() if self.wanted.demo else None

    async def _start_demo(self) -> Demo | None:
        try:
            demo = await prepare_demo(self.settings, self.secrets)
        except Exception as error:  # noqa: BLE001 - a person may have changed anything in it; the product must still start
            self.journal.note("demo", f"left out, it could not be prepared: {error or type(error).__name__}")
            return None
        if demo.note:
            self.journal.note("demo", demo.note)
        await asyncio.gather(*(self._start_part(part) for part in demo.parts))
        return demo

    async def _start_part(self, part: Part) -> None:
        await self._wait_for_port(part.name)
        runner = PartRunner(part, self.journal)
        self.runners.append(runner)
        began = time.monotonic()
        await runner.start()
        self.journal.note(part.name, f"ready after {time.monotonic() - began:.1f} s")

    def _prepare_database(self) -> None:
        bootstrap(self.cluster.url, self.secrets)
        self._announce_migrations()
        for name in migrate(self._owner_url, self.settings.supabase_folder):
            self.journal.note("postgres", f"applied {name}")
        seed(self._owner_url, self.settings.supabase_folder / "seed.sql")

    def _announce_migrations(self) -> None:
        """Announce the change of another version's database before it happens."""
        done = set(applied_versions(self.cluster.url))
        found = list_migrations(self.settings.supabase_folder / "migrations")
        pending = [migration.path.name for migration in found if migration.version not in done]
        if done and pending:
            self.journal.note("postgres", f"upgrading the database of an earlier version: {', '.join(pending)}")
        if unknown := sorted(done - {migration.version for migration in found}):
            note = (
                f"the database is of a newer version (migrations {', '.join(unknown)}): start that one or a later one"
            )
            self.journal.note("postgres", note)

    async def _serve(self) -> None:
        notifier = Notifier(self._owner_url, self.settings.functions_url, self.journal)
        with contextlib.closing(Sweeper(self._owner_url, self.journal)) as sweeper:
            await asyncio.gather(
                self._repeat(RELOAD_EVERY_SECONDS, self._reload_functions()),
                self._repeat(SWEEP_EVERY_SECONDS, lambda: asyncio.to_thread(sweeper.poll)),
                self._repeat(POLL_EVERY_SECONDS, notifier.watch),
            )

    def _reload_functions(self) -> Callable[[], Awaitable[None]]:
        folder = self.settings.supabase_folder
        seen = functions_fingerprint(folder)

        async def check() -> None:
            nonlocal seen
            now = functions_fingerprint(folder)
            if now != seen:
                seen = now
                self.journal.note("functions", "changed; starting again")
                await next(runner for runner in self.runners if runner.part.name == "functions").restart()

        return check

    async def _publish_state(self) -> None:
        parts = {
            runner.part.name: {
                "status": runner.status.value,
                "pid": runner.process.pid if runner.process else None,
                "restarts": runner.ends,
            }
            for runner in self.runners
        }
        state = {"pid": os.getpid(), "started_at": self.started_at, "parts": parts}
        self.files.write_state({**state, "settings": self.settings.model_dump(mode="json")})

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; what fails once (a folder that goes while it is read, a full disk) ends nothing."""
        noted = ""
        while True:
            try:
                await work()
                noted = ""
            except Exception as error:  # noqa: BLE001 - whatever it was, the parts continue, and so must their supervision
                why = f"{type(error).__name__}: {error}; trying again"
                if why != noted:
                    self.journal.note("supervisor", why)
                noted = why
            await asyncio.sleep(seconds)

    async def _stop(self) -> None:
        if self.runners:
            self.journal.say("Stopping…")
        for runner in sorted(self.runners, key=lambda runner: STOP_LAST.get(runner.part.name, 0)):
            await runner.stop()
        if self.runners:
            self.journal.say(f"Stopped. Everything is kept; `{command('up')}` continues from here.")

    def _greet(self, demo: Demo | None) -> None:
        self.journal.say()
        if self.wanted.dashboard:
            self.journal.say(f"  Runyard      {self.settings.dashboard_url}")
        if demo is not None:
            self.journal.say(f"  Sign in      {demo.email}   {demo.password}")
            if demo.note:
                self.journal.say(f"  Demo         {demo.note}")
        self.journal.say(f"  Supabase API {self.settings.url}   (`{command('env')}` prints its keys)")
        self.journal.say(f"  Mails        kept, not sent: `{command('mail')}` shows them with their links")
        self.journal.say(f"  Stop         Ctrl-C here, or `{command('down')}` in another terminal")
        self.journal.say()
