"""A real OpenTofu that keeps its own book and can be held at a command."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HeldTofu:
    """A wrapper in a folder of its own; `runs` has one line for each start: job, attempt, command."""

    folder: Path
    real: Path
    helpers: tuple[Path, ...] = ()
    """Folders of programs that the engine starts itself."""

    @property
    def variables(self) -> dict[str, str]:
        """Settings of a runner that has this engine, and whose sandbox lets it keep its book."""
        return {
            "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": os.pathsep.join(map(str, (self.folder, *self.helpers))),
            "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": f"{self.folder.parent},{self.real.parent}",
            "RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": str(self.book),
        }

    @property
    def book(self) -> Path:
        """Beside the engine: a sandbox shows the engine's own folder to be read only."""
        return self.folder.with_name(f"{self.folder.name}-book")

    @property
    def runs(self) -> Path:
        return self.book / "runs"

    def hold(self, command: str) -> None:
        (self.book / f"hold-{command}").touch()

    def release(self, command: str) -> None:
        (self.book / f"hold-{command}").unlink(missing_ok=True)

    def has_begun(self, command: str, job: int, attempt: int = 1) -> bool:
        return f"{job} {attempt} {command}" in self.runs.read_text().splitlines()


def make_engine(folder: Path, real: Path, name: str = "tofu", helpers: tuple[Path, ...] = ()) -> HeldTofu:
    """Write the wrapper."""
    folder.mkdir()
    engine = HeldTofu(folder, real, helpers)
    engine.book.mkdir()
    engine.runs.write_text("")
    # A sandbox may run it as another user.
    engine.book.chmod(0o777)
    engine.runs.chmod(0o666)
    script = f"""#!/bin/sh
echo "$RUNYARD_JOB_ID $RUNYARD_JOB_ATTEMPT $1" >> {engine.runs}
while [ -e {engine.book}/hold-$1 ]; do sleep 0.05; done
exec {real} "$@"
"""
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    return engine
