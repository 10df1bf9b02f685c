"""PostgreSQL's text values as `to_jsonb` would write them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

Converter = Callable[[str], bytes]

NUMBERS = frozenset({"int2", "int4", "int8", "oid", "float4", "float8", "numeric"})
DOCUMENTS = frozenset({"json", "jsonb"})
NOT_JSON_NUMBER = frozenset({"NaN", "Infinity", "-Infinity"})
OFFSET = re.compile(r"([+-]\d\d)(:\d\d)?$")


def to_json(text: str) -> bytes:
    """Any text as a JSON string."""
    return orjson.dumps(text)


def number_to_json(text: str) -> bytes:
    """A number as it stands: digits beyond a float's precision are kept."""
    return to_json(text) if text in NOT_JSON_NUMBER else text.encode()


def boolean_to_json(text: str) -> bytes:
    """`t` and `f`."""
    return b"true" if text == "t" else b"false"


def bytes_to_json(text: str) -> bytes:
    r"""Hexadecimal without PostgreSQL's `\x`."""
    return to_json(text.removeprefix("\\x"))


def timestamp_to_json(text: str) -> bytes:
    """ISO 8601 with a `T`; infinity stays a word."""
    return to_json(text.replace(" ", "T", 1) if text[:1].isdigit() else text)


def timestamptz_to_json(text: str) -> bytes:
    """ISO 8601 with a `T` and minutes in the offset."""
    if not text[:1].isdigit():
        return to_json(text)
    return to_json(OFFSET.sub(lambda found: found[1] + (found[2] or ":00"), text.replace(" ", "T", 1)))


BY_NAME: dict[str, Converter] = {
    **dict.fromkeys(NUMBERS, number_to_json),
    **dict.fromkeys(DOCUMENTS, str.encode),
    "bool": boolean_to_json,
    "bytea": bytes_to_json,
    "timestamp": timestamp_to_json,
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
    start = text.index("{")  # after bounds such as [0:1]=
    result, _ = _read_array(text, start + 1, element)
    return result


def _read_array(text: str, position: int, element: Converter) -> tuple[bytes, int]:
    items: list[bytes] = []
    while text[position] != "}":
        if text[position] == ",":
            position += 1
            continue
        item, position = _read_item(text, position, element)
        items.append(item)
    return b"[" + b",".join(items) + b"]", position + 1


def _read_item(text: str, position: int, element: Converter) -> tuple[bytes, int]:
    if text[position] == "{":
        return _read_array(text, position + 1, element)
    if text[position] == '"':
        value, position = _read_quoted(text, position + 1)
        return element(value), position
    end = position
    while text[end] not in ",}":
        end += 1
    word = text[position:end]
    return (b"null" if word == "NULL" else element(word)), end


def _read_quoted(text: str, position: int) -> tuple[str, int]:
    parts: list[str] = []
    while text[position] != '"':
        if text[position] == "\\":
            position += 1
        parts.append(text[position])
        position += 1
    return "".join(parts), position + 1


def commit_timestamp(microseconds: int) -> str:
    """A commit's time in UTC with milliseconds, `2026-11-15T00:30:37.927Z`."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{microseconds // 1000 % 1000:03d}Z"
