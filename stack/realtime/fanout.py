"""From a batch of row changes to the frames that subscribers get."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson
import psycopg
from psycopg import AsyncConnection, sql

from stack.auth.tokens import ApiCaller
from stack.realtime.catalog import ReplicationCatalog, RoleView, Table
from stack.realtime.database import QUERIES
from stack.realtime.frames import encode
from stack.realtime.shape import Change, render
from stack.realtime.subscriptions import Member, Subscription, Subscriptions

XID_SPAN = 1 << 32
FIRST_WAIT_SECONDS = 0.0005
LONGEST_WAIT_SECONDS = 0.05
VIEWERS_AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of `pg_current_snapshot()`: in progress are `active` and everything from `xmax` on."""

    xmin: int
    xmax: int
    active: frozenset[int]

    def sees(self, xid: int) -> bool:
        """Whether a committed transaction is visible; `xid` is the stream's 32-bit number."""
        full = _widen(xid, self.xmax)
        return full < self.xmin or (full < self.xmax and full not in self.active)


NOTHING = Snapshot(0, 0, frozenset())


def parse_snapshot(text: str) -> Snapshot:
    """Read `xmin:xmax:xip,xip`."""
    xmin, xmax, active = text.split(":")
    return Snapshot(int(xmin), int(xmax), frozenset(int(xid) for xid in active.split(",") if xid))


def _widen(xid: int, near: int) -> int:
    """The 64-bit number closest to `near` whose low half is `xid`: ids wrap around, the snapshot's do not."""
    full = near - near % XID_SPAN + xid
    if full - near > XID_SPAN // 2:
        return full - XID_SPAN
    return full + XID_SPAN if near - full > XID_SPAN // 2 else full


class VisibilityGate:
    """Holds a transaction until new snapshots see it; takes one only when the one at hand does not cover it.

    A walsender may deliver a commit before the row is visible to others: a reader that asks at once would miss it
    (measured: up to 9 % of events), and so would the RLS check.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._snapshot = NOTHING

    def learn(self, text: str) -> None:
        """Take over a snapshot that came with an answer."""
        self._snapshot = parse_snapshot(text)

    def covers(self, xids: Iterable[int]) -> bool:
        """Whether the snapshot at hand sees all of them."""
        return all(map(self._snapshot.sees, xids))

    async def wait_for(self, xids: Collection[int]) -> None:
        """Return once a new snapshot would see the transactions."""
        wait = 0.0
        while not self.covers(xids):
            if wait:
                await asyncio.sleep(wait)
            wait = min(max(wait * 2, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
            row = await (await self._connection.execute(QUERIES["snapshot"], prepare=True)).fetchone()
            assert row is not None
            self.learn(row[0])


ALONE_TIMEOUT_MS = 1000
NO_SNAPSHOT = "0:0:"

Key = tuple[str, ...]
Seen = set[tuple[ApiCaller, Key]]


async def visible_rows(
    connection: AsyncConnection, table: Table, keys: Sequence[Key], viewers: Sequence[ApiCaller]
) -> tuple[Seen, str]:
    """Pairs of viewer and key that the table's policies let through now, and the snapshot for which this is true."""
    query = _positions_query(connection, table)
    try:
        return await _ask(connection, query, keys, viewers)
    except psycopg.errors.QueryCanceled:
        return await _ask_one_by_one(connection, query, keys, viewers)


async def _ask(
    connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[ApiCaller]
) -> tuple[Seen, str]:
    parameters = {
        "plan_name": f"visible_{sha256(query.encode()).hexdigest()[:32]}",
        "query": query,
        "keys": orjson.dumps(keys).decode(),
        "roles": [viewer.role for viewer in viewers],
        "claims": [viewer.claims_json.decode() for viewer in viewers],
    }
    cursor = await connection.execute(QUERIES["visible_rows"], parameters, prepare=True)
    rows = await cursor.fetchall()
    seen = {(viewers[viewer - 1], keys[key - 1]) for _, viewer, key in rows if viewer is not None}
    return seen, rows[0][0]


async def _ask_one_by_one(
    connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[ApiCaller]
) -> tuple[Seen, str]:
    """One viewer's slow policy ran into the timeout: find out whose, and let the others have their rows."""
    seen: Seen = set()
    first = ""
    for viewer in viewers:
        try:
            async with connection.transaction():
                await connection.execute(f"set local statement_timeout = {ALONE_TIMEOUT_MS}")
                more, snapshot = await _ask(connection, query, keys, [viewer])
        except psycopg.errors.QueryCanceled:
            continue
        seen |= more
        # The first snapshot is the oldest: what it covers, all the others do.
        first = first or snapshot
    return seen, first or NO_SNAPSHOT


def _positions_query(connection: AsyncConnection, table: Table) -> str:
    """`$1` is the list of keys, `$2` the viewer's number that is passed through.

    `offset 0` keeps the planner from joining, which would run the policy on every row of the table.
    """
    conditions = sql.SQL(" and ").join(
        sql.SQL("t.{column} = (k.value ->> {position})::{kind}").format(
            column=sql.Identifier(name),
            position=sql.SQL(str(position)),
            kind=sql.SQL(table.columns[name].sql_type),
        )
        for position, name in enumerate(table.keys)
    )
    query = sql.SQL(
        "select $2::integer, k.position::integer"
        " from pg_catalog.jsonb_array_elements($1) with ordinality as k (value, position)"
        " where exists (select from {table} as t where {conditions} offset 0)"
    )
    return query.format(table=sql.Identifier(table.schema, table.name), conditions=conditions).as_string(connection)


