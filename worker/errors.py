"""Errors named after the reaction they ask for."""

import re
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """One number per reason to leave; documented in the runner's reference page."""

    OK = 0
    UNEXPECTED = 1
    SETTINGS = 2
    REFUSED = 3
    CONFLICT = 4
    SESSION_ENDED = 5
    UNREACHABLE = 6
    JOB_FAILED = 7
    STOPPED = 130


EXPLANATIONS: dict[int, str] = {
    ExitCode.OK: "left on request: drained, or the single job succeeded",
    ExitCode.UNEXPECTED: "a defect in the runner; its last log line shows where",
    ExitCode.SETTINGS: "settings are wrong; every one of them was named",
    ExitCode.REFUSED: "the id or the token was refused; a restart does not help",
    ExitCode.CONFLICT: "another process is connected under this name",
    ExitCode.SESSION_ENDED: "the session was revoked or taken over; a restart does not help",
    ExitCode.UNREACHABLE: "the server could not be reached (only with --single)",
    ExitCode.JOB_FAILED: "the single job did not succeed (only with --single)",
    ExitCode.STOPPED: "stopped at once by repeated signals",
}

# How often a loop tries again what something on the way to the project refuses: for about five minutes.
ODD_TRIES = 30


class WorkerError(Exception):
    """An error that the runner raises on purpose; the message is meant for a person."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", detail: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.detail = detail

    @property
    def is_ours(self) -> bool:
        """Whether the project itself refused, by a code of ours or of PostgreSQL, and not something on the way to it."""
        return re.fullmatch("[0-9A-Z]{5}", self.code) is not None


class Retryable(WorkerError):
    """Try the same request again later; nothing is known about its effect."""

    def __init__(self, message: str, *, retry_after_seconds: float = 0.0, **rest: Any) -> None:
        """Keep the time after which a 429 or 503 allows a retry."""
        super().__init__(message, **rest)
        self.retry_after_seconds = retry_after_seconds


class Fenced(WorkerError):
    """The attempt is stale: stop the job now, another attempt may own it."""


class Rejected(WorkerError):
    """The server or the job's own content is wrong: drop the request, do not retry."""


class Locked(Rejected):
    """The state is locked by someone else; `detail` is their lock."""


class TokenExpired(Retryable):
    """The short-lived token ran out: renew it and send the request again; refused fresh as well, it is tried later."""


class Fatal(WorkerError):
    """The process cannot continue: log why and leave with this exit code."""

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.UNEXPECTED, **rest: Any) -> None:
        """Keep the exit code that tells a supervisor whether a restart can help."""
        super().__init__(message, **rest)
        self.exit_code = exit_code


class JobFailed(WorkerError):
    """The job's own work went wrong: report FAILED with this code, message and hint."""


class EngineKilled(WorkerError):
    """The engine was killed while it changed infrastructure: a person decides, and the state stays locked."""


class RunnerUnfit(WorkerError):
    """The runner cannot do the job for reasons of its own: give it back, and take no more until it can."""


class JobCancelled(WorkerError):
    """Someone asked for the job to stop, and it has stopped."""


class JobTimedOut(WorkerError):
    """The job took longer than it may, and has stopped."""


class JobInterrupted(WorkerError):
    """The runner itself is leaving or has lost its lease, and the job had to stop."""
