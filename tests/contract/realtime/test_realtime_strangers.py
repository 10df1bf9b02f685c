"""Rights of somebody without an account: none, unless they are switched on; and then no more than a share."""

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import psycopg
import pytest

from tests.contract.realtime.conftest import addresses
from tests.contract.realtime.server import RealtimeServer, start_realtime
from tests.contract.realtime.wire import open_wire
from tests.support.database import Database

HELLO = {"type": "broadcast", "event": "hello", "payload": {"n": 1}}


@pytest.fixture(scope="module")
def closed(realtime_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealtimeServer]:
    """As people run it: nobody switched public channels on."""
    settings = {"ALLOW_PUBLIC": "false", "TOKEN_CHECK_SECONDS": "0.3"}
    folder, secrets = tmp_path_factory.mktemp("closed"), realtime_database.server.secrets
    with start_realtime(folder, secrets, addresses(realtime_database), **settings) as server:
        yield server


@pytest.fixture(scope="module")
def shared(realtime_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealtimeServer]:
    """Public channels, with a small share for each sender."""
    settings = {"MAX_SENDER_MESSAGES_PER_SECOND": "1"}
    folder, secrets = tmp_path_factory.mktemp("shared"), realtime_database.server.secrets
    with start_realtime(folder, secrets, addresses(realtime_database), **settings) as server:
        yield server


@pytest.fixture
def topic(sql: psycopg.Connection) -> Iterator[str]:
    """A private topic that members read and write; a member is anyone who is in the table."""
    name = f"org:{uuid.uuid4().hex[:8]}"
    sql.execute("create table realtime_members (id uuid)")
    sql.execute("grant select on realtime_members to authenticated, anon")
    rule = f"realtime.topic() = '{name}' and exists (select from public.realtime_members where id = auth.uid())"
    sql.execute(f"create policy r on realtime.messages for select to authenticated, anon using ({rule})")
    sql.execute(f"create policy w on realtime.messages for insert to authenticated, anon with check ({rule})")
    yield name
    sql.execute("drop policy r on realtime.messages")
    sql.execute("drop policy w on realtime.messages")
    sql.execute("drop table realtime_members")


def member(sql: psycopg.Connection) -> str:
    user = str(uuid.uuid4())
    sql.execute("insert into realtime_members values (%s)", [user])
    return user


async def post(server: RealtimeServer, messages: list[dict[str, Any]], token: str = "") -> httpx.Response:
    headers = {"apikey": server.publishable_key} | ({"authorization": f"Bearer {token}"} if token else {})
    async with httpx.AsyncClient(headers=headers, timeout=30) as client:
        return await client.post(f"{server.url}/realtime/v1/api/broadcast", json={"messages": messages})


async def test_no_public_channel_is_opened_for_anybody(closed: RealtimeServer) -> None:
    async with open_wire(closed.url, closed.publishable_key) as wire:
        for token in (closed.publishable_key, closed.token(sub=str(uuid.uuid4())), closed.token(role="service_role")):
            answer = await wire.join("room", {}, access_token=token)
            assert answer.payload["response"] == {"reason": "PrivateOnly: This project only allows private channels"}


async def test_anonymous_clients_join_no_private_channel_even_if_a_policy_allows_it(
    closed: RealtimeServer, sql: psycopg.Connection, topic: str
) -> None:
    token = closed.token(role="anon", sub=member(sql))
    async with open_wire(closed.url, closed.publishable_key) as wire:
        answer = await wire.join(topic, {"private": True}, access_token=token)
        assert answer.payload["response"]["reason"].startswith("Unauthorized: ")


async def test_public_and_anonymous_broadcasts_are_refused(
    closed: RealtimeServer, sql: psycopg.Connection, topic: str
) -> None:
    message = {"topic": topic, "event": "hello", "payload": {"n": 1}}
    someone = closed.token(sub=member(sql))
    assert (await post(closed, [message])).status_code == 401
    assert (await post(closed, [message | {"private": True}])).status_code == 401
    assert (await post(closed, [message], someone)).status_code == 403
    assert (await post(closed, [message | {"private": True}], someone)).status_code == 202


async def test_a_batch_has_a_limit(realtime: RealtimeServer) -> None:
    message = {"topic": "room", "event": "x", "payload": {}}
    assert (await post(realtime, [message] * 100)).status_code == 202
    refused = await post(realtime, [message] * 101)
    assert (refused.status_code, refused.json()["errors"]) == (422, {"messages": ["should have at most 100 item(s)"]})


async def test_only_a_client_that_sends_too_much_is_stopped(shared: RealtimeServer) -> None:
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(open_wire(shared.url, shared.publishable_key)) for _ in range(2)]
        listener, sender = wires
        await listener.join("room", {}, access_token=shared.token(sub="listener"))
        await sender.join("room", {}, access_token=shared.token(sub="flood"))
        for _ in range(60):
            await sender.send("realtime:room", "broadcast", HELLO)
        assert (await sender.event("system")).payload["message"] == "Too many messages per second"
        assert await listener.drain("system", "phx_close") == []
        batch = [{"topic": "room", "event": "x", "payload": {}}] * 40
        assert (await post(shared, batch, shared.token(sub="flood"))).status_code == 429
        assert (await post(shared, batch[:1], shared.token(sub="somebody else"))).status_code == 202
        assert (await post(shared, batch, shared.token(sub="loud"))).status_code == 429  # forty to each of two


async def test_the_right_to_read_is_checked_again(closed: RealtimeServer, sql: psycopg.Connection, topic: str) -> None:
    user = member(sql)
    async with open_wire(closed.url, closed.publishable_key) as wire:
        answer = await wire.join(topic, {"private": True}, access_token=closed.token(sub=user))
        assert answer.payload["status"] == "ok"
        sql.execute("delete from realtime_members where id = %s", [user])
        system = (await wire.event("system")).payload
        assert system["message"] == f"You no longer have permission to read from this Channel topic: {topic}"
        await wire.event("phx_close")


async def test_a_session_that_ends_ends_its_private_channels(
    closed: RealtimeServer, realtime_database: Database, sql: psycopg.Connection, topic: str
) -> None:
    user, session = member(sql), str(uuid.uuid4())
    auth = realtime_database.connect("supabase_auth_admin")
    auth.execute("insert into auth.users (id) values (%s)", [user])
    auth.execute("insert into auth.sessions (id, user_id) values (%s, %s)", [session, user])
    async with open_wire(closed.url, closed.publishable_key) as wire:
        token = closed.token(sub=user, session_id=session)
        assert (await wire.join(topic, {"private": True}, access_token=token)).payload["status"] == "ok"
        await wire.send(f"realtime:{topic}", "broadcast", HELLO)
        auth.execute("delete from auth.sessions where id = %s", [session])
        assert (await wire.event("system")).payload["message"] == "Your session has ended"
        await wire.event("phx_close")
        again = await wire.join(topic, {"private": True}, access_token=token)
        assert again.payload["response"]["reason"] == "Unauthorized: Your session has ended"
    broadcast = {"messages": [{"topic": topic, "event": "e", "payload": {}, "private": True}]}
    headers = {"apikey": closed.publishable_key, "authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=closed.url, headers=headers) as client:
        assert (await client.post("/realtime/v1/api/broadcast", json=broadcast)).status_code == 401
