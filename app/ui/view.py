"""Rows as the types that pages show, and the words that several pages use: of status, roles, numbers, times and names."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, get_origin, get_type_hints

Row = Mapping[str, Any]
View = TypeVar("View")
_types = cache(get_type_hints)


TYPE_WORDS = {
    "PLAN": "Plan",
    "APPLY": "Apply",
    "DESTROY": "Destroy",
    "OUTPUT": "Output",
    "DRIFT": "Drift check",
    "DEPLOY_WORKER": "Deploy runner",
    "UPDATE_WORKER": "Update runner",
    "REMOVE_WORKER": "Remove runner",
    "VERIFY_IDENTITY": "Test identity",
    "RESOLVE": "Read repository",
    "STATE": "Change state",
    "POLICY_TEST": "Back-test",
}
STATUS_WORDS = {
    "AWAITING_APPROVAL": "Awaiting approval",
    "QUEUED": "Queued",
    "CLAIMED": "Claimed",
    "PROCESSING": "Processing",
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "CANCELLED": "Cancelled",
    "NEEDS_ATTENTION": "Needs attention",
}
ROLE_WORDS = {
    "owner": "Everything, and the organisation itself.",
    "admin": "Runners, members, identities, states.",
    "operator": "Runs, approves and cancels jobs, edits modules.",
    "approver": "Sees everything, and approves what others request.",
    "planner": "Sees everything, and runs plans and drift checks.",
    "viewer": "Sees everything, changes nothing.",
    "guest": "Sees only the groups in which a role was given.",
}
NEEDS_YOU = frozenset({"AWAITING_APPROVAL", "NEEDS_ATTENTION"})


def is_below(path: str, above: str) -> bool:
    """Return whether a path is at or below another; everything is below the empty one."""
    return above in ("", path) or path.startswith(f"{above}/")


def initials(name: str) -> str:
    """Make the two letters of an organisation's mark."""
    words = [word for word in name.replace("-", " ").split() if word]
    if not words:
        return ""
    letters = words[0][0] + (words[1][0] if len(words) > 1 else words[0][1:2])
    return letters.upper()


def count(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun: 1 job, 2 jobs."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def count_needed(counts: Mapping[str, int], others: Mapping[str, int], user_id: str) -> int:
    """Count the jobs that a member can decide about: all that wait for a person, less those that wait for others."""
    return sum(int(counts.get(status) or 0) for status in NEEDS_YOU) - int(others.get(user_id) or 0)


def capitalised(text: str) -> str:
    """Begin with a capital letter, and leave the rest as it is."""
    return text[:1].upper() + text[1:]


def as_sentence(text: str) -> str:
    """End a sentence that has no end: another one follows, and an engine's own words often stop without."""
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def parse_time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def wait_unit(seconds: float) -> tuple[float, str]:
    """Choose the unit of a wait: its seconds and its name."""
    return (1.0, "s") if seconds < 120 else (60.0, "min") if seconds < 7200 else (3600.0, "h")


def queue_wait(seconds: float | None, longest: float = 0.0) -> str:
    """Format how long jobs waited: 0.03 s, 1.8 s, 45 s, 4.0 min, 2.1 h; on an axis, all in the unit of its end."""
    if seconds is None:
        return "–"
    size, unit = wait_unit(max(seconds, longest))
    value = seconds / size
    digits = 0 if value == 0 or value >= 10 else 2 if value < 0.1 else 1
    return f"{value:.{digits}f} {unit}"


def duration(seconds: float) -> str:
    """Format a duration: 12 s, 3 min 41 s, 2 h 05 min, 3 d 4 h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Format how long ago, for sentences that do not tick."""
    if moment is None:
        return "never"
    return f"{duration(((now or datetime.now(UTC)) - moment).total_seconds())} ago"


def read(view: type[View], row: Row, **made: Any) -> View:
    """Read a row as a view: `made` has the fields that are not the row's own; an absent one is empty, 0 or False."""
    kinds = _types(view).items()  # type: ignore[arg-type]
    found = {name: made[name] if name in made else row.get(name) for name, _ in kinds}
    return view(**{name: _as(get_origin(kind) or kind, found[name]) for name, kind in kinds})


def _as(kind: Any, value: Any) -> Any:
    return kind() if value is None else kind(value)
