"""Who says to be present, by room and key, in Phoenix's shape."""

import secrets
from typing import TYPE_CHECKING, Any

from stack.realtime.frames import Version, encode
from stack.realtime.rooms import Room, Rooms

if TYPE_CHECKING:
    from stack.realtime.channel import Channel

Meta = dict[str, Any]


class Presence:
    """Tracks one entry per channel and tells the room of every change."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._entries: dict[Room, dict[Channel, Meta]] = {}

    def state(self, room: Room) -> dict[str, Any]:
        """Everybody present, as `presence_state` carries it."""
        grouped: dict[str, dict[str, list[Meta]]] = {}
        for channel, meta in self._entries.get(room, {}).items():
            grouped.setdefault(channel.presence_key, {"metas": []})["metas"].append(meta)
        return grouped

    def track(self, channel: "Channel", payload: dict[str, Any]) -> None:
        """Add or replace a channel's entry; the same payload again changes nothing."""
        entries = self._entries.setdefault(channel.room, {})
        previous = entries.get(channel)
        if previous is not None and _payload(previous) == payload:
            return
        meta: Meta = {**payload, "phx_ref": secrets.token_urlsafe(12)}
        if previous is not None:
            meta["phx_ref_prev"] = previous["phx_ref"]
        entries[channel] = meta
        self._tell(channel, joins=meta, leaves=previous)

    def untrack(self, channel: "Channel") -> None:
        """Remove a channel's entry, if it has one."""
        entries = self._entries.get(channel.room, {})
        previous = entries.pop(channel, None)
        if not entries:
            self._entries.pop(channel.room, None)
        if previous is not None:
            self._tell(channel, joins=None, leaves=previous)

    def _tell(self, channel: "Channel", *, joins: Meta | None, leaves: Meta | None) -> None:
        diff = {"joins": _grouped(channel, joins), "leaves": _grouped(channel, leaves)}
        encoded: dict[Version, str] = {}
        for member in self._rooms.members(channel.room):
            if not member.may_receive_presence:
                continue
            if member.version not in encoded:
                encoded[member.version] = encode(member.version, member.topic, "presence_diff", diff)
            member.deliver_presence(encoded[member.version])


def _payload(meta: Meta) -> Meta:
    return {key: value for key, value in meta.items() if key not in ("phx_ref", "phx_ref_prev")}


def _grouped(channel: "Channel", meta: Meta | None) -> dict[str, Any]:
    return {} if meta is None else {channel.presence_key: {"metas": [meta]}}
