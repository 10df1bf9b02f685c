"""The members that track their presence, by room and key, in Phoenix's shape."""

import secrets
from typing import Any

from stack.realtime.frames import Version, encode
from stack.realtime.rooms import Member, Room, Rooms

Meta = dict[str, Any]


class Presence:
    """Tracks one entry per member and tells the room of every change."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._entries: dict[Room, dict[Member, Meta]] = {}

    def state(self, room: Room) -> dict[str, Any]:
        """Everybody present, as `presence_state` carries it."""
        grouped: dict[str, dict[str, list[Meta]]] = {}
        for member, meta in self._entries.get(room, {}).items():
            grouped.setdefault(member.presence_key, {"metas": []})["metas"].append(meta)
        return grouped

    def track(self, member: Member, payload: dict[str, Any]) -> None:
        """Add or replace a member's entry; the same payload again changes nothing."""
        entries = self._entries.setdefault(member.room, {})
        previous = entries.get(member)
        if previous is not None and _payload(previous) == payload:
            return
        meta: Meta = {**payload, "phx_ref": secrets.token_urlsafe(12)}
        if previous is not None:
            meta["phx_ref_prev"] = previous["phx_ref"]
        entries[member] = meta
        self._tell(member, joins=meta, leaves=previous)

    def untrack(self, member: Member) -> None:
        """Remove a member's entry, if it has one."""
        entries = self._entries.get(member.room, {})
        previous = entries.pop(member, None)
        if not entries:
            self._entries.pop(member.room, None)
        if previous is not None:
            self._tell(member, joins=None, leaves=previous)

    def _tell(self, member: Member, *, joins: Meta | None, leaves: Meta | None) -> None:
        diff = {"joins": _grouped(member, joins), "leaves": _grouped(member, leaves)}
        encoded: dict[Version, str] = {}
        for other in self._rooms.members(member.room):
            if not other.may_receive_presence:
                continue
            if other.version not in encoded:
                encoded[other.version] = encode(other.version, other.topic, "presence_diff", diff)
            other.deliver_presence(encoded[other.version])


def _payload(meta: Meta) -> Meta:
    return {key: value for key, value in meta.items() if key not in ("phx_ref", "phx_ref_prev")}


def _grouped(member: Member, meta: Meta | None) -> dict[str, Any]:
    return {} if meta is None else {member.presence_key: {"metas": [meta]}}
