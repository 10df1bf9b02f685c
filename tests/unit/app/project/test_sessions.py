"""Sessions on the server: idle ones end, tokens are refreshed once, and never shown."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx
from postgrest import APIError

from app.http.cookies import NAME, read_sid
from app.project.authorized_client import AuthorizedClient
from app.project.client import Client, to_app_error
from app.project.errors import NotThere, Refused, SignedOut, Unreachable
from app.project.invitations import hash_of, make_secret
from app.project.models import BrowserSession, Filter, Query
from app.project.sessions import IDLE_SECONDS, MemorySessions, new_sid
from app.project.settings import Settings
from app.project.two_steps import NeedsCode, complete

URL = "http://project.test"
pytestmark = pytest.mark.anyio


def auth_answer(access: str, refresh: str) -> dict[str, Any]:
    user = {
        "id": "11111111-1111-4111-8111-111111111111",
        "aud": "authenticated",
        "role": "authenticated",
        "email": "ops@example.com",
        "app_metadata": {},
        "user_metadata": {},
        "created_at": "2026-11-15T10:00:00Z",
    }
    return {"access_token": access, "refresh_token": refresh, "token_type": "bearer", "expires_in": 3600, "user": user}


def session(**changes: Any) -> BrowserSession:
    now = time.time()
    kept: dict[str, Any] = {
        "sid": "sid",
        "user_id": "u",
        "email": "ops@example.com",
        "access_token": "old-access",
        "refresh_token": "old-refresh",
        "expires_at": now + 3600,
        "created_at": now,
    }
    return BrowserSession(**{**kept, **changes})


@pytest.fixture
async def authorized() -> AsyncIterator[AuthorizedClient]:
    client = Client(Settings(URL, "sb_publishable_x", URL))
    yield AuthorizedClient(client, MemorySessions())
    await client.aclose()


async def test_an_idle_session_ends() -> None:
    clock = [0.0]
    sessions = MemorySessions(lambda: clock[0])
    await sessions.put(session())
    clock[0] = IDLE_SECONDS - 1
    assert await sessions.get("sid") is not None
    clock[0] += IDLE_SECONDS + 1
    assert await sessions.get("sid") is None


async def test_a_session_never_shows_its_tokens() -> None:
    assert "old-access" not in repr(session())
    assert "old-refresh" not in repr(session())


@respx.mock
async def test_a_token_about_to_expire_is_refreshed_once_for_all_waiting_requests(authorized: AuthorizedClient) -> None:
    refreshed = respx.post(f"{URL}/auth/v1/token").mock(
        return_value=httpx.Response(200, json=auth_answer("new-access", "new-refresh"))
    )
    rows = respx.get(f"{URL}/rest/v1/workers").mock(return_value=httpx.Response(200, json=[]))
    held = session(expires_at=time.time() + 5)
    await authorized.sessions.put(held)
    await asyncio.gather(*(authorized.select(held, "workers") for _ in range(5)))
    assert refreshed.call_count == 1
    assert {call.request.headers["authorization"] for call in rows.calls} == {"Bearer new-access"}
    kept = await authorized.sessions.get("sid")
    assert kept is not None
    assert kept.refresh_token == "new-refresh"


def with_device(level: str) -> dict[str, Any]:
    """Build the answer of Auth to a person with a confirmed device."""
    claims = base64.urlsafe_b64encode(json.dumps({"aal": level}).encode()).decode().rstrip("=")
    answer = auth_answer(f"e30.{claims}.x", "new-refresh")
    moment = answer["user"]["created_at"]
    device = {"id": "f", "status": "verified", "factor_type": "totp", "created_at": moment, "updated_at": moment}
    answer["user"]["factors"] = [device]
    return answer


@respx.mock
@pytest.mark.parametrize(("level", "is_kept"), [("aal1", False), ("aal2", True)])
async def test_a_refreshed_session_that_lacks_its_second_step_is_over(
    authorized: AuthorizedClient, level: str, is_kept: bool
) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(return_value=httpx.Response(200, json=with_device(level)))
    held = session(expires_at=time.time() - 5)
    await authorized.sessions.put(held)
    if is_kept:
        await authorized.fresh(held)
    else:
        with pytest.raises(SignedOut):
            await authorized.fresh(held)
    assert (await authorized.sessions.get("sid") is not None) is is_kept


@respx.mock
async def test_the_first_request_for_a_code_has_no_error_text(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(return_value=httpx.Response(200, json=with_device("aal1")))
    auth = await authorized.client.sign_in("ops@example.com", "correct-horse-battery")
    with pytest.raises(NeedsCode) as asked:
        await complete(authorized.client, auth, "")
    assert (asked.value.message, asked.value.hint) == ("", "")


@respx.mock
async def test_a_refused_refresh_ends_the_session(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(
        return_value=httpx.Response(400, json={"code": 400, "error_code": "refresh_token_not_found", "msg": "gone"})
    )
    held = session(expires_at=time.time() - 5)
    await authorized.sessions.put(held)
    with pytest.raises(SignedOut):
        await authorized.rpc(held, "my_organizations")
    assert await authorized.sessions.get("sid") is None


REFUSED = httpx.ConnectError("refused")
BAD_GATEWAY = httpx.Response(502, text="upstream")
AWAY = httpx.Response(503, json={"code": "unexpected_failure", "message": "no database"})
FAILED = httpx.Response(500, text="oops")


@respx.mock
@pytest.mark.parametrize(
    "answer",
    [
        REFUSED,
        BAD_GATEWAY,
        AWAY,
        FAILED,
        httpx.Response(429, json={"error_code": "over_request_rate_limit", "msg": "slow down"}),
        httpx.Response(429, json={"message": "slow down"}),
        httpx.Response(409, json={"error_code": "conflict", "msg": "renewed elsewhere"}),
        httpx.Response(408, json={"error_code": "request_timeout", "msg": "too slow"}),
    ],
)
async def test_a_session_outlives_a_sign_in_service_that_is_away_or_busy(
    authorized: AuthorizedClient, answer: httpx.Response | Exception
) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(side_effect=[answer])
    held = session(expires_at=time.time() - 5)
    await authorized.sessions.put(held)
    with pytest.raises(Unreachable):
        await authorized.fresh(held)
    assert await authorized.sessions.get("sid") is held


@respx.mock
@pytest.mark.parametrize("answer", [REFUSED, BAD_GATEWAY, AWAY, FAILED])
async def test_an_unchecked_password_is_not_reported_as_wrong(
    authorized: AuthorizedClient, answer: httpx.Response | Exception
) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(side_effect=[answer, answer])
    with pytest.raises(Unreachable):
        await authorized.client.sign_in("ops@example.com", "correct-horse")
    with pytest.raises(Unreachable):
        await authorized.prove(session(), "correct-horse")


@respx.mock
async def test_auth_that_is_away_has_refused_no_new_password_or_address(authorized: AuthorizedClient) -> None:
    respx.put(f"{URL}/auth/v1/user").mock(return_value=AWAY)
    with pytest.raises(Unreachable):
        await authorized.client.set_password("token", "correct-horse")
    with pytest.raises(Unreachable):
        await authorized.client.set_email("token", "new@example.com", URL)


@respx.mock
async def test_an_expired_token_is_refreshed_and_the_call_made_again(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(
        return_value=httpx.Response(200, json=auth_answer("new-access", "new-refresh"))
    )

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] == "Bearer new-access":
            return httpx.Response(200, json=[{"id": "org"}])
        return httpx.Response(401, json={"code": "PGRST303", "message": "JWT expired"})

    respx.post(f"{URL}/rest/v1/rpc/my_organizations").mock(side_effect=answer)
    held = session()
    await authorized.sessions.put(held)
    assert await authorized.rpc(held, "my_organizations") == [{"id": "org"}]


@respx.mock
async def test_the_databases_own_message_reaches_the_person(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/rest/v1/rpc/drain_worker").mock(
        return_value=httpx.Response(
            403,
            json={"code": "RY403", "message": "Only operators may do this.", "hint": "Ask an admin.", "details": None},
        )
    )
    respx.post(f"{URL}/rest/v1/rpc/worker_history").mock(
        return_value=httpx.Response(404, json={"code": "RY404", "message": "There is no such runner."})
    )
    with pytest.raises(Refused) as refused:
        await authorized.rpc(session(), "drain_worker", {"p_worker": "w"})
    assert (refused.value.message, refused.value.hint, refused.value.code) == (
        "Only operators may do this.",
        "Ask an admin.",
        "RY403",
    )
    with pytest.raises(NotThere):
        await authorized.rpc(session(), "worker_history", {})


@respx.mock
async def test_a_project_that_does_not_answer_is_unreachable_not_an_error_of_ours(authorized: AuthorizedClient) -> None:
    respx.get(f"{URL}/rest/v1/workers").mock(side_effect=httpx.ConnectError("refused"))
    respx.get(f"{URL}/rest/v1/groups").mock(return_value=httpx.Response(503, text="upstream"))
    for table in ("workers", "groups"):
        with pytest.raises(Unreachable):
            await authorized.select(session(), table)


AWAY_CODES = ("PGRST001", "PGRST002", "PGRST003", "57P01", "57P03", "08006")
BUSY_CODES = ("40001", "40P01", "53300", "55P03", "57014", "25006")


@pytest.mark.parametrize("code", [*AWAY_CODES, *BUSY_CODES, "402", "429", "503"])
def test_a_database_that_restarts_or_is_busy_refused_nothing(code: str) -> None:
    error = to_app_error(APIError({"code": code, "message": "in the database's words"}))
    assert isinstance(error, Unreachable)
    assert (error.message == Unreachable.message) is (code not in BUSY_CODES)


@pytest.mark.parametrize("code", ["RY409", "RY429", "42501", "23505", "404", "PGRST116", "P0001"])
def test_a_refusal_keeps_its_code_and_message(code: str) -> None:
    error = to_app_error(APIError({"code": code, "message": "in the database's words"}))
    assert isinstance(error, Refused)
    assert (error.code, error.message) == (code, "in the database's words")


@respx.mock
async def test_a_query_is_written_in_postgrests_syntax(authorized: AuthorizedClient) -> None:
    route = respx.get(f"{URL}/rest/v1/provision_jobs").mock(
        return_value=httpx.Response(200, json=[{"id": 1}], headers={"content-range": "0-0/42"})
    )
    query = Query(
        columns="id",
        filters=(Filter("org_id", "eq", "o"), Filter("status", "in", "(QUEUED,CLAIMED)")),
        order="id",
        is_descending=True,
        limit=25,
        offset=50,
        is_counted=True,
    )
    page = await authorized.select(session(), "provision_jobs", query)
    asked = route.calls[0].request.url.params
    assert (asked["select"], asked["org_id"], asked["status"], asked["order"]) == (
        "id",
        "eq.o",
        "in.(QUEUED,CLAIMED)",
        "id.desc",
    )
    assert (asked["offset"], asked["limit"]) == ("50", "25")
    assert page.total == 42


@respx.mock
async def test_signing_out_ends_the_session_here_although_the_project_is_away(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/auth/v1/logout").mock(side_effect=httpx.ConnectError("refused"))
    await authorized.sessions.put(session())
    with pytest.raises(Unreachable):
        await authorized.close("sid")
    assert await authorized.sessions.get("sid") is None


@respx.mock
async def test_a_refresh_sends_the_address_of_the_browser_that_signed_in(authorized: AuthorizedClient) -> None:
    tokens = respx.post(f"{URL}/auth/v1/token").mock(
        return_value=httpx.Response(200, json=auth_answer("new-access", "new-refresh"))
    )
    opened = await authorized.open(
        await authorized.client.sign_in("ops@example.com", "correct-horse"), address="203.0.113.9"
    )
    await authorized.fresh(opened, is_forced=True)
    sent = tokens.calls.last.request.headers
    assert (sent["x-forwarded-for"], "sb-forwarded-for" in sent) == ("203.0.113.9", False)


@respx.mock
async def test_the_embedded_stacks_dashboard_sends_its_forwarding_key_with_the_address() -> None:
    tokens = respx.post(f"{URL}/auth/v1/token").mock(return_value=httpx.Response(200, json=auth_answer("a", "r")))
    client = Client(Settings(URL, "sb_publishable_x", URL, forwarding_key="shown-to-auth"))
    await client.sign_in("ops@example.com", "correct-horse", "203.0.113.9")
    await client.refresh("r")
    await client.aclose()
    first, second = (call.request.headers for call in tokens.calls)
    assert (first["sb-forwarded-for"], first["x-runyard-forwarding-key"]) == ("203.0.113.9", "shown-to-auth")
    assert "x-runyard-forwarding-key" not in second


@respx.mock
async def test_signing_in_opens_a_session_with_a_random_id(authorized: AuthorizedClient) -> None:
    respx.post(f"{URL}/auth/v1/token").mock(return_value=httpx.Response(200, json=auth_answer("a-token", "r-token")))
    opened = await authorized.open(await authorized.client.sign_in("ops@example.com", "correct-horse"))
    assert len(opened.sid) >= 43
    assert "a-token" not in json.dumps(opened.sid)
    assert opened.email == "ops@example.com"


def test_session_ids_do_not_repeat() -> None:
    assert len({new_sid() for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"{NAME}=abc", "abc"),
        (f"other=1; {NAME}=abc; last=2", "abc"),
        ("", ""),
        ("other=1", ""),
        ("\x00;;;=", ""),
    ],
)
def test_the_cookie_is_found_or_there_is_none(header: str, expected: str) -> None:
    assert read_sid(header) == expected


def test_an_invitations_secret_is_alphanumeric_and_differs_from_its_hash() -> None:
    secret = make_secret()
    assert secret.hash == hash_of(secret.text) != secret.text
    assert secret.text.isalnum(), "`runyard members accept` takes it as an argument"
