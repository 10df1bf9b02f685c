"""From phx_join to a channel, with hosted's checks in hosted's order."""

from typing import TYPE_CHECKING

from stack.realtime.channel import NO_DATABASE, Channel
from stack.realtime.errors import DatabaseAway, JoinRefused, TokenRefused
from stack.realtime.frames import Frame
from stack.realtime.joins import JoinRequest, parse_join
from stack.realtime.policies import Asker, Policies
from stack.realtime.replay import stored_messages
from stack.realtime.tokens import Identity

if TYPE_CHECKING:
    from stack.realtime.hub import Hub
    from stack.realtime.socket import Socket

PREFIX = "realtime:"


async def join(hub: "Hub", socket: "Socket", frame: Frame) -> Channel:
    """A channel that is ready to start, or the refusal to send."""
    try:
        channel = await _join(hub, socket, frame)
        if channel.request.wants_replay:
            await _prepare_replay(channel)
    except DatabaseAway as error:
        raise JoinRefused("UnableToConnectToProject", NO_DATABASE) from error
    return channel


async def _join(hub: "Hub", socket: "Socket", frame: Frame) -> Channel:
    name = frame.topic.removeprefix(PREFIX)
    if not name:
        raise JoinRefused("TopicNameRequired", "You must provide a topic name")
    request = parse_join(frame.payload, name)
    _check_limits(hub, socket)
    token, identity = _identify(hub, socket, request)
    await _check_role(hub, identity)
    if not hub.settings.allow_public:
        _check_private(request, identity)
    policies = await _policies(hub, socket, name, identity) if request.is_private else None
    return Channel(hub, socket, frame.topic, frame.join_ref or frame.ref, request, token, identity, policies)


def _check_limits(hub: "Hub", socket: "Socket") -> None:
    settings = hub.settings
    if socket not in hub.users and len(hub.users) >= settings.max_connections:
        raise JoinRefused("ConnectionRateLimitReached", "Too many connected users")
    if hub.joins.is_exceeded:
        raise JoinRefused("ClientJoinRateLimitReached", "Too many joins per second", ends_socket=True)
    hub.joins.add()
    if len(socket.channels) >= settings.max_channels_per_socket:
        raise JoinRefused("ChannelRateLimitReached", "Too many channels")


def _identify(hub: "Hub", socket: "Socket", request: JoinRequest) -> tuple[str, Identity]:
    """The join's own token, unless it is an API key: those speak through the connection's."""
    token = request.token
    if token is None or token.startswith("sb_"):
        token = socket.api_key
    try:
        return token, hub.verifier.identify(token)
    except TokenRefused as error:
        raise JoinRefused(error.code, error.message) from error


def _check_private(request: JoinRequest, identity: Identity) -> None:
    if not request.is_private:
        raise JoinRefused("PrivateOnly", "This project only allows private channels")
    if identity.is_anonymous:
        raise JoinRefused("Unauthorized", "This project's channels are for those who have signed in")


async def _check_role(hub: "Hub", identity: Identity) -> None:
    """PostgreSQL would refuse other roles too, but only where it is asked; no channel is opened for them at all."""
    if not await hub.database.may_become(identity.role):
        raise JoinRefused("Unauthorized", f'Role "{identity.role}" is not allowed')


async def _policies(hub: "Hub", socket: "Socket", name: str, identity: Identity) -> Policies:
    policies = await hub.authorizer.read(Asker(identity, name, socket.headers_json))
    if not policies.can_read:
        raise JoinRefused("Unauthorized", f"You do not have permissions to read from this Channel topic: {name}")
    return policies


async def _prepare_replay(channel: Channel) -> None:
    if not channel.room.is_private:
        raise JoinRefused("UnableToReplayMessages", "Replay is not allowed for public channels")
    if channel.request.replay is None:
        raise JoinRefused("UnableToReplayMessages", "Replay params are not valid")
    if not channel.may_receive_broadcasts:
        reason = f"You do not have permissions to read from this Channel topic: {channel.room.name}"
        raise JoinRefused("Unauthorized", reason)
    stored = await stored_messages(channel.hub.database, channel.room.name, channel.request.replay)
    channel.replayed = {message.id: message for message in stored}
