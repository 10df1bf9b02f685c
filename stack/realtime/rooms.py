"""Who is on which topic, and broadcasts to them. A private and a public topic of one name are two rooms."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stack.realtime.frames import Encoded, UserBroadcast, Version, encode, encode_user_broadcast

if TYPE_CHECKING:
    from stack.realtime.channel import Channel


@dataclass(frozen=True, slots=True)
class Room:
    """A topic without `realtime:`, public or private."""

    name: str
    is_private: bool


class Rooms:
    """Members by room, in the order they came."""

    def __init__(self) -> None:
        self._members: dict[Room, dict[Channel, None]] = {}

    def enter(self, channel: "Channel") -> None:
        """Add a member."""
        self._members.setdefault(channel.room, {})[channel] = None

    def leave(self, channel: "Channel") -> None:
        """Remove a member; an empty room is forgotten."""
        members = self._members.get(channel.room, {})
        members.pop(channel, None)
        if not members:
            self._members.pop(channel.room, None)

    def members(self, room: Room) -> list["Channel"]:
        """A copy, as sending may make a member leave."""
        return list(self._members.get(room, ()))

    def size(self, room: Room) -> int:
        """How many members a broadcast would reach."""
        return len(self._members.get(room, ()))

    def broadcast(
        self, room: Room, content: UserBroadcast | dict[str, Any], *, without: "Channel | None" = None, key: str = ""
    ) -> None:
        """Send to all members but one, encoded once per version; `key` names a stored message."""
        encoded: dict[Version, Encoded | None] = {}
        for channel in self.members(room):
            if channel is without or not channel.may_receive_broadcasts or channel.has_replayed(key):
                continue
            if channel.version not in encoded:
                encoded[channel.version] = _encode(channel, content)
            frame = encoded[channel.version]
            if frame is not None:
                channel.deliver_broadcast(frame)


def _encode(channel: "Channel", content: UserBroadcast | dict[str, Any]) -> Encoded | None:
    if isinstance(content, UserBroadcast):
        return encode_user_broadcast(channel.version, channel.topic, content)
    return encode(channel.version, channel.topic, "broadcast", content)
