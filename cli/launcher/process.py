"""One supervised process: started, watched, started again when it ends, stopped when asked."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cli.launcher.journal import Journal
from stack.errors import Unhealthy
from stack.unix_account import Account

HEALTH_EVERY_SECONDS = 5.0
FAILURES_UNTIL_KILLED = 4
FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 15.0
STEADY_SECONDS = 30.0
ENDS_AT_START = 3
CHUNK_BYTES = 65536


class PartStatus(StrEnum):
    """The status of a part, as `runyard status` shows it."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    WAITING = "waiting to start again"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Part:
    """One part: its command, and the checks that it works."""

    name: str
    command: Callable[[], list[str]]
    is_healthy: Callable[[], Awaitable[bool]]
    is_alive: Callable[[], Awaitable[bool]] | None = None
    environment: Callable[[], Mapping[str, str]] = lambda: os.environ
    account: Account = field(default_factory=Account)
    folder: Path = Path("/")
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 20
    start_seconds: float = 180


class PartRunner:
    """Keeps one part running."""

    def __init__(self, part: Part, journal: Journal) -> None:
        self.part = part
        self.journal = journal
        self.status = PartStatus.STOPPED
        self.process: asyncio.subprocess.Process | None = None
        self.ends = 0
        self._delay = FIRST_DELAY_SECONDS
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start and return when healthy; raise when it will not become so."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._keep_running())
        deadline = time.monotonic() + self.part.start_seconds
        while not await self._check():
            if self._task.done():
                await self._task
            if self.ends >= ENDS_AT_START or time.monotonic() > deadline:
                name = self.part.name
                message = f"{name} did not start. The end of {self.journal.path(name)}:"
                raise Unhealthy(f"{message}\n{self.journal.tail(name)}")
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop the process and end the supervision."""
        self._stopping.set()
        if self.process is not None and self.process.returncode is None:
            self.signal(self.part.stop_signal)
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(self.part.stop_seconds):
                    await self.process.wait()
        self._kill_group()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self.status = PartStatus.STOPPED

    async def restart(self) -> None:
        """End the process in an orderly way; the supervision starts it again at once."""
        self._delay = 0
        self.signal(self.part.stop_signal)

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            started_at = time.monotonic()
            why = await self._until_ended()
            if self._stopping.is_set():
                return
            self.ends += 1
            if time.monotonic() - started_at > STEADY_SECONDS:
                self._delay = min(self._delay, FIRST_DELAY_SECONDS)
            await self._wait_to_start_again(why)

    async def _until_ended(self) -> str:
        """Run the part once, and return how it ended; only a part that could not start even once is an error."""
        try:
            return _ending(await self._run_once())
        except Exception as error:  # a file that is being written, a machine without a process to spare
            if self.process is None:
                raise
            return f"could not be started: {error or type(error).__name__}"

    async def _wait_to_start_again(self, why: str) -> None:
        self.status = PartStatus.WAITING
        delay, self._delay = self._delay, min(max(self._delay * 2, FIRST_DELAY_SECONDS), LONGEST_DELAY_SECONDS)
        self.journal.note(self.part.name, f"{why}; starting again in {delay:.2g} s")
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(delay):
                await self._stopping.wait()

    async def _run_once(self) -> int:
        self.status = PartStatus.STARTING
        output, input_end = os.pipe()
        try:
            self.process = await self._spawn(input_end)
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(input_end)
        helpers = [asyncio.create_task(self._pump(output)), asyncio.create_task(self._watch_health())]
        try:
            return await self.process.wait()
        finally:
            self._kill_group()
            helpers[1].cancel()
            await asyncio.wait(helpers, timeout=2)
            helpers[0].cancel()

    async def _spawn(self, output: int) -> asyncio.subprocess.Process:
        """The pipe is our own: asyncio's would keep `wait` waiting while a grandchild holds it open."""
        return await asyncio.create_subprocess_exec(
            *self.part.command(),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=asyncio.subprocess.STDOUT,
            env=dict(self.part.environment()), cwd=self.part.folder,
            **self.part.account.spawn_options(self.part.stop_signal),
        )  # fmt: skip

    async def _pump(self, output: int) -> None:
        """Hand on the output line by line; a line without end is cut, not collected."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb"))
        rest = b""
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > CHUNK_BYTES:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self.journal.line(self.part.name, line.decode(errors="replace").rstrip("\r"))
            if rest:
                self.journal.line(self.part.name, rest.decode(errors="replace"))
        finally:
            pipe.close()

    async def _watch_health(self) -> None:
        """Kill a process that was healthy once and does not answer any more: its successor will."""
        failures, was_healthy = 0, False
        while True:
            await asyncio.sleep(HEALTH_EVERY_SECONDS)
            is_healthy = await self._check()
            if is_healthy or (self.part.is_alive is not None and await self.part.is_alive()):
                failures, was_healthy = 0, was_healthy or is_healthy
            elif was_healthy:
                failures += 1
                if failures >= FAILURES_UNTIL_KILLED:
                    self.journal.note(self.part.name, "does not answer; ending it")
                    self._kill_group()

    async def _check(self) -> bool:
        process = self.process
        if process is None or process.returncode is not None:
            return False
        is_healthy = await self.part.is_healthy()
        if process.returncode is None:
            self.status = PartStatus.HEALTHY if is_healthy else PartStatus.UNHEALTHY
        return is_healthy

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, while there is one."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    def _kill_group(self) -> None:
        """End what the process left behind; each part leads a process group of its own."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
