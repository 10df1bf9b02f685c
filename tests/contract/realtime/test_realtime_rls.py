"""Row-level security decides for each subscriber which rows arrive, at the time of the change."""

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from stack.realtime.fanout import VIEWERS_AT_ONCE
from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Received, Wire, open_wire

ALICE, BOB = (str(uuid.UUID(int=number)) for number in (1, 2))


def binding(table: str, event: str = "*", **more: Any) -> dict[str, Any]:
    return {"event": event, "schema": "public", "table": table, **more}


async def listen(stack: AsyncExitStack, server: RealtimeServer, table: str, token: str, event: str = "*") -> Wire:
    wire = await stack.enter_async_context(open_wire(server.url, server.publishable_key))
    await wire.live("room", [binding(table, event)], access_token=token)
    return wire


def rows(messages: list[Received]) -> list[tuple[str, Any]]:
    kept = [message.payload["data"] for message in messages]
    return [(data["type"], (data.get("record") or data.get("old_record"))["id"]) for data in kept]


async def until(wire: Wire, kind: str, number: int) -> list[tuple[str, Any]]:
    """All changes up to and with the named one."""
    found: list[tuple[str, Any]] = []
    while not found or found[-1] != (kind, number):
        found += rows([await wire.event("postgres_changes")])
    return found


async def test_everybody_gets_their_own_rows_and_no_others(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, guarded_table, realtime.token(sub=ALICE))
        bob = await listen(stack, realtime, guarded_table, realtime.token(sub=BOB))
        anon = await listen(stack, realtime, guarded_table, realtime.publishable_key)
        service = await listen(stack, realtime, guarded_table, realtime.token(role="service_role"))
        for number, owner in ((1, ALICE), (2, BOB), (3, ALICE), (4, BOB)):
            sql.execute(f"insert into {guarded_table} values (%s, %s, 'x')", [number, owner])
        assert await until(alice, "INSERT", 3) == [("INSERT", 1), ("INSERT", 3)]
        assert await until(bob, "INSERT", 4) == [("INSERT", 2), ("INSERT", 4)]
        assert len(await until(service, "INSERT", 4)) == 4
        sql.execute(f"delete from {guarded_table}")
        for wire in (alice, bob, anon, service):
            assert await until(wire, "DELETE", 4) == [("DELETE", number) for number in (1, 2, 3, 4)]


