"""One finding of the doctor."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The weight of a finding: only FAIL keeps the runner from working."""

    OK = "ok"
    WARN = "warning"
    FAIL = "failed"
    SKIP = "skipped"


@dataclass(frozen=True)
class Check:
    """One finding: the thing that the doctor checked, the result, and the remedy."""

    name: str
    verdict: Verdict
    seen: str
    remedy: str = ""


def ok(name: str, seen: str) -> Check:
    """Report that all is well."""
    return Check(name, Verdict.OK, seen)


def warn(name: str, seen: str, remedy: str) -> Check:
    """Report that it works, but not as it should."""
    return Check(name, Verdict.WARN, seen, remedy)


def fail(name: str, seen: str, remedy: str) -> Check:
    """Report that it does not work."""
    return Check(name, Verdict.FAIL, seen, remedy)


def skip(name: str, seen: str) -> Check:
    """Report that it was not checked, because something before it failed."""
    return Check(name, Verdict.SKIP, seen)
