"""From phx_join to what a channel is made of, with hosted's checks in hosted's order: a malformed part falls back to its default."""

from dataclasses import dataclass
from typing import Any

from stack.auth.tokens import ApiCaller
from stack.realtime.errors import NO_DATABASE, SESSION_ENDED, DatabaseAway, JoinRefused, TokenRefused
from stack.realtime.hub import RealtimeHub
from stack.realtime.policies import Asker


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
