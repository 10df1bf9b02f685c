"""The parts that all sockets of one server share."""

from dataclasses import dataclass
from typing import Protocol

from stack.auth.limits import Limiter
from stack.auth.tokens import ApiCaller
from stack.realtime.database import Database
from stack.realtime.errors import SESSION_ENDED
from stack.realtime.feed import ReplicationFeed, StoredMessage
from stack.realtime.policies import Authorizer
from stack.realtime.settings import RealtimeSettings
from stack.realtime.subscriptions import Room, Rooms, Subscriptions
from stack.realtime.tokens import TokenVerifier


class Subscriber(Protocol):
    """A channel, as the hub knows it."""

    identity: ApiCaller

    def shut_down(self, message: str) -> None:
        """Send the reason, and close."""

    def subscribe_soon(self) -> None:
        """Subscribe to row changes again."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of PostgreSQL: as authenticator, as the replication role, and as the keeper of `realtime`."""

    database_url: str
    replication_url: str
    maintenance_url: str


class RealtimeHub:
    """Rooms, rates, subscriptions and the database, for one running server."""

    def __init__(self, addresses: Addresses, verifier: TokenVerifier, settings: RealtimeSettings) -> None:
        self.settings = settings
        self.verifier = verifier
        self.database = Database(addresses.database_url, settings.pool_size, settings.database_timeout_seconds)
        self.authorizer = Authorizer(self.database)
        self.rooms = Rooms()
        self.subscriptions = Subscriptions()
        self.joins = Limiter(settings.max_joins_per_minute, 60)
        self.channels: set[Subscriber] = set()
        self.sockets: set[object] = set()
        self.users: set[object] = set()
        urls = addresses.database_url, addresses.replication_url
        self.feed = ReplicationFeed(*urls, settings, self.subscriptions, self._announce, self._resubscribe)

    async def close_ended(self) -> None:
        """Close the channels of sessions that Auth has ended, by one query for all of them."""
        sessions = {channel: channel.identity.session for channel in self.channels}
        ended = await self.authorizer.ended_sessions({session for session in sessions.values() if session is not None})
        for channel, session in sessions.items():
            if session in ended:
                channel.shut_down(SESSION_ENDED)

    def _announce(self, message: StoredMessage) -> None:
        """Broadcast a row of `realtime.messages`."""
        self.rooms.broadcast(Room(message.topic, message.is_private), message.as_broadcast())

    def _resubscribe(self) -> None:
        for channel in list(self.channels):
            channel.subscribe_soon()
