"""Schedules: the row of a table, and the form."""

from typing import Any, TypedDict

from app.ui.form.fields import Checked, texts
from app.ui.view import Row, read

OPERATIONS = ("DRIFT", "PLAN", "APPLY", "DESTROY")
# The choices that the segmented control offers before somebody writes cron themselves.
KINDS = {"hourly": "0 * * * *", "daily": "0 2 * * *", "weekly": "0 6 * * 1"}


class ScheduleView(TypedDict):
    id: str
    name: str
    type: str
    path: str
    where: str
    cron: str
    words: str
    zone: str
    is_on: bool
    reason: str
    next: str
    last: str
    last_note: str
    modules: int


def build_view(row: Row) -> ScheduleView:
    path = str(row.get("path") or "")
    run = row.get("last_run") or {}
    is_on = row.get("is_on", True)
    return read(
        ScheduleView,
        row,
        name=f"{row.get('type') or ''} {path or 'all modules'}",
        type=row.get("type") or "DRIFT",
        where=path or "all modules",
        zone=row.get("zone") or "UTC",
        is_on=is_on,
        next=row.get("next_local") if is_on else "off",
        last=_result(row.get("type"), run),
    )


def _result(kind: Any, run: Row) -> str:
    if not run:
        return ""
    if run.get("status") == "SUCCEEDED" and kind == "DRIFT" and run.get("with_changes"):
        return "DRIFT"
    return str(run.get("status") or "")


def check_form(raw: object) -> Checked:
    """Check a schedule's form; cron and zone are the database's to judge."""
    form, checked = texts(raw), Checked()
    kind = form.get("type", "")
    if kind not in OPERATIONS:
        checked.errors["type"] = "Choose what it does."
    cron, zone = form.get("cron", "").strip(), form.get("zone", "").strip()
    if not cron:
        checked.errors["cron"] = "Enter a cron expression, for example 30 7 * * 1-5."
    if not zone:
        checked.errors["zone"] = "Name a time zone, for example Europe/Lisbon."
    checked.spec = {"type": kind, "path": form.get("path", "").strip().strip("/"), "cron": cron, "zone": zone}
    return checked
