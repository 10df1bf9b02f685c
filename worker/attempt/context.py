"""The context that every job of this process gets; each part is named by what a job needs of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from worker.api.server import Server
from worker.children.isolation import Isolation
from worker.enums import EngineName
from worker.files.safe_writer import slug
from worker.logs.redactor import KnownSecrets
from worker.settings import Settings
from worker.statebackend.sealing import Seal
from worker.task_protection import TaskProtection

KEPT_FOLDER = "kept-states"


@dataclass(frozen=True)
class FoundEngine:
    """One engine on this machine."""

    name: EngineName
    binary: Path
    version: str


class Engines(Protocol):
    """The engines that exist, and the PATH that they and hooks get."""

    @property
    def found(self) -> Mapping[EngineName, FoundEngine]:
        """The engines by name."""

    @property
    def versions(self) -> Mapping[EngineName, Sequence[FoundEngine]]:
        """Every version of each engine, the preferred one first."""

    @property
    def path(self) -> str:
        """The search path."""

    async def refresh(self) -> None:
        """Search again."""


@dataclass(frozen=True)
class JobContext:
    """Settings, server and machine, the same for all jobs."""

    settings: Settings
    server: Server
    finder: Engines
    environ: dict[str, str]
    seal: Seal
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    protection: TaskProtection = field(default_factory=TaskProtection)
    isolation: Isolation | None = None

    @property
    def kept_states(self) -> Path:
        """The folder of states that wait because this project did not store them for this runner."""
        return self.kept_of_all / slug(self.settings.server.url) / str(self.settings.runner.id)

    @property
    def kept_of_all(self) -> Path:
        """The folder above, which runners of other projects share where they share a working directory."""
        return self.settings.working_directory.working_directory / KEPT_FOLDER
