"""The address of a browser, and the refusals of Auth that are shown to a person."""

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
import respx
from starlette.requests import Request

from app.project.client import Client
from app.project.errors import Refused
from app.project.settings import Settings
from app.sign_in.provider import browser_address
from app.sign_in.routes import sign_in


def request(sent: str | None) -> Request:
    headers = [] if sent is None else [(b"x-real-ip", sent.encode())]
    return Request({"type": "http", "headers": headers, "client": ("198.51.100.7", 4000)})


@pytest.mark.parametrize("sent", [None, "203.0.113.9"])
def test_a_header_that_nobody_named_is_not_believed(sent: str | None) -> None:
    assert browser_address(request(sent), "") == "198.51.100.7"


@pytest.mark.parametrize(
    ("sent", "address"),
    [("203.0.113.9", "203.0.113.9"), ("1.1.1.1, 2001:db8::7", "2001:db8::7"), ("", ""), (None, "")],
)
def test_of_the_named_header_the_last_entry_counts(sent: str | None, address: str) -> None:
    assert browser_address(request(sent), "X-Real-IP") == address


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (429, "over_request_rate_limit", "Too many attempts."),
        (400, "invalid_credentials", "Incorrect email or password."),
        (400, "user_banned", "Incorrect email or password."),
    ],
)
@respx.mock
async def test_a_person_learns_of_too_many_attempts_and_of_no_other_reason(
    status: int, code: str, message: str
) -> None:
    settings = Settings(supabase_url="http://project.example", publishable_key="key", runner_url="")
    answer = httpx.Response(status, json={"code": code, "error_code": code, "msg": "A reason."})
    respx.post("http://project.example/auth/v1/token").mock(return_value=answer)
    runtime = cast("Any", SimpleNamespace(authorized=SimpleNamespace(client=Client(settings)), settings=settings))
    with pytest.raises(Refused) as refusal:
        await sign_in(runtime, request(None), {"email": "ops@example.com", "password": "wrong"})
    assert refusal.value.message == message
