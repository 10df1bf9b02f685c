"""Faults and recovery: the WAL sender, PostgreSQL, the server, slow and idle clients."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from stack.bootstrap import bootstrap
from stack.errors import Taken
from stack.postgres import Cluster, check_port, find_cluster
from stack.realtime.feed import ReplicationFeed
from stack.realtime.settings import RealtimeSettings
from stack.realtime.subscriptions import Subscriptions
from stack.secrets import Secrets, load_secrets
from tests.contract.realtime.conftest import ROLES, addresses
from tests.contract.realtime.server import RealtimeServer, start_realtime
from tests.contract.realtime.wire import Wire, open_wire
from tests.support.database import Database
from tests.support.ports import free_port
from tests.support.server import server_settings
from tests.support.waiting import wait_until


def binding(table: str) -> dict[str, Any]:
    return {"event": "INSERT", "schema": "public", "table": table}


async def heartbeats(wire: Wire) -> None:
    while True:
        await wire.drain()


async def is_live_again(wire: Wire) -> None:
    """Wait until changes flow; an earlier message may report that they did not yet, since the database was away."""
    system = await wire.expect(lambda message: message.event == "system" and message.payload["status"] == "ok")
    assert system.payload["message"] == "Subscribed to PostgreSQL"


def slots(admin: psycopg.Connection, database: Database) -> list[tuple[str, int]]:
    """The name of each slot of a database, and who sends from it."""
    query = "select slot_name, active_pid from pg_replication_slots where database = %s"
    return admin.execute(query, [database.name]).fetchall()


async def test_a_killed_wal_sender_is_replaced_and_channels_are_live_again(
    realtime: RealtimeServer, realtime_database: Database, sql: psycopg.Connection, table: str
) -> None:
    admin = realtime_database.connect("supabase_admin")
    async with open_wire(realtime.url, realtime.publishable_key) as wire:
        await wire.live("room", [binding(table)])
        for number in (1, 2, 3):
            # What is left of the sender before, or of another test's server, takes a moment to go.
            [(_, sender)] = wait_until(lambda: len(found := slots(admin, realtime_database)) == 1 and found)
            assert admin.execute("select pg_terminate_backend(%s)", [sender]).fetchall() == [(True,)]
            await is_live_again(wire)
            sql.execute(f"insert into {table} (id) values (%s)", [number])
            assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == number


async def test_nothing_is_left_behind_by_a_stopped_server(
    realtime_database: Database, tmp_path: Path, table: str
) -> None:
    admin = realtime_database.connect("supabase_admin")
    before = {name for name, _ in slots(admin, realtime_database)}
    with start_realtime(tmp_path, realtime_database.server.secrets, addresses(realtime_database)) as server:
        async with open_wire(server.url, server.publishable_key) as wire:
            await wire.live("room", [binding(table)])
            (own,) = {name for name, _ in slots(admin, realtime_database)} - before
            os.kill(server.process.pid, signal.SIGTERM)
            assert await wire.closed() in (1006, 1012)
    wait_until(lambda: own not in {name for name, _ in slots(admin, realtime_database)})


class OwnPostgres:
    """A PostgreSQL that a test may kill."""

    def __init__(self, folder: Path) -> None:
        settings = server_settings(folder, free_port())
        self.secrets: Secrets = load_secrets(settings.secrets_file)
        self.cluster: Cluster = find_cluster(settings, self.secrets)
        self.log = folder / "postgres.log"

    def url(self, role: str) -> str:
        return self.cluster.settings.database_url(role, self.secrets.password(role))

    def start(self) -> None:
        self.process = self.cluster.start(self.log)

    def kill(self) -> None:
        # With its children: one that is given a question before it notices would still answer it.
        postmaster = psutil.Process(self.process.pid)
        postmaster.suspend()
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(family[1:])
        # A child that it had only just forked still has the socket that it listened on.
        wait_until(self._has_left_its_port)

    def _has_left_its_port(self) -> bool:
        try:
            check_port(self.cluster.settings.postgres_port, "PostgreSQL")
        except Taken:
            return False
        return True


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[OwnPostgres]:
    if os.geteuid() == 0:  # PostgreSQL runs as another account, which must get through pytest's private folders
        for path in (tmp_path, *tmp_path.parents):
            path.chmod(path.stat().st_mode | 0o011)
    postgres = OwnPostgres(tmp_path)
    postgres.cluster.prepare()
    postgres.start()
    bootstrap(postgres.cluster.url, postgres.secrets)
    yield postgres
    postgres.cluster.remove()


async def test_channels_survive_a_killed_postgres(own_postgres: OwnPostgres, tmp_path: Path) -> None:
    setup = (
        "create table notes (id int primary key); grant select on notes to anon;"
        "alter publication supabase_realtime add table notes"
    )
    with psycopg.connect(own_postgres.url("postgres"), autocommit=True) as sql:
        sql.execute(setup)
    urls = [own_postgres.url(role) for role in ROLES]
    with start_realtime(tmp_path, own_postgres.secrets, urls, DATABASE_TIMEOUT_SECONDS="10") as server:
        async with open_wire(server.url, server.publishable_key) as wire:
            await wire.live("room", [binding("notes")])
            own_postgres.kill()
            assert (await wire.reply(await wire.send("phoenix", "heartbeat", {}))).payload["status"] == "ok"
            private = await wire.join("private", {"private": True})
            assert private.payload["response"]["reason"] == (
                "UnableToConnectToProject: Realtime was unable to connect to the project database"
            )
            own_postgres.start()
            await is_live_again(wire)
            with psycopg.connect(own_postgres.url("postgres"), autocommit=True) as sql:
                sql.execute("set synchronous_commit = on; insert into notes values (1)")
            assert (await wire.event("postgres_changes")).payload["data"]["record"]["id"] == 1
            assert (await wire.join("other")).payload["status"] == "ok"


async def test_a_server_that_starts_before_postgres_waits_for_it(own_postgres: OwnPostgres, tmp_path: Path) -> None:
    own_postgres.kill()
    urls = [own_postgres.url(role) for role in ROLES]
    with start_realtime(tmp_path, own_postgres.secrets, urls) as server:
        own_postgres.start()
        with psycopg.connect(own_postgres.url("postgres"), autocommit=True) as sql:
            sql.execute("create table notes (id int primary key)")
            sql.execute("alter publication supabase_realtime add table notes")
        async with open_wire(server.url, server.publishable_key) as wire:
            await wire.live("room", [binding("notes")])


async def test_new_tables_in_the_publication_are_picked_up(
    realtime_database: Database, sql: psycopg.Connection, table: str, tmp_path: Path
) -> None:
    secrets = realtime_database.server.secrets
    with start_realtime(tmp_path, secrets, addresses(realtime_database), PUBLICATION_SECONDS="0.2") as server:
        async with open_wire(server.url, server.publishable_key) as wire:
            await wire.join("room", {"postgres_changes": [binding(f"{table}_new")]})
            assert (await wire.event("system")).payload["status"] == "error"
            sql.execute(f"create table {table}_new (id int primary key)")
            sql.execute(f"grant select on {table}_new to anon")
            sql.execute(f"alter publication supabase_realtime add table {table}_new")
            await is_live_again(wire)
            sql.execute(f"insert into {table}_new values (1)")
            assert (await wire.event("postgres_changes")).payload["data"]["table"] == f"{table}_new"
    sql.execute(f"drop table {table}_new")


async def test_a_table_that_is_published_as_the_feed_becomes_live_is_reported_as_new(
    realtime_database: Database, sql: psycopg.Connection, table: str
) -> None:
    sql.execute(f"create table {table}_late (id int primary key)")
    live, told = asyncio.Event(), asyncio.Event()

    def on_tables() -> None:
        if live.is_set():
            told.set()
        else:
            live.set()
            sql.execute(f"alter publication supabase_realtime add table {table}_late")

    urls, settings = addresses(realtime_database)[:2], RealtimeSettings(publication_seconds=0.2)
    feed = ReplicationFeed(*urls, settings, Subscriptions(), lambda _: None, on_tables)
    running = asyncio.ensure_future(feed.run())
    async with asyncio.timeout(180):
        await told.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    sql.execute(f"drop table {table}_late")


async def test_a_server_makes_the_coming_days_room_for_stored_messages(
    realtime_database: Database, tmp_path: Path
) -> None:
    admin = realtime_database.connect("supabase_admin")
    days = "select count(*) from pg_inherits where inhparent = 'realtime.messages'::regclass"
    [(before,)] = admin.execute(days).fetchall()
    admin.execute(
        "do $$ begin execute format('drop table realtime.messages_%s', to_char(now() + '2 days', 'YYYY_MM_DD')); end $$"
    )
    with start_realtime(tmp_path, realtime_database.server.secrets, addresses(realtime_database)):
        wait_until(lambda: admin.execute(days).fetchone() == (before,))


async def test_a_client_that_does_not_read_is_closed_and_others_are_served(
    realtime_database: Database, sql: psycopg.Connection, table: str, tmp_path: Path
) -> None:
    secrets = realtime_database.server.secrets
    with start_realtime(tmp_path, secrets, addresses(realtime_database), QUEUE_BYTES="2000000") as server:
        async with (
            open_wire(server.url, server.publishable_key) as slow,
            open_wire(server.url, server.publishable_key) as quick,
        ):
            await slow.live("room", [binding(table)])
            await quick.live("room", [binding(table)])
            slow.connection.transport.pause_reading()
            # A client that reads the last message within seconds learns the reason: it is read as soon as it was sent.
            for number in takewhile(lambda _: "does not keep up" not in server.log.read_text(), range(200)):
                sql.execute(f"insert into {table} (id, name) values (%s, repeat('x', 500000))", [number])
                assert (await quick.event("postgres_changes")).payload["data"]["record"]["id"] == number
            slow.connection.transport.resume_reading()
            assert await slow.closed() == 1013


async def test_one_subscribers_slow_policy_does_not_keep_the_others_from_their_rows(
    realtime_database: Database, sql: psycopg.Connection, table: str, tmp_path: Path
) -> None:
    slow, quick = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
    sql.execute(f"alter table {table} enable row level security")
    sql.execute(
        f"create policy odd on {table} for select to authenticated"
        f" using (case when auth.uid() = '{slow}' then (select true from pg_sleep(60)) else true end)"
    )
    secrets = realtime_database.server.secrets
    with start_realtime(tmp_path, secrets, addresses(realtime_database), POLICY_TIMEOUT_SECONDS="5") as server:
        async with (
            open_wire(server.url, server.publishable_key) as waiting,
            open_wire(server.url, server.publishable_key) as served,
        ):
            await waiting.live("room", [binding(table)], access_token=server.token(sub=slow))
            await served.live("room", [binding(table)], access_token=server.token(sub=quick))
            sql.execute(f"insert into {table} (id) values (1)")
            assert (await served.event("postgres_changes")).payload["data"]["record"]["id"] == 1
            assert await waiting.drain("postgres_changes") == []


async def test_an_idle_socket_is_closed(realtime_database: Database, tmp_path: Path) -> None:
    secrets = realtime_database.server.secrets
    with start_realtime(tmp_path, secrets, addresses(realtime_database), IDLE_SECONDS="0.5") as server:
        async with open_wire(server.url, server.publishable_key) as wire:
            assert await wire.closed() == 1001


async def test_a_socket_without_channels_is_closed(realtime_database: Database, tmp_path: Path) -> None:
    secrets = realtime_database.server.secrets
    with start_realtime(tmp_path, secrets, addresses(realtime_database), NO_CHANNEL_SECONDS="0.2") as server:
        async with open_wire(server.url, server.publishable_key) as wire:
            with pytest.raises(ConnectionClosed):
                await heartbeats(wire)


@pytest.fixture(scope="module")
def limited(realtime_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealtimeServer]:
    """Rates far below hosted's, so that a test can reach them."""
    limits = {
        "MAX_JOINS_PER_MINUTE": "12",
        "MAX_CONNECTIONS": "2",
        # A client that sends too much has sent all of it before the socket ends.
        "CHANNEL_ERROR_SECONDS": "3",
    }
    folder = tmp_path_factory.mktemp("limited")
    secrets = realtime_database.server.secrets
    with start_realtime(folder, secrets, addresses(realtime_database), **limits) as server:
        yield server


async def test_too_many_joins_end_the_socket(limited: RealtimeServer) -> None:
    async with open_wire(limited.url, limited.publishable_key) as wire:
        refs = [await wire.send_join(f"room-{number}") for number in range(30)]
        assert await wire.closed() == 1001
        answers = [item for item in wire.seen if item.event == "phx_reply"]
        reasons = {item.payload["response"].get("reason") for item in answers if item.ref in refs}
        assert reasons == {None, "ClientJoinRateLimitReached: Too many joins per second"}


async def open_three(stack: AsyncExitStack, server: RealtimeServer) -> None:
    for _ in range(3):
        await stack.enter_async_context(open_wire(server.url, server.publishable_key))


async def test_too_many_sockets_are_refused(limited: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(InvalidStatus) as caught:
            await open_three(stack, limited)
        assert caught.value.response.status_code == 429
