"""Breaks one thing at a time, undoes it whatever happens, and waits until everything has recovered automatically."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg

from cli.errors import CommandError, Refused
from cli.launcher.demo.prepare import OWN
from cli.launcher.faults.books import Books
from cli.launcher.faults.content import APPLY, PLAN
from cli.launcher.faults.line import Line
from cli.launcher.faults.run import Run
from cli.launcher.faults.work import ENDED, Work, lines_lost
from cli.launcher.journal import Journal
from cli.launcher.process import PartRunner, PartStatus

POLL_EVERY_SECONDS = 0.5
# From the button to the end; a runner that is started for the first time may still fetch its engine.
LONGEST_SECONDS = 300.0
LINES_BEFORE = 3
Found = TypeVar("Found")


@dataclass(frozen=True)
class Breakable:
    """The parts that a fault may break: one runner, its line to the API, and the database."""

    runner: PartRunner
    database: PartRunner
    line: Line
    outage_seconds: float


class Breaker:
    """One run at a time, and the ledger over all of them."""

    def __init__(self, parts: Breakable, books: Books, journal: Journal) -> None:
        self._parts = parts
        self._books = books
        self._journal = journal
        self._run: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._ledger: dict[str, int] | None = None
        self._faults = self._lines = self._lines_lost = 0
        self._kinds: dict[str, Callable[[Run], Awaitable[None]]] = {
            "plan": self._kill, "apply": self._kill, "network": self._cut, "freeze": self._freeze,
            "database": self._restart,
        }  # fmt: skip

    async def read(self) -> dict[str, Any]:
        """Return the current or last fault, and the ledger."""
        counted = await asyncio.to_thread(self._books.ledger)
        self._ledger = counted or self._ledger
        ledger = (
            {**self._ledger, "log_lines_lost": self._lines_lost, "log_lines": self._lines} if self._ledger else None
        )
        return {
            "organisation": await asyncio.to_thread(self._books.organisation),
            "run": self._run.as_json() if self._run else None,
            "ledger": ledger,
            "is_ledger_old": counted is None,
            "since": self._books.since,
            "faults": self._faults,
        }

    async def begin(self, kind: str, work: Work) -> None:
        """Begin to break something, or refuse and say why."""
        if kind not in self._kinds:
            raise Refused("There is no such fault.", f"Choose one of {', '.join(self._kinds)}.")
        if self._run is not None and self._run.is_running:
            raise Refused("Something is broken already.", "Wait until it has recovered.")
        self._run = run = Run(kind)
        try:
            await asyncio.to_thread(self._check, work)
        except BaseException:
            self._run = None
            raise
        self._task = asyncio.create_task(self._whole(run, work))

    async def close(self) -> None:
        """Undo what is broken now, and leave."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._mend()

    def _check(self, work: Work) -> None:
        work.check_owner()
        try:
            others = self._books.count_others()
        except psycopg.Error as error:
            raise Refused("The database does not answer.", "Try again when it does.") from error
        if others:
            said = "Somebody's job is running." if others == 1 else f"{others} jobs of somebody are running."
            raise Refused(said, "Faults are for the demo's own jobs alone. Try again when nothing else runs.")

    async def _whole(self, run: Run, work: Work) -> None:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._drill(run, work)
            run.has_recovered = True
        except (TimeoutError, CommandError, psycopg.Error) as error:
            run.say(f"It did not recover as it should: {error or f'not within {LONGEST_SECONDS:.0f} s'}")
            await asyncio.to_thread(work.cancel, run.job)
        finally:
            self._mend()
            run.is_running = False
            self._journal.note("faults", f"{run.kind}: {'recovered' if run.has_recovered else 'not recovered'}")

    async def _drill(self, run: Run, work: Work) -> None:
        name = PLAN if run.kind == "plan" else APPLY
        lines = round(self._parts.outage_seconds) + 3 * LINES_BEFORE
        await self._begin_job(run, work, name, lines)
        self._faults += 1
        try:
            await self._kinds[run.kind](run)
        finally:
            self._mend()
        status = await self._end(run, work, name, lines)
        if status == "NEEDS_ATTENTION":
            await asyncio.to_thread(work.decide, run.job)
            run.say(
                f"Decided for you what a person would: job {run.number} is marked as failed, and its lock is released."
            )
            await self._begin_job(run, work, name, LINES_BEFORE)
            status = await self._end(run, work, name, LINES_BEFORE)
        if status != "SUCCEEDED":
            error = (await asyncio.to_thread(work.job, run.job))["error"] or {}
            raise Refused(f"Job {run.number} ended as {status}: {error.get('message', '')}", "Its page shows its log.")

    async def _begin_job(self, run: Run, work: Work, name: str, lines: int) -> None:
        """Ask for a job, and wait until its log moves."""
        run.follow(*await asyncio.to_thread(work.ask, name, lines))
        run.say(
            f"Asked for {'a plan' if name == PLAN else 'an apply'} that prints a line each second: job {run.number}."
        )
        printed = await _until(lambda: any(len(n) >= LINES_BEFORE for n in work.lines(run.job).values()))
        if printed:
            run.say(f"{OWN} runs it, and its log moves.")

    async def _end(self, run: Run, work: Work, name: str, lines: int) -> str:
        """Wait until the job has ended, report what the database does meanwhile, and count its lines."""

        def ended() -> str:
            run.hear(work.events(run.job))
            status = str(work.job(run.job)["status"])
            return status if status in ENDED else ""

        status = await _until(ended)
        seen = await _until(lambda: work.lines(run.job))
        lost = lines_lost(seen, name, lines, has_succeeded=status == "SUCCEEDED")
        self._lines += sum(len(numbers) for numbers in seen.values()) + lost
        self._lines_lost += lost
        attempt = (await _until(lambda: work.job(run.job)))["attempt"]
        words = {"SUCCEEDED": "succeeded", "NEEDS_ATTENTION": "needs a person's decision"}.get(status, status.lower())
        run.say(f"Job {run.number} {words}, in attempt {attempt}; {lost or 'no'} line{'' if lost == 1 else 's'} lost.")
        return status

    async def _kill(self, run: Run) -> None:
        runner, before = self._parts.runner, self._parts.runner.ends
        run.say(f"Killed {OWN} (SIGKILL, process {runner.pid}), in the middle of the {run.kind}.")
        runner.signal(signal.SIGKILL)
        await _until(lambda: runner.ends > before and runner.status == PartStatus.HEALTHY)
        run.say("Its supervisor started it again, as systemd or Docker would.")

    async def _cut(self, run: Run) -> None:
        seconds = self._parts.outage_seconds
        run.say(f"Cut {OWN} off from everything for {seconds:.0f} s; its engine continues.")
        self._parts.line.cut()
        await _last(run, seconds)
        self._parts.line.mend()
        run.say("The network is back.")

    async def _freeze(self, run: Run) -> None:
        seconds = self._parts.outage_seconds
        run.say(f"Froze {OWN} (SIGSTOP, process {self._parts.runner.pid}) for {seconds:.0f} s; its engine continues.")
        self._parts.runner.signal(signal.SIGSTOP)
        await _last(run, seconds)
        self._parts.runner.signal(signal.SIGCONT)
        run.say("It runs again, and knows nothing of the time that it lost.")

    async def _restart(self, run: Run) -> None:
        database, before, began = self._parts.database, self._parts.database.ends, time.monotonic()
        run.say("Restarted PostgreSQL: every connection is closed.")
        await database.restart()
        await _until(lambda: database.ends > before and database.status == PartStatus.HEALTHY)
        run.say(f"It answers again after {time.monotonic() - began:.1f} s.")

    def _mend(self) -> None:
        """Undo: nothing stays cut or frozen. The launcher restarts what was killed or stopped."""
        self._parts.line.mend()
        self._parts.runner.signal(signal.SIGCONT)


async def _last(run: Run, seconds: float) -> None:
    run.last(seconds)
    await asyncio.sleep(seconds)


async def _until(find: Callable[[], Found]) -> Found:
    """Wait for a condition that may have nobody to ask for a while; the whole run has its own limit."""
    while True:
        # The database may be away, which may be what we did.
        with contextlib.suppress(CommandError):
            found = await asyncio.to_thread(find)
            if found:
                return found
        await asyncio.sleep(POLL_EVERY_SECONDS)
