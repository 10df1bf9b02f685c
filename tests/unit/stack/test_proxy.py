"""The way to the edge functions, with a real server on the other side."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from stack.proxy import FunctionsProxy

pytestmark = pytest.mark.anyio
Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[httpx.AsyncClient]:
    """A client in front of the proxy, and a server with one behaviour behind it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handler(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, client_for(server.sockets[0].getsockname()[1]) as client:
        yield client


@contextlib.asynccontextmanager
async def client_for(port: int) -> AsyncIterator[httpx.AsyncClient]:
    proxy = FunctionsProxy(f"http://127.0.0.1:{port}")
    await proxy.open()
    transport = httpx.ASGITransport(proxy)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway/functions/v1") as client:
        yield client
    await proxy.close()


async def echo(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
    content = head + body
    writer.write(b"HTTP/1.1 201 Created\r\nx-own: yes\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content))
    await writer.drain()


async def test_path_query_headers_and_body_arrive() -> None:
    async with serving(echo) as client:
        done = await client.post(
            "/hello/there?a=1&b=%20", content=b"payload", headers={"x-mine": "abc", "connection": "close"}
        )
    assert (done.status_code, done.headers["x-own"]) == (201, "yes")
    head, _, body = done.content.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /hello/there?a=1&b=%20 http/1.1"
    assert b"x-mine: abc" in lines
    assert b"content-length: 7" in lines
    assert body == b"payload"


async def test_the_clients_address_cannot_be_made_up() -> None:
    async with serving(echo) as client:
        done = await client.get("/hello", headers={"x-forwarded-for": "9.9.9.9"})
    assert b"x-forwarded-for: 127.0.0.1" in done.content.lower()
    assert b"9.9.9.9" not in done.content


async def test_an_answer_without_a_length_is_passed_on_completely() -> None:
    async def stream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n")
        await writer.drain()

    async with serving(stream) as client:
        assert (await client.get("/hello")).text == "firstsecond"


async def test_an_unreachable_function_server_is_reported_in_supabases_format() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client_for(unused.getsockname()[1]) as client:
            done = await client.get("/hello")
    assert (done.status_code, done.json()["code"]) == (503, "SERVICE_UNAVAILABLE")


async def test_a_server_that_hangs_up_is_reported() -> None:
    async def hang_up(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serving(hang_up) as client:
        assert (await client.get("/hello")).status_code == 503


async def test_a_body_over_the_limit_is_refused() -> None:
    async def swallow(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    async with serving(swallow) as client:
        done = await client.post("/hello", content=b"x" * (49 * 1024 * 1024))
    assert (done.status_code, done.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert done.json()["errors"][0]["status"] == "413"
