"""The client's address behind an operator's proxy in front of the gateway."""

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from stack.asgi import BehindProxy, client_address

pytestmark = pytest.mark.anyio


async def seen(*headers: tuple[bytes, bytes]) -> str:
    found: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(client_address(scope))

    unused: Any = None
    await BehindProxy(app, "X-Real-IP")({"headers": list(headers), "client": ("10.0.0.1", 5)}, unused, unused)
    return found[0]


@pytest.mark.parametrize(
    ("said", "address"),
    [
        (b"203.0.113.9", "203.0.113.9"),
        (b"198.51.100.1, 2001:DB8::7", "2001:db8::7"),
        (b"", "10.0.0.1"),
        (b"unknown", "10.0.0.1"),
        (b"203.0.113.9, ", "10.0.0.1"),
        (b"\xff\xfe", "10.0.0.1"),
    ],
)
async def test_the_last_value_of_the_named_header_counts_if_it_is_an_address(said: bytes, address: str) -> None:
    assert await seen((b"x-real-ip", said)) == address


async def test_only_the_named_header_counts_and_of_two_the_last_one() -> None:
    assert await seen((b"x-forwarded-for", b"203.0.113.9")) == "10.0.0.1"
    assert await seen((b"x-real-ip", b"198.51.100.1"), (b"x-real-ip", b"203.0.113.9")) == "203.0.113.9"


async def test_a_start_that_is_no_request_passes() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan"

    unused: Any = None
    await BehindProxy(app, "x-real-ip")({"type": "lifespan"}, unused, unused)
