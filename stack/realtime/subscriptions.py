"""The members of each topic, their live postgres_changes subscriptions, and what must hold before one is accepted."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import psycopg
from psycopg import AsyncConnection, sql

from stack.auth.tokens import ApiCaller
from stack.realtime.catalog import Column, read_table, read_view
from stack.realtime.database import QUERIES
from stack.realtime.errors import BindingRefused
from stack.realtime.frames import encode
from stack.realtime.shape import Change


@dataclass(frozen=True, slots=True)
class Room:
    """A topic without `realtime:`, public or private."""

    name: str
    is_private: bool


class Member(Protocol):
    """A member of a room, and how messages reach it."""

    @property
    def room(self) -> Room:
        """The room that it is in."""

    @property
    def topic(self) -> str:
        """Its client's name for the room."""

    def deliver(self, frame: str) -> None:
        """Send a broadcast or a changed row."""


class Rooms:
    """Members by room, in the order they came."""

    def __init__(self) -> None:
        self._members: dict[Room, dict[Member, None]] = {}

    def enter(self, member: Member) -> None:
        """Add a member."""
        self._members.setdefault(member.room, {})[member] = None

    def leave(self, member: Member) -> None:
        """Remove a member; an empty room is forgotten."""
        members = self._members.get(member.room, {})
        members.pop(member, None)
        if not members:
            self._members.pop(member.room, None)

    def broadcast(self, room: Room, content: dict[str, Any]) -> None:
        """Send to all members, encoded once."""
        members = list(self._members.get(room, ()))  # a copy, as sending may make a member leave
        frame = encode(members[0].topic, "broadcast", content) if members else ""
        for member in members:
            member.deliver(frame)


ANY = "*"
EVENTS = ("INSERT", "UPDATE", "DELETE")
FILTER = re.compile(r"([^=]+)=eq\.(.*)", re.DOTALL)
ONE_TABLE = "The embedded stack listens to one table for each entry: name its `schema` and `table`"
ONE_VALUE = "Error parsing `filter` params: the embedded stack compares with column=eq.value alone"
ALL_COLUMNS = "The embedded stack sends all columns that a role may read: leave out `select`"


@dataclass(frozen=True, slots=True)
class Binding:
    """The rows and events that a client listens to; the filter is a column and its value."""

    event: str
    schema: str
    table: str
    filter: tuple[str, str] | None

    def described(self) -> str:
        """The entry, for an error."""
        wanted = f"{self.filter[0]}=eq.{self.filter[1]}" if self.filter else "none"
        return f"event: {self.event}, schema: {self.schema}, table: {self.table}, filter: {wanted}"


MAX_BINDINGS = 100
MAX_ID = 2**27 - 1
# Types whose values are equal exactly where their canonical texts are.
EQUAL_AS_TEXT = frozenset(
    {"int2", "int4", "int8", "oid", "uuid", "bool", "text", "varchar", "date", "timestamp", "timestamptz"}
)
PublishedTables = tuple[tuple[str, str, int], ...]


@dataclass(eq=False, slots=True)
class Subscription:
    """One accepted binding of a member; `value` is the filter's in canonical form."""

    member: Member
    id: int
    binding: Binding
    identity: ApiCaller
    value: str | None = None

    def wants(self, change: Change) -> bool:
        """Whether the event is meant and the row passes the filter; a value that is absent or null passes none."""
        if self.binding.event not in (ANY, change.type):
            return False
        return self.binding.filter is None or change.row.get(self.binding.filter[0]) == self.value


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

    def interested(self, schema: str, table: str) -> list[Subscription]:
        """Subscriptions that mean a table, whatever the event; remembered until one comes or goes."""
        key = (schema, table)
        if key not in self._by_table:
            every = (item for items in self._by_channel.values() for item in items)
            self._by_table[key] = [item for item in every if (item.binding.schema, item.binding.table) == key]
        return self._by_table[key]


async def published_tables(connection: AsyncConnection) -> PublishedTables:
    """The tables of the publication as it is now."""
    cursor = await connection.execute(QUERIES["published_tables"], prepare=True)
    return tuple((schema, name, oid) for schema, name, oid in await cursor.fetchall())


async def accept_all(
    connection: AsyncConnection, member: Member, identity: ApiCaller, wanted: Sequence[dict[str, Any]]
) -> list[Subscription]:
    """Check a member's bindings against the publication and the catalogue, as hosted does when it stores them."""
    if len(wanted) > MAX_BINDINGS:
        raise BindingRefused(f"Too many postgres_changes subscriptions on one member. Maximum {MAX_BINDINGS}")
    published = {(schema, name): oid for schema, name, oid in await published_tables(connection)}
    accepted = []
    for params in wanted:
        subscription = Subscription(member, binding_id(params), parse_binding(params), identity)
        await _accept(connection, subscription, published)
        accepted.append(subscription)
    return accepted


async def _accept(
    connection: AsyncConnection, subscription: Subscription, published: dict[tuple[str, str], int]
) -> None:
    binding = subscription.binding
    oid = published.get((binding.schema, binding.table))
    if oid is None:
        raise BindingRefused(
            "Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given"
            f" connect parameters: [{binding.described()}]"
        )
    if binding.filter is None:
        return
    try:
        subscription.value = await _canonical(connection, subscription, oid, *binding.filter)
    except psycopg.OperationalError:
        raise
    except (psycopg.Error, BindingRefused) as error:
        detail = f"ERROR {error.sqlstate} {error}" if isinstance(error, psycopg.Error) and error.sqlstate else error
        raise BindingRefused(
            "Unable to subscribe to changes with given parameters. An exception happened so please check your connect"
            f" parameters: [{binding.described()}]. Exception: {detail}"
        ) from error


async def _canonical(
    connection: AsyncConnection, subscription: Subscription, oid: int, column: str, value: str
) -> str | None:
    """Let PostgreSQL read a filter's value as the column's type; one that it refuses raises its error."""
    table = await read_table(connection, oid, subscription.binding.schema, subscription.binding.table)
    view = await read_view(connection, oid, subscription.identity.role)
    if column not in view.columns:
        raise BindingRefused(f"invalid column for filter {column}")
    found: Column = table.columns[column]
    if found.base_type not in EQUAL_AS_TEXT and not found.is_enum:
        raise BindingRefused(f"the embedded stack does not compare columns of type {found.type_name}")
    query = sql.SQL("select (%s::text::{})::text").format(sql.SQL(found.sql_type))
    row = await (await connection.execute(query, [value])).fetchone()
    assert row is not None
    return str(row[0])


def binding_id(binding: dict[str, Any]) -> int:
    """A non-zero id that is the same whenever the same binding is joined again."""
    digest = uuid.uuid5(uuid.NAMESPACE_OID, orjson.dumps(binding, option=orjson.OPT_SORT_KEYS).decode())
    return digest.int % MAX_ID + 1


def parse_binding(params: dict[str, Any]) -> Binding:
    """Read one entry, or say why it cannot be served."""
    schema, table, event = params.get("schema"), params.get("table"), params.get("event")
    if not isinstance(schema, str) or not isinstance(table, str) or ANY in (schema, table):
        raise BindingRefused(ONE_TABLE)
    if params.get("select"):
        raise BindingRefused(ALL_COLUMNS)
    upper = event.upper() if isinstance(event, str) else ANY
    return Binding(upper if upper in EVENTS else ANY, schema, table, _filter(params.get("filter")))


def _filter(text: Any) -> tuple[str, str] | None:
    if not text:
        return None
    found = FILTER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BindingRefused(ONE_VALUE)
    return found[1], found[2]
