"""One request and one answer of HTTP/1.1 on a connection, by h11."""

import asyncio
import base64
import binascii
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import h11

LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 256 * 1024 * 1024


class BadRequest(Exception):
    """The error for input that is not a request that we answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request's head."""

    method: str
    path: str
    query: dict[str, str]
    authorization: str

    def basic_auth(self) -> tuple[str, str]:
        """Return user and password, empty when there are none."""
        kind, _, encoded = self.authorization.partition(" ")
        try:
            decoded = base64.b64decode(encoded, validate=True).decode() if kind.lower() == "basic" else ""
        except (binascii.Error, ValueError):
            decoded = ""
        user, _, password = decoded.partition(":")
        return user, password


@dataclass(frozen=True)
class Response:
    """One answer."""

    status: int
    body: bytes = b""


class Exchange:
    """A connection for as long as it takes to answer once; it is closed afterwards."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)

    async def head(self) -> Request:
        """Read the request up to its body, or raise what is wrong with it."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            raise BadRequest(400, "the request is not complete")
        try:
            parts = urlsplit(event.target.decode("ascii"))
        except ValueError as error:
            raise BadRequest(400, "the address is not one") from error
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        found = [value for name, value in event.headers if name == b"authorization"]
        return Request(event.method.decode("ascii"), parts.path, query, b"".join(found[:1]).decode("latin-1"))

    async def body(self) -> bytes:
        """Read the body, however it is framed, up to the largest that is taken."""
        parts, size = [], 0
        while isinstance(event := await self._next(), h11.Data):
            parts.append(event.data)
            size += len(event.data)
            if size > LARGEST_BODY:
                raise BadRequest(413, "the state is too large")
        return b"".join(parts)

    def spell(self, response: Response) -> bytes:
        """The answer's bytes; none when the connection is in no state to be answered."""
        headers = {"content-type": "application/json", "content-length": str(len(response.body)), "connection": "close"}
        head = h11.Response(
            status_code=response.status, reason=HTTPStatus(response.status).phrase, headers=list(headers.items())
        )
        events = (head, h11.Data(data=response.body), h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events)

    async def _next(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(LARGEST_HEAD))
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"the request is not HTTP: {error}") from error
        return event
