"""The events of a span that a chart cannot show: releases and outages, in words and at their place."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from app.ui.view import Row, count, read


class Mark(TypedDict):
    """A release or an outage; `left` and `width` are its place in a chart."""

    kind: str
    title: str
    text: str
    at: str
    until: str
    left: str
    width: str


def build(rows: Iterable[Row], start: object, end: object) -> list[Mark]:
    """Put releases and outages into words, the latest first."""
    begin, span = _seconds(start), _seconds(end) - _seconds(start)
    return [_mark(row, begin, span) for row in rows] if span > 0 else []


def _mark(row: Row, begin: float, span: float) -> Mark:
    at, until = str(row["at"]), str(row.get("until") or "")
    left = _share(_seconds(at) - begin, span)
    width = _share(_seconds(until) - begin, span) - left if until else 0.0
    title, text = _words(row)
    return read(Mark, row, title=title, text=text, left=f"{left:.2f}%", width=f"{width:.2f}%")


def _words(row: Row) -> tuple[str, str]:
    if row["kind"] == "outage":
        return "Outage", "The database did not answer, or nothing reached it. Jobs waited."
    runners, updated = int(row.get("runners") or 0), int(row.get("updated") or 0)
    return (
        f"Release {row['version']}",
        f"{updated} of {count(runners, 'runner')} {'has' if updated == 1 else 'have'} it or a newer one.",
    )


def _share(seconds: float, span: float) -> float:
    return 100 * min(max(seconds / span, 0.0), 1.0)


def _seconds(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0
