"""One joined topic of one socket, from its phx_join on, with hosted's checks in hosted's order."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from stack.auth.tokens import ApiCaller
from stack.realtime import errors
from stack.realtime.errors import NO_DATABASE, SESSION_ENDED, DatabaseAway, JoinRefused, TokenRefused
from stack.realtime.frames import Frame, encode
from stack.realtime.hub import RealtimeHub
from stack.realtime.policies import Asker
from stack.realtime.subscriptions import Room, accept_all


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The parts of a join payload, with defaults in place."""

    token: str | None = None
    is_private: bool = False
    bindings: tuple[dict[str, Any], ...] = ()


def parse_join(payload: Any) -> JoinRequest:
    """Read a join payload."""
    params = payload if isinstance(payload, dict) else {}
    config = params.get("config")
    config = config if isinstance(config, dict) else {}
    private, bindings = config.get("private"), config.get("postgres_changes")
    return JoinRequest(
        token=_token(params),
        is_private=private is True or (isinstance(private, str) and private.lower() == "true"),
        bindings=tuple(item for item in bindings if isinstance(item, dict)) if isinstance(bindings, list) else (),
    )


def _token(params: dict[str, Any]) -> str | None:
    for name in ("user_token", "access_token"):
        value = params.get(name)
        if isinstance(value, str) and value:
            return value
    return None


@dataclass(frozen=True, slots=True)
class Knock:
    """A request to join: the client and the topic."""

    name: str
    payload: object
    api_key: str
    headers_json: str
    is_user: bool
    channels: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The parts of a joined channel."""

    request: JoinRequest
    token: str
    identity: ApiCaller


async def join(hub: RealtimeHub, knock: Knock) -> Joined:
    """Return the parts of the joined channel; raises the refusal to send."""
    try:
        return await _join(hub, knock)
    except DatabaseAway as error:
        raise JoinRefused("UnableToConnectToProject", NO_DATABASE) from error


async def _join(hub: RealtimeHub, knock: Knock) -> Joined:
    if not knock.name:
        raise JoinRefused("TopicNameRequired", "You must provide a topic name")
    request = parse_join(knock.payload)
    _check_limits(hub, knock)
    token, identity = _identify(hub, knock, request)
    # PostgreSQL would refuse other roles too, but only in a query; no channel is opened for them at all.
    if not await hub.database.may_become(identity.role):
        raise JoinRefused("Unauthorized", f'Role "{identity.role}" is not allowed')
    if not await hub.authorizer.has_session(identity):
        raise JoinRefused("Unauthorized", SESSION_ENDED)
    if not (hub.settings.allow_public or request.is_private):
        raise JoinRefused("PrivateOnly", "This project only allows private channels")
    if not hub.settings.allow_public and identity.is_anonymous:
        raise JoinRefused("Unauthorized", "This project's channels are for those who have signed in")
    if request.is_private and not await hub.authorizer.may_read(Asker(identity, knock.name, knock.headers_json)):
        reason = f"You do not have permissions to read from this Channel topic: {knock.name}"
        raise JoinRefused("Unauthorized", reason)
    return Joined(request, token, identity)


def _check_limits(hub: RealtimeHub, knock: Knock) -> None:
    settings = hub.settings
    if not knock.is_user and len(hub.users) >= settings.max_connections:
        raise JoinRefused("ConnectionRateLimitReached", "Too many connected users")
    if hub.joins.left("") < 1:
        raise JoinRefused("ClientJoinRateLimitReached", "Too many joins per second", ends_socket=True)
    hub.joins.spend("")
    if knock.channels >= settings.max_channels_per_socket:
        raise JoinRefused("ChannelRateLimitReached", "Too many channels")


def _identify(hub: RealtimeHub, knock: Knock, request: JoinRequest) -> tuple[str, ApiCaller]:
    """The join's own token, unless it is an API key: those speak through the connection's."""
    token = request.token
    if token is None or token.startswith("sb_"):
        token = knock.api_key
    try:
        return token, hub.verifier.identify(token)
    except TokenRefused as error:
        raise JoinRefused(error.code, error.message) from error


log = logging.getLogger("stack.realtime")

PREFIX = "realtime:"
LISTEN_ONLY = "The embedded stack sends what the database sends; clients listen"


class Line(Protocol):
    """The way to a client: its headers, and what takes the frames."""

    headers_json: str

    def send(self, frame: str) -> None:
        """Queue one frame."""

    def run_later(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something in the background for as long as the client is connected."""

    def forget(self, topic: str, channel: object) -> None:
        """A channel ended."""