Candidates = list[tuple[Change, list[Subscription]]]
Views = dict[tuple[int, str], RoleView]
# What a change is to a role, by the change's `id()`.
Rendered = dict[tuple[int, str], bytes]


class ChangeFanout:
    """Matches changes with subscriptions, asks PostgreSQL where it must, and sends each change rendered once for a role."""

    def __init__(
        self, connection: AsyncConnection, gate: VisibilityGate, catalog: ReplicationCatalog,
        subscriptions: Subscriptions, max_record_bytes: int,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._gate = gate
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._max_record_bytes = max_record_bytes

    async def deliver(self, changes: list[Change]) -> None:
        """Send a batch in its order to anyone who may see it: a few viewers have it while PostgreSQL decides about the next."""
        candidates = [
            (change, [item for item in self._subscriptions.interested(*_address(change)) if item.wants(change)])
            for change in changes
        ]
        views = await self._views(candidates)
        # A plan is valid for one role at a time.
        viewers = sorted({item.identity for _, items in candidates for item in items}, key=lambda viewer: viewer.role)
        turns = {viewer: at // VIEWERS_AT_ONCE for at, viewer in enumerate(viewers)}
        parts: dict[int, Candidates] = defaultdict(list)
        for change, items in candidates:
            theirs: dict[int, list[Subscription]] = defaultdict(list)
            for item in items:
                theirs[turns[item.identity]].append(item)
            for turn, few in theirs.items():
                parts[turn].append((change, few))
        data: Rendered = {}
        for turn in sorted(parts):
            await self._deliver(parts[turn], views, data)

    async def _deliver(self, candidates: Candidates, views: Views, data: Rendered) -> None:
        xids = {change.begin.xid for change, _ in candidates}
        seen = await self._seen(candidates, views)
        if not self._gate.covers(xids):
            # Not visible to others yet: a query on its arrival would miss it, and so would the policies.
            await self._gate.wait_for(xids)
            seen = await self._seen(candidates, views)
        for change, subscriptions in candidates:
            allowed = [item for item in subscriptions if self._may_see(change, item, views, seen)]
            self._send(change, allowed, views, data)

    async def _views(self, candidates: Candidates) -> Views:
        views = {}
        for change, subscriptions in candidates:
            for role in {item.identity.role for item in subscriptions}:
                views[change.table.oid, role] = await self._catalog.view(change.table, role)
        return views

    async def _seen(self, candidates: Candidates, views: Views) -> dict[int, Seen]:
        """Ask once per table about all changed rows and all viewers that its policies concern."""
        keys: dict[int, dict[Key, None]] = defaultdict(dict)
        viewers: dict[int, dict[ApiCaller, None]] = defaultdict(dict)
        tables = {}
        for change, subscriptions in candidates:
            if change.key is None or not _is_guarded(change):
                continue
            oid = change.table.oid
            for item in subscriptions:
                view = views[oid, item.identity.role]
                if not view.bypasses_rls and view.columns.issuperset(change.table.keys):
                    tables[oid] = change.table
                    keys[oid][change.key] = None
                    viewers[oid][item.identity] = None
        seen: dict[int, Seen] = {}
        for oid, table in tables.items():
            found, snapshot = await visible_rows(self._connection, table, list(keys[oid]), list(viewers[oid]))
            if not seen:  # snapshots only advance: what the first answer covers, the others do
                self._gate.learn(snapshot)
            seen[oid] = found
        return seen

    def _may_see(self, change: Change, item: Subscription, views: Views, seen: dict[int, Seen]) -> bool:
        view = views[change.table.oid, item.identity.role]
        if not view.columns or not view.columns.issuperset(change.table.keys):
            return False  # hosted sends an empty "401", which tells when and how often others' rows change
        if not _is_guarded(change) or view.bypasses_rls:
            return True
        if change.key is None:
            return True  # told of the error alone
        return (item.identity, change.key) in seen.get(change.table.oid, ())

    def _send(self, change: Change, allowed: list[Subscription], views: Views, data: Rendered) -> None:
        """One message for each member carries all of its matching ids."""
        groups: dict[Member, list[Subscription]] = defaultdict(list)
        for item in allowed:
            groups[item.member].append(item)
        frames: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        for member, items in groups.items():
            role = items[0].identity.role  # the member may have got a newer token since it subscribed
            if (id(change), role) not in data:
                data[id(change), role] = render(change, views[change.table.oid, role], self._max_record_bytes)
            body = data[id(change), role]
            ids = tuple(dict.fromkeys(item.id for item in items))
            key = (member.topic, ids, body)
            if key not in frames:
                payload = {"ids": list(ids), "data": orjson.Fragment(body)}
                frames[key] = encode(member.topic, "postgres_changes", payload)
            member.deliver(frames[key])


def _address(change: Change) -> tuple[str, str]:
    return change.table.schema, change.table.name


def _is_guarded(change: Change) -> bool:
    """Row-level security can be checked for a row that exists."""
    return change.table.has_rls and change.type != "DELETE"
