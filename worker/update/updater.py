"""The control that an update's job has over the process that runs it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worker.api.replies import JobRef
from worker.errors import JobInterrupted
from worker.process_status import ProcessStatus
from worker.program import Handover, Program
from worker.update.handover import Note, take_note


class Jobs(Protocol):
    """The jobs that this process runs."""

    async def wait_empty(self, besides: JobRef | None = None) -> None:
        """Return when nothing runs any more, besides the one that waits for it."""


@dataclass(frozen=True)
class Updater:
    """The runner's updater; it exists only where the operator permits it and the program is one file."""

    program: Program
    home: Path
    process_status: ProcessStatus
    table: Jobs
    announce: Callable[[], None]

    async def drain(self, ref: JobRef) -> None:
        """Take no new jobs, and wait for all others to end."""
        self.process_status.is_updating = True
        self.announce()
        await self.table.wait_empty(besides=ref)

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
