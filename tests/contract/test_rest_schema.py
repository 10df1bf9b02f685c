"""The schema cache follows the database while it runs."""

import uuid
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from tests.support.waiting import wait_until


@pytest.fixture
def changing(db: psycopg.Connection, http: httpx.Client) -> Iterator[str]:
    """A table of the test's own: with a name that was used before, a cache could answer for the earlier table."""
    name = f"contract_changing_{uuid.uuid4().hex[:8]}"
    db.execute(f"create table public.{name} (id int primary key)".encode())
    db.execute(f"grant select on public.{name} to anon".encode())
    db.execute(f"insert into public.{name} values (1)".encode())
    wait_until(lambda: http.get(f"/rest/v1/{name}").status_code == 200)
    yield name
    db.execute(f"drop table if exists public.{name}".encode())


def test_a_new_column_is_read(changing: str, db: psycopg.Connection, http: httpx.Client) -> None:
    table = f"/rest/v1/{changing}"
    for _ in range(12):
        assert http.get(table).json() == [{"id": 1}]
    db.execute(f"alter table public.{changing} add column name text default 'new'".encode())
    for _ in range(12):
        assert http.get(table).json() == [{"id": 1, "name": "new"}]


def test_a_changed_column_type_is_followed(changing: str, db: psycopg.Connection, http: httpx.Client) -> None:
    table = f"/rest/v1/{changing}"
    for _ in range(12):
        assert http.get(f"{table}?id=eq.1").json() == [{"id": 1}]
    db.execute(f"alter table public.{changing} alter column id type text".encode())
    wait_until(lambda: http.get(f"{table}?id=eq.1").status_code == 200)
    for _ in range(12):
        assert http.get(f"{table}?id=eq.1").json() == [{"id": "1"}]


def test_a_dropped_table_is_not_found(changing: str, db: psycopg.Connection, http: httpx.Client) -> None:
    table = f"/rest/v1/{changing}"
    db.execute(f"drop table public.{changing}".encode())
    assert http.get(table).status_code == 404
    wait_until(lambda: http.get(table).json()["code"] == "PGRST205")


def test_a_changed_function_is_followed(db: psycopg.Connection, http: httpx.Client) -> None:
    call = "/rest/v1/rpc/contract_shape"
    create = "create function public.contract_shape() returns {} language sql stable as $$ {} $$"
    try:
        for returns, body, expected in (
            ("int", "select 1", 1),
            ("text", "select 'x'", "x"),
            ("jsonb", "select '{}'::jsonb", {}),
        ):
            db.execute("drop function if exists public.contract_shape()")
            db.execute(create.format(returns, body).encode())
            db.execute("grant execute on function public.contract_shape() to anon")
            wait_until(lambda expected=expected: http.post(call, json={}).json() == expected)  # type: ignore[misc]
    finally:
        db.execute("drop function if exists public.contract_shape()")


def test_settings_of_a_role_are_reloaded_on_notify(db: psycopg.Connection, http: httpx.Client) -> None:
    def timeout() -> str:
        return str(http.post("/rest/v1/rpc/contract_request", json={}).json()["timeout"])

    before = timeout()
    try:
        db.execute("alter role anon set statement_timeout = '4500ms'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the project's owner may not change roles")
    try:
        db.execute("notify pgrst, 'reload config'")
        wait_until(lambda: timeout() == "4500ms")
    finally:
        db.execute(f"alter role anon set statement_timeout = '{before}'".encode())
        db.execute("notify pgrst, 'reload config'")
    wait_until(lambda: timeout() == before)
