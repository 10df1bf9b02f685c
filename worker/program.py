"""The file that this process was started from, and how to start it again."""

import json
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Set by the one file's own loader for the process that it starts; the next one makes its own.
_LOADER = ("PEX", "_PEX", "__PEX", "SCIE")
_ENTRY = "worker.cli:main"

NOT_ONE_FILE = (
    "It was not started from the one-file program. "
    "Update it where it was installed: pip, the container's image, or the package."
)


@dataclass(frozen=True)
class Program:
    """One file with everything in it. Arguments and environment are those of the start, secrets included."""

    path: Path
    artifact: str
    launcher: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def command(self, file: Path, *arguments: str) -> list[str]:
        """Return the command that starts a file of this kind."""
        return [*self.launcher, str(file), *arguments]


@dataclass(frozen=True)
class Handover:
    """A new file that is to take this process's place, and the job that asked for it."""

    program: Program
    new: Path
    version: str
    job: int
    home: Path


def find_program(environ: Mapping[str, str], arguments: Sequence[str]) -> Program | None:
    """Return the file that was started; none for an installation in a virtual environment or an image."""
    inner = Path(environ.get("PEX") or "/nonexistent")
    if not _is_runner(inner):
        return None
    # A scie brings its own Python and unpacks a PEX; a plain PEX is started by the Python that runs us now.
    outer = environ.get("SCIE")
    path = Path(outer).resolve() if outer else inner.resolve()
    name = f"runyard-worker-{platform.system().lower()}-{platform.machine().lower()}"
    return Program(
        path,
        name if outer else f"{name}.pex",
        () if outer else (sys.executable,),
        tuple(arguments),
        without_loader(environ),
    )


def obstacle(program: Program | None) -> str:
    """Explain why a runner cannot replace its program; empty when it can."""
    if program is None:
        return NOT_ONE_FILE
    folder = program.path.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"Its user may not write to {folder}. Keep the program in a folder of its own."
    return ""


def without_loader(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what the one file's loader has set."""
    return {name: value for name, value in environ.items() if not name.startswith(_LOADER)}


def _is_runner(path: Path) -> bool:
    """Whether a file is this program: the variable may be inherited from another one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(json.loads(archive.read("PEX-INFO")).get("entry_point") == _ENTRY)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False
