"""The part of an attempt that stays on disk: enough for the next start to report it and to clean up."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.api.replies import JobRef
from worker.statebackend.sealing import sync_directory

ATTEMPT_FILE = "job.json"


@dataclass
class SavedAttempt:
    """Written before anything begins, removed when the server has acknowledged the end."""

    job: int
    attempt: int
    type: str
    root: str
    cookie: str
    phase: str = "PREPARE"
    outcome: dict[str, Any] | None = None
    executor: str | None = None
    """The name of the executor that runs it elsewhere; nothing of such an attempt is here."""

    @property
    def ref(self) -> JobRef:
        """The attempt's name."""
        return JobRef(job=self.job, attempt=self.attempt)


def attempt_folder(home: Path, ref: JobRef) -> Path:
    """Return the folder of a saved attempt and its spool."""
    return home / "jobs" / f"{ref.job}-{ref.attempt}"


def save_attempt(folder: Path, saved: SavedAttempt) -> None:
    """Write it in one step; a crash leaves the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        file.write(json.dumps(vars(saved)))
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).rename(folder / ATTEMPT_FILE)
    sync_directory(folder)
    sync_directory(folder.parent)


def load_attempt(folder: Path) -> SavedAttempt | None:
    """Read it; a folder without a readable one is of no use."""
    try:
        return SavedAttempt(**json.loads((folder / ATTEMPT_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def named_attempt(folder: Path) -> JobRef | None:
    """Read the attempt from a folder's name, for a folder whose file cannot be read."""
    job, _, attempt = folder.name.partition("-")
    return JobRef(job=int(job), attempt=int(attempt)) if job.isdigit() and attempt.isdigit() else None


def leftovers(home: Path) -> list[Path]:
    """The folders that an earlier process left behind."""
    jobs = home / "jobs"
    return sorted(path for path in jobs.iterdir() if path.is_dir()) if jobs.is_dir() else []


def remove_attempt(folder: Path) -> None:
    """Forget an attempt."""
    shutil.rmtree(folder, ignore_errors=True)
