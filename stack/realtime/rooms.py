"""The members of each topic, and broadcasts to them. A private and a public topic of one name are two rooms."""

from dataclasses import dataclass
from typing import Any, Protocol

from stack.realtime.frames import encode


@dataclass(frozen=True, slots=True)
class Room:
    """A topic without `realtime:`, public or private."""

    name: str
    is_private: bool


class Member(Protocol):
    """A member of a room, and how messages reach it."""

    @property
    def room(self) -> Room:
        """The room that it is in."""

    @property
    def topic(self) -> str:
        """Its client's name for the room."""

    def deliver(self, frame: str) -> None:
        """Send a broadcast or a changed row."""


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

    def broadcast(self, room: Room, content: dict[str, Any]) -> None:
        """Send to all members, encoded once."""
        members = list(self._members.get(room, ()))  # a copy, as sending may make a member leave
        frame = encode(members[0].topic, "broadcast", content) if members else ""
        for member in members:
            member.deliver(frame)
