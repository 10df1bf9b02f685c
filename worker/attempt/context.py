"""The context that every job of this process gets; each part is named by what a job needs of it."""

from dataclasses import dataclass, field
from pathlib import Path

from worker.api.server import Server
from worker.children.isolation import Isolation
from worker.files.safe_writer import slug
from worker.finder import EngineFinder
from worker.logs.redactor import KnownSecrets
from worker.settings.model import Settings
from worker.statebackend.journal import Seal
from worker.task_protection import TaskProtection

KEPT_FOLDER = "kept-states"


@dataclass(frozen=True)
class JobContext:
    """Settings, server and machine, the same for all jobs."""

    settings: Settings
    server: Server
    finder: EngineFinder
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
