"""Runyard's own channels on a running stack: an organisation's private topic with its rows and its doorbell."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import bcrypt
import pytest

from tests.contract.conftest import User
from tests.contract.realtime.server import sign
from tests.contract.realtime.wire import Wire, open_wire
from tests.support.stack import RunningStack

TABLES = ("workers", "worker_instances", "provision_jobs")


@pytest.fixture
def organisation(alice: User) -> str:
    slug = f"realtime-{secrets.token_hex(4)}"
    made: dict[str, Any] = alice.client.rpc("create_organization", {"p_name": slug, "p_slug": slug}).execute().data
    return str(made["id"])


@pytest.fixture
async def wire(running_stack: RunningStack) -> AsyncIterator[Wire]:
    async with open_wire(running_stack.url, running_stack.publishable_key) as opened:
        yield opened


def bindings(organisation: str) -> list[dict[str, Any]]:
    place = {"event": "*", "schema": "public", "filter": f"org_id=eq.{organisation}"}
    return [{**place, "table": table} for table in TABLES]


def register_worker(user: User, organisation: str) -> str:
    token = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(8)).decode()
    arguments = {"p_org": organisation, "p_name": f"r-{secrets.token_hex(4)}", "p_token_hash": token}
    made = user.client.rpc("register_worker", arguments | {"p_token_hint": "abcd", "p_options": {}}).execute().data
    return str(made["id"])


async def test_a_member_receives_rows_and_doorbells_of_the_organisation(
    wire: Wire, alice: User, organisation: str
) -> None:
    config = {"private": True, "postgres_changes": bindings(organisation)}
    joined = await wire.join(f"org:{organisation}", config, access_token=alice.token)
    assert joined.payload["status"] == "ok", joined
    assert (await wire.event("system")).payload["status"] == "ok"
    worker = register_worker(alice, organisation)
    change = (await wire.event("postgres_changes")).payload["data"]
    assert (change["table"], change["record"]["id"], change["errors"]) == ("workers", worker, None)
    alice.client.rpc("upsert_group", {"p_org": organisation, "p_path": "platform", "p_description": ""}).execute()
    notified = await wire.expect(lambda item: item.event == "broadcast" and item.payload["event"] == "changed")
    assert notified.payload["payload"]["table"] == "groups"


async def test_a_stranger_receives_neither_rows_nor_doorbells(
    wire: Wire, alice: User, bob: User, organisation: str
) -> None:
    denied = await wire.join(f"org:{organisation}", {"private": True}, access_token=bob.token)
    assert denied.payload["response"]["reason"].startswith("Unauthorized: ")
    await wire.live("elsewhere", bindings(organisation), access_token=bob.token)
    await wire.live("mine", bindings(organisation), access_token=alice.token)
    register_worker(alice, organisation)
    assert (await wire.event("postgres_changes")).topic == "realtime:mine"
    assert await wire.drain("postgres_changes") == []


async def test_a_runner_without_a_session_joins_no_private_channel(
    wire: Wire, running_stack: RunningStack, alice: User, organisation: str
) -> None:
    worker = register_worker(alice, organisation)
    origin = {"iss": running_stack.settings.auth_issuer, "aud": "authenticated", "exp": 4_000_000_000}
    claims = {**origin, "role": "worker", "sub": worker, "sid": "00000000-0000-0000-0000-000000000000"}
    token = sign(running_stack.secrets, claims)
    for topic in (f"worker:{worker}", f"org:{organisation}"):
        answer = await wire.join(topic, {"private": True}, access_token=token)
        assert answer.payload["response"]["reason"].startswith("Unauthorized: You do not have permissions")
