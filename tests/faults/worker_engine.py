"""A real OpenTofu that keeps its own book and can be held at a command."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HeldTofu:
    """A wrapper in a folder of its own; `runs` has one line for each start: job, attempt, command."""

    folder: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def hold(self, command: str) -> None:
        (self.folder / f"hold-{command}").touch()

    def release(self, command: str) -> None:
        (self.folder / f"hold-{command}").unlink(missing_ok=True)

    def has_begun(self, command: str, job: int, attempt: int = 1) -> bool:
        return f"{job} {attempt} {command}" in self.runs.read_text().splitlines()


def make_engine(folder: Path, real: Path) -> HeldTofu:
    """Write the wrapper."""
    folder.mkdir()
    engine = HeldTofu(folder)
    engine.runs.write_text("")
    script = f"""#!/bin/sh
echo "$RUNYARD_JOB_ID $RUNYARD_JOB_ATTEMPT $1" >> {engine.runs}
while [ -e {folder}/hold-$1 ]; do sleep 0.05; done
exec {real} "$@"
"""
    (folder / "tofu").write_text(script)
    (folder / "tofu").chmod(0o755)
    return engine
