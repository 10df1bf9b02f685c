"""The wire format 1.0.0: JSON objects."""

from dataclasses import dataclass
from typing import Any

import orjson

from stack.realtime.errors import MalformedFrame

VERSION = "1.0.0"
SAFE_NESTING = 200  # orjson reads 1024 levels and writes 254


@dataclass(frozen=True, slots=True)
class Frame:
    """One message from a client."""

    join_ref: str | None
    ref: str | None
    topic: str
    event: str
    payload: Any


def decode(data: str | bytes) -> Frame:
    """Read one client message, or raise if it is none."""
    if isinstance(data, bytes):
        raise MalformedFrame("binary frames are not read")
    value = _parse_json(data)
    if not isinstance(value, dict):
        raise MalformedFrame("expected a JSON object with topic, event, payload and ref")
    topic, event = value.get("topic"), value.get("event")
    if not isinstance(topic, str) or not isinstance(event, str):
        raise MalformedFrame("topic and event must be strings")
    return Frame(_reference(value.get("join_ref")), _reference(value.get("ref")), topic, event, value.get("payload"))


def encode(topic: str, event: str, payload: Any, ref: str | None = None) -> str:
    """Write one server message; its ref is always there."""
    return orjson.dumps({"topic": topic, "event": event, "payload": payload, "ref": ref}).decode()


def _parse_json(data: str) -> Any:
    """Read JSON that can also be written again: the answer to a join repeats its bindings."""
    try:
        value = orjson.loads(data)
        if data.count("[") + data.count("{") > SAFE_NESTING:
            orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise MalformedFrame("not JSON") from error
    except orjson.JSONEncodeError as error:
        raise MalformedFrame("nested too deeply") from error
    return value


def _reference(value: Any) -> str | None:
    """References are strings; a number is taken as its digits."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise MalformedFrame("ref and join_ref must be strings")
