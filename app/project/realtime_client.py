"""The one module that touches the Realtime client: one socket per process, a channel per topic.

The client's own reconnection is off. Whatever goes wrong, the whole client is
thrown away and a new one built, because its channels do not survive every fault.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
from pydantic import Field, TypeAdapter
from realtime import (
    AsyncRealtimeChannel,
    AsyncRealtimeClient,
    RealtimePostgresChangesListenEvent,
    RealtimeSubscribeStates,
)
from realtime._async import client as library
from realtime.message import ServerMessage

from app.project.settings import Settings
from supabase import AsyncClient, AsyncClientOptions

JOIN_SECONDS = 12.0
READY_SECONDS = 15.0
PING_SECONDS = 10.0
INBOX_SIZE = 20_000
_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError)

log = structlog.get_logger(__name__)

# The library would try one kind of message after the other until one fits: a millisecond for each change and feed.
library.ServerMessageAdapter = TypeAdapter(Annotated[ServerMessage, Field(discriminator="event")])  # type: ignore[attr-defined]


class ChannelBroken(Exception):
    """The channel is of no use any more: build it again."""


@dataclass(frozen=True)
class Binding:
    table: str
    filter: str | None = None


@dataclass(frozen=True)
class Event:
    """A change of a row, or a doorbell: what arrived on a channel."""

    kind: str
    table: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    old_record: dict[str, Any] = field(default_factory=dict)
    is_partial: bool = False


@dataclass
class Joined:
    """A channel that is live, and what arrives on it."""

    channel: AsyncRealtimeChannel
    inbox: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(INBOX_SIZE))
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""

    def fail(self, reason: str) -> None:
        """Remember the first reason why this channel is of no use any more."""
        self.reason = self.reason or reason
        self.broken.set()

    def offer(self, event: Event) -> None:
        """Queue what arrived; a flood that nobody reads ends the channel instead of the memory."""
        try:
            self.inbox.put_nowait(event)
        except asyncio.QueueFull:
            self.fail("too many changes at once")

    async def set_token(self, token: str) -> None:
        """Hand the channel on to a fresher token, or to another member's."""
        await self.channel.push("access_token", {"access_token": token})

    async def ping(self) -> None:
        """Find a half-open socket in seconds; the library alone needs most of a minute."""
        socket = self.channel.socket._ws_connection
        if socket is None or not self.channel.is_joined:
            raise ChannelBroken("the connection closed")
        try:
            async with asyncio.timeout(PING_SECONDS):
                await (await socket.ping())
        except (TimeoutError, OSError, Exception) as error:
            raise ChannelBroken("the connection stopped answering") from error


def row_event(payload: Any) -> Event:
    """Read a postgres_changes message; it may lack columns, or carry errors instead of a row."""
    data = payload["data"]
    record = data.get("record") or {}
    return Event(
        kind=str(getattr(data["type"], "value", data["type"])),
        table=str(data["table"]),
        record=record,
        old_record=data.get("old_record") or {},
        is_partial=bool(data.get("errors")),
    )


def wake_up_event(payload: Any) -> Event:
    """Read a broadcast: its event is the kind, its payload the record."""
    body = payload.get("payload") or {}
    return Event(kind=str(payload["event"]), table=str(body.get("table", "")), record=body)


class RealtimeClient:
    def __init__(self, settings: Settings) -> None:
        """Remember where Realtime is; connect with the first channel."""
        self._settings = settings
        self._client: AsyncRealtimeClient | None = None
        self._joined: dict[str, Joined] = {}
        self._lock = asyncio.Lock()

    def another(self) -> "RealtimeClient":
        """Return a client of the same project with a socket of its own."""
        return RealtimeClient(self._settings)

    @contextlib.asynccontextmanager
    async def join(
        self, topic: str, token: str, bindings: Iterable[Binding], wake_ups: Iterable[str]
    ) -> AsyncIterator[Joined]:
        """Join a private topic and yield once the server reports that its stream is live."""
        joined = await self._subscribe(topic, token, tuple(bindings), tuple(wake_ups))
        try:
            async with asyncio.timeout(READY_SECONDS):
                await _first_of(joined.ready, joined.broken)
            if joined.broken.is_set():
                raise ChannelBroken(joined.reason)
            yield joined
        except TimeoutError as error:
            raise ChannelBroken("the server did not confirm the stream") from error
        finally:
            await self._leave(topic, joined)

    async def close(self) -> None:
        client, self._client = self._client, None
        for joined in self._joined.values():
            joined.fail("the connection was closed")
        self._joined.clear()
        if client is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2):
                    await client.close()

    async def _connected(self) -> AsyncRealtimeClient:
        if self._client is not None and self._client.is_connected:
            return self._client
        await self.close()
        options = AsyncClientOptions(
            realtime={"auto_reconnect": False, "max_retries": 1}, auto_refresh_token=False, persist_session=False
        )
        client = AsyncClient(self._settings.supabase_url, self._settings.publishable_key, options).realtime
        await client.connect()
        self._client = client
        return client

    async def _subscribe(
        self, topic: str, token: str, bindings: tuple[Binding, ...], wake_ups: tuple[str, ...]
    ) -> Joined:
        # One join at a time: the client reads its token while it joins.
        async with self._lock:
            try:
                client = await self._connected()
                channel = client.channel(topic, _private_channel())
                joined = Joined(channel)
                _bind(joined, bindings, wake_ups)
                self._joined[topic] = joined
                client.access_token = token
                async with asyncio.timeout(JOIN_SECONDS):
                    await channel.subscribe(lambda state, error: _on_state(joined, state, error))
            except Exception as error:
                raise ChannelBroken(str(error) or type(error).__name__) from error
        return joined

    async def _leave(self, topic: str, joined: Joined) -> None:
        self._joined.pop(topic, None)
        client = joined.channel.socket
        if joined.broken.is_set() or not client.is_connected or not self._joined:
            # Broken channels cannot be joined again on the same socket (a late
            # phx_close would end the new one): the others rebuild as well.
            if client is self._client:
                await self.close()
            return
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await joined.channel.unsubscribe()


def _private_channel() -> Any:
    return {
        "config": {
            "broadcast": {"ack": False, "self": False},
            "presence": {"key": "", "enabled": False},
            "private": True,
        }
    }


def _bind(joined: Joined, bindings: tuple[Binding, ...], wake_ups: tuple[str, ...]) -> None:
    def on_row(payload: Any) -> None:
        # An exception in a callback would end the client's listening task for good.
        try:
            joined.offer(row_event(payload))
        except _UNREADABLE as error:
            joined.fail(f"an unreadable change arrived: {error}")

    def on_wake_up(payload: Any) -> None:
        try:
            joined.offer(wake_up_event(payload))
        except _UNREADABLE as error:
            joined.fail(f"an unreadable message arrived: {error}")

    def on_system(payload: Any) -> None:
        # SUBSCRIBED comes earlier than this: writes in between would be missed.
        if payload.extension == "postgres_changes":
            joined.ready.set()

    for binding in bindings:
        joined.channel.on_postgres_changes(
            RealtimePostgresChangesListenEvent.All, on_row, table=binding.table, schema="public", filter=binding.filter
        )
    for wake_up in wake_ups:
        joined.channel.on_broadcast(wake_up, on_wake_up)
    joined.channel.on_system(on_system)


def _on_state(joined: Joined, state: RealtimeSubscribeStates, error: Exception | None) -> None:
    if state is not RealtimeSubscribeStates.SUBSCRIBED:
        joined.fail(f"{state.value}: {error}" if error else str(state.value))


async def _first_of(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
