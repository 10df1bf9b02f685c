"""Which subscribers may see which rows, asked of PostgreSQL once per batch and table."""

from collections.abc import Sequence
from hashlib import sha256

import orjson
import psycopg
from psycopg import AsyncConnection, sql

from stack.realtime.catalog import Table
from stack.realtime.queries import QUERIES
from stack.realtime.tokens import Identity

ALONE_TIMEOUT_MS = 1000

Key = tuple[str, ...]
Seen = set[tuple[Identity, Key]]


async def visible_rows(
    connection: AsyncConnection, table: Table, keys: Sequence[Key], viewers: Sequence[Identity]
) -> Seen:
    """Pairs of viewer and key that the table's policies let through now."""
    if not keys or not viewers:
        return set()
    viewers = sorted(viewers, key=lambda viewer: viewer.role)  # a plan is good for one role at a time
    query = _positions_query(connection, table)
    try:
        return await _ask(connection, query, keys, viewers)
    except psycopg.errors.QueryCanceled:
        return await _ask_one_by_one(connection, query, keys, viewers)


async def _ask(connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[Identity]) -> Seen:
    parameters = {
        "plan_name": f"visible_{sha256(query.encode()).hexdigest()[:32]}",
        "query": query,
        "keys": orjson.dumps(keys).decode(),
        "roles": [viewer.role for viewer in viewers],
        "claims": [viewer.claims_json for viewer in viewers],
    }
    cursor = await connection.execute(QUERIES["visible_rows"], parameters, prepare=True)
    return {(viewers[viewer - 1], keys[key - 1]) for viewer, key in await cursor.fetchall()}


async def _ask_one_by_one(
    connection: AsyncConnection, query: str, keys: Sequence[Key], viewers: Sequence[Identity]
) -> Seen:
    """One viewer's slow policy ran into the timeout: find out whose, and let the others have their rows."""
    seen: Seen = set()
    for viewer in viewers:
        try:
            async with connection.transaction():
                await connection.execute(f"set local statement_timeout = {ALONE_TIMEOUT_MS}")
                seen |= await _ask(connection, query, keys, [viewer])
        except psycopg.errors.QueryCanceled:
            continue
    return seen


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
