"""Errors of a start of the stack, each with a sentence on what to do next."""


class StackError(Exception):
    """A problem a person can act on; `exit_code` is what the command line returns."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class Missing(StackError):
    """Something that the stack needs is not on this machine."""

    exit_code = 3


class Taken(StackError):
    """A port or a folder is in use by another process."""

    exit_code = 4


class Closing(Taken):
    """A port belongs to a connection that has ended or soon will."""


class WrongVersion(StackError):
    """The data folder was made by another major version of PostgreSQL."""

    exit_code = 5


class MigrationFailed(StackError):
    """A migration was refused; nothing of it was kept."""

    exit_code = 6


class Unhealthy(StackError):
    """A part did not become healthy in time."""

    exit_code = 7


class Damaged(StackError):
    """A file is not what it should be."""
