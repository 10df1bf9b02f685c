"""A database that answers and cannot write is not well."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from stack.gateway import Services, _health
from stack.rest.pool import Pool
from tests.db.world import World

# What a full disk refuses is refused by a limit, too: files beside the tables.
FULL = "temp_file_limit = 0"


async def gateway_health(url: str) -> tuple[int, dict[str, Any]]:
    pool = Pool(url)
    services = cast("Services", SimpleNamespace(pool=pool, catalog=SimpleNamespace(current=object())))
    try:
        answer = await _health(services)(Request({"type": "http"}))
        return answer.status_code, json.loads(bytes(answer.body))
    finally:
        pool.close()


async def test_the_gateway_says_that_nothing_can_be_written(fresh_world: World) -> None:
    url = fresh_world.database.url_as("authenticator")
    assert await gateway_health(url) == (200, {"status": "healthy"})
    fresh_world.database.connect("supabase_admin").execute(f"alter role authenticator set {FULL}".encode())
    try:
        status, body = await gateway_health(url)
    finally:
        fresh_world.database.connect("supabase_admin").execute(b"alter role authenticator reset temp_file_limit")
    assert (status, body["status"]) == (503, "unhealthy")
    assert body["database"].startswith("cannot write: temporary file size exceeds")
    assert body["hint"] == "Free space on PostgreSQL's disk."


@pytest.mark.parametrize(
    ("setting", "fault"),
    [(FULL, "temporary file size exceeds"), ("default_transaction_read_only = on", "the database is read-only")],
)
def test_the_database_says_what_keeps_it_from_writing(fresh_world: World, setting: str, fault: str) -> None:
    asked = "select public.installation_health() -> 'write_fault'"
    assert fresh_world.owner.one(asked) is None
    admin = fresh_world.database.connect("supabase_admin")
    admin.execute(f"set {setting}".encode())
    (said,) = cast("tuple[str]", admin.execute(asked.encode()).fetchone())
    assert said.startswith(fault)
