"""The browser's way to an identity provider and back: its verifier stays in a cookie, and words of others are only text."""

import base64
import hashlib
import json
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
import respx
from starlette.requests import Request
from starlette.responses import Response

from app.http.cookies import SAID
from app.project.client import Client
from app.project.errors import Refused
from app.project.settings import Settings
from app.sign_in.provider import LEFT, MOST_WORDS, TESTED_AT, callback, find, leave

SETTINGS = Settings(
    supabase_url="http://project.example",
    publishable_key="key",
    runner_url="https://public.example",
    origins=("https://dash.example",),
)
RUNTIME = cast("Any", SimpleNamespace(authorized=SimpleNamespace(client=Client(SETTINGS)), settings=SETTINGS))
FUNCTION, TOKEN = "http://project.example/functions/v1/sign-in", "http://project.example/auth/v1/token"


def request(query: str = "", **cookies: str) -> Request:
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    headers = [(b"host", b"dash.example"), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "scheme": "https", "path": "/", "headers": headers, "client": ("::1", 1)}
    return Request({**scope, "query_string": query.encode()})


def cookies(response: Response) -> dict[str, str]:
    found = [value.decode() for name, value in response.raw_headers if name == b"set-cookie"]
    return {each.partition("=")[0]: each.partition("=")[2] for each in found}


def words(response: Response) -> str:
    assert (response.status_code, response.headers["location"]) == (303, "/login")
    return unquote(cookies(response)[SAID].partition(";")[0].strip('"'))


@pytest.mark.anyio
@respx.mock
async def test_the_way_there_has_a_challenge_and_the_verifier_stays_where_no_script_reads_it() -> None:
    found = {"provider": "custom:x", "name": "Example ID", "is_only": True}
    respx.post(FUNCTION).mock(return_value=httpx.Response(200, json=found))
    response = await leave(RUNTIME, request(), {"email": "ann@example.org"})
    address = urlsplit(json.loads(bytes(response.body))["go"])
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert (address.netloc, asked["redirect_to"]) == ("public.example", "https://dash.example/auth/callback")
    kept = cookies(response)[LEFT]
    verifier = kept.partition(";")[0]
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    assert (asked["code_challenge"], asked["code_challenge_method"]) == (digest, "s256")
    assert {"HttpOnly", "Path=/auth", "SameSite=lax"} <= set(kept.split("; "))


@pytest.mark.anyio
@respx.mock
async def test_an_address_without_a_provider_and_a_project_that_is_away_lead_to_the_password() -> None:
    respx.post(FUNCTION).mock(return_value=httpx.Response(200, json={}))
    with pytest.raises(Refused, match="No identity provider"):
        await leave(RUNTIME, request(), {"email": "ann@example.org"})
    for answer in (httpx.Response(200, json={}), httpx.Response(503, json={})):
        respx.post(FUNCTION).mock(return_value=answer)
        shown = await find(RUNTIME, request(), {"email": "ann@example.org"})
        assert json.loads(bytes(shown.body)) == {"ok": True, "name": ""}


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["code=stolen", "error_description=Call+0900-123", ""])
async def test_a_link_of_somebody_else_signs_nobody_in_and_puts_no_words_on_the_page(query: str) -> None:
    said = words(await callback(RUNTIME)(request(query)))
    assert said.startswith("This sign-in was not begun in this browser, or took too long.")


@pytest.mark.anyio
@respx.mock
async def test_the_code_of_a_test_is_never_redeemed_and_its_faults_are_on_the_page_of_settings() -> None:
    arrived = await callback(RUNTIME)(request("code=x", **{LEFT: "test-verifier"}))
    assert (arrived.status_code, arrived.headers["location"]) == (303, TESTED_AT)
    refused = await callback(RUNTIME)(request("error_description=Not+you.", **{LEFT: "test-verifier"}))
    assert refused.headers["location"] == TESTED_AT
    assert "Not%20you." in cookies(refused)[SAID]
    assert respx.calls.call_count == 0


@pytest.mark.anyio
async def test_the_words_of_the_provider_are_shown_shortened() -> None:
    answer = await callback(RUNTIME)(request("error=access_denied&error_description=" + "x" * 999, **{LEFT: "v"}))
    assert words(answer) == "x" * MOST_WORDS + " Nothing was changed. Try again."
    assert "Max-Age=0" in cookies(answer)[LEFT]


@pytest.mark.anyio
@respx.mock
async def test_a_code_that_auth_refuses_signs_nobody_in() -> None:
    refusal = httpx.Response(400, json={"error_code": "bad_code_verifier", "msg": "code challenge does not match"})
    route = respx.post(TOKEN).mock(return_value=refusal)
    said = words(await callback(RUNTIME)(request("code=x", **{LEFT: "v"})))
    assert said == "code challenge does not match Nothing was changed."
    assert json.loads(route.calls[0].request.content) == {"auth_code": "x", "code_verifier": "v"}
