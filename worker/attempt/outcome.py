"""The end of an attempt, in the form that the runner sends to the server."""

from dataclasses import dataclass, field
from typing import Any

from worker.enums import JobStatus
from worker.errors import (
    EngineKilled,
    Fatal,
    Fenced,
    JobCancelled,
    JobFailed,
    JobInterrupted,
    JobTimedOut,
    Rejected,
    Retryable,
    RunnerUnfit,
    WorkerError,
)


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


def given_back(lack: RunnerUnfit) -> Outcome:
    """An attempt that ends because the runner cannot do it, before anything was changed."""
    return Outcome(JobStatus.FAILED, error=_words(lack, "failed"), is_returned=True, return_code=lack.code)


def failure(error: Exception) -> Outcome:
    """Turn what ended the steps into an outcome."""
    if isinstance(error, JobCancelled):
        return Outcome(JobStatus.CANCELLED, error=_words(error, "cancelled"))
    if isinstance(error, EngineKilled):
        return Outcome(JobStatus.NEEDS_ATTENTION, error=_words(error, "engine_killed"))
    return Outcome(JobStatus.FAILED, error=_words(as_job_error(error), "failed"))


def as_job_error(error: Exception) -> WorkerError:
    """Give every error the words of a job's error."""
    if isinstance(error, JobFailed | JobInterrupted | JobCancelled | JobTimedOut | EngineKilled | RunnerUnfit):
        return error
    if isinstance(error, Fenced):
        return JobInterrupted(error.message, code="runner_lease")
    if isinstance(error, Retryable):
        return JobFailed(
            f"The runner could not reach what the step needed: {error.message}", code="unreachable", hint="Try again."
        )
    if isinstance(error, Rejected | Fatal):
        return JobFailed(error.message, code=error.code or "refused", hint=error.hint)
    if isinstance(error, RecursionError):
        return JobFailed(
            "A file of the module nests braces, brackets or templates too deeply to be read.", code="too_deep",
            hint="Flatten the nested values, or put them into a file of data.",
        )  # fmt: skip
    return JobFailed(
        f"The runner itself failed: {type(error).__name__}: {error}", code="runner_error",
        hint="This is a defect of the runner; its own log has the details.",
    )  # fmt: skip


def _words(error: WorkerError, fallback: str) -> dict[str, Any]:
    return {"code": error.code or fallback, "message": error.message, "hint": error.hint}
