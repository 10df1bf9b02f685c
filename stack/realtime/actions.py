"""The actions of a client on a joined channel."""

from typing import Any

import orjson

from stack.realtime.channel import Channel
from stack.realtime.errors import ChannelEnded, DatabaseAway
from stack.realtime.frames import Frame, UserBroadcast

NOT_A_MAP = {"reason": "Presence track payload must be a map"}


async def act(channel: Channel, frame: Frame) -> None:
    """Handle one message to a channel; unknown kinds are counted and ignored, as on hosted."""
    if frame.event == "broadcast":
        await _broadcast(channel, frame)
    elif frame.event == "presence":
        await _presence(channel, frame)
    elif frame.event == "access_token":
        await channel.refresh_token(frame.payload.get("access_token") if isinstance(frame.payload, dict) else None)
    else:
        channel.hub.messages.add()


async def _broadcast(channel: Channel, frame: Frame) -> None:
    if not await _may_write(channel, "broadcast"):
        return  # a denied write is silent
    content = frame.user_broadcast or frame.payload
    if not isinstance(content, UserBroadcast | dict):
        return
    if _size(content) > channel.hub.settings.max_payload_bytes:
        _answer(channel, frame, "error", {"reason": "payload_size_exceeded"}, is_wanted=channel.request.ack)
        return
    _spend(channel)
    channel.hub.rooms.broadcast(channel.room, content, without=None if channel.request.echo else channel)
    _answer(channel, frame, "ok", {}, is_wanted=channel.request.ack)


def _spend(channel: Channel) -> None:
    """Anyone who sends too much loses the channel before anybody who listens does."""
    hub, cost = channel.hub, 1 + channel.hub.rooms.size(channel.room)
    rate = hub.senders.of(channel.identity.sender(channel.line.address))
    if not (rate.has_room(cost) and hub.messages.has_room(cost)):
        raise ChannelEnded("Too many messages per second")
    rate.add(cost)
    hub.messages.add()


async def _presence(channel: Channel, frame: Frame) -> None:
    payload = frame.payload if isinstance(frame.payload, dict) else {}
    event = str(payload.get("event", "")).lower()
    if not channel.presence_calls.allow():
        raise ChannelEnded("Client presence rate limit exceeded")
    if event == "untrack":
        channel.hub.presence.untrack(channel)
    elif event == "track":
        if not await _may_write(channel, "presence"):
            _answer(channel, frame, "error", {})
            return
        content = payload.get("payload", {})
        if not isinstance(content, dict):
            _answer(channel, frame, "error", NOT_A_MAP)
            return
        _track(channel, content)
    elif event:
        _answer(channel, frame, "error", {})
        return
    _answer(channel, frame, "ok", {})


def _track(channel: Channel, content: dict[str, Any]) -> None:
    if _size(content) > channel.hub.settings.max_payload_bytes:
        raise ChannelEnded("Track message size exceeded")
    if channel.hub.presence_messages.is_exceeded:
        raise ChannelEnded("Too many presence messages per second")
    channel.hub.presence_messages.add()
    channel.hub.presence.track(channel, content)
    if not channel.has_presence:
        channel.has_presence = True
        channel.sync_presence()


async def _may_write(channel: Channel, extension: str) -> bool:
    if channel.policies is None:
        return True
    try:
        channel.policies = await channel.hub.authorizer.with_write(channel.policies, channel.asker, extension)
    except DatabaseAway:
        return False
    policies = channel.policies
    return bool(policies.broadcast_write if extension == "broadcast" else policies.presence_write)


def _answer(channel: Channel, frame: Frame, status: str, response: dict[str, Any], *, is_wanted: bool = True) -> None:
    if is_wanted:
        channel.push("phx_reply", {"status": status, "response": response}, ref=frame.ref)


def _size(content: UserBroadcast | dict[str, Any]) -> int:
    return len(content.payload) if isinstance(content, UserBroadcast) else len(orjson.dumps(content))
