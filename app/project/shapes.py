"""Gives a runner's reports the shape that pages read, no matter what the database let through.

A job's error, steps, summary and result are JSON that its runner wrote. One malformed report must not take a
page from everybody who would see that job, so rows are put right once, where they come in.
"""

from collections.abc import Mapping
from typing import Any

from app.project.models import Row

COUNTS = ("create", "update", "replace", "delete", "no_op")


def shaped(table: str, row: Row) -> Row:
    """Return a row whose reported columns can be read without a doubt; other tables pass as they are."""
    if table != "provision_jobs":
        return row
    return {**row, **{name: shape(row[name]) for name, shape in SHAPES.items() if name in row}}


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [dict(item) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _words(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _error(value: Any) -> dict[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return None if value is None else dict(value)
    return {"message": "The runner reported an error that cannot be read.", "hint": "Its log may have details."}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _summary(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    counts = {name: _number(value[name]) for name in COUNTS if name in value}
    lists = {name: _objects(value[name]) for name in ("resources", "outputs") if name in value}
    return {**value, **counts, **lists}


def _maybe_object(value: Any) -> dict[str, Any] | None:
    return None if value is None else _object(value)


SHAPES = {
    "error": _error,
    "steps": _objects,
    "labels": _words,
    "plan_summary": _summary,
    "result": _maybe_object,
    "payload": _maybe_object,
    "late_report": _maybe_object,
}
