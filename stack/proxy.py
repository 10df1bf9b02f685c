"""The way to the edge functions: a streaming reverse proxy to Deno on the loopback address."""

import logging

import httpx
import orjson
from starlette.types import Message, Receive, Scope, Send

from stack.asgi import BodyTooLarge, ClientGone, RawHeaders, answer, body_parts, client_address, drain

TIMEOUT = httpx.Timeout(connect=5.0, read=150.0, write=30.0, pool=10.0)
# Meant for one connection only, or set again for the next one.
HOP_BY_HOP = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"host", b"content-length", b"x-forwarded-for", b"expect",
    )
)  # fmt: skip
log = logging.getLogger("stack.functions")


class FunctionsProxy:
    """Answers `/functions/v1/…`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Make the client; connections are kept between requests."""
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20)
        self._client = httpx.AsyncClient(base_url=self._url, timeout=TIMEOUT, limits=limits, trust_env=False)

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on and its answer back, both as they come."""
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._forward(scope, receive, watched)
        except ClientGone:
            if not has_begun:
                await _refuse(send, 400, "BAD_REQUEST", "The request body could not be read")
        except BodyTooLarge:
            await drain(receive)
            await _refuse(send, 413, "PAYLOAD_TOO_LARGE", "The request body is too large")
        except httpx.TimeoutException:
            if not has_begun:
                await _refuse(send, 504, "REQUEST_TIMEOUT", "The function did not answer in time")
        except httpx.HTTPError as error:
            log.warning("The functions do not answer: %s", type(error).__name__)
            if not has_begun:
                await _refuse(send, 503, "SERVICE_UNAVAILABLE", "Service is temporarily unavailable")

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._client is not None
        path = scope["raw_path"].decode("latin-1").split("?")[0].removeprefix("/functions/v1")
        headers: RawHeaders = [pair for pair in scope["headers"] if pair[0] not in HOP_BY_HOP]
        headers.append((b"x-forwarded-for", client_address(scope).encode()))
        query = scope["query_string"].decode("latin-1")
        url = f"{path or '/'}?{query}" if query else path or "/"
        length = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        has_body = scope["method"] not in ("GET", "HEAD") and length != b"0"
        if has_body and length is not None:
            headers.append((b"content-length", length))
        request = self._client.build_request(
            scope["method"], url, headers=headers, content=body_parts(receive) if has_body else None
        )
        response = await self._client.send(request, stream=True)
        try:
            raw = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in HOP_BY_HOP]
            await send({"type": "http.response.start", "status": response.status_code, "headers": raw})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()


class AtRoot:
    """Passes what programs ask for at a host's root, where they look, to the function that serves it."""

    def __init__(self, functions: FunctionsProxy, name: str) -> None:
        self._functions = functions
        self._prefix = f"/functions/v1/{name}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the function before its path."""
        await self._functions({**scope, "raw_path": self._prefix + scope["raw_path"]}, receive, send)


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    # Terraform and OpenTofu read the list.
    errors = [{"status": str(status), "title": message, "detail": message}]
    body = orjson.dumps({"code": code, "message": message, "errors": errors})
    await answer(send, status, body, [("content-type", "application/json")])
