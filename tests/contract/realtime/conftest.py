"""Fixtures that the Realtime tests share."""

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.contract.conftest import User
from tests.contract.realtime.server import RealtimeServer, start_realtime
from tests.support.database import Database, Server
from tests.support.waiting import wait_until

READY_SLOT = (
    "select 1 from pg_replication_slots where database = current_database() and confirmed_flush_lsn is not null"
)
ROLES = ("authenticator", "supabase_replication_admin", "supabase_realtime_admin")


@pytest.fixture(scope="session")
def realtime_database(postgres_server: Server) -> Iterator[Database]:
    """A database as hosted hands one out, for all tests of a process."""
    database = Database(postgres_server, postgres_server.create_database(postgres_server.bare_template()))
    yield database
    database.close()
    postgres_server.drop_database(database.name)


@pytest.fixture(scope="session")
def realtime(realtime_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealtimeServer]:
    """A Realtime server on that database, which reads what is written from now on."""
    folder = tmp_path_factory.mktemp("realtime")
    with start_realtime(folder, realtime_database.server.secrets, addresses(realtime_database)) as server:
        # A slot waits for every transaction that any database of the server has open.
        owner = realtime_database.connect()
        wait_until(lambda: owner.execute(READY_SLOT).fetchone())
        yield server


def addresses(database: Database) -> list[str]:
    """The three URLs that the server connects by."""
    return [database.url_as(role) for role in ROLES]


@pytest.fixture
def sql(realtime_database: Database) -> psycopg.Connection:
    """The schema owner's connection; each statement commits, and is sent to listeners at once."""
    connection = realtime_database.connect()
    connection.execute("set synchronous_commit = on")
    return connection


@pytest.fixture
def table(sql: psycopg.Connection) -> Iterator[str]:
    """A published table that everybody may read."""
    yield from publish(sql, "id int primary key, name text, owner uuid, amount numeric, at timestamptz, tags text[]")


@pytest.fixture
def guarded_table(sql: psycopg.Connection) -> Iterator[str]:
    """A published table whose rows only their owner may read."""
    for name in publish(sql, "id int primary key, owner uuid not null, name text"):
        sql.execute(f"alter table {name} enable row level security")
        sql.execute(f"create policy owners_read on {name} for select to authenticated using (owner = auth.uid())")
        yield name


def publish(sql: psycopg.Connection, columns: str) -> Iterator[str]:
    """Make a table, publish it, and drop it afterwards."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    sql.execute(f"create table {name} ({columns})")
    sql.execute(f"grant select on {name} to anon, authenticated")
    sql.execute(f"alter publication supabase_realtime add table {name}")
    yield name
    sql.execute(f"drop table {name}")


@pytest.fixture
def notes(db: psycopg.Connection) -> Iterator[str]:
    """In the project under contract: a published table that everybody may read."""
    yield from publish(db, "id int primary key, body text")


@pytest.fixture
def diaries(db: psycopg.Connection) -> Iterator[str]:
    """In the project under contract: a published table whose rows only their owner may read."""
    for name in publish(db, "id int primary key, owner uuid not null"):
        db.execute(f"alter table {name} enable row level security")
        db.execute(f"create policy owners_read on {name} for select to authenticated using (owner = auth.uid())")
        yield name


@pytest.fixture
def only(db: psycopg.Connection) -> Iterator[Callable[[User], None]]:
    """`only(user)`: allows one user, and nobody else, to use private channels of the project under contract."""
    made: list[str] = []

    def allow(user: User) -> None:
        for command, clause in (("select", "using"), ("insert", "with check")):
            name = f"contract_{command}_{uuid.uuid4().hex[:8]}"
            rule = f"auth.uid() = '{user.id}' and realtime.topic() like 'room-%'"
            db.execute(f"create policy {name} on realtime.messages for {command} to authenticated {clause} ({rule})")
            made.append(name)

    yield allow
    for name in made:
        db.execute(f"drop policy {name} on realtime.messages")
