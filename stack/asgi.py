"""The helpers that the gateway's services share: reading a body within limits, and plain ASGI answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

# An upload or an artifact of 32 MiB, in base64 and with what belongs to it.
LARGEST_BODY = 48 * 1024 * 1024
LARGEST_DRAINED = 64 * 1024 * 1024
BODY_SECONDS = 30.0
DRAIN_SECONDS = 5.0
# The request was not read to its end, so that nothing can follow it on its connection.
UNREAD = (408, 413)
JSON = "application/json; charset=utf-8"
RawHeaders = list[tuple[bytes, bytes]]


class BodyTooLarge(Exception):
    """The body is larger than any request of ours."""


class BodyTooSlow(Exception):
    """The body did not arrive in time."""


class ClientGone(Exception):
    """The client hung up, or sent malformed chunks: the server reports both alike, so both are answered."""


def header_map(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; repeated ones joined by a comma."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


async def read_body(receive: Receive, headers: dict[str, str], limit: int = LARGEST_BODY) -> bytes:
    """The whole body, within a limit of size and time."""
    declared = headers.get("content-length", "0")
    # A body that is announced as too large is not even collected.
    room = -1 if declared.isdecimal() and int(declared) > limit else limit
    try:
        async with asyncio.timeout(BODY_SECONDS):
            parts = [part async for part in body_parts(receive, room)]
            return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except BodyTooLarge:
        await drain(receive)
        raise


async def body_parts(receive: Receive, room: int = LARGEST_BODY) -> AsyncIterator[bytes]:
    """The body as it arrives; one that has no room is refused."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        room -= len(part)
        if room < 0:
            raise BodyTooLarge
        yield part
        if not message.get("more_body", False):
            return


async def drain(receive: Receive) -> None:
    """Read on for a while: a client that is still sending does not see an answer that comes in between."""
    left = LARGEST_DRAINED
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def answer(send: Send, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
    """Send one complete response."""
    raw: RawHeaders = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
    if status in UNREAD:
        raw.append((b"connection", b"close"))
    if status != 204:
        raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def client_address(scope: Scope) -> str:
    """The address of the client; a header could claim to be anybody."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


class BehindProxy:
    """Wraps an application behind a proxy: the client's address is the last one in the configured header."""

    def __init__(self, app: ASGIApp, header: str) -> None:
        self._app = app
        self._header = header.lower().encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the client address that the proxy saw; an invalid one changes nothing."""
        said = b",".join(value for name, value in scope.get("headers", ()) if name == self._header)
        # The caller may have invented everything before the last comma.
        last = said.decode("latin-1").rpartition(",")[2].strip()
        with contextlib.suppress(ValueError):
            scope = {**scope, "client": (str(ip_address(last)), 0)}
        await self._app(scope, receive, send)
