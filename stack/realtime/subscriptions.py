"""The live postgres_changes subscriptions, and what must hold before one is accepted."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from stack.realtime.bindings import ANY, Binding, parse_binding
from stack.realtime.catalog import read_table, read_view
from stack.realtime.errors import BindingRefused
from stack.realtime.joins import binding_id
from stack.realtime.queries import QUERIES
from stack.realtime.rooms import Member
from stack.realtime.tokens import RealtimeCaller

MAX_BINDINGS = 100
# Types whose values are equal when their texts are.
EQUAL_AS_TEXT = frozenset(
    {"int2", "int4", "int8", "oid", "uuid", "bool", "text", "varchar", "date", "timestamp", "timestamptz"}
)
PublishedTables = tuple[tuple[str, str, int], ...]


@dataclass(eq=False, slots=True)
class Subscription:
    """One accepted binding of a member; `operand` is its filter's value as the database writes it."""

    member: Member
    id: int
    binding: Binding
    identity: RealtimeCaller
    operand: str = ""

    def wants(self, event: str, row: Mapping[str, str | None]) -> bool:
        """Whether a change of the table is meant; a column that is absent or null equals nothing."""
        if self.binding.event not in (ANY, event):
            return False
        return self.binding.filter is None or row.get(self.binding.filter[0]) == self.operand


class Subscriptions:
    """The subscriptions of members to tables."""

    def __init__(self) -> None:
        self._by_channel: dict[Member, list[Subscription]] = {}
        self._by_table: dict[tuple[str, str], list[Subscription]] = {}

    def replace(self, member: Member, subscriptions: list[Subscription]) -> None:
        """Set a member's subscriptions, all at once."""
        self._by_table.clear()
        self._by_channel.pop(member, None)
        if subscriptions:
            self._by_channel[member] = subscriptions

    def clear(self) -> None:
        """Forget all: the stream broke, and every member subscribes again."""
        self._by_table.clear()
        self._by_channel.clear()

    def channels(self) -> list[Member]:
        """Channels that have at least one subscription."""
        return list(self._by_channel)

    def interested(self, schema: str, table: str) -> list[Subscription]:
        """Subscriptions that mean a table, whatever the event; remembered until one comes or goes."""
        key = (schema, table)
        if key not in self._by_table:
            self._by_table[key] = [item for item in self._all() if (item.binding.schema, item.binding.table) == key]
        return self._by_table[key]

    def _all(self) -> Iterator[Subscription]:
        for subscriptions in self._by_channel.values():
            yield from subscriptions


async def published_tables(connection: AsyncConnection) -> PublishedTables:
    """The tables of the publication as it is now."""
    cursor = await connection.execute(QUERIES["published_tables"], prepare=True)
    return tuple((schema, name, oid) for schema, name, oid in await cursor.fetchall())


async def accept_all(
    connection: AsyncConnection, member: Member, identity: RealtimeCaller, wanted: Sequence[dict[str, Any]]
) -> list[Subscription]:
    """Check a member's bindings against the publication and the catalogue, as hosted does when it stores them."""
    if len(wanted) > MAX_BINDINGS:
        raise BindingRefused(f"Too many postgres_changes subscriptions on one member. Maximum {MAX_BINDINGS}")
    published = await published_tables(connection)
    return [
        await _accept(connection, Subscription(member, binding_id(params), parse_binding(params), identity), published)
        for params in wanted
    ]


async def _accept(connection: AsyncConnection, subscription: Subscription, published: PublishedTables) -> Subscription:
    binding = subscription.binding
    oids = [oid for schema, name, oid in published if (schema, name) == (binding.schema, binding.table)]
    if not oids:
        raise BindingRefused(
            "Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given"
            f" connect parameters: [{binding.described()}]"
        )
    try:
        if binding.filter is not None:
            subscription.operand = await _operand(connection, subscription, oids[0], *binding.filter)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise _refused(binding, _as_hosted(error)) from error
    except BindingRefused as error:
        raise _refused(binding, f"ERROR P0001 (raise_exception) {error}") from error
    return subscription


async def _operand(connection: AsyncConnection, subscription: Subscription, oid: int, name: str, value: str) -> str:
    """Let PostgreSQL read the filter's value as the column's type; a value it refuses raises its error."""
    binding = subscription.binding
    column = (await read_table(connection, oid, binding.schema, binding.table)).columns.get(name)
    if column is None or name not in (await read_view(connection, oid, subscription.identity.role)).columns:
        raise BindingRefused(f"invalid column for filter {name}")
    if column.base_type not in EQUAL_AS_TEXT and not column.is_enum:
        raise BindingRefused(f"The embedded stack does not compare values of type {column.sql_type}")
    # By `format`, which writes a value as the stream does: a cast to text writes `true` for its `t`.
    query = sql.SQL("select format('%%s', %s::text::{})").format(sql.SQL(column.sql_type))
    row = await (await connection.execute(query, [value])).fetchone()
    assert row is not None
    return str(row[0])


def _refused(binding: Binding, detail: str) -> BindingRefused:
    return BindingRefused(
        "Unable to subscribe to changes with given parameters. An exception happened so please check your connect"
        f" parameters: [{binding.described()}]. Exception: {detail}"
    )


def _as_hosted(error: psycopg.Error) -> str:
    if error.sqlstate is None:  # refused by the driver, a NUL byte for instance
        return str(error)
    condition = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    return f"ERROR {error.sqlstate} ({condition}) {error.diag.message_primary}"
