"""The catalogue's facts about published tables and roles, remembered until they change, and text values as `to_jsonb` would write them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.adapt import Transformer
from psycopg.postgres import types
from psycopg.pq import Format
from psycopg.rows import dict_row

from stack.realtime.database import QUERIES

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


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `sql_type` is what a filter's value is cast to."""

    name: str
    type_name: str
    base_type: str
    sql_type: str
    is_enum: bool
    is_key: bool
    to_json: Converter


@dataclass(frozen=True, slots=True)
class RoleView:
    """One role's rights to read a table."""

    bypasses_rls: bool
    columns: frozenset[str]


NO_VIEW = RoleView(bypasses_rls=False, columns=frozenset())


@dataclass(frozen=True, slots=True)
class Table:
    """A published table."""

    oid: int
    schema: str
    name: str
    columns: dict[str, Column]
    has_rls: bool
    views: dict[str, RoleView] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The primary key's columns."""
        return tuple(column.name for column in self.columns.values() if column.is_key)


class ReplicationCatalog:
    """Reads tables and roles through one connection; `forget` after every announced change."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._tables: dict[int, Table] = {}

    def forget(self, oid: int | None = None) -> None:
        """Read a table (or all of them) again next time."""
        if oid is None:
            self._tables.clear()
        else:
            self._tables.pop(oid, None)

    def knows(self, oid: int) -> bool:
        """Whether a table is remembered."""
        return oid in self._tables

    async def table(self, oid: int, schema: str, name: str) -> Table:
        """The table as the catalogue has it now."""
        if oid not in self._tables:
            self._tables[oid] = await read_table(self._connection, oid, schema, name)
        return self._tables[oid]

    async def view(self, table: Table, role: str) -> RoleView:
        """Return a role's rights to read the table."""
        if role not in table.views:
            table.views[role] = await read_view(self._connection, table.oid, role)
        return table.views[role]


async def read_table(connection: AsyncConnection, oid: int, schema: str, name: str) -> Table:
    """Read one table's columns and whether it has row-level security."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["table_has_rls"], {"table": oid}, prepare=True)
        found = await cursor.fetchone()
        await cursor.execute(QUERIES["table_columns"], {"table": oid}, prepare=True)
        columns = {}
        for row in await cursor.fetchall():
            element = row.pop("element_type")
            columns[row["name"]] = Column(**row, to_json=converter(row["base_type"], element))
    # A table dropped since is as good as one that nobody may read.
    return Table(oid, schema, name, columns, has_rls=found is None or found["relrowsecurity"])


async def read_view(connection: AsyncConnection, oid: int, role: str) -> RoleView:
    """Read one role's rights; a role that does not exist has none."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["role_view"], {"table": oid, "role": role}, prepare=True)
        row = await cursor.fetchone()
    return NO_VIEW if row is None else RoleView(row["bypasses_rls"], frozenset(row["columns"]))
