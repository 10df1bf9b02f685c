"""The scaling of a cloud-hosted runner: its limits as a form, and the decisions with their reasons."""

from collections.abc import Iterable
from typing import TypedDict

from app.ui.form.fields import Checked, texts
from app.ui.view import Row, capitalised, read

MOST_TASKS = 100
# Label and the range that makes sense, by the form's field.
RANGES = {"min": (0, MOST_TASKS), "max": (1, MOST_TASKS), "jobs_per_task": (1, 100), "idle_seconds": (30, 86_400)}


class Limits(TypedDict):
    min: str
    max: str
    jobs_per_task: str
    idle_seconds: str


class Decision(TypedDict):
    id: str
    at: str
    counts: str
    reason: str
    is_rehearsal: bool
    icon: str


def read_limits(worker: Row) -> Limits:
    """Read a runner's limits, with the defaults that the database would use."""
    usual = {"min": 0, "max": 1, "jobs_per_task": worker.get("capacity") or 1, "idle_seconds": 300}
    return read(Limits, {**usual, **(worker.get("scaling") or {})})


def check_limits(raw: object) -> Checked:
    """Check the form: whole numbers in their ranges, and no minimum above the maximum."""
    form, checked = texts(raw), Checked()
    for name, (least, most) in RANGES.items():
        text = form.get(name, "").strip()
        if text.isdecimal() and len(text) <= 6 and least <= int(text) <= most:
            checked.spec[name] = int(text)
        else:
            checked.errors[name] = f"A whole number from {least} to {most:,}."
    if not checked.errors and checked.spec["min"] > checked.spec["max"]:
        checked.errors["min"] = "No more than the maximum."
    return checked


def build_decisions(rows: Iterable[Row]) -> list[Decision]:
    """List decisions, newest first as they come."""
    return [
        read(
            Decision,
            row,
            counts=f"{row['from_count']} → {row['to_count']}",
            reason=capitalised(str(row["reason"])),
            is_rehearsal=row.get("dry_run"),
            icon=_direction(int(row["to_count"]) - int(row["from_count"])),
        )
        for row in rows
    ]


def _direction(change: int) -> str:
    if change == 0:
        return "same"
    return "up" if change > 0 else "down"
