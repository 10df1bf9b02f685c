"""The origins from which the page may be opened: one address sets the origin and the cookie, and a refusal names the setting."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from app.http.headers import content_policy
from app.http.origins import MOST_ORIGINS, is_same_origin, with_origin_advice
from app.project.settings import read_settings

LOCAL = ("http://localhost:3000", "http://127.0.0.1:3000")


def test_only_this_machines_origins_are_allowed_by_default() -> None:
    settings = read_settings({})
    assert settings.origins == LOCAL
    assert not settings.is_cookie_secure


@pytest.mark.parametrize(
    ("url", "origin", "is_secure"),
    [
        ("https://runyard.example.com/", "https://runyard.example.com", True),
        ("HTTPS://Runyard.example.com:8443", "https://runyard.example.com:8443", True),
        ("http://10.0.0.5:3000", "http://10.0.0.5:3000", False),
    ],
)
def test_the_address_is_allowed_and_makes_the_cookie_secure(url: str, origin: str, is_secure: bool) -> None:
    settings = read_settings({"RUNYARD_DASHBOARD_URL": url})
    assert settings.origins == (*LOCAL, origin)
    assert settings.is_cookie_secure == is_secure


def test_overrides_win_over_defaults_derived_from_the_address() -> None:
    env = {
        "RUNYARD_DASHBOARD_URL": "https://runyard.example.com",
        "RUNYARD_DASHBOARD_ORIGINS": "https://old.example.com, , not-an-address",
        "RUNYARD_COOKIE_SECURE": "0",
        "RUNYARD_DASHBOARD_PORT": "3100",
    }
    settings = read_settings(env)
    assert settings.origins == (
        "http://localhost:3100",
        "http://127.0.0.1:3100",
        "https://runyard.example.com",
        "https://old.example.com",
    )
    assert not settings.is_cookie_secure


@pytest.fixture
def guarded() -> httpx.AsyncClient:
    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    inner = Starlette(routes=[Route("/_event", answer), Route("/login", answer)])
    transport = httpx.ASGITransport(with_origin_advice(inner, LOCAL))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:3000")


@pytest.mark.anyio
async def test_a_refused_origin_is_logged_once_with_the_variable_to_set(guarded: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        for _ in range(2):
            await guarded.get("/_event", headers={"origin": "https://runyard.example.com"})
        await guarded.get("/_event", headers={"origin": LOCAL[0]})
        await guarded.get("/login", headers={"origin": "https://elsewhere.example.com"})
    [line] = logs
    assert line["origin"] == "https://runyard.example.com"
    assert "RUNYARD_DASHBOARD_URL=https://runyard.example.com" in line["remedy"]


@pytest.mark.anyio
async def test_nobody_fills_the_log_with_invented_origins(guarded: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        for number in range(MOST_ORIGINS + 20):
            await guarded.get("/_event", headers={"origin": f"https://{number}.example.com"})
    assert len(logs) == MOST_ORIGINS


@pytest.mark.parametrize(
    ("origin", "host", "is_ours"),
    [
        ("https://runyard.example.com", "runyard.example.com", True),
        ("https://runyard.example.com", "10.0.0.5:3000", True),
        ("https://evil.example.com", "10.0.0.5:3000", False),
        (None, "10.0.0.5:3000", False),
    ],
)
def test_a_form_behind_a_proxy_is_ours_when_its_address_is_known(origin: str | None, host: str, is_ours: bool) -> None:
    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin else [])
    request = Request({"type": "http", "method": "POST", "path": "/auth/login", "headers": headers})
    assert is_same_origin(request, ("https://runyard.example.com",)) == is_ours


def test_the_page_may_connect_to_its_own_addresses_and_nowhere_else() -> None:
    policy = content_policy(("http://localhost:3000", "https://runyard.example.com"))
    [rule] = [rule for rule in policy.split("; ") if rule.startswith("connect-src")]
    assert rule == "connect-src 'self' ws://localhost:3000 wss://runyard.example.com"
    assert content_policy(()).endswith("connect-src 'self'")
