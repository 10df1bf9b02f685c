"""A step of a job."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from worker.attempt.workspace import Workspace
from worker.enums import JobPhase

Act = Callable[[Workspace], Awaitable[None]]


@dataclass(frozen=True)
class Step:
    """One section of a job: a name in the log, a title on the page, a phase in the database."""

    name: str
    title: str
    phase: JobPhase
    act: Act
