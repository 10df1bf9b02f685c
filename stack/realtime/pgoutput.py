"""Decoder of PostgreSQL's own logical output (pgoutput, protocol version 1)."""

import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

EPOCH_MICROSECONDS = 946_684_800_000_000  # 2000-01-01, PostgreSQL's zero, in Unix time


class Missing(Enum):
    """A large value that an UPDATE did not touch and therefore did not send."""

    UNCHANGED = "unchanged"


Value = str | None | Missing
Row = tuple[Value, ...]


class Field(NamedTuple):
    """A column as the stream announces it."""

    name: str
    type_oid: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on; sent again after any change of its definition."""

    oid: int
    schema: str
    name: str
    identity: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Start of a committed transaction."""

    xid: int
    committed_at_us: int


@dataclass(frozen=True, slots=True)
class Commit:
    """End of a committed transaction."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One inserted, updated or deleted row."""

    type: str
    relation_oid: int
    new: Row | None
    old: Row | None
    has_key_only: bool


Message = Relation | Begin | Commit | RowChange


def decode(data: bytes) -> Message | None:
    """Read one message; kinds that carry nothing for subscribers are None."""
    kind = data[:1]
    if kind == b"I":
        return RowChange("INSERT", _relation_oid(data), _read_row(data, 6)[0], None, has_key_only=False)
    if kind == b"U":
        return _decode_update(data)
    if kind == b"D":
        return RowChange("DELETE", _relation_oid(data), None, _read_row(data, 6)[0], has_key_only=data[5:6] == b"K")
    if kind == b"B":
        _lsn, microseconds, xid = struct.unpack_from(">QqI", data, 1)
        return Begin(xid, microseconds + EPOCH_MICROSECONDS)
    if kind == b"C":
        return Commit()
    if kind == b"R":
        return _decode_relation(data)
    return None


def _decode_update(data: bytes) -> RowChange:
    position, old, key_only = 5, None, False
    if data[position : position + 1] in (b"K", b"O"):
        key_only = data[position : position + 1] == b"K"
        old, position = _read_row(data, position + 1)
    new, _ = _read_row(data, position + 1)
    return RowChange("UPDATE", _relation_oid(data), new, old, key_only)


def _relation_oid(data: bytes) -> int:
    return int.from_bytes(data[1:5], "big")


def _read_row(data: bytes, position: int) -> tuple[Row, int]:
    count = int.from_bytes(data[position : position + 2], "big")
    position += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[position]
        position += 1
        if kind == 0x74:  # t: text follows
            size = int.from_bytes(data[position : position + 4], "big")
            values.append(data[position + 4 : position + 4 + size].decode())
            position += 4 + size
        else:
            values.append(Missing.UNCHANGED if kind == 0x75 else None)
    return tuple(values), position


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(0, position)
    return data[position:end].decode(), end + 1


def _decode_relation(data: bytes) -> Relation:
    schema, position = _read_text(data, 5)
    name, position = _read_text(data, position)
    identity = chr(data[position])
    count = int.from_bytes(data[position + 1 : position + 3], "big")
    position += 3
    fields = []
    for _ in range(count):
        is_key = bool(data[position] & 1)
        column, position = _read_text(data, position + 1)
        fields.append(Field(column, int.from_bytes(data[position : position + 4], "big"), is_key))
        position += 8
    return Relation(_relation_oid(data), schema or "pg_catalog", name, identity, tuple(fields))
