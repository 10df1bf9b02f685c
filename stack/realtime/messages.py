"""Broadcasts that were stored in `realtime.messages`."""

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of `realtime.messages`, to be broadcast."""

    id: str
    topic: str
    event: str
    payload: str
    is_private: bool

    def as_broadcast(self) -> dict[str, Any]:
        """The message that clients get; `meta` tells that it was stored."""
        return {
            "type": "broadcast",
            "event": self.event,
            "payload": orjson.Fragment(self.payload),
            "meta": {"id": self.id},
        }
