"""Row changes: shape, events, filters, identity, oversize, TRUNCATE, new tables."""

import uuid
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from tests.contract.realtime.server import RealtimeServer
from tests.contract.realtime.wire import Wire, open_wire

OWNER = "11111111-1111-1111-1111-111111111111"


def binding(table: str, event: str = "*", **more: Any) -> dict[str, Any]:
    return {"event": event, "schema": "public", "table": table, **more}


async def changes(wire: Wire, count: int) -> list[dict[str, Any]]:
    return [(await wire.event("postgres_changes")).payload["data"] for _ in range(count)]


async def test_insert_update_delete_have_supabases_shape(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        joined = await wire.live("room", [binding(table)])
        ids = [item["id"] for item in joined.payload["response"]["postgres_changes"]]
        sql.execute(
            f"insert into {table} values (1, 'a', %s, 1.50, '2026-01-02 03:04:05.678+00', '{{x,NULL}}')", [OWNER]
        )
        sql.execute(f"update {table} set name = 'b' where id = 1")
        sql.execute(f"delete from {table} where id = 1")
        messages = [await wire.event("postgres_changes") for _ in range(3)]
    assert {(item.topic, item.ref) for item in messages} == {("realtime:room", None)}
    assert all(item.payload["ids"] == ids for item in messages)
    inserted, updated, deleted = [item.payload["data"] for item in messages]
    row = {
        "id": 1,
        "name": "a",
        "owner": OWNER,
        "amount": 1.5,
        "at": "2026-01-02T03:04:05.678+00:00",
        "tags": ["x", None],
    }
    assert inserted.keys() == {"schema", "table", "type", "commit_timestamp", "columns", "record", "errors"}
    assert (inserted["type"], inserted["record"], inserted["errors"]) == ("INSERT", row, None)
    assert (inserted["schema"], inserted["table"]) == ("public", table)
    assert inserted["columns"][:2] == [{"name": "id", "type": "int4"}, {"name": "name", "type": "text"}]
    assert inserted["columns"][-1] == {"name": "tags", "type": "_text"}
    assert inserted["commit_timestamp"].endswith("Z")
    assert (updated["record"], updated["old_record"]) == (row | {"name": "b"}, {"id": 1})
    assert deleted["old_record"] == {"id": 1}
    assert "record" not in deleted


async def test_values_arrive_as_to_jsonb_converts_them(realtime: RealtimeServer, sql: psycopg.Connection) -> None:
    name = f"t_{uuid.uuid4().hex[:12]}"
    sql.execute("drop type if exists mood")
    sql.execute("create type mood as enum ('sad', 'happy day')")
    sql.execute("create domain short as text")
    sql.execute(
        f"create table {name} (id bigint primary key, a bool, b int2, c float8, d numeric, e json, f jsonb, g bytea, h date,"
        " i timestamp, j timestamptz, k interval, l uuid, m mood, n short, o int[], p text[], q timestamptz[], r jsonb[],"
        " s numeric, t float8, u timestamptz, v inet, w int[], x mood[], y varchar(5), z char(4))"
    )
    sql.execute(f"grant select on {name} to anon")
    sql.execute(f"alter publication supabase_realtime add table {name}")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(name)])
        sql.execute(
            f"insert into {name} values (9007199254740993, true, -3, 1e-7, 123456789012345678901234567890.10,"
            """ '{"a": [1, {"b": null}]}', '{"z": "\\u00e9\\"", "y": 1.0}', '\\xdeadbeef', '2026-02-03',"""
            " '2026-01-02 03:04:05', '2026-01-02 03:04:05.000001+05:30', '1 day 02:03:04', gen_random_uuid(), 'happy day',"
            """ 'dom', '{{1,2},{3,NULL}}', array['a"b', 'c,d', 'NULL', '', e'\\\\', 'ü'], '{2026-01-02 03:04:05+00}',"""
            """ array['{"a": 1}']::jsonb[], 'NaN', '-infinity', 'infinity', '10.0.0.1/8', '[0:1]={7,8}', '{"happy day",sad}',"""
            " 'var', 'ch')"
        )
        [change] = await changes(wire, 1)
    [(expected,)] = sql.execute(f"select to_jsonb(one) from {name} one").fetchall()
    expected["g"] = "deadbeef"  # hosted sends bytea without its prefix
    assert change["record"] == expected
    sql.execute(f"drop table {name}")
    sql.execute("drop type mood")
    sql.execute("drop domain short")


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("id=eq.2", [2]),
        ("name=eq.b", [2]),
        ("name=eq.b,c", [3]),
        ("at=eq.2026-01-01T01:00:00+01:00", [1]),
        (f"owner=eq.{OWNER.upper()}", [1]),
        ("", [1, 2, 3, 4]),
    ],
)
async def test_filters_compare_as_postgres_does(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str, text: str, passing: list[int]
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table, filter=text)])
        sql.execute(f"insert into {table} (id, name, owner, amount, at) values (1, 'a', '{OWNER}', 1.0, '2026-01-01')")
        sql.execute(f"insert into {table} (id, name, amount, at) values (2, 'b', 2, '2026-01-02')")
        sql.execute(f"insert into {table} (id, name) values (3, 'b,c')")
        sql.execute(f"insert into {table} (id) values (4)")
        await wire.live("fence", [binding(table, filter="id=eq.99")])
        sql.execute(f"insert into {table} (id) values (99)")
        await wire.expect(lambda item: item.event == "postgres_changes" and item.topic == "realtime:fence")
        got = [item.payload["data"]["record"]["id"] for item in await wire.drain("postgres_changes")]
        assert [number for number in got if number != 99] == passing


