"""The errors of commands, each with a sentence on what to do next and the exit code that programs read."""

from enum import IntEnum
from importlib.util import find_spec
from typing import Any


class ExitCode(IntEnum):
    """The exit codes of `runyard`; docs/cli.md explains each."""

    DONE = 0
    PROBLEM = 1
    USAGE = 2
    MISSING = 3
    TAKEN = 4
    WRONG_VERSION = 5
    MIGRATION_FAILED = 6
    UNHEALTHY = 7
    REFUSED = 8
    SIGNED_OUT = 9
    NO_ANSWER = 10
    JOB_FAILED = 20
    JOB_CANCELLED = 21
    JOB_NEEDS_ATTENTION = 22
    INTERRUPTED = 130


EXPLANATIONS: dict[ExitCode, str] = {
    ExitCode.DONE: "done; with --wait: the job succeeded",
    ExitCode.PROBLEM: "there is no such thing, or another problem",
    ExitCode.USAGE: "wrong arguments",
    ExitCode.MISSING: "something is missing on this machine: a variable, a file, a program",
    ExitCode.TAKEN: "a port or folder is taken",
    ExitCode.WRONG_VERSION: "data of another PostgreSQL version",
    ExitCode.MIGRATION_FAILED: "a migration failed",
    ExitCode.UNHEALTHY: "a part is not healthy",
    ExitCode.REFUSED: "the project refused: a role that may not, a rule, a conflict",
    ExitCode.SIGNED_OUT: "not signed in, or the login has expired",
    ExitCode.NO_ANSWER: "the project did not answer",
    ExitCode.JOB_FAILED: "with --wait: the job failed",
    ExitCode.JOB_CANCELLED: "with --wait: the job was cancelled or rejected",
    ExitCode.JOB_NEEDS_ATTENTION: "with --wait: the job needs a person's decision",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C; a job that was followed continues",
}


class CommandError(Exception):
    """A problem a person can act on; `exit_code` is what the program returns."""

    exit_code: int = ExitCode.PROBLEM

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class NotFound(CommandError):
    """There is no such thing, or more than one."""


def first(found: list[dict[str, Any]], message: str, hint: str = "") -> dict[str, Any]:
    """The first of what was found, or an error that there is none."""
    if not found:
        raise NotFound(message, hint)
    return found[0]


class Usage(CommandError):
    """The arguments make no sense together."""

    exit_code = ExitCode.USAGE


class Missing(CommandError):
    """Something that the command needs is not on this machine."""

    exit_code = ExitCode.MISSING


class Refused(CommandError):
    """The project refused."""

    exit_code = ExitCode.REFUSED


class SignedOut(CommandError):
    """Nobody is signed in, or the login has expired."""

    exit_code = ExitCode.SIGNED_OUT


class NoAnswer(CommandError):
    """The project did not answer."""

    exit_code = ExitCode.NO_ANSWER


def need_package(name: str, what: str) -> None:
    """Explain what is missing: the wheel of the command line alone does not bring what runs in a clone."""
    if find_spec(name) is None:
        raise Missing(
            f"{what} is not installed here ({name} is missing).",
            "Install the wheel runyard instead of runyard_cli, or run this in a clone after scripts/setup.",
        )
