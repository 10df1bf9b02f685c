"""One child process in a group of its own, and the ladder by which it is stopped."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

_POLL_SECONDS = 0.05

# Small reads keep the event loop free for heartbeats; a full pipe slows the child down, not the runner.
READ_BYTES = 64 * 1024
# How long a daemon that inherited the pipe may keep us waiting after the leader has gone.
_DRAIN_SECONDS = 5.0

Sink = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """A command to run, with its folder and its environment."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = field(default=())
    stdin: bytes = field(default=b"", repr=False)
    is_interrupt_blocked: bool = False
    """Whether it starts with SIGINT ignored, and accepts one when it is ready."""
    is_offline: bool = False
    """Whether it can open no socket of a network."""


class Child:
    """A running child; its leader gets at most one SIGINT in its life."""

    def __init__(self, process: "subprocess.Popen[bytes]", *pipes: IO[bytes]) -> None:
        """Wrap a process that leads its own group: its output, and its errors where they are apart."""
        self._process = process
        self._pipes = pipes
        self.pid = process.pid
        self.is_interrupted = False
        self.is_killed = False

    @classmethod
    def start(cls, command: Command, *, is_output_split: bool = False) -> "Child":
        """Start a command in a new session with its output in a pipe."""
        pipes = [os.pipe() for _ in range(2 if is_output_split else 1)]
        reading, writing = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        try:
            with _input(command.stdin) as stdin, _blocked({signal.SIGINT} if command.is_interrupt_blocked else set()):
                process = subprocess.Popen(
                    [*death_signal_prefix(), *command.argv],
                    cwd=command.cwd, env=dict(command.env), start_new_session=True, bufsize=0,
                    # The ends that we read as well: when the runner dies, nobody's SIGPIPE ends an engine that has yet to
                    # write its state.
                    pass_fds=(*command.pass_fds, *reading),
                    stdin=stdin, stdout=writing[0], stderr=writing[-1],
                )  # fmt: skip
        except BaseException:
            _close(reading)
            raise
        finally:
            _close(writing)
        return cls(process, *(os.fdopen(end, "rb", 0) for end in reading))

    def interrupt(self) -> None:
        """Send one SIGINT to the leader; a second one would mean "exit now, data loss possible" to the engine."""
        if not self.is_interrupted and self._process.poll() is None:
            self.is_interrupted = True
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the whole group."""
        self.is_killed = self.is_killed or self._process.poll() is None
        _kill_group(self.pid)

    async def run(self, on_output: Sink, on_errors: Sink | None = None) -> int:
        """Hand over all output, wait for the leader, end its group and return the exit code."""
        pumps = [
            asyncio.create_task(_pump(pipe, sink))
            for pipe, sink in zip(self._pipes, (on_output, on_errors), strict=False)
            if sink is not None
        ]
        try:
            code = await self._leader_exit(pumps)
            _kill_group(self.pid)
            await asyncio.wait(pumps, timeout=_DRAIN_SECONDS)
        finally:
            _kill_group(self.pid)
            await _end(pumps)
            self._process.wait()
        return code

    async def _leader_exit(self, pumps: Sequence[asyncio.Task[None]]) -> int:
        leader = asyncio.create_task(exit_of(self._process))
        try:
            while not leader.done():
                running: list[asyncio.Task[Any]] = [pump for pump in pumps if not pump.done()]
                await asyncio.wait([leader, *running], return_when=asyncio.FIRST_COMPLETED)
                # A sink that fails ends the child: what it says could no longer be kept.
                for pump in pumps:
                    if pump.done():
                        pump.result()
            return leader.result()
        finally:
            leader.cancel()


async def output_of(
    argv: Sequence[str], seconds: float, *, given: bytes = b"", errors: int = subprocess.DEVNULL, **options: Any
) -> tuple[int, bytes, bytes]:
    """Run a program of the operator's own and return its exit code, output and errors; after so long it is killed."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, **options
    )
    try:
        async with asyncio.timeout(seconds):
            output, said = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, output, said or b""


async def stop_with_grace(child: Child, grace_seconds: float, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Walk the ladder: one SIGINT, wait, then SIGKILL for the whole group."""
    child.interrupt()
    await sleep(grace_seconds)
    child.kill()


@contextmanager
def _input(content: bytes) -> Iterator[int | IO[bytes]]:
    """A file, not a pipe: nobody waits until it is read."""
    if not content:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("input"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file


@contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Let what is started here inherit that these wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(ends: Sequence[int]) -> None:
    for end in ends:
        os.close(end)


async def _pump(pipe: IO[bytes], sink: Sink) -> None:
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while data := await reader.read(READ_BYTES):
            await sink(data)
    finally:
        transport.close()


async def _end(pumps: Sequence[asyncio.Task[None]]) -> None:
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def exit_of(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the process itself; asyncio's own wait also waits for those who inherited its output."""
    with _exit_event(process.pid) as has_exited:
        while (code := process.poll()) is None:
            if has_exited is None:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await has_exited.wait()
    return code


@contextmanager
def _exit_event(pid: int) -> Iterator[asyncio.Event | None]:
    """Watch a pidfd where the system has one; otherwise the caller polls."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    has_exited = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note() -> None:
        loop.remove_reader(descriptor)
        has_exited.set()

    loop.add_reader(descriptor, note)
    try:
        yield has_exited
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@cache
def death_signal_prefix() -> tuple[str, ...]:
    """Return the command that asks the kernel to interrupt the child once when the runner dies.

    After `kill -9` of the runner an engine would continue without a state backend. One SIGINT lets it stop in order and
    write `errored.tfstate`, which the next start finds.
    """
    setpriv = shutil.which("setpriv")
    if not setpriv:
        return ()
    prefix = (setpriv, "--pdeathsig", "INT", "--")
    try:
        # BusyBox has a setpriv without this option.
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix


STARVED = "It ran out of memory: raise the memory limit of the place where it runs."
_GROUPS = Path("/sys/fs/cgroup")


def memory_kills(groups: Path = _GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """Count the processes that the kernel has ended so since the group was made; none where nobody counts."""
    for file in _counters(groups, own):
        with suppress(OSError, ValueError):
            for line in file.read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _counters(groups: Path, own: Path) -> Iterator[Path]:
    """The group's own file: below its name as the machine sees it, or at the top as a container does."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, kinds, name = line.split(":", 2)
            if not kinds:
                yield groups / name.lstrip("/") / "memory.events"
            elif "memory" in kinds.split(","):
                yield groups / "memory" / name.lstrip("/") / "memory.oom_control"
    yield groups / "memory.events"
    yield groups / "memory" / "memory.oom_control"
