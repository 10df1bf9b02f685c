"""CSV that a spreadsheet shows and never executes."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def header(columns: Sequence[str]) -> str:
    return _csv([columns])


def lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    return _csv([_cell(row.get(column)) for column in columns] for row in rows)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv(rows: Iterable[Iterable[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
