"""A small HTTP load client: keep-alive connections on uvloop, cheap enough to leave the cores to what is measured."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

import uvloop

END_OF_HEAD = b"\r\n\r\n"


@dataclass
class Tally:
    """The results of one run."""

    seconds: list[float] = field(default_factory=list)
    failures: int = 0


class Connection(asyncio.Protocol):
    """Sends the same request again and again, waiting for each answer."""

    def __init__(self, request: bytes, until: float, tally: Tally) -> None:
        self._request = request
        self._until = until
        self._tally = tally
        self._received = b""
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(END_OF_HEAD)
        if head_end < 0 or len(self._received) < head_end + 4 + content_length(self._received[:head_end]):
            return
        now = time.perf_counter()
        self._tally.seconds.append(now - self._sent_at)
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._tally.failures += 1
        self._received = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._tally.failures += 1
        if not self.done.done():
            self.done.set_result(None)


def content_length(head: bytes) -> int:
    """The length of the body that a response's head announces."""
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def run(host: str, port: int, request: bytes, connections: int, seconds: float) -> Tally:
    """Keep `connections` busy for a while."""
    tally = Tally()
    until = time.perf_counter() + seconds
    made = [
        await asyncio.get_running_loop().create_connection(lambda: Connection(request, until, tally), host, port)
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in made))
    return tally


def main() -> None:
    """Read a job from stdin, write the tally to stdout: the load runs in a process of its own."""
    job = json.load(sys.stdin)
    tally = uvloop.run(run(job["host"], job["port"], job["request"].encode(), job["connections"], job["seconds"]))
    json.dump({"seconds": tally.seconds, "failures": tally.failures}, sys.stdout)


if __name__ == "__main__":
    main()
