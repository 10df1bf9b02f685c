"""The process's exit codes, for the supervisor that started it."""

from enum import IntEnum


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
