"""A proxy between a runner and the stack that can fail in every way a network does."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self
from urllib.parse import urlsplit

PIECE = 64 * 1024


class Fault(Enum):
    """The treatment of one request."""

    PASS = "pass"
    ERROR = "500"
    TOO_MANY = "429"
    SLOW = "slow"
    LOSE_REPLY = "lose reply"
    CUT = "cut"


Decide = Callable[[str], Fault]


@dataclass
class Seen:
    """One request that came by."""

    path: str
    fault: Fault


class Proxy:
    """Runs on a thread of its own; it calls `decide` for every request."""

    def __init__(self, target: str, host: str = "127.0.0.1") -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._own_host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.decide: Decide = lambda _: Fault.PASS
        self.is_cut = False
        self.is_half_open = False
        self.seen: list[Seen] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, self._own_host, 0))
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://{self._own_host}:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Partition both ways: what is open is closed, what is new is refused."""
        self.is_cut = True
        self._loop.call_soon_threadsafe(self._drop)

    def half_open(self) -> None:
        """Swallow what goes through websockets, both ways, and close nothing: the peer has silently disappeared."""
        self.is_half_open = True

    def mend(self) -> None:
        """Let everything through again."""
        self.is_cut = self.is_half_open = False
        self.decide = lambda _: Fault.PASS

    def count(self, part: str, fault: Fault | None = None) -> int:
        return sum(part in each.path and fault in {None, each.fault} for each in self.seen)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, OSError):
            while await self._one(reader, writer):
                pass
        self._writers.discard(writer)
        with suppress(Exception):
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        fault = Fault.CUT if self.is_cut else self.decide(path)
        self.seen.append(Seen(path, fault))
        body = await reader.readexactly(_length(head))
        if fault is Fault.CUT:
            writer.transport.abort()
            return False
        if fault in {Fault.ERROR, Fault.TOO_MANY}:
            return await _answer(writer, 500 if fault is Fault.ERROR else 429)
        if fault is Fault.SLOW:
            await asyncio.sleep(1.5)
        return await self._forward(head, body, reader, writer, is_reply_lost=fault is Fault.LOSE_REPLY)

    async def _forward(
        self,
        head: bytes,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_reply_lost: bool,
    ) -> bool:
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.add(up_writer)
        try:
            is_socket = b"upgrade: websocket" in head.lower()
            up_writer.write((head if is_socket else _closing(head)) + body)
            await up_writer.drain()
            if is_socket:
                ways = ((reader, up_writer), (up_reader, writer))
                pipes = [asyncio.ensure_future(self._pipe(*way)) for way in ways]
                _, left = await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
                for pipe in left:
                    pipe.cancel()
                return False
            reply = await up_reader.read(-1)
            if is_reply_lost or self.is_cut:
                writer.transport.abort()
                return False
            writer.write(reply)
            await writer.drain()
            return False
        finally:
            self._writers.discard(up_writer)
            up_writer.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(PIECE):
                if not self.is_half_open:
                    writer.write(data)
                    await writer.drain()


async def _answer(writer: asyncio.StreamWriter, status: int) -> bool:
    body = b'{"message":"made to fail"}'
    writer.write(f"HTTP/1.1 {status} Fault\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
    await writer.drain()
    return False


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":", 1)[1])
    return 0


def _closing(head: bytes) -> bytes:
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"connection: close"]) + b"\r\n\r\n"
