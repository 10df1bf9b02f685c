"""A request to the Auth service."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from stack.auth.access import bearer
from stack.auth.errors import AuthError, validation
from stack.auth.sessions import Client
from stack.auth.tokens import ApiCaller


@dataclass(frozen=True)
class Request:
    """One request, its body read and its key checked."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    key: ApiCaller
    apikey: str
    client: Client

    @property
    def token(self) -> str | None:
        """The bearer token, when it is one and not the key again."""
        token = bearer(self.headers.get("authorization"))
        return None if token == self.apikey else token

    def json(self) -> dict[str, Any]:
        """The body's JSON object."""
        try:
            found = orjson.loads(self.body)
        except ValueError as error:
            raise AuthError(400, "bad_json", "Could not parse request body as JSON") from error
        if not isinstance(found, dict):
            raise AuthError(400, "bad_json", "Could not parse request body as JSON: an object is expected")
        return found


@dataclass(frozen=True)
class Answer:
    """The answer of a handler."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def text_of(values: dict[str, Any], name: str) -> str | None:
    """A text value, or None where there is none."""
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise validation(f"{name} must be a string")
    if "\0" in value:
        raise validation(f"{name} must not contain a NUL character")
    return value


def parse_pairs(raw: bytes) -> dict[str, str]:
    """The query string; the last of two equal names wins."""
    try:
        return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError as error:
        raise validation("The query string cannot be read") from error
