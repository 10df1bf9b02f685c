"""One client's websocket: reads in order, writes through a bounded queue."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from stack.realtime.channel import PREFIX, Channel, Joined, Knock, join
from stack.realtime.errors import ChannelEnded, JoinRefused, MalformedFrame
from stack.realtime.frames import Frame, decode, encode
from stack.realtime.hub import RealtimeHub
from stack.realtime.subscriptions import binding_id

log = logging.getLogger("stack.realtime")

GOING_AWAY, UNSUPPORTED, TOO_BIG, FAILED, TRY_LATER = 1001, 1003, 1009, 1011, 1013
CLOSE_SECONDS = 5.0


class Socket:
    """A connection with its channels; slow readers are closed rather than waited for."""

    def __init__(self, hub: RealtimeHub, websocket: WebSocket, api_key: str, headers_json: str, address: str) -> None:
        self.hub = hub
        self.api_key = api_key
        self.headers_json = headers_json
        self.address = address
        self.channels: dict[str, Channel] = {}
        self._websocket = websocket
        self._queue: deque[str] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_since = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Serve until either side ends the connection."""
        self.hub.sockets.add(self)
        reader, writer = asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())
        closing = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({reader, writer, closing}, return_when=asyncio.FIRST_COMPLETED)
            await self._end(reader, writer)
        finally:
            self.hub.sockets.discard(self)
            self.hub.users.discard(self)
            for channel in list(self.channels.values()):
                channel.stop()
            tasks = (reader, writer, closing, *self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, reader: "asyncio.Future[None]", writer: "asyncio.Future[None]") -> None:
        """Send what is queued and a close frame, for as long as the client takes them.

        granian holds a close frame back for as long as somebody waits to receive: reading must end first.
        """
        if reader.done() and reader.exception() is not None:
            log.error("socket failed", exc_info=reader.exception())
            self.close(FAILED, "Internal error")
        if self._closing is None:
            return  # the client has gone
        self._wake.set()
        await asyncio.wait({writer}, timeout=CLOSE_SECONDS)
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._websocket.close(*self._closing)

    def close(self, code: int, reason: str) -> None:
        """End the connection once what is queued before this has been sent."""
        if self._closing is None:
            self._closing = (code, reason)
            self._ending.set()

    def send(self, frame: str) -> None:
        """Queue one frame; a client that does not keep up is closed, so that it cannot hold others up."""
        if self._closing is not None:
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        settings = self.hub.settings
        if len(self._queue) > settings.queue_frames or self._queued_bytes > settings.queue_bytes:
            log.warning("a client at %s does not keep up, closing its socket", self.address)
            self._queue.clear()
            self.close(TRY_LATER, "Client does not keep up")
        self._wake.set()

    def reply(self, frame: Frame, status: str, response: dict[str, Any]) -> None:
        """Answer one client message."""
        self.send(encode(frame.topic, "phx_reply", {"status": status, "response": response}, frame.ref))

    def forget(self, topic: str, channel: object) -> None:
        """A channel ended."""
        if self.channels.get(topic) is channel:
            del self.channels[topic]
        if not self.channels:
            self.hub.users.discard(self)
            self._idle_since = asyncio.get_running_loop().time()

    def run_later(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something of this socket in the background."""
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self) -> None:
        try:
            while True:
                while self._queue:
                    frame = self._queue.popleft()
                    self._queued_bytes -= len(frame)
                    await self._websocket.send_text(frame)
                if self._closing is not None:
                    return
                self._wake.clear()
                await self._wake.wait()
        except (WebSocketDisconnect, RuntimeError, OSError):
            return  # the client has gone

    async def _read(self) -> None:
        while self._closing is None:
            data = await self._receive()
            if data is None:
                return
            try:
                await self._handle(decode(data))
            except MalformedFrame as error:
                self.close(UNSUPPORTED, f"Malformed message: {error}")

    async def _receive(self) -> str | bytes | None:
        """The next frame; None when the connection ends, is too long idle or sends too much."""
        try:
            async with asyncio.timeout(self.hub.settings.idle_seconds):
                message = await self._websocket.receive()
        except TimeoutError:
            self.close(GOING_AWAY, "Nothing was received for too long")
            return None
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        data: str | bytes = text if text is not None else message.get("bytes") or b""
        if len(data) > self.hub.settings.max_frame_bytes:
            self.close(TOO_BIG, "Frame is too large")
            return None
        idle = asyncio.get_running_loop().time() - self._idle_since
        if not self.channels and idle > self.hub.settings.no_channel_seconds:
            self.close(GOING_AWAY, "No channel was joined")
            return None
        return data

    async def _handle(self, frame: Frame) -> None:
        if frame.topic == "phoenix" and frame.event == "heartbeat":
            self.reply(frame, "ok", {})
        elif frame.event == "phx_join":
            await self._join(frame)
        elif frame.event == "phx_leave":
            self._leave(frame)
        elif frame.topic in self.channels:
            channel = self.channels[frame.topic]
            await self._guarded(channel, lambda: channel.act(frame))
        else:
            self.reply(frame, "error", {"reason": "unmatched topic"})

    async def _join(self, frame: Frame) -> None:
        """A second join of a live topic replaces the first, whose end is sent after the new one's start."""
        if not frame.topic.startswith(PREFIX):
            self.reply(frame, "error", {"reason": "unmatched topic"})
            return
        previous = self.channels.get(frame.topic)
        if previous is not None:
            previous.stop()
        try:
            joined = await join(self.hub, self._knock(frame))
        except JoinRefused as error:
            refusal = error
            self.run_later(lambda: self._refuse(frame, refusal))
        else:
            await self._open(frame, joined)
        if previous is not None:
            previous.push_close()

    def _knock(self, frame: Frame) -> Knock:
        name, is_user = frame.topic.removeprefix(PREFIX), self in self.hub.users
        return Knock(name, frame.payload, self.api_key, self.headers_json, is_user, len(self.channels))

    async def _open(self, frame: Frame, joined: Joined) -> None:
        channel = Channel(self.hub, self, frame.topic, frame.join_ref or frame.ref, joined)
        self.channels[frame.topic] = channel
        self.hub.users.add(self)
        # The client's own bindings word for word, each with its id: clients compare them.
        bindings = [{**each, "id": binding_id(each)} for each in joined.request.bindings]
        self.reply(frame, "ok", {"postgres_changes": bindings})
        await self._guarded(channel, channel.start)

    async def _refuse(self, frame: Frame, error: JoinRefused) -> None:
        """Hosted waits before it refuses, which slows down clients that try again at once."""
        log.info("join refused: %s", error.reason)
        await asyncio.sleep(self.hub.settings.channel_error_seconds)
        self.reply(frame, "error", {"reason": error.reason})
        if error.ends_socket:
            self.close(GOING_AWAY, "")

    def _leave(self, frame: Frame) -> None:
        channel = self.channels.get(frame.topic)
        if channel is None:
            self.reply(frame, "ok", {})
        elif frame.join_ref in (None, channel.join_ref):
            channel.stop()
            self.reply(frame, "ok", {})
            channel.push_close()

    async def _guarded(self, channel: Channel, work: Callable[[], Any]) -> None:
        """Run a channel's work; its failure ends that channel alone, and the client rejoins."""
        try:
            result = work()
            if result is not None:
                await result
        except ChannelEnded as error:
            channel.shut_down(str(error))
        except JoinRefused as error:
            log.warning("%s on %s", error.reason, channel.topic)
        except Exception:
            log.exception("channel failed")
            channel.stop()
            channel.push("phx_error", {}, ref=channel.join_ref)
