"""The live postgres_changes subscriptions, and what must hold before one is accepted."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection

from stack.realtime.bindings import Binding, parse_binding
from stack.realtime.catalog import read_table, read_view
from stack.realtime.conditions import Condition, compile_condition
from stack.realtime.errors import BindingRefused
from stack.realtime.joins import binding_id
from stack.realtime.queries import QUERIES
from stack.realtime.rooms import Member
from stack.realtime.tokens import RealtimeCaller

MAX_BINDINGS = 100
PublishedTables = tuple[tuple[str, str, int], ...]


@dataclass(eq=False, slots=True)
class Subscription:
    """One accepted binding of a member; `conditions` are by table, as wildcards cover several."""

    member: Member
    id: int
    binding: Binding
    identity: RealtimeCaller
    conditions: dict[tuple[str, str], tuple[Condition, ...]] = field(default_factory=dict)

    def wants(self, schema: str, table: str, event: str) -> bool:
        """Whether the table and the event are meant, filters aside."""
        if self.binding.event not in ("*", event) or not self.binding.covers(schema, table):
            return False
        return not self.binding.filters or (schema, table) in self.conditions


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
            self._by_table[key] = [item for item in self._all() if item.binding.covers(schema, table)]
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
    tables = [item for item in published if binding.covers(item[0], item[1])]
    if not tables:
        raise BindingRefused(
            "Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given"
            f" connect parameters: [{binding.described()}]"
        )
    try:
        for schema, name, oid in tables if binding.filters or binding.select else []:
            subscription.conditions[schema, name] = await _conditions(connection, subscription, schema, name, oid)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise _refused(binding, _as_hosted(error)) from error
    except BindingRefused as error:
        raise _refused(binding, f"ERROR P0001 (raise_exception) {error}") from error
    return subscription


async def _conditions(
    connection: AsyncConnection, subscription: Subscription, schema: str, name: str, oid: int
) -> tuple[Condition, ...]:
    table = await read_table(connection, oid, schema, name)
    view = await read_view(connection, oid, subscription.identity.role)
    for column in subscription.binding.select or ():
        if column not in view.columns:
            raise BindingRefused(f"invalid column for select {column}")
    conditions = []
    for item in subscription.binding.filters:
        if item.column not in view.columns:
            raise BindingRefused(f"invalid column for filter {item.column}")
        conditions.append(await compile_condition(connection, table.columns[item.column], item))
    return tuple(conditions)


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
