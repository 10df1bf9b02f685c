"""The end of an attempt, as the runner sends it to the server, and what stays of it on disk until the server has it."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker import errors
from worker.api.replies import JobRef
from worker.enums import JobStatus
from worker.statebackend.journal import sync_directory


@dataclass
class Outcome:
    """A terminal status with its result or its error."""

    status: JobStatus
    result: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    plan_summary: dict[str, Any] | None = None
    is_returned: bool = False
    return_code: str | None = None

    def as_arguments(self, log: dict[str, Any]) -> dict[str, Any]:
        """Spell it as `worker_finish` takes it."""
        return {
            "status": self.status.value,
            "result": self.result,
            "error": self.error,
            "plan_summary": self.plan_summary,
            "log": log,
        }


# The things that a runner may lack; SQL has the same words.
LACKS = frozenset({"disk", "work_directory", "dispatcher", "image", "engine", "memory"})


def given_back(lack: errors.RunnerUnfit) -> Outcome:
    """An attempt that ends because the runner cannot do it, before anything was changed."""
    return Outcome(JobStatus.FAILED, error=_words(lack, "failed"), is_returned=True, return_code=lack.code)


def failure(error: Exception) -> Outcome:
    """Turn what ended the steps into an outcome."""
    if isinstance(error, errors.JobCancelled):
        return Outcome(JobStatus.CANCELLED, error=_words(error, "cancelled"))
    if isinstance(error, errors.EngineKilled):
        return Outcome(JobStatus.NEEDS_ATTENTION, error=_words(error, "engine_killed"))
    return Outcome(JobStatus.FAILED, error=_words(as_job_error(error), "failed"))


def as_job_error(error: Exception) -> errors.WorkerError:
    """Give every error the words of a job's error."""
    if isinstance(
        error,
        errors.JobFailed
        | errors.JobInterrupted
        | errors.JobCancelled
        | errors.JobTimedOut
        | errors.EngineKilled
        | errors.RunnerUnfit,
    ):
        return error
    if isinstance(error, errors.Fenced):
        return errors.JobInterrupted(error.message, code="runner_lease")
    if isinstance(error, errors.Retryable):
        return errors.JobFailed(
            f"The runner could not reach what the step needed: {error.message}", code="unreachable", hint="Try again."
        )
    if isinstance(error, errors.Rejected | errors.Fatal):
        return errors.JobFailed(error.message, code=error.code or "refused", hint=error.hint)
    if isinstance(error, RecursionError):
        return errors.JobFailed(
            "A file of the module nests braces, brackets or templates too deeply to be read.", code="too_deep",
            hint="Flatten the nested values, or put them into a file of data.",
        )  # fmt: skip
    return errors.JobFailed(
        f"The runner itself failed: {type(error).__name__}: {error}", code="runner_error",
        hint="This is a defect of the runner; its own log has the details.",
    )  # fmt: skip


def _words(error: errors.WorkerError, fallback: str) -> dict[str, Any]:
    return {"code": error.code or fallback, "message": error.message, "hint": error.hint}


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
