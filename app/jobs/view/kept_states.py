"""States of a job that were not stored: what its runner still had when nobody would take it."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from app.jobs.view.words import size
from app.ui.view import Row, read


class KeptState(TypedDict):
    """One write of an attempt that is not the module's state."""

    id: str
    title: str
    about: str
    written_at: str
    decided: str
    is_open: bool


def build(rows: object) -> list[KeptState]:
    """List what kept_states() answered, the newest write first; anything else is nothing."""
    found: Iterable[Any] = rows if isinstance(rows, list) else []
    return [_kept(row) for row in found if isinstance(row, Mapping) and row.get("id")]


def _kept(row: Row) -> KeptState:
    serial = row.get("serial")
    title = f"Serial {serial}" if serial is not None else f"Write {row.get('number')}"
    return read(
        KeptState,
        row,
        title=f"{title}, attempt {row.get('attempt')}, {size(_number(row.get('size')))}",
        about=f"{row.get('worker_name') or 'The runner'}: {row.get('reason') or 'it was not stored'}",
        decided=_decided(row),
        is_open=not row.get("stored_at") and not row.get("discarded_at"),
    )


def _decided(row: Row) -> str:
    word = "Stored" if row.get("stored_at") else "Discarded" if row.get("discarded_at") else ""
    return f"{word} by {row['decided_by']}" if word and row.get("decided_by") else word


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
