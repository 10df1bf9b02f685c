"""PostgreSQL's text values as `to_jsonb` would write them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg.adapt import Transformer
from psycopg.postgres import types
from psycopg.pq import Format

Converter = Callable[[str], bytes]

NUMBERS = frozenset({"int2", "int4", "int8", "oid", "float4", "float8", "numeric"})
DOCUMENTS = frozenset({"json", "jsonb"})
NOT_JSON_NUMBER = frozenset({"NaN", "Infinity", "-Infinity"})
OFFSET = re.compile(r"([+-]\d\d)(:\d\d)?$")
# Reads the literal of any array: the elements are texts.
READ_TEXTS = Transformer().get_loader(types["text"].array_oid, Format.TEXT).load


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


def converter(type_name: str, element_type: str | None) -> Converter:
    """The converter of a base type, or of an array of `element_type`."""
    if element_type is None:
        return BY_NAME.get(type_name, to_json)
    element = BY_NAME.get(element_type, to_json)
    return lambda text: array_to_json(text, element)


def array_to_json(text: str, element: Converter) -> bytes:
    """An array literal as a JSON array, of any depth."""
    return _list_to_json(READ_TEXTS(text.encode()), element)


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