async def test_of_many_viewers_each_gets_their_own_rows_in_their_order(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    owners = [str(uuid.UUID(int=number)) for number in range(1, 2 * VIEWERS_AT_ONCE + 3)]
    async with AsyncExitStack() as stack:
        wires = [await listen(stack, realtime, guarded_table, realtime.token(sub=owner)) for owner in owners]
        for round_, owner in enumerate([*owners, *owners], start=1):
            sql.execute(f"insert into {guarded_table} values (%s, %s, 'x')", [round_, owner])
        for number, wire in enumerate(wires, start=1):
            again = number + len(owners)
            assert await until(wire, "INSERT", again) == [("INSERT", number), ("INSERT", again)]


async def test_a_row_deleted_before_it_was_read_is_sent_as_deleted_only(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, guarded_table, realtime.token(sub=ALICE))
        with sql.transaction():
            sql.execute(f"insert into {guarded_table} values (1, %s, 'x')", [ALICE])
            sql.execute(f"delete from {guarded_table}")
        assert await until(alice, "DELETE", 1) == [("DELETE", 1)]


async def test_a_row_that_changes_hands_is_sent_to_its_new_owner_only(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    sql.execute(f"insert into {guarded_table} values (1, %s, 'x'), (2, %s, 'y')", [ALICE, ALICE])
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, guarded_table, realtime.token(sub=ALICE), "UPDATE")
        bob = await listen(stack, realtime, guarded_table, realtime.token(sub=BOB), "UPDATE")
        sql.execute(f"update {guarded_table} set owner = %s where id = 1", [BOB])
        sql.execute(f"update {guarded_table} set name = 'z' where id = 2")
        assert await until(alice, "UPDATE", 2) == [("UPDATE", 2)]
        assert await until(bob, "UPDATE", 1) == [("UPDATE", 1)]


async def test_a_deleted_row_sends_only_its_key_even_with_full_identity(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    sql.execute(f"alter table {guarded_table} replica identity full")
    sql.execute(f"insert into {guarded_table} values (1, %s, 'secret')", [ALICE])
    async with AsyncExitStack() as stack:
        bob = await listen(stack, realtime, guarded_table, realtime.token(sub=BOB), "DELETE")
        sql.execute(f"delete from {guarded_table}")
        change = (await bob.event("postgres_changes")).payload["data"]
        assert change["old_record"] == {"id": 1}


async def test_rls_enabled_while_listening_applies_at_once(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with AsyncExitStack() as stack:
        bob = await listen(stack, realtime, table, realtime.token(sub=BOB))
        sql.execute(f"insert into {table} (id, name) values (1, 'open')")
        assert await until(bob, "INSERT", 1) == [("INSERT", 1)]
        sql.execute(f"alter table {table} enable row level security")
        sql.execute(f"insert into {table} (id, name) values (2, 'secret')")
        sql.execute(f"create policy later on {table} for select to authenticated using (id = 3)")
        sql.execute(f"insert into {table} (id, name) values (3, 'shown')")
        assert await until(bob, "INSERT", 3) == [("INSERT", 3)]


async def test_policies_read_the_whole_token(realtime: RealtimeServer, sql: psycopg.Connection, table: str) -> None:
    sql.execute(f"alter table {table} enable row level security")
    sql.execute(
        f"create policy teams on {table} for select to authenticated"
        " using (name = (current_setting('request.jwt.claims')::jsonb -> 'app_metadata' ->> 'team'))"
    )
    async with AsyncExitStack() as stack:
        red = await listen(stack, realtime, table, realtime.token(sub=ALICE, app_metadata={"team": "red"}))
        sql.execute(f"insert into {table} (id, name) values (1, 'blue'), (2, 'red')")
        assert await until(red, "INSERT", 2) == [("INSERT", 2)]


async def test_one_subscribers_failing_policy_leaves_the_others_their_rows(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"alter table {table} enable row level security")
    sql.execute(
        f"create policy odd on {table} for select to authenticated"
        " using (1 / (case when auth.uid() = '00000000-0000-0000-0000-000000000001' then 0 else 1 end) = 1)"
    )
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, table, realtime.token(sub=ALICE))
        bob = await listen(stack, realtime, table, realtime.token(sub=BOB))
        sql.execute(f"insert into {table} (id) values (1)")
        assert await until(bob, "INSERT", 1) == [("INSERT", 1)]
        assert await alice.drain("postgres_changes") == []


async def test_keys_of_several_columns_and_types(realtime: RealtimeServer, sql: psycopg.Connection) -> None:
    name = f"t_{uuid.uuid4().hex[:12]}"
    columns = "id text, at timestamptz, part numeric(10, 2), owner uuid, primary key (id, at, part)"
    sql.execute(f"create table {name} ({columns})")
    sql.execute(f"alter table {name} enable row level security")
    sql.execute(f"create policy mine on {name} for select to authenticated using (owner = auth.uid())")
    sql.execute(f"grant select on {name} to authenticated")
    sql.execute(f"alter publication supabase_realtime add table {name}")
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, name, realtime.token(sub=ALICE))
        for key, owner in (('it\'s "q"', BOB), ("ü, {x}", ALICE)):
            sql.execute(f"insert into {name} values (%s, '2026-01-02 03:04:05.123456+02', 1.5, %s)", [key, owner])
        change = (await alice.event("postgres_changes")).payload["data"]
        assert change["record"]["id"] == "ü, {x}"
    sql.execute(f"drop table {name}")


@pytest.fixture
def new_role(sql: psycopg.Connection, guarded_table: str) -> Iterator[str]:
    """Roles belong to the whole server, so its name is the test's own."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    sql.execute(f"create role {name} nologin noinherit")
    sql.execute(f"grant {name} to authenticator")
    sql.execute(f"grant select on {guarded_table} to {name}")
    sql.execute(f"create policy extra on {guarded_table} for select to {name} using (name = auth.jwt() ->> 'org')")
    yield name
    sql.execute(f"drop policy extra on {guarded_table}")
    sql.execute(f"revoke select on {guarded_table} from {name}")
    sql.execute(f"drop role {name}")


async def test_a_role_that_a_migration_adds_is_served(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str, new_role: str
) -> None:
    async with AsyncExitStack() as stack:
        worker = await listen(stack, realtime, guarded_table, realtime.token(role=new_role, sub=BOB, org="acme"))
        sql.execute(f"insert into {guarded_table} values (1, %s, 'other'), (2, %s, 'acme')", [ALICE, ALICE])
        assert await until(worker, "INSERT", 2) == [("INSERT", 2)]


async def test_a_change_is_visible_to_readers_on_its_arrival(
    realtime: RealtimeServer, sql: psycopg.Connection, guarded_table: str
) -> None:
    async with AsyncExitStack() as stack:
        alice = await listen(stack, realtime, guarded_table, realtime.token(sub=ALICE))
        reader = psycopg.connect(sql.info.dsn, password=sql.info.password, autocommit=True)
        with reader:
            for number in range(150):
                sql.execute(f"insert into {guarded_table} values (%s, %s, 'x')", [number, ALICE])
                assert await until(alice, "INSERT", number) == [("INSERT", number)]
                found = reader.execute(f"select 1 from {guarded_table} where id = %s", [number]).fetchone()
                assert found is not None, f"row {number} was announced before it could be read"
