"""The workspace that the steps of one job share: directory, environment, log, control, results."""

import asyncio
import base64
import errno
import hashlib
import os
import secrets
import shlex
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.api.replies import BoundValues, ClaimedJob, JobRef
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl
from worker.attempt.output_watch import OutputWatch
from worker.attempt.spec import JobSpec
from worker.attempt.variables import JobVariables, Keys
from worker.children.child import STARVED, Command, memory_kills
from worker.enums import JobPhase
from worker.errors import EngineKilled, JobFailed, RunnerUnfit, WorkerError
from worker.files.own_files import read_own, write_own
from worker.finder import FoundEngine
from worker.fitness import has_no_room, lacking, no_directory
from worker.logs.job_log import JobLog
from worker.statebackend.backend import StateBackend

LARGEST_CAPTURE = 128 * 1024 * 1024


@dataclass
class Workspace:
    """One attempt's private place."""

    job: ClaimedJob
    spec: JobSpec
    context: JobContext
    log: JobLog
    control: JobControl
    root: Path
    backend: StateBackend
    variables: JobVariables = field(default_factory=JobVariables)
    keys: Keys = field(default_factory=lambda: Keys({}))
    env: dict[str, str] = field(default_factory=dict)
    # The version that the module's requirement chose.
    engine: FoundEngine | None = None
    work: Path = field(default_factory=Path)
    # Of Terragrunt: the unit's folder, the engine that it names, and the one that it was wrapped around.
    unit: Path | None = None
    unit_engine: str = ""
    wrapped: FoundEngine | None = None
    bound: BoundValues = field(default_factory=BoundValues)
    plan_summary: dict[str, Any] | None = None
    # As the engine made it; the file of it is a copy for hooks.
    plan: bytes | None = field(default=None, repr=False)
    # Its JSON, for the rules that check it.
    shown: bytes | None = field(default=None, repr=False)
    result: dict[str, Any] = field(default_factory=dict)
    on_summary: Callable[[], None] = field(default=lambda: None)
    # Git sees the machine's own credentials for it; nothing of the module runs meanwhile.
    is_fetching: bool = False
    # Children reach no network.
    is_offline: bool = False
    cookie: str = field(default_factory=lambda: secrets.token_hex(16))
    # Things that a step began and the attempt ends, before it removes the directory.
    leaving: AsyncExitStack = field(default_factory=AsyncExitStack)
    # Whether the kernel ended a process of the last command for lack of memory.
    is_starved: bool = False

    @property
    def ref(self) -> JobRef:
        """The attempt's name."""
        return JobRef(job=self.job.id, attempt=self.job.attempt)

    @property
    def source(self) -> Path:
        """The folder to which the runner fetches the module's files."""
        return self.root / "source"

    @property
    def plan_file(self) -> Path:
        """The file to which the engine writes its plan, and where hooks find a copy of it."""
        return self.root / "plan.tfplan"

    def say(self, text: str) -> None:
        """Write the runner's own words into the job's log."""
        self.log.say(text)

    async def run(
        self, argv: list[str], *, ok: tuple[int, ...] = (0,), what: str = "", pass_fds: tuple[int, ...] = (),
        is_changing: bool = False, on_output: Callable[[bytes], None] | None = None,
    ) -> int:  # fmt: skip
        """Run a command with its output in the log; another exit code than `ok` fails the job."""
        shown = what or shlex.join([Path(argv[0]).name, *argv[1:]])
        self.say(f"$ {shown}")
        seen = OutputWatch()

        async def sink(data: bytes) -> None:
            seen.feed(data)
            if on_output:
                on_output(data)
            await asyncio.to_thread(self.log.write, data)

        code = await self._child(argv, sink, None, pass_fds, is_changing=is_changing)
        if code not in ok:
            raise self._failure(shown, code, seen)
        return code

    async def capture(self, argv: list[str], *, ok: tuple[int, ...] = (0,), pass_fds: tuple[int, ...] = ()) -> bytes:
        """Run a command whose output is for the runner; only its errors are logged."""
        parts: list[bytes] = []
        size, seen = 0, OutputWatch()

        async def keep(data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size > LARGEST_CAPTURE:
                raise JobFailed(f"{Path(argv[0]).name} {argv[1]} printed too much to read.", code="too_large")
            parts.append(data)

        async def errors(data: bytes) -> None:
            seen.feed(data)
            await asyncio.to_thread(self.log.write, data)

        code = await self._child(argv, keep, errors, pass_fds)
        if code not in ok:
            raise self._failure(shlex.join([Path(argv[0]).name, *argv[1:]]), code, seen)
        return b"".join(parts)

    async def _child(
        self, argv: list[str], on_output: Any, on_errors: Any, pass_fds: tuple[int, ...], *, is_changing: bool = False
    ) -> int:
        killed_before = memory_kills()
        try:
            command = self.command(argv, pass_fds)
            return await self.control.run_child(command, on_output, on_errors, is_changing=is_changing)
        except EngineKilled as error:
            if memory_kills() > killed_before:
                raise EngineKilled(f"{error.message} {STARVED}", code=error.code, hint=error.hint) from error
            raise
        except OSError as error:
            raise self._cannot_start(argv[0], error) from error
        finally:
            if self.context.isolation:
                await asyncio.to_thread(self.context.isolation.end, self.root)
            await asyncio.to_thread(self.log.end_output)
            for refusal in self.backend.take_refusals():
                self.say(f"[runyard] {refusal}")
            self.is_starved = memory_kills() > killed_before
            if self.is_starved:
                self.say(STARVED)

    def read(self, path: Path, *, offset: int = 0) -> bytes | None:
        """Read a file of the job's own; nothing where there is none, or a link that leads elsewhere."""
        return read_own(self.root, path, offset=offset)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the job's own, whatever the job has put in its place."""
        write_own(self.root, path, content)

    def check_visible(self, path: Path) -> None:
        """Refuse a place of the machine as a source unless the operator has named it for jobs."""
        isolation = self.context.isolation
        if isolation and not isolation.shows(path):
            raise JobFailed(
                f"Modules may not read {path} on this runner.", code="bad_source",
                hint="Name it, or a folder above it, in Engine.Isolation.ReadOnlyPaths of the runner.",
            )  # fmt: skip

    def command(self, argv: list[str], pass_fds: tuple[int, ...] = ()) -> Command:
        """Return what runs a command in the module's folder, isolated with the job's own files."""
        work = self.work if self.work.is_absolute() else self.root
        command = Command(tuple(argv), work, self.env, pass_fds, is_offline=self.is_offline)
        isolation = self.context.isolation
        assert isolation or not self.is_offline
        return isolation.enclose(command, self.root, for_git=self.is_fetching) if isolation else command

    def _cannot_start(self, program: str, error: OSError) -> WorkerError:
        words = f"{program} cannot be started: {error.strerror}."
        hint = "See that the program exists on the runner and may be run by its user."
        if program in {str(engine.binary) for each in self.context.finder.versions.values() for engine in each}:
            return lacking(error) or RunnerUnfit(words, code="engine", hint=hint)
        return lacking(error) or JobFailed(words, code="cannot_start", hint=hint)

    def _failure(self, shown: str, code: int, seen: OutputWatch) -> WorkerError:
        # Whatever the command says: without room on the disk it had no chance.
        if not self.control.has_touched and (seen.is_disk_full or has_no_room(self.root)):
            return no_directory(OSError(errno.ENOSPC, f"{shown}: no space left on device"))
        said = self.log.redactor.redact(seen.first_error)
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        command = " ".join(shown.split(" ")[:2])
        end = f"{command[:1].upper()}{command[1:]} {ended}."
        starved = f" {STARVED}" if self.is_starved else ""
        return JobFailed((said or end) + starved, code="engine_failed",
                         hint=f"{end} The job's log has the rest." if said else "See the job's log.")  # fmt: skip

    def remove(self) -> None:
        """End what may still run there, and delete the directory, read-only parts included."""
        if self.context.isolation:
            self.context.isolation.end(self.root)

        def unlock(function: Callable[..., Any], path: str, _: Any) -> None:
            os.chmod(Path(path).parent, 0o700)  # noqa: PTH101  (rmtree hands over plain paths)
            function(path)

        shutil.rmtree(self.root, onerror=unlock, ignore_errors=False) if self.root.exists() else None


async def fetch_artifact(space: Workspace, name: str) -> bytes:
    """Read a file of the plan's job and compare its checksum."""
    reply = await space.context.server.get_artifact(space.ref, name)
    body = base64.b64decode(str(reply.get("body_base64") or ""))
    if reply.get("sha256") and hashlib.sha256(body).hexdigest() != reply["sha256"]:
        raise JobFailed(f"The saved {name} does not match its checksum.", code="checksum", hint="Plan again.")
    return space.keys.unseal(body)


Act = Callable[[Workspace], Awaitable[None]]


@dataclass(frozen=True)
class Step:
    """One section of a job: a name in the log, a title on the page, a phase in the database."""

    name: str
    title: str
    phase: JobPhase
    act: Act
