"""The jobs of a set by the steps of their order: what each plan changes, and what can be decided."""

from itertools import groupby
from typing import TypedDict

from app.triggers.view.sets import TITLES
from app.ui.view import Row, read

DECISIONS = {"apply": "Can be applied", "approve": "Waits for approval"}
PREVIEW = "Preview with planned values. It is planned again after they are applied, and is never applied itself."


class ReviewRow(TypedDict):
    id: str
    path: str
    number: str
    status: str
    has_plan: bool
    added: int
    changed: int
    removed: int
    note: str
    is_open: bool


class StepView(TypedDict):
    """The modules that run at the same time."""

    label: str
    rows: list[ReviewRow]


class ReviewView(TypedDict):
    title: str
    line: str
    path: str
    is_plan: bool
    steps: list[StepView]


NOTHING: ReviewView = {"title": "", "line": "", "path": "", "is_plan": True, "steps": []}


def build(answer: Row) -> ReviewView:
    rows = answer.get("rows") or []
    steps = [(step, [_row(row) for row in found]) for step, found in groupby(rows, key=lambda row: int(row["step"]))]
    return {
        "title": TITLES.get(str(answer.get("type")), ""),
        "line": f"{answer['done']} of {answer['total']} done, {answer['with_changes']} with changes",
        "path": str(answer.get("path") or ""),
        "is_plan": answer.get("type") == "PLAN",
        "steps": [{"label": f"Step {step}", "rows": found} for step, found in steps],
    }


def open_ids(view: ReviewView) -> list[str]:
    """The modules about whose jobs somebody can decide."""
    return [row["id"] for step in view["steps"] for row in step["rows"] if row["is_open"]]


def _row(row: Row) -> ReviewRow:
    counts = row.get("counts") or {}
    number = row.get("apply_number") or row.get("job_number")
    return read(
        ReviewRow,
        row,
        id=row["module_id"],
        path=row["module_path"],
        number=number,
        status=row.get("apply_status") or row.get("status"),
        has_plan=row.get("has_changes"),
        added=int(counts.get("create", 0)) + int(counts.get("replace", 0)),
        changed=counts.get("update"),
        removed=int(counts.get("delete", 0)) + int(counts.get("replace", 0)),
        note=_note(row),
        is_open=row.get("decision"),
    )


def _note(row: Row) -> str:
    if row.get("decision"):
        return DECISIONS[str(row["decision"])]
    if row.get("message"):
        return str(row["message"])
    if row.get("is_preview"):
        return PREVIEW
    is_same = row.get("status") == "SUCCEEDED" and row.get("has_changes") is False
    return "No changes" if is_same else "" if row.get("job_number") else "Waits for the steps before it"
