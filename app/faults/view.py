"""The page about a fault and the ledger, from the launcher's answer alone."""

from collections.abc import Mapping
from typing import Any, TypedDict

from app.ui.words import count

Row = Mapping[str, Any]

# key of the launcher, icon, button
KINDS = (
    ("plan", "skull", "Kill a runner in its plan"),
    ("apply", "skull", "Kill a runner in its apply"),
    ("network", "wifi-off", "Cut a runner off"),
    ("freeze", "snowflake", "Freeze a runner"),
    ("database", "database-zap", "Restart the database"),
)
# promise, what it is called, what it was counted over
COLUMNS = (
    ("lost", "Jobs lost", "jobs"),
    ("double_applied", "Applied twice", "applies"),
    ("log_lines_lost", "Log lines lost", "log_lines"),
    ("log_gaps", "Logs with gaps", "jobs"),
    ("state_lost", "States lost", "applies"),
    ("kept_aside", "States kept aside", "applies"),
    ("zombie_accepted", "Stale writes accepted", "jobs"),
    ("called_failed", "Reported failed but succeeded", "applies"),
    ("eaten", "Failed by a runner's fault", "jobs"),
    ("stuck", "Running without a runner", "jobs"),
    ("unreplayable", "Inconsistent events", "jobs"),
)
WORDS = {"jobs": "jobs", "applies": "applies", "log_lines": "lines of drills"}


class Step(TypedDict):
    """One sentence of what happened, and how long after the button."""

    text: str
    after: str


class Count(TypedDict):
    """One promise: how often it was broken, and over what it was counted."""

    key: str
    label: str
    count: str
    of: str
    is_broken: bool


class Faults(TypedDict):
    """The page."""

    steps: list[Step]
    job: int
    is_running: bool
    ended: str
    left: str
    done: str
    counts: list[Count]
    since: float
    said: str
    is_old: bool


NOTHING: Faults = {
    "steps": [], "job": 0, "is_running": False, "ended": "", "left": "", "done": "0%", "counts": [], "since": 0,
    "said": "", "is_old": False,
}  # fmt: skip


def build(answer: Row) -> Faults:
    """Everything that the page shows."""
    run, ledger = answer.get("run") or {}, answer.get("ledger") or {}
    left, whole = int(run.get("left_seconds") or 0), int(run.get("lasts_seconds") or 0)
    faults = int(answer.get("faults") or 0)
    return {
        "steps": _steps(run.get("steps") or []),
        "job": int(run.get("job") or 0),
        "is_running": bool(run.get("is_running")),
        "ended": _ended(run),
        "left": f"{left} s left" if left else "",
        "done": f"{round(100 * (whole - left) / whole)}%" if whole else "0%",
        "counts": [_count(ledger, *column) for column in COLUMNS] if ledger else [],
        "since": float(answer.get("since") or 0),
        "said": f"{int(ledger.get('jobs') or 0):,} jobs checked, {count(faults, 'drill')}",
        "is_old": bool(answer.get("is_ledger_old")),
    }


def _steps(steps: list[Row]) -> list[Step]:
    began = float(steps[0]["at"]) if steps else 0
    return [{"text": str(step["text"]), "after": f"{round(float(step['at']) - began)} s"} for step in steps]


def _ended(run: Row) -> str:
    if not run or run.get("is_running"):
        return ""
    return "recovered" if run.get("has_recovered") else "not recovered"


def _count(ledger: Row, key: str, label: str, over: str) -> Count:
    count = int(ledger.get(key) or 0)
    of = f"of {int(ledger.get(over) or 0):,} {WORDS[over]}"
    return {"key": key, "label": label, "count": f"{count:,}", "of": of, "is_broken": count > 0}
