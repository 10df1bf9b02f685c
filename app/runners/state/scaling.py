"""Scaling on a cloud-hosted runner's page: its limits, and what was decided."""

from collections.abc import Iterable
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState
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


class RunnerScalingState(AppState, rx.State):
    worker_id: str = ""
    limits: Limits = {"min": "", "max": "", "jobs_per_task": "", "idle_seconds": ""}
    errors: dict[str, str] = {}
    decisions: list[Decision] = []
    revision: int = 0

    def _show(self, worker: Row, decisions: list[Row]) -> None:
        """Show the runner's limits and its newest decisions; called by the runner's page."""
        limits = read_limits(worker)
        if (self.worker_id, self.limits) != (str(worker["id"]), limits):
            self.worker_id, self.limits, self.errors = str(worker["id"]), limits, {}
            # A new key, so that the inputs show what is stored and not what was typed.
            self.revision += 1
        self._assign("decisions", build_decisions(decisions))

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_limits(form)
        self.errors = checked.errors
        if checked.errors or not self.worker_id:
            return None
        args = {"p_worker": self.worker_id, "p_options": {"scaling": checked.spec}}
        return await self._act("update_worker", args, "Saved", "The next decision follows it.")
