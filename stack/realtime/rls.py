"""The rows that each subscriber may see, queried once per batch and table, and the moment from which new snapshots see them."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson
import psycopg
from psycopg import AsyncConnection, sql

from stack.auth.tokens import ApiCaller
from stack.realtime.catalog import Table
from stack.realtime.database import QUERIES

XID_SPAN = 1 << 32
FIRST_WAIT_SECONDS = 0.0005
LONGEST_WAIT_SECONDS = 0.05


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
    """Holds a transaction until new snapshots see it; asks for one only when the one at hand does not cover it.

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


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that the viewers see, and the snapshot for which this is true."""

    seen: Seen
    snapshot: str


async def visible_rows(
    connection: AsyncConnection, table: Table, keys: Sequence[Key], viewers: Sequence[ApiCaller]
) -> Answer:
    """Pairs of viewer and key that the table's policies let through now."""
    viewers = sorted(viewers, key=lambda viewer: viewer.role)  # a plan is valid for one role at a time
    query = _positions_query(connection, table)
    try:
        return await _ask(connection, query, keys, viewers)
    except psycopg.errors.QueryCanceled:
        return await _ask_one_by_one(connection, query, keys, viewers)


async def _ask(connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[ApiCaller]) -> Answer:
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
    return Answer(seen, rows[0][0])


async def _ask_one_by_one(
    connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[ApiCaller]
) -> Answer:
    """One viewer's slow policy ran into the timeout: find out whose, and let the others have their rows."""
    answers = [Answer(set(), NO_SNAPSHOT)]
    for viewer in viewers:
        try:
            async with connection.transaction():
                await connection.execute(f"set local statement_timeout = {ALONE_TIMEOUT_MS}")
                answers.append(await _ask(connection, query, keys, [viewer]))
        except psycopg.errors.QueryCanceled:
            continue
    # The first snapshot is the oldest: what it covers, all the others do.
    return Answer(set().union(*(answer.seen for answer in answers)), answers[min(1, len(answers) - 1)].snapshot)


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
