"""The asynchronous client, and many requests at once."""

import asyncio
import uuid

import pytest

from supabase import AsyncClientOptions, acreate_client
from tests.contract.conftest import PASSWORD, Api, User
from tests.support.stack import Project

pytestmark = pytest.mark.anyio


async def make_client(project: Project) -> Api:
    options = AsyncClientOptions(auto_refresh_token=False, persist_session=False)
    return await acreate_client(project.url, project.publishable_key, options)


async def test_tables_and_functions(project: Project, places: dict[str, uuid.UUID]) -> None:
    client = await make_client(project)
    rows = await client.table("contract_places").select("name").order("name").limit(1).execute()
    assert rows.data == [{"name": "Aarhus"}]
    assert (await client.rpc("contract_add", {"p_a": 1}).execute()).data == 11


async def test_answers_do_not_get_mixed_up(project: Project) -> None:
    client = await make_client(project)

    async def add(number: int) -> bool:
        found = await client.rpc("contract_add", {"p_a": number, "p_b": 0}).execute()
        return bool(found.data == number)

    assert all(await asyncio.gather(*(add(number) for number in range(200))))


async def test_identities_do_not_get_mixed_up(project: Project, alice: User, bob: User) -> None:
    clients = [await make_client(project) for _ in range(3)]
    for client, user in zip(clients, (alice, bob), strict=False):
        await client.auth.sign_in_with_password({"email": user.email, "password": PASSWORD})

    async def who(client: Api) -> tuple[str, str | None]:
        told = (await client.rpc("contract_request").execute()).data
        return told["role"], told["claims"].get("sub")

    expected = [("authenticated", alice.id), ("authenticated", bob.id), ("anon", None)]
    found = await asyncio.gather(*(who(clients[turn % 3]) for turn in range(120)))
    assert found == [expected[turn % 3] for turn in range(120)]


async def test_sign_in_refresh_and_leave(project: Project, alice: User) -> None:
    client = await make_client(project)
    await client.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    refreshed = await client.auth.refresh_session()
    assert refreshed.user is not None
    assert refreshed.user.id == alice.id
    await client.auth.sign_out()
    assert await client.auth.get_session() is None
