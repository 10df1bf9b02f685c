"""The members of each topic, and broadcasts to them. A private and a public topic of one name are two rooms."""

from dataclasses import dataclass
from typing import Any, Protocol

from stack.realtime.frames import Encoded, UserBroadcast, Version, encode, encode_user_broadcast


@dataclass(frozen=True, slots=True)
class Room:
    """A topic without `realtime:`, public or private."""

    name: str
    is_private: bool


class Member(Protocol):
    """A member of a room: what it can receive, and how messages reach it."""

    @property
    def room(self) -> Room:
        """The room that it is in."""

    @property
    def topic(self) -> str:
        """Its client's name for the room."""

    @property
    def version(self) -> Version:
        """Its client's wire format."""

    @property
    def presence_key(self) -> str:
        """The name under which it is present."""

    @property
    def may_receive_broadcasts(self) -> bool:
        """Whether broadcasts are for it."""

    @property
    def may_receive_presence(self) -> bool:
        """Whether it may know who is present."""

    def has_replayed(self, key: str) -> bool:
        """Whether a stored message was already sent to it."""

    def deliver_broadcast(self, frame: Encoded) -> None:
        """Send a broadcast."""

    def deliver_presence(self, frame: str) -> None:
        """Send a join or leave."""

    def deliver_change(self, frame: str) -> None:
        """Send a changed row."""


class Rooms:
    """Members by room, in the order they came."""

    def __init__(self) -> None:
        self._members: dict[Room, dict[Member, None]] = {}

    def enter(self, member: Member) -> None:
        """Add a member."""
        self._members.setdefault(member.room, {})[member] = None

    def leave(self, member: Member) -> None:
        """Remove a member; an empty room is forgotten."""
        members = self._members.get(member.room, {})
        members.pop(member, None)
        if not members:
            self._members.pop(member.room, None)

    def members(self, room: Room) -> list[Member]:
        """A copy, as sending may make a member leave."""
        return list(self._members.get(room, ()))

    def size(self, room: Room) -> int:
        """Count the members that a broadcast would reach."""
        return len(self._members.get(room, ()))

    def broadcast(
        self, room: Room, content: UserBroadcast | dict[str, Any], *, without: Member | None = None, key: str = ""
    ) -> None:
        """Send to all members but one, encoded once per version; `key` names a stored message."""
        encoded: dict[Version, Encoded | None] = {}
        for member in self.members(room):
            if member is without or not member.may_receive_broadcasts or member.has_replayed(key):
                continue
            if member.version not in encoded:
                encoded[member.version] = _encode(member, content)
            frame = encoded[member.version]
            if frame is not None:
                member.deliver_broadcast(frame)


def _encode(member: Member, content: UserBroadcast | dict[str, Any]) -> Encoded | None:
    if isinstance(content, UserBroadcast):
        return encode_user_broadcast(member.version, member.topic, content)
    return encode(member.version, member.topic, "broadcast", content)
