"""A note from the process that could not hand over to the one that continues in its place."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = "update.json"


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
