"""The objects that hosted offers before the first migration, and the rights of each role on them."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from stack.bootstrap import bootstrap
from stack.postgres import SUPERUSER
from tests.support.database import Database


def value(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_running_it_again_changes_nothing(bare_database: Database) -> None:
    bootstrap(bare_database.url_as(SUPERUSER), bare_database.server.secrets)
    assert value(bare_database.connect(), "select count(*) from auth.users") == 0


def test_the_owner_is_no_superuser_but_may_make_and_grant_roles(bare_database: Database) -> None:
    owner = bare_database.connect()
    assert value(owner, "select rolsuper from pg_roles where rolname = current_user") is False
    with owner.transaction(force_rollback=True):
        owner.execute("create role bootstrap_worker nologin noinherit")
        owner.execute("grant bootstrap_worker to authenticator")
        owner.execute("create table public.things (id int primary key)")
        owner.execute("alter publication supabase_realtime add table public.things")


def test_the_owner_may_write_policies_on_private_channels(bare_database: Database) -> None:
    owner = bare_database.connect()
    owner.execute(
        "create policy readers on realtime.messages for select to authenticated using (realtime.topic() = 'org:1')"
    )
    owner.execute("select realtime.send('{\"a\": 1}', 'wake', 'org:1')")
    member = bare_database.connect("authenticated", {"sub": "6f1c2c80-0000-4000-8000-000000000001"})
    assert value(member, "select count(*) from realtime.messages") == 0
    member.execute("select set_config('realtime.topic', 'org:1', false)")
    assert value(member, "select payload ->> 'a' from realtime.messages") == "1"


def test_claims_are_read_in_both_forms(bare_database: Database) -> None:
    subject = "6f1c2c80-0000-4000-8000-000000000001"
    member = bare_database.connect("authenticated", {"sub": subject, "email": "ada@example.org"})
    assert str(value(member, "select auth.uid()")) == subject
    assert value(member, "select auth.email()") == "ada@example.org"
    assert value(member, "select auth.role()") == "authenticated"
    assert value(member, "select auth.jwt() ->> 'sub'") == subject
    member.execute("select set_config('request.jwt.claims', '', false)")
    member.execute("select set_config('request.jwt.claim.role', 'anon', false)")
    assert value(member, "select auth.role()") == "anon"
    assert value(member, "select auth.uid()") is None


def test_public_starts_as_open_as_on_hosted(bare_database: Database) -> None:
    bare_database.connect().execute("create table public.things (id int primary key)")
    assert value(bare_database.connect("anon"), "select count(*) from public.things") == 0


@pytest.mark.parametrize("role", ["anon", "authenticated"])
@pytest.mark.parametrize("table", ["auth.users", "auth.refresh_tokens"])
def test_auth_tables_are_closed_to_clients(bare_database: Database, role: str, table: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        bare_database.connect(role).execute(f"select * from {table}".encode())


def test_an_api_connection_may_not_become_the_owner(bare_database: Database) -> None:
    connection = bare_database.connect("authenticator")
    for role in (b"postgres", b"supabase_admin", b"supabase_auth_admin"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(b"set role " + role)


def test_a_change_of_the_schema_notifies_rest(bare_database: Database) -> None:
    listener, owner = bare_database.connect(), bare_database.connect()
    listener.execute("listen pgrst")
    owner.execute("create table public.things (id int primary key)")
    assert [note.payload for note in listener.notifies(timeout=180, stop_after=1)] == ["reload schema"]


def test_a_broadcast_that_fails_does_not_undo_the_callers_work(bare_database: Database) -> None:
    owner = bare_database.connect()
    owner.execute("create table public.things (id int primary key)")
    with owner.transaction():
        owner.execute("insert into public.things values (1)")
        owner.execute("select realtime.send('{}', 'wake', null)")
    assert value(owner, "select count(*) from public.things") == 1


def test_connect_acts_as_the_role_with_its_timeouts(connect: Callable[..., psycopg.Connection[Any]]) -> None:
    assert value(connect("anon"), "select current_user") == "anon"
