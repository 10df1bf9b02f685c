"""Audit events as CSV or JSON lines."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.http import csv_file

Row = Mapping[str, Any]

COLUMNS = ("at", "actor_kind", "actor_label", "action", "target_kind", "target_id", "target_label", "address", "detail")


def header() -> str:
    """Return the first line of the CSV."""
    return csv_file.header(COLUMNS)


def csv_lines(rows: Iterable[Row]) -> str:
    """Return events as CSV lines that no spreadsheet executes."""
    return csv_file.lines(COLUMNS, rows)


def json_lines(rows: Iterable[Row]) -> str:
    """Return events as one JSON object per line."""
    return "".join(
        json.dumps({column: row.get(column) for column in COLUMNS}, ensure_ascii=False) + "\n" for row in rows
    )
