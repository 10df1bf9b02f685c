"""The doorbell: a private broadcast topic that says "there is something new"; everything works, slower, without it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from realtime import AsyncRealtimeClient, RealtimeSubscribeStates

from worker.api.replies import SessionGrant
from worker.clock import Clock, backoff
from worker.runtime_log import get_logger

_JOIN_SECONDS = 15.0
_CHECK_SECONDS = 2.0
_LONGEST_PAUSE = 10.0

Notify = Callable[[str], None]


class Doorbell:
    """Owns the websocket's whole life: anything strange discards the client and builds a new one.

    The client's own reconnection ends silently after some tries, and an exception in a callback kills its listener
    without a word (both measured), so neither is relied upon: callbacks only notify, and this class watches.
    """

    def __init__(self, url: str, grant: Callable[[], SessionGrant], notify: Notify, clock: Clock) -> None:
        """`notify` is called with the event's name: `wake`, `directive`, or `joined` after a gap, `lost` before one."""
        self._url = f"{url.rstrip('/')}/realtime/v1"
        self._grant = grant
        self._notify = notify
        self._clock = clock
        self._log = get_logger("worker.doorbell")
        self._client: AsyncRealtimeClient | None = None
        self._token = ""
        self._broken = asyncio.Event()
        self.is_live = False

    async def run(self) -> None:
        """Listen for ever, with a jittered pause of at most 10 s between two lives."""
        failures = 0
        while True:
            try:
                await self._live()
                failures = 0
            except Exception as error:  # noqa: BLE001  (the library raises whatever the socket raised)
                failures += 1
                self._log.debug("the doorbell is not connected", why=f"{type(error).__name__}: {error}")
            finally:
                await self._discard()
            await self._clock.sleep(backoff(failures, first=0.5, most=_LONGEST_PAUSE))

    async def _live(self) -> None:
        self._broken = asyncio.Event()
        async with asyncio.timeout(_JOIN_SECONDS):
            client = await self._connect()
        self.is_live = True
        self._log.info("the doorbell is connected", id="doorbell_connected")
        # Poll now for anything that was sent while nobody listened.
        self._notify("joined")
        while not self._broken.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._broken.wait()
            self._check(client)
            await self._hand_over_token(client)
        raise ConnectionError("the connection was lost")

    async def _connect(self) -> AsyncRealtimeClient:
        grant = self._grant()
        client = AsyncRealtimeClient(self._url, token=grant.publishable_key, auto_reconnect=False, max_retries=1)
        self._client = client
        await client.connect()
        self._token = grant.access_token
        await client.set_auth(grant.access_token)
        for topic in grant.topics:
            await self._join(client, topic)
        return client

    async def _join(self, client: AsyncRealtimeClient, topic: str) -> None:
        channel = client.channel(
            topic,
            {
                "config": {
                    "private": True,
                    "broadcast": {"ack": False, "self": False},
                    "presence": {"key": "", "enabled": False},
                }
            },
        )
        for event in ("wake", "directive"):
            channel.on_broadcast(event, self._notifier(event))
        joined = asyncio.get_running_loop().create_future()

        def note(state: RealtimeSubscribeStates, error: Exception | None) -> None:
            if state is RealtimeSubscribeStates.SUBSCRIBED and not joined.done():
                joined.set_result(None)
            elif state is not RealtimeSubscribeStates.SUBSCRIBED:
                self._broken.set()
                if not joined.done():
                    joined.set_exception(ConnectionError(f"{topic}: {state} {error or ''}"))

        await channel.subscribe(note)
        await joined

    def _notifier(self, event: str) -> Callable[[Any], None]:
        def notify(message: Any) -> None:
            # An exception here would kill the library's listener.
            with suppress(Exception):
                if not self._is_for_another(message):
                    self._notify(event)

        return notify

    def _is_for_another(self, message: Any) -> bool:
        """Processes of one runner share its topic; a ring for one of them concerns no other."""
        try:
            return bool(message["payload"]["instance"] != self._grant().instance_id)
        except (LookupError, TypeError):
            return False

    def _check(self, client: AsyncRealtimeClient) -> None:
        # `_listen_task` is private API; there is no public way to see that the listener has died.
        listener = getattr(client, "_listen_task", None)
        if not client.is_connected or listener is None or listener.done():
            raise ConnectionError("the listener has ended")

    async def _hand_over_token(self, client: AsyncRealtimeClient) -> None:
        token = self._grant().access_token
        if token != self._token:
            self._token = token
            await client.set_auth(token)

    async def _discard(self) -> None:
        was_live, self.is_live = self.is_live, False
        client, self._client = self._client, None
        if was_live:
            self._log.warning("the doorbell is disconnected; polling continues", id="doorbell_gone")
            self._notify("lost")
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(2.0):
                    await client.close()
