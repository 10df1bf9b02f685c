"""The pipelined connection and its pool, on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from stack.rest.pool import PREPARED_LIMIT, Connection, DatabaseError, DatabaseGone, Pool, PoolTimeout, Statement
from tests.support.database import Database
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def connection(bare_database: Database) -> AsyncIterator[Connection]:
    opened = await Connection.connect(bare_database.url)
    yield opened
    opened.close()


@pytest.fixture
async def pool(bare_database: Database) -> AsyncIterator[Pool]:
    made = Pool(bare_database.url, size=2, wait_seconds=0.5)
    yield made
    made.close()


async def value(connection: Connection, sql: str, *values: bytes | None) -> bytes | None:
    return (await connection.run((Statement(sql.encode(), values),)))[0].get_value(0, 0)


async def broken(*connections: Connection) -> None:
    """Wait until the connections have noticed that they are closed."""
    async with asyncio.timeout(180):
        while not all(connection.is_broken for connection in connections):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def sleeping(database: Database) -> None:
    """Wait until the server runs somebody's `pg_sleep`."""
    owner = database.connect("supabase_admin")
    query = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"

    async def is_running() -> bool:
        return bool(owner.execute(query).fetchone()[0])  # type: ignore[index]

    await eventually(is_running, every_seconds=0.01)


async def test_a_transaction_needs_one_round_trip(connection: Connection) -> None:
    statements = [Statement(b"begin"), Statement(b"select set_config('a.b', $1, true)", [b"x"])]
    results = await connection.run([*statements, Statement(b"select current_setting('a.b')"), Statement(b"commit")])
    assert results[2].get_value(0, 0) == b"x"
    assert await value(connection, "select current_setting('a.b', true)") in {b"", None}


async def test_a_refusal_leaves_the_connection_usable(connection: Connection) -> None:
    with pytest.raises(DatabaseError) as refused:
        await connection.run(
            (Statement(b"begin"), Statement(b"select 1/0"), Statement(b"select 2"), Statement(b"commit"))
        )
    assert refused.value.code == "22012"
    await connection.recover()
    assert await value(connection, "select 3") == b"3"


async def test_a_statement_that_cannot_be_prepared_is_tried_anew(
    connection: Connection, bare_database: Database
) -> None:
    sql = b"select count(*) from public.later"
    with pytest.raises(DatabaseError):
        await connection.run((Statement(sql),))
    bare_database.connect().execute("create table public.later (id int)")
    assert (await connection.run((Statement(sql),)))[0].get_value(0, 0) == b"0"


async def test_statements_that_are_not_used_are_forgotten(connection: Connection) -> None:
    for number in range(PREPARED_LIMIT + 40):
        assert await value(connection, f"select {number}") == str(number).encode()
    count = await value(connection, "select count(*) from pg_prepared_statements")
    assert count is not None
    assert int(count) <= PREPARED_LIMIT + 2
    assert await value(connection, "select 0") == b"0"


async def test_large_values_are_sent_and_received(connection: Connection) -> None:
    big = b"x" * 8_000_000
    assert await value(connection, "select $1::text", big) == big


async def test_a_server_that_ends_the_connection_is_noticed_while_idle(
    connection: Connection, bare_database: Database
) -> None:
    pid = await value(connection, "select pg_backend_pid()")
    assert pid is not None
    bare_database.connect("supabase_admin").execute("select pg_terminate_backend(%s)", [int(pid)])
    await broken(connection)
    with pytest.raises(DatabaseGone):
        await value(connection, "select 1")


async def test_a_server_that_ends_the_connection_at_work_is_noticed(
    connection: Connection, bare_database: Database
) -> None:
    pid = await value(connection, "select pg_backend_pid()")
    assert pid is not None
    task = asyncio.create_task(value(connection, "select pg_sleep(30)"))
    await sleeping(bare_database)
    bare_database.connect("supabase_admin").execute("select pg_terminate_backend(%s)", [int(pid)])
    with pytest.raises((DatabaseGone, DatabaseError)):
        async with asyncio.timeout(180):
            await task


async def test_a_plan_made_for_one_role_does_not_serve_another(connection: Connection, bare_database: Database) -> None:
    """An inlined function is checked when it is planned: the pitfall that statements are kept by role for."""
    owner = bare_database.connect()
    owner.execute("create function public.guarded() returns int language sql stable as 'select 7'")
    owner.execute("revoke execute on function public.guarded() from public, anon, authenticated")
    owner.execute("grant execute on function public.guarded() to service_role")

    async def call(role: str) -> bytes | None:
        become = Statement(b"select set_config('role', $1, true)", [role.encode()])
        statement = Statement(b"select public.guarded()", (), role)
        try:
            return (await connection.run((Statement(b"begin"), become, statement, Statement(b"commit"))))[2].get_value(
                0, 0
            )
        finally:
            await connection.recover()

    assert await call("service_role") == b"7"
    with pytest.raises(DatabaseError) as refused:
        await call("anon")
    assert refused.value.code == "42501"
    assert await call("service_role") == b"7"


async def test_the_pool_lends_no_more_than_it_has(pool: Pool) -> None:
    first, second = await pool.take(), await pool.take()
    with pytest.raises(PoolTimeout):
        await pool.take()
    pool._wait_seconds = 180
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    await pool.give_back(first)
    assert await waiting is first
    await pool.give_back(first)
    await pool.give_back(second)


async def test_a_borrowed_connection_is_returned_outside_a_transaction(pool: Pool) -> None:
    async with pool.connection() as connection:
        await connection.run((Statement(b"begin"), Statement(b"select set_config('role', 'anon', true)")))
    async with pool.connection() as again:
        assert again is connection
        assert await value(again, "select current_user") == b"postgres"


async def test_a_cancelled_request_frees_its_place_in_the_pool(pool: Pool, bare_database: Database) -> None:
    async def sleep() -> None:
        async with pool.connection() as connection:
            await value(connection, "select pg_sleep(30)")

    for _ in range(4):
        task = asyncio.create_task(sleep())
        await sleeping(bare_database)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with pool.connection() as connection:
        assert await value(connection, "select 1") == b"1"


async def test_the_pool_survives_a_lost_server(pool: Pool, bare_database: Database) -> None:
    connections = [await pool.take(), await pool.take()]
    for connection in connections:
        await pool.give_back(connection)
    kill = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
    )
    with psycopg.connect(bare_database.url_as("supabase_admin"), autocommit=True) as admin:
        admin.execute(kill, [bare_database.name])
    await broken(*connections)
    async with pool.connection() as connection:
        assert await value(connection, "select 1") == b"1"


async def test_an_unreachable_database_is_reported_at_once() -> None:
    pool = Pool("postgresql://nobody@127.0.0.1:1/none", size=1)
    for _ in range(3):
        with pytest.raises(DatabaseGone):
            await pool.take()
