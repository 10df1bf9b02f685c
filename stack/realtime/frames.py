"""The two wire formats: 1.0.0 (JSON objects) and 2.0.0 (JSON arrays and two binary kinds)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import orjson

from stack.realtime.errors import MalformedFrame

MAX_FIELD_BYTES = 255
SAFE_NESTING = 200  # orjson reads 1024 levels and writes 254
PUSH_HEADER_BYTES = 7
Encoded = str | bytes


class Version(StrEnum):
    """The version that a client requests in `vsn`."""

    V1 = "1.0.0"
    V2 = "2.0.0"


class Kind(IntEnum):
    """First byte of a binary frame."""

    USER_BROADCAST_PUSH = 3
    USER_BROADCAST = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """One message from a client; a binary broadcast comes in `user_broadcast` instead of `payload`."""

    join_ref: str | None
    ref: str | None
    topic: str
    event: str
    payload: Any
    user_broadcast: "UserBroadcast | None" = None


@dataclass(frozen=True, slots=True)
class UserBroadcast:
    """A broadcast whose payload the server passes on without reading it."""

    event: str
    payload: bytes
    is_json: bool


def parse_version(text: str | None) -> Version | None:
    """The version a client named; absent means the oldest, unknown means none."""
    try:
        return Version(text or Version.V1)
    except ValueError:
        return None


def decode(version: Version, data: str | bytes) -> Frame:
    """Read one client message, or raise if it is none."""
    if isinstance(data, bytes):
        if version is Version.V1:
            raise MalformedFrame("binary frames need vsn 2.0.0")
        return _decode_binary(data)
    value = parse_json(data)
    return _from_object(value) if version is Version.V1 else _from_array(value)


def parse_json(data: str | bytes) -> Any:
    """Read JSON that can also be written again: what is passed on must not fail on its way out."""
    try:
        value = orjson.loads(data)
        nesting = data.count("[") + data.count("{") if isinstance(data, str) else data.count(b"[") + data.count(b"{")
        if nesting > SAFE_NESTING:
            orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise MalformedFrame("not JSON") from error
    except orjson.JSONEncodeError as error:
        raise MalformedFrame("nested too deeply") from error
    return value


def encode(
    version: Version, topic: str, event: str, payload: Any, *, ref: str | None = None, join_ref: str | None = None
) -> str:
    """Write one server message; version 1.0.0 has no join_ref, and its ref is always there."""
    if version is Version.V1:
        return orjson.dumps({"topic": topic, "event": event, "payload": payload, "ref": ref}).decode()
    return orjson.dumps([join_ref, ref, topic, event, payload]).decode()


def encode_user_broadcast(
    version: Version, topic: str, broadcast: UserBroadcast, meta: dict[str, Any] | None = None
) -> Encoded | None:
    """Write a passed-on broadcast; a binary payload cannot be said in version 1.0.0."""
    if version is Version.V1:
        return _as_json_broadcast(topic, broadcast, meta)
    parts = [topic.encode(), broadcast.event.encode(), orjson.dumps(meta) if meta else b""]
    if any(len(part) > MAX_FIELD_BYTES for part in parts):
        return None
    header = bytes([Kind.USER_BROADCAST, *(len(part) for part in parts), int(broadcast.is_json)])
    return b"".join([header, *parts, broadcast.payload])


def _as_json_broadcast(topic: str, broadcast: UserBroadcast, meta: dict[str, Any] | None) -> str | None:
    if not broadcast.is_json:
        return None
    payload: dict[str, Any] = {
        "type": "broadcast",
        "event": broadcast.event,
        "payload": orjson.Fragment(broadcast.payload),
    }
    if meta:
        payload["meta"] = meta
    return encode(Version.V1, topic, "broadcast", payload)


def _from_object(value: Any) -> Frame:
    if not isinstance(value, dict):
        raise MalformedFrame("expected a JSON object with topic, event, payload and ref")
    return _checked(
        value.get("join_ref"), value.get("ref"), value.get("topic"), value.get("event"), value.get("payload")
    )


def _from_array(value: Any) -> Frame:
    if not isinstance(value, list) or len(value) < 5:
        raise MalformedFrame("expected a JSON array [join_ref, ref, topic, event, payload]")
    return _checked(*value[:5])


def _checked(join_ref: Any, ref: Any, topic: Any, event: Any, payload: Any) -> Frame:
    if not isinstance(topic, str) or not isinstance(event, str):
        raise MalformedFrame("topic and event must be strings")
    return Frame(_reference(join_ref), _reference(ref), topic, event, payload)


def _reference(value: Any) -> str | None:
    """References are strings; a number is taken as its digits."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise MalformedFrame("ref and join_ref must be strings")


def _decode_binary(data: bytes) -> Frame:
    if len(data) < PUSH_HEADER_BYTES or data[0] != Kind.USER_BROADCAST_PUSH:
        raise MalformedFrame("unknown binary frame")
    sizes, encoding = data[1:6], data[6]
    fields, rest = _split(data[PUSH_HEADER_BYTES:], sizes)
    join_ref, ref, topic, event, _meta = fields
    broadcast = UserBroadcast(event, rest, is_json=encoding != 0)
    if broadcast.is_json:
        _require_json(rest)
    return Frame(join_ref or None, ref or None, topic, "broadcast", None, broadcast)


def _split(data: bytes, sizes: bytes) -> tuple[list[str], bytes]:
    if sum(sizes) > len(data):
        raise MalformedFrame("binary frame shorter than its lengths say")
    fields: list[str] = []
    for size in sizes:
        try:
            fields.append(data[:size].decode())
        except UnicodeDecodeError as error:
            raise MalformedFrame("binary frame with a name that is not UTF-8") from error
        data = data[size:]
    return fields, data


def _require_json(payload: bytes) -> None:
    """A payload that only claims to be JSON would break every receiver."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise MalformedFrame("broadcast payload is not JSON") from error
