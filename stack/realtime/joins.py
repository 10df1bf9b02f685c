"""Reads the payload of a phx_join. A malformed part falls back to its default, as on hosted, and is never refused."""

import uuid
from dataclasses import dataclass
from typing import Any

import orjson

MAX_ID = 2**27 - 1


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
