"""A client of the bare protocol: what it sends and gets is what is on the wire."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATIENCE = 180.0


@dataclass(frozen=True)
class Received:
    """One message from the server."""

    topic: str
    event: str
    payload: Any
    ref: str | None


@dataclass
class Wire:
    """One socket."""

    connection: ClientConnection
    seen: list[Received] = field(default_factory=list)
    _last_ref: int = 0

    async def send(self, topic: str, event: str, payload: Any, join_ref: str | None = None) -> str:
        """Send one message and return its ref."""
        self._last_ref += 1
        ref = str(self._last_ref)
        message = {"topic": topic, "event": event, "payload": payload, "ref": ref, "join_ref": join_ref}
        await self.connection.send(json.dumps(message))
        return ref

    async def join(self, topic: str, config: dict[str, Any] | None = None, **payload: Any) -> Received:
        """Join and return the reply."""
        ref = await self.send_join(topic, config, **payload)
        return await self.reply(ref)

    async def send_join(self, topic: str, config: dict[str, Any] | None = None, **payload: Any) -> str:
        """Ask to join without waiting for the reply."""
        ref = str(self._last_ref + 1)
        return await self.send(f"realtime:{topic}", "phx_join", {"config": config or {}, **payload}, join_ref=ref)

    async def reply(self, ref: str) -> Received:
        """The reply to one message."""
        return await self.expect(lambda message: message.event == "phx_reply" and message.ref == ref)

    async def event(self, name: str) -> Received:
        """The next message of one kind."""
        return await self.expect(lambda message: message.event == name)

    async def live(self, topic: str, bindings: Sequence[Any], **payload: Any) -> Received:
        """Join with postgres_changes and wait until the changes flow."""
        reply = await self.join(topic, {"postgres_changes": list(bindings)}, **payload)
        assert reply.payload["status"] == "ok", reply
        system = await self.expect(lambda message: (message.event, message.topic) == ("system", f"realtime:{topic}"))
        assert system.payload["status"] == "ok", system
        return reply

    async def expect(self, condition: Any) -> Received:
        """The first message, past or next, that fulfils a condition; it is removed."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for message in self.seen:
                    if condition(message):
                        self.seen.remove(message)
                        return message
                self.seen.append(self._read(await self.connection.recv()))

    async def drain(self, *events: str) -> list[Received]:
        """Everything that came before the answer to a heartbeat sent now, of the named kinds."""
        await self.reply(await self.send("phoenix", "heartbeat", {}))
        found = [item for item in self.seen if not events or item.event in events]
        self.seen = [item for item in self.seen if item not in found]
        return found

    async def closed(self) -> int:
        """Read until the server ends the connection, and return its code."""
        async with asyncio.timeout(PATIENCE):
            try:
                while True:
                    self.seen.append(self._read(await self.connection.recv()))
            except ConnectionClosed as end:
                return end.rcvd.code if end.rcvd is not None else 1006

    def _read(self, data: str | bytes) -> Received:
        value = json.loads(data)
        assert set(value) == {"topic", "event", "payload", "ref"}, value
        return Received(value["topic"], value["event"], value["payload"], value["ref"])


@asynccontextmanager
async def open_wire(url: str, key: str) -> AsyncIterator[Wire]:
    """Connect with an API key."""
    address = url.replace("http", "ws", 1) + "/realtime/v1/websocket?"
    parameters = {"apikey": key, "vsn": "1.0.0"}
    # Unread messages have no limit: the closing handshake would wait behind them.
    limits = {"max_size": 8_000_000, "max_queue": None, "open_timeout": PATIENCE, "ping_timeout": PATIENCE}
    async with connect(address + urlencode(parameters), **limits) as connection:
        yield Wire(connection)
