"""Changes in Supabase's message shape."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg.adapt import Transformer
from psycopg.postgres import types
from psycopg.pq import Format

from stack.realtime.catalog import RoleView, Table
from stack.realtime.stream import Begin, Missing, Relation, Row, RowChange

SMALL_VALUE_BYTES = 64
TOO_LARGE = "Error 413: Payload Too Large"
NO_PRIMARY_KEY = "Error 400: Bad Request, no primary key"

Values = dict[str, str | None]
Converter = Callable[[str], bytes]

NUMBERS = frozenset({"int2", "int4", "int8", "oid", "float4", "float8", "numeric"})
DOCUMENTS = frozenset({"json", "jsonb"})
NOT_JSON_NUMBER = frozenset({"NaN", "Infinity", "-Infinity"})
OFFSET = re.compile(r"([+-]\d\d)(:\d\d)?$")
# Reads the literal of any array: the elements are texts.
READ_TEXTS = Transformer().get_loader(types["text"].array_oid, Format.TEXT).load


@dataclass(slots=True)
class Change:
    """A row change with its values by column name; absent columns were not sent."""

    type: str
    table: Table
    begin: Begin
    new: Values
    old: Values
    fragments: dict[tuple[bool, str], bytes] = field(default_factory=dict)

    @property
    def row(self) -> Values:
        """The row that filters check: the new one, or the remaining values of a deleted one."""
        return self.old if self.type == "DELETE" else self.new

    @property
    def key(self) -> tuple[str, ...] | None:
        """The primary key's values, if all are known."""
        values = [self.row.get(name) for name in self.table.keys]
        return tuple(value for value in values if value is not None) if None not in values else None


def make_change(message: RowChange, relation: Relation, table: Table, begin: Begin) -> Change:
    """Name the values, and fill what the stream leaves out where that is possible."""
    new = _named(relation, message.new)
    old = _named(relation, message.old)
    if message.has_key_only:
        keys = {item.name for item in relation.fields if item.is_key}
        old = {name: value for name, value in old.items() if name in keys}
    elif old and new:
        _fill_unsent(relation, message.new, new, old)
    if message.type == "UPDATE" and not old:
        old = {name: new[name] for name in table.keys if name in new}
    return Change(message.type, table, begin, new, old)


def _named(relation: Relation, row: Row | None) -> Values:
    if row is None:
        return {}
    return {
        item.name: value for item, value in zip(relation.fields, row, strict=True) if not isinstance(value, Missing)
    }


def _fill_unsent(relation: Relation, row: Row | None, new: Values, old: Values) -> None:
    """Under replica identity FULL an untouched large value is in the old row."""
    for item, value in zip(relation.fields, row or (), strict=True):
        if isinstance(value, Missing) and item.name in old:
            new[item.name] = old[item.name]


def render(change: Change, view: RoleView, max_bytes: int) -> bytes:
    """The `data` object for one role, as JSON."""
    table = change.table
    if not table.keys and change.type != "DELETE":
        return _render_error(change, NO_PRIMARY_KEY)
    is_oversize = _size(change) > max_bytes
    names = [name for name in table.columns if name in view.columns]
    fields: dict[str, object] = {
        "schema": table.schema,
        "table": table.name,
        "commit_timestamp": commit_timestamp(change.begin.committed_at_us),
        "type": change.type,
        "columns": [{"name": name, "type": table.columns[name].type_name} for name in names],
        "errors": [TOO_LARGE] if is_oversize else None,
    }
    if change.type != "DELETE":
        fields["record"] = _fragment(change, names, is_oversize, is_new=True)
    if change.type != "INSERT":
        # Row-level security cannot be checked for a deleted row, so only its key is sent.
        is_key_alone = change.type == "DELETE" and table.has_rls
        old = [name for name in names if not is_key_alone or table.columns[name].is_key]
        fields["old_record"] = _fragment(change, old, is_oversize, is_new=False)
    return orjson.dumps(fields)


def _render_error(change: Change, error: str) -> bytes:
    return orjson.dumps(
        {
            "schema": change.table.schema,
            "table": change.table.name,
            "type": change.type,
            "commit_timestamp": None,
            "columns": None,
            "record": None,
            "errors": [error],
        }
    )


def _fragment(change: Change, names: list[str], is_oversize: bool, *, is_new: bool) -> orjson.Fragment:
    values = change.new if is_new else change.old
    members = []
    for name in names:
        if name in values:
            text = _value(change, name, is_new)
            if not is_oversize or len(text) <= SMALL_VALUE_BYTES:
                members.append(orjson.dumps(name) + b":" + text)
    return orjson.Fragment(b"{" + b",".join(members) + b"}")


def _value(change: Change, name: str, is_new: bool) -> bytes:
    """One value as JSON, converted once however many roles look at it."""
    key = (is_new, name)
    if key not in change.fragments:
        text, column = (change.new if is_new else change.old)[name], change.table.columns[name]
        value = b"null" if text is None else value_to_json(text, column.base_type, column.element_type)
        change.fragments[key] = value
    return change.fragments[key]


def _size(change: Change) -> int:
    known = change.table.columns
    rows = ((True, change.new), (False, change.old))
    return sum(len(name) + len(_value(change, name, is_new)) for is_new, row in rows for name in row if name in known)


def to_json(text: str) -> bytes:
    """Any text as a JSON string."""
    return orjson.dumps(text)


def timestamptz_to_json(text: str) -> bytes:
    """ISO 8601 with a `T` and minutes in the offset."""
    if not text[:1].isdigit():
        return to_json(text)
    return to_json(OFFSET.sub(lambda found: found[1] + (found[2] or ":00"), text.replace(" ", "T", 1)))


BY_NAME: dict[str, Converter] = {
    # Digits beyond a float's precision are kept.
    **dict.fromkeys(NUMBERS, lambda text: to_json(text) if text in NOT_JSON_NUMBER else text.encode()),
    **dict.fromkeys(DOCUMENTS, str.encode),
    "bool": lambda text: b"true" if text == "t" else b"false",
    "bytea": lambda text: to_json(text.removeprefix("\\x")),
    # Infinity stays a word.
    "timestamp": lambda text: to_json(text.replace(" ", "T", 1) if text[:1].isdigit() else text),
    "timestamptz": timestamptz_to_json,
}


def value_to_json(text: str, base_type: str, element_type: str | None) -> bytes:
    """A value as `to_jsonb` would write it; an array of `element_type`, of any depth, as a JSON array."""
    if element_type is None:
        return BY_NAME.get(base_type, to_json)(text)
    return _list_to_json(READ_TEXTS(text.encode()), BY_NAME.get(element_type, to_json))


def _list_to_json(items: list[Any], element: Converter) -> bytes:
    parts = (
        b"null" if item is None else _list_to_json(item, element) if isinstance(item, list) else element(item)
        for item in items
    )
    return b"[" + b",".join(parts) + b"]"


def commit_timestamp(microseconds: int) -> str:
    """A commit's time in UTC with milliseconds, `2026-11-15T00:30:37.927Z`."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{microseconds // 1000 % 1000:03d}Z"
