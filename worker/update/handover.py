"""From one version to the next, after the last job has ended and the session is closed.

The new file is first tried by a child with the same arguments and environment: it has to open a session and to send a
heartbeat. Until it has, the old file stays where it is. Then this process becomes the new version, or itself again: the
process id stays the same, so that its supervisor sees no end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from worker.api.replies import JobRef
from worker.children.child import death_signal_prefix
from worker.errors import JobInterrupted
from worker.logs.redactor import Redactor
from worker.process_status import ProcessStatus
from worker.program import Handover, Program
from worker.runtime_log import get_logger
from worker.signals import STOPPING
from worker.statebackend.journal import sync_directory

_FILE = "update.json"

TRIAL = "--trial"
TRIAL_SECONDS = 150.0
_STOP_SECONDS = 10.0
_LONGEST_WORDS = 600


class _Stopped(Exception):
    """A signal came while nothing ran any more."""


def hand_over(handover: Handover, redactor: Redactor) -> NoReturn:
    """Become the new version if it can work here, else the old one again."""
    log = get_logger("worker.update")
    for number in STOPPING:
        signal.signal(number, _stop)
    try:
        problem = try_out(handover) or take_place(handover)
    except _Stopped:
        log.info("left")
        sys.exit(0)
    finally:
        with suppress(OSError):
            handover.new.unlink(missing_ok=True)
    if problem:
        problem = redactor.redact(problem)
        log.error("the new version cannot work here, continuing with this one", version=handover.version, why=problem)
        with suppress(OSError):
            leave_note(handover.home, Note(handover.job, handover.version, problem))
    else:
        log.info("restarting", version=handover.version)
    become(handover.program)


def try_out(handover: Handover) -> str:
    """Make a child open a session and send one heartbeat; return what went wrong, or nothing."""
    program = handover.program
    command = program.command(handover.new, *program.arguments, TRIAL)
    output_file = handover.home / "trial.log"
    with output_file.open("wb") as output:
        try:
            child = subprocess.Popen(
                [*death_signal_prefix(), *command], env=dict(program.environment), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip
        except OSError as error:
            return f"It could not be started: {error.strerror}."
        try:
            code = child.wait(TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"It sent no heartbeat within {TRIAL_SECONDS:.0f} seconds."
        finally:
            _end(child)
    if code == 0:
        return ""
    lines = output_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1][-_LONGEST_WORDS:] if lines else "it said nothing."
    return f"It ended with exit code {code}: {last}"


def take_place(handover: Handover) -> str:
    """Keep the old file beside, and rename the new one over it: there is a whole program at every moment."""
    path = handover.program.path
    previous, copy = path.with_name(f"{path.name}.previous"), path.with_name(f".{path.name}.previous")
    try:
        shutil.copy2(path, copy)
        copy.replace(previous)
        handover.new.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        return f"{path} could not be replaced: {error.strerror}."
    return ""


def become(program: Program) -> NoReturn:
    """Continue as the file now in place, with the same arguments and environment."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    command = program.command(program.path, *program.arguments)
    os.execve(command[0], command, dict(program.environment))  # noqa: S606  (the very command we were started by)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _Stopped


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_SECONDS)
        child.kill()
        child.wait()


@dataclass(frozen=True)
class Note:
    """A note about an update that the runner gave up: the job, the version and the problem."""

    job: int
    version: str
    problem: str


def leave_note(home: Path, note: Note) -> None:
    """Write it where the next process of this instance looks."""
    (home / _FILE).write_text(json.dumps(asdict(note)), encoding="utf-8")


def take_note(home: Path) -> Note | None:
    """Read it once."""
    file = home / _FILE
    try:
        return Note(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    finally:
        file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Updater:
    """The runner's updater; it exists only where the operator permits it and the program is one file."""

    program: Program
    home: Path
    process_status: ProcessStatus
    wait_empty: Callable[[JobRef], Awaitable[None]]
    announce: Callable[[], None]

    async def drain(self, ref: JobRef) -> None:
        """Take no new jobs, and wait for all others to end."""
        self.process_status.is_updating = True
        self.announce()
        await self.wait_empty(ref)

    def carry_on(self) -> None:
        """Take jobs again: the update was given up."""
        if self.process_status.is_updating:
            self.process_status.is_updating = False
            self.announce()

    def leave_for(self, new: Path, version: str, job: int) -> None:
        """End the process and try the new file; the job is given back, for whichever version comes next."""
        if self.process_status.is_leaving:
            raise JobInterrupted("The runner received a stop signal.", code="runner_shutdown")
        self.process_status.handover = Handover(self.program, new, version, job, self.home)
        self.process_status.is_leaving = True

    def problem_of(self, job: int) -> Note | None:
        """Return, once, why the process that ran this job before could not hand over."""
        note = take_note(self.home)
        return note if note is not None and note.job == job else None