async def test_a_row_that_leaves_the_filter_is_not_sent(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"insert into {table} (id, name) values (1, 'in')")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table, "UPDATE", filter="name=eq.in")])
        sql.execute(f"update {table} set name = 'out'")
        sql.execute(f"update {table} set name = 'in', amount = 5")
        [change] = await changes(wire, 1)
        assert change["record"]["amount"] == 5


async def test_deletes_are_filtered_by_the_columns_of_the_replica_identity(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"insert into {table} (id, name) values (1, 'a'), (2, 'a'), (3, 'a')")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("by-key", [binding(table, "DELETE", filter="id=eq.1")])
        await wire.live("by-name", [binding(table, "DELETE", filter="name=eq.a")])
        sql.execute(f"delete from {table} where id = 1")
        sql.execute(f"alter table {table} replica identity full")
        sql.execute(f"delete from {table} where id = 2")
        first, second = [await wire.event("postgres_changes") for _ in range(2)]
        assert (first.topic, first.payload["data"]["old_record"]) == ("realtime:by-key", {"id": 1})
        assert second.topic == "realtime:by-name"
        assert second.payload["data"]["old_record"]["name"] == "a"


async def test_full_identity_gives_the_old_row(realtime: RealtimeServer, sql: psycopg.Connection, table: str) -> None:
    sql.execute(f"alter table {table} replica identity full")
    sql.execute(f"insert into {table} (id, name) values (1, 'a')")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table, "UPDATE")])
        sql.execute(f"update {table} set name = 'b'")
        [change] = await changes(wire, 1)
        assert change["old_record"] == {"id": 1, "name": "a", "owner": None, "amount": None, "at": None, "tags": None}


async def test_a_changed_key_is_reported_with_the_old_one(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"insert into {table} (id) values (1)")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table, "UPDATE")])
        sql.execute(f"update {table} set id = 2")
        [change] = await changes(wire, 1)
        assert (change["record"]["id"], change["old_record"]) == (2, {"id": 1})


@pytest.mark.parametrize("identity", ["default", "full"])
async def test_an_untouched_large_value_is_absent_unless_identity_is_full(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str, identity: str
) -> None:
    sql.execute(f"alter table {table} replica identity {identity}")
    sql.execute(f"alter table {table} alter column name set storage external")
    sql.execute(f"insert into {table} (id, name) values (1, repeat('x', 20000))")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table, "UPDATE")])
        sql.execute(f"update {table} set amount = 1")
        [change] = await changes(wire, 1)
        assert change["record"].get("name") == ("x" * 20000 if identity == "full" else None)
        assert ("name" in change["record"]) == (identity == "full")


async def test_a_change_beyond_one_mebibyte_loses_its_large_values(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table)])
        sql.execute(f"insert into {table} (id, name, amount) values (1, repeat('x', 1048576), 7)")
        sql.execute(f"insert into {table} (id, name) values (2, repeat('x', 1000000))")
        large, fitting = await changes(wire, 2)
        assert large["errors"] == ["Error 413: Payload Too Large"]
        assert large["record"] == {"id": 1, "owner": None, "amount": 7, "at": None, "tags": None}
        assert fitting["errors"] is None
        assert len(fitting["record"]["name"]) == 1_000_000


async def test_truncate_sends_no_change_and_changes_arrive_in_commit_order(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table)])
        sql.execute(f"insert into {table} (id) select generate_series(1, 300)")
        sql.execute(f"truncate {table}")
        sql.execute(f"insert into {table} (id) values (1000)")
        got = await changes(wire, 301)
        assert [(item["type"], item["record"]["id"]) for item in got] == [
            ("INSERT", number) for number in [*range(1, 301), 1000]
        ]


