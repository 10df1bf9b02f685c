"""Chunks of a log as the browser asks for them: an index without text, and pages of parsed lines."""

from collections.abc import Sequence
from typing import Any

from app.jobs.log.sgr import Line, Parser, strip
from app.ui.view import Row

Encoded = str | list[str]

_CUT_STYLE = "a-cut"


def index(rows: Sequence[Row]) -> dict[str, Any]:
    """List which chunks there are: number, step, lines, bytes and arrival of each, without a word of text."""
    steps: list[str] = []
    chunks = []
    for row in rows:
        step = str(row.get("step") or "")
        if step not in steps:
            steps.append(step)
        lines, size = int(row.get("line_count") or 0), int(row.get("bytes") or 0)
        chunks.append([int(row["seq"]), steps.index(step), lines, size, str(row.get("created_at") or "")])
    return {"steps": steps, "chunks": chunks}


def page(rows: Sequence[Row], before: Row | None = None) -> list[dict[str, Any]]:
    """Parse chunks; the one before them is read for the colour that it leaves switched on."""
    parser = Parser()
    if before is not None:
        parser.feed(str(before.get("body") or ""))
    return [_chunk(row, parser) for row in rows]


def text(rows: Sequence[Row]) -> str:
    return "".join(strip(str(row.get("body") or "")) for row in rows)


def _chunk(row: Row, parser: Parser) -> dict[str, Any]:
    body = str(row.get("body") or "")
    return {
        "seq": int(row["seq"]),
        "open": bool(body) and not body.endswith("\n"),
        "lines": [encode(line) for line in parser.feed(body)],
    }


def encode(line: Line) -> Encoded:
    """Write a line the short way: plain text as text, else text and class names in turn."""
    if not line.hidden and all(not classes for _, classes in line.segments):
        return line.text
    flat = [part for segment in line.segments for part in segment]
    if line.hidden:
        flat += [f" … {line.hidden:,} characters more. The download has them.", _CUT_STYLE]
    return flat
