"""Rights of somebody without an account: none, unless they are switched on."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from tests.contract.realtime.conftest import addresses
from tests.contract.realtime.server import RealtimeServer, start_realtime
from tests.contract.realtime.wire import open_wire
from tests.support.database import Database


@pytest.fixture(scope="module")
def closed(realtime_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealtimeServer]:
    """As people run it: nobody switched public channels on."""
    settings = {"ALLOW_PUBLIC": "false", "TOKEN_CHECK_SECONDS": "0.3"}
    folder, secrets = tmp_path_factory.mktemp("closed"), realtime_database.server.secrets
    with start_realtime(folder, secrets, addresses(realtime_database), **settings) as server:
        yield server


@pytest.fixture
def topic(sql: psycopg.Connection) -> Iterator[str]:
    """A private topic that members read; a member is anyone who is in the table."""
    name = f"org:{uuid.uuid4().hex[:8]}"
    sql.execute("create table realtime_members (id uuid)")
    sql.execute("grant select on realtime_members to authenticated, anon")
    rule = f"realtime.topic() = '{name}' and exists (select from public.realtime_members where id = auth.uid())"
    sql.execute(f"create policy r on realtime.messages for select to authenticated, anon using ({rule})")
    yield name
    sql.execute("drop policy r on realtime.messages")
    sql.execute("drop table realtime_members")


def member(sql: psycopg.Connection) -> str:
    user = str(uuid.uuid4())
    sql.execute("insert into realtime_members values (%s)", [user])
    return user


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
        auth.execute("delete from auth.sessions where id = %s", [session])
        assert (await wire.event("system")).payload["message"] == "Your session has ended"
        await wire.event("phx_close")
        again = await wire.join(topic, {"private": True}, access_token=token)
        assert again.payload["response"]["reason"] == "Unauthorized: Your session has ended"
