"""Reads the payload of a phx_join. A malformed part falls back to its default, as on hosted, and is never refused."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import orjson

MAX_ID = 2**27 - 1


@dataclass(frozen=True, slots=True)
class Replay:
    """The stored broadcasts that a private channel wants first."""

    since_ms: int
    limit: int


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The parts of a join payload, with defaults in place."""

    token: str | None = None
    ack: bool = False
    echo: bool = False
    replay: Replay | None = None
    wants_replay: bool = False
    wants_replication_ready: bool = False
    presence_key: str = ""
    has_presence: bool = False
    is_private: bool = False
    bindings: tuple[dict[str, Any], ...] = field(default=())


def parse_join(payload: Any, name: str) -> JoinRequest:
    """Read a join payload; a client without `config` is the oldest kind, whose topic names the table."""
    params = payload if isinstance(payload, dict) else {}
    config = params.get("config")
    if "config" not in params:
        return JoinRequest(token=_token(params), presence_key=_key(None), bindings=(_legacy_binding(name),))
    config = config if isinstance(config, dict) else {}
    broadcast, presence = _section(config, "broadcast"), _section(config, "presence")
    return JoinRequest(
        token=_token(params),
        ack=_boolean(broadcast.get("ack")),
        echo=_boolean(broadcast.get("self")),
        replay=_replay(broadcast.get("replay")),
        wants_replay="replay" in broadcast,
        wants_replication_ready=_boolean(broadcast.get("replication_ready")),
        presence_key=_key(presence.get("key")),
        has_presence=_boolean(presence.get("enabled", False)),
        is_private=_boolean(config.get("private")),
        bindings=_bindings(config.get("postgres_changes")),
    )


def binding_id(binding: dict[str, Any]) -> int:
    """A non-zero id that is the same whenever the same binding is joined again."""
    digest = uuid.uuid5(uuid.NAMESPACE_OID, orjson.dumps(binding, option=orjson.OPT_SORT_KEYS).decode())
    return digest.int % MAX_ID + 1


def _token(params: dict[str, Any]) -> str | None:
    for name in ("user_token", "access_token"):
        value = params.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _boolean(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _key(value: Any) -> str:
    return value if isinstance(value, str) and value else str(uuid.uuid4())


def _replay(value: Any) -> Replay | None:
    if not isinstance(value, dict):
        return None
    since, limit = value.get("since", 0), value.get("limit", 25)
    if not _is_count(since) or not _is_count(limit):
        return None
    return Replay(since, limit)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _bindings(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, dict))


def _legacy_binding(name: str) -> dict[str, Any]:
    return dict(zip(("schema", "table", "filter"), name.split(":", 2), strict=False))
