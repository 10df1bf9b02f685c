"""Rows of a list as a file: CSV that a spreadsheet shows and never executes, or JSON lines for programs."""

import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import StreamingResponse

from app.project.errors import NotThere
from app.project.models import Row

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# Reads the next page: after which row, and how many were read before it.
Read = Callable[[Row | None, int], Awaitable[list[Row]]]


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


def _json_lines(columns: Sequence[str], rows: Iterable[Row]) -> str:
    return "".join(json.dumps({name: row.get(name) for name in columns}, ensure_ascii=False) + "\n" for row in rows)


FORMATS = {
    "csv": ("text/csv; charset=utf-8", header, lines),
    "jsonl": ("application/x-ndjson", lambda _columns: "", _json_lines),
}


async def export_rows(
    name: str, kind: str, columns: Sequence[str], read: Read, page: int, most: float = float("inf")
) -> StreamingResponse:
    """Send pages of rows as they are read: as long as a page is full, and no more rows than `most`."""
    if kind not in FORMATS:
        raise NotThere("There is no such export.", "Choose CSV or JSON Lines.")
    media_type, head, write = FORMATS[kind]
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    first = await read(None, 0)

    async def body() -> AsyncIterator[str]:
        yield head(columns)
        rows, count = first, 0
        while rows:
            yield write(columns, rows)
            count += len(rows)
            rows = await read(rows[-1], count) if len(rows) == page and count < most else []

    headers = {"Content-Disposition": f'attachment; filename="runyard-{name}.{kind}"'}
    return StreamingResponse(body(), media_type=media_type, headers=headers)
