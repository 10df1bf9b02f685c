"""As much of HTTP/1.1 as an engine's state backend needs."""

import asyncio
import base64
import binascii
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 256 * 1024 * 1024
_REASONS = {
    200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 411: "Length Required", 413: "Content Too Large", 423: "Locked",
    503: "Service Unavailable",
}  # fmt: skip


class BadRequest(Exception):
    """What was received is not a request that we answer."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status that says why."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def basic_auth(self) -> tuple[str, str]:
        """Return user and password, empty when there are none."""
        kind, _, encoded = self.headers.get("authorization", "").partition(" ")
        try:
            decoded = base64.b64decode(encoded, validate=True).decode() if kind.lower() == "basic" else ""
        except (binascii.Error, UnicodeDecodeError):
            decoded = ""
        user, _, password = decoded.partition(":")
        return user, password


@dataclass(frozen=True)
class Response:
    """One answer."""

    status: int
    body: bytes = b""

    def encode(self) -> bytes:
        """Spell it; the connection is closed after each answer."""
        head = (
            f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Status')}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read one request or say what is wrong with it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadRequest(413, "the head is too long") from error
    except asyncio.IncompleteReadError as error:
        raise BadRequest(400, "the request is not complete") from error
    method, target, headers = _parse_head(head)
    parts = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, await _read_body(reader, headers))


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest(400, "the request line is not HTTP")
    pairs = (line.partition(":") for line in lines)
    return words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a length is required")
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise BadRequest(400, "the length is not a number")
    if int(length) > LARGEST_BODY:
        raise BadRequest(413, "the state is too large")
    try:
        return await reader.readexactly(int(length))
    except asyncio.IncompleteReadError as error:
        raise BadRequest(400, "the body is not complete") from error