async def test_one_message_carries_all_matching_bindings_of_a_channel(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        bindings = [
            binding(table),
            binding(table, "insert"),
            binding(table, "DELETE"),
            binding(table, filter="id=eq.1"),
        ]
        joined = await wire.live("room", bindings)
        ids = [item["id"] for item in joined.payload["response"]["postgres_changes"]]
        sql.execute(f"insert into {table} (id) values (1)")
        message = await wire.event("postgres_changes")
        assert message.payload["ids"] == [ids[0], ids[1], ids[3]]
        assert await wire.drain("postgres_changes") == []


async def test_a_table_without_primary_key_is_an_error(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"alter table {table} drop constraint {table}_pkey")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table)])
        sql.execute(f"insert into {table} (id) values (1)")
        [change] = await changes(wire, 1)
        assert change["errors"] == ["Error 400: Bad Request, no primary key"]
        assert change["record"] is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"table": "{table}", "schema": "public", "filter": "id=gt.1"}, "Error parsing `filter` params"),
        ({"table": "{table}", "schema": "public", "filter": "nope=eq.1"}, "invalid column for filter nope"),
        ({"table": "{table}", "schema": "public", "filter": "amount=eq.1"}, "does not compare columns of type numeric"),
        ({"table": "{table}", "schema": "public", "filter": "id=eq.x"}, "ERROR 22P02 invalid input syntax"),
        ({"table": "{table}", "schema": "public", "select": ["id"]}, "leave out `select`"),
        ({"table": "*", "schema": "public"}, "one table for each entry"),
        ({"table": "nope", "schema": "public"}, "Please check Realtime is enabled for the given connect parameters"),
        ({"table": "{table}", "schema": "public", "filter": "name=eq.\0"}, "NUL"),
    ],
)  # fmt: skip
async def test_bindings_that_cannot_be_served_are_reported_and_the_channel_stays(
    realtime: RealtimeServer, table: str, wanted: dict[str, Any], words: str
) -> None:
    wanted = {
        key: value.replace("{table}", table) if isinstance(value, str) else value for key, value in wanted.items()
    }
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        reply = await wire.join("room", {"postgres_changes": [wanted]})
        assert reply.payload["status"] == "ok"
        system = (await wire.event("system")).payload
        assert (system["extension"], system["status"], system["channel"]) == ("postgres_changes", "error", "room")
        assert words in system["message"]
        leave = await wire.reply(await wire.send("realtime:room", "phx_leave", {}))
        assert leave.payload["status"] == "ok"


async def test_hidden_columns_stay_hidden(realtime: RealtimeServer, sql: psycopg.Connection, table: str) -> None:
    sql.execute(f"revoke all on {table} from anon")
    sql.execute(f"grant select (id, name) on {table} to anon")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table)])
        sql.execute(f"insert into {table} (id, name, amount) values (1, 'a', 3)")
        [change] = await changes(wire, 1)
        assert change["record"] == {"id": 1, "name": "a"}
        reply = await wire.join("other", {"postgres_changes": [binding(table, filter="amount=eq.3")]})
        assert reply.payload["status"] == "ok"
        assert "invalid column for filter amount" in (await wire.event("system")).payload["message"]


async def test_a_revoked_right_ends_listening_at_once(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with AsyncExitStack() as stack:
        wire, witness = [
            await stack.enter_async_context(open_wire(realtime.url, realtime.publishable_key)) for _ in range(2)
        ]
        await wire.live("room", [binding(table)])
        await witness.live("room", [binding(table)], access_token=realtime.token(role="service_role"))
        sql.execute(f"insert into {table} (id, name) values (1, 'a')")
        [first] = await changes(wire, 1)
        assert first["record"]["name"] == "a"
        sql.execute(f"revoke all on {table} from anon")
        sql.execute(f"insert into {table} (id, name) values (2, 'secret')")
        sql.execute(f"delete from {table} where id = 2")
        await changes(witness, 3)
        sql.execute(f"grant select on {table} to anon")
        sql.execute(f"insert into {table} (id, name) values (3, 'b')")
        # Nothing of the second: not even that there was one, which hosted tells by an empty "401".
        [third] = await changes(wire, 1)
        assert third["record"]["id"] == 3


async def test_more_bindings_than_one_channel_may_have_are_refused(realtime: RealtimeServer, table: str) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        bindings = [binding(table, filter=f"id=eq.{number}") for number in range(5000)]
        reply = await wire.join("room", {"postgres_changes": bindings})
        assert len(reply.payload["response"]["postgres_changes"]) == 5000
        assert "Too many postgres_changes subscriptions" in (await wire.event("system")).payload["message"]


async def test_a_table_that_changes_while_listening(
    realtime: RealtimeServer, sql: psycopg.Connection, table: str
) -> None:
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("all", [binding(table)])
        await wire.live("filtered", [binding(table, filter="id=eq.1"), binding(table, filter="name=eq.a")])
        sql.execute(f"alter table {table} add column extra jsonb default '[1]', drop column owner")
        sql.execute(f"insert into {table} (id, amount) values (1, 2)")
        for _ in range(2):
            change = (await wire.event("postgres_changes")).payload["data"]
            assert change["record"]["extra"] == [1]
            assert "owner" not in change["record"]
        sql.execute(f"alter table {table} alter column amount type text, alter column id type text")
        sql.execute(f"insert into {table} (id, amount) values ('two', 'many')")
        change = await wire.event("postgres_changes")
        assert (change.topic, change.payload["data"]["record"]["id"]) == ("realtime:all", "two")
        assert await wire.drain("postgres_changes") == []