class Channel:
    """State of a joined topic: whose it is, what it may do, what it listens to."""

    def __init__(self, hub: RealtimeHub, line: Line, topic: str, join_ref: str | None, joined: Joined) -> None:
        self.hub = hub
        self.line = line
        self.topic = topic
        self.room = Room(topic.removeprefix(PREFIX), joined.request.is_private)
        self.join_ref = join_ref
        self.request = joined.request
        self.token = joined.token
        self.identity = joined.identity
        self.is_closed = False
        self._subscriber: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._pending_token: str | None = None
        self._token_applied_at = float("-inf")

    def start(self) -> None:
        """Enter the room and begin what follows a successful join."""
        self.hub.rooms.enter(self)
        self.hub.channels.add(self)
        self.watch_token()
        self.subscribe_soon()

    def stop(self) -> None:
        """Leave the room and end everything of this channel; tells the client nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        if self._subscriber is not None:
            self._subscriber.cancel()
        self.hub.subscriptions.replace(self, [])
        self.hub.rooms.leave(self)
        self.hub.channels.discard(self)
        self.line.forget(self.topic, self)

    def push(self, event: str, payload: Any, ref: str | None = None) -> None:
        """Send one message on this topic."""
        self.line.send(encode(self.topic, event, payload, ref))

    def push_system(self, extension: str, status: str, message: str) -> None:
        """Send a `system` message."""
        self.push("system", {"extension": extension, "status": status, "message": message, "channel": self.room.name})

    def push_close(self) -> None:
        """Send an orderly end; clients do not rejoin after it."""
        self.push("phx_close", {}, ref=self.join_ref)

    def shut_down(self, message: str) -> None:
        """Send the reason, and close."""
        if self.is_closed:
            return
        self.push_system("system", "error", message)
        self.stop()
        self.push_close()

    def deliver(self, frame: str) -> None:
        """Send a broadcast or a changed row."""
        if not self.is_closed:
            self.line.send(frame)

    def watch_token(self) -> None:
        """Look at the token again when it expires, or after a while."""
        if self._expiry is not None:
            self._expiry.cancel()
        # Not all at once: after a restart every channel was joined in the same moment.
        check = self.hub.settings.check_seconds(len(self.hub.channels)) * random.uniform(0.5, 1)
        wait = min(self.identity.claims["exp"] - time.time(), check)
        self._expiry = asyncio.get_running_loop().call_later(max(wait, 0.01), self.line.run_later, self._confirm)

    async def _confirm(self) -> None:
        """Check again: the token may have expired, or the membership ended."""
        try:
            self.hub.verifier.identify(self.token)
            await self._check_right()
        except errors.TokenRefused as error:
            self.shut_down(error.message)
        except errors.ChannelEnded as error:
            self.shut_down(str(error))
        except (errors.DatabaseAway, errors.JoinRefused) as error:
            log.info("rights could not be read, trying again: %s", error)
        if not self.is_closed:
            self.watch_token()

    def subscribe_soon(self, *, is_refresh: bool = False) -> None:
        """Set up postgres_changes in the background; the client receives a `system` message about it."""
        if not self.request.bindings or self.is_closed:
            return
        if self._subscriber is not None:
            self._subscriber.cancel()
        self._subscriber = asyncio.get_running_loop().create_task(self._subscribe(is_refresh=is_refresh))

    async def _subscribe(self, *, is_refresh: bool) -> None:
        settings = self.hub.settings
        if is_refresh:
            await asyncio.sleep(random.uniform(settings.resubscribe_min_seconds, settings.resubscribe_max_seconds))
        while self.hub.feed.is_live:  # going live again restarts this
            try:
                await self._subscribe_once()
            except errors.BindingRefused as error:
                self.hub.subscriptions.replace(self, [])
                self.push_system("postgres_changes", "error", str(error))
            except (errors.DatabaseAway, psycopg.Error) as error:
                log.warning("UnableToSubscribeToPostgres: %s", error)
                self.push_system("postgres_changes", "error", errors.NO_DATABASE)
                await asyncio.sleep(random.uniform(settings.retry_min_seconds, settings.retry_max_seconds))
                continue
            return

    async def _subscribe_once(self) -> None:
        async with self.hub.database.connection() as connection:
            accepted = await accept_all(connection, self, self.identity, self.request.bindings)
        self.hub.subscriptions.replace(self, accepted)
        self.push_system("postgres_changes", "ok", "Subscribed to PostgreSQL")

    async def act(self, frame: Frame) -> None:
        """Handle one message to the channel: a newer token. A client that wants to send is refused."""
        if frame.event == "access_token":
            await self.refresh_token(frame.payload.get("access_token") if isinstance(frame.payload, dict) else None)
        else:
            self.push("phx_reply", {"status": "error", "response": {"reason": LISTEN_ONLY}}, ref=frame.ref)

    async def refresh_token(self, token: Any) -> None:
        """Take a newer token; nothing is answered unless it is refused."""
        if not isinstance(token, str) or token.startswith("sb_") or token in (self.token, self._pending_token):
            return
        wait = self._token_applied_at + self.hub.settings.token_throttle_seconds - time.monotonic()
        if wait <= 0:
            await self._apply_token(token)
            return
        if self._pending_token is None:
            asyncio.get_running_loop().call_later(wait, self.line.run_later, self._apply_pending)
        self._pending_token = token

    async def _apply_pending(self) -> None:
        token, self._pending_token = self._pending_token, None
        if token is None or self.is_closed:
            return
        try:
            await self._apply_token(token)
        except errors.ChannelEnded as error:
            self.shut_down(str(error))

    async def _apply_token(self, token: str) -> None:
        self._token_applied_at = time.monotonic()
        try:
            identity = self.hub.verifier.identify(token)
            await self._become(token, identity)
        except errors.TokenRefused as error:
            raise errors.ChannelEnded(error.message) from error
        except errors.DatabaseAway as error:
            raise errors.ChannelEnded(errors.NO_DATABASE) from error
        except errors.JoinRefused as error:
            raise errors.ChannelEnded("Query was cancelled, please try again") from error
        self.watch_token()
        self.subscribe_soon(is_refresh=True)

    async def _become(self, token: str, identity: ApiCaller) -> None:
        if not await self.hub.database.may_become(identity.role):
            raise errors.ChannelEnded(f'Role "{identity.role}" is not allowed')
        if not await self.hub.authorizer.has_session(identity):
            raise errors.ChannelEnded(errors.SESSION_ENDED)
        self.token, self.identity = token, identity
        await self._check_right()

    async def _check_right(self) -> None:
        """End a private channel whose client may not read it any more."""
        asker = Asker(self.identity, self.room.name, self.line.headers_json)
        if not self.room.is_private or await self.hub.authorizer.may_read(asker):
            return
        if asker.identity is self.identity:  # else a newer token came meanwhile, and asks for itself
            raise errors.ChannelEnded(
                f"You no longer have permission to read from this Channel topic: {self.room.name}"
            )
