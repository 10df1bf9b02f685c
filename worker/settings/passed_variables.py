"""The variables of the runner's environment that it passes on: names, and beginnings of names."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from worker.settings.base import WordList

# The runner's own, and what would change how every program of a job starts.
NEVER_PREFIXES = ("WORKER_", "RUNYARD_", "SUPABASE_", "LD_", "DYLD_", "PYTHON", "BASH_FUNC_")
NEVER_NAMES = frozenset(("PATH", "BASH_ENV", "ENV", "IFS", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET"))


def _check(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        beginning = _beginning(pattern)
        is_too_short = beginning is not None and len(beginning) < 2
        if is_too_short or "*" in pattern[:-1]:
            raise ValueError(f"{pattern!r} is not a name such as PGPASSWORD, nor a beginning such as VSPHERE_*")
        if is_own(beginning or pattern):
            raise ValueError(f"{pattern!r} would hand on what is the runner's own")
    return patterns


PassedNames = Annotated[WordList, AfterValidator(_check)]


def is_own(name: str) -> bool:
    """Whether a variable is never handed on, whatever the settings say."""
    return name in NEVER_NAMES or name.startswith(NEVER_PREFIXES)


def is_passed(name: str, patterns: Iterable[str]) -> bool:
    """Whether the settings hand this variable on."""
    return not is_own(name) and any(_matches(name, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    beginning = _beginning(pattern)
    return name == pattern if beginning is None else name.startswith(beginning)


def _beginning(pattern: str) -> str | None:
    """`VSPHERE_*` and `VSPHERE_` are beginnings, anything else is a whole name."""
    if pattern.endswith("*"):
        return pattern[:-1]
    return pattern if pattern.endswith("_") else None
