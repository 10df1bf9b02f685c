"""Audit events as CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]

COLUMNS = ("at", "actor_kind", "actor_label", "action", "target_kind", "target_id", "target_label", "detail")
# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def header() -> str:
    """Return the first line of the CSV."""
    return _csv([COLUMNS])


def csv_lines(rows: Iterable[Row]) -> str:
    """Return events as CSV lines that no spreadsheet executes."""
    return _csv([_cell(row.get(column)) for column in COLUMNS] for row in rows)


def json_lines(rows: Iterable[Row]) -> str:
    """Return events as one JSON object per line."""
    return "".join(
        json.dumps({column: row.get(column) for column in COLUMNS}, ensure_ascii=False) + "\n" for row in rows
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv(rows: Iterable[Iterable[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
