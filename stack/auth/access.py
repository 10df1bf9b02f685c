"""The gateway's door: a request, the key that came with it, and whom it speaks for."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from stack.auth.errors import AuthError, validation
from stack.auth.sessions import Client
from stack.auth.tokens import ApiCaller, KeyRing, identity_of

# Supabase's name for the address that a server asks on behalf of, and ours for what the dashboard shows with it.
FORWARDED_FOR, FORWARDING_KEY = "sb-forwarded-for", "x-runyard-forwarding-key"
LONGEST_ADDRESS = 64


class NoKey(Exception):
    """The request has no `apikey`."""


class WrongKey(Exception):
    """The request's `apikey` is none of ours."""


class Access:
    """Knows the project's keys and turns a request's credentials into an identity."""

    def __init__(self, publishable_key: str, secret_key: str, forwarding_key: str, ring: KeyRing) -> None:
        self._publishable = publishable_key.encode()
        self._secret = secret_key.encode()
        self._forwarding = forwarding_key.encode()
        self.ring = ring
        self.anonymous = identity_of({"role": "anon"})
        self._service = identity_of({"role": "service_role"})

    def key_identity(self, apikey: str | None) -> ApiCaller:
        """The identity of a key alone."""
        if not apikey:
            raise NoKey
        raw = apikey.encode("utf-8", "replace")
        if hmac.compare_digest(raw, self._publishable):
            return self.anonymous
        if hmac.compare_digest(raw, self._secret):
            return self._service
        raise WrongKey

    def forwarded_for(self, headers: Mapping[str, str]) -> str:
        """The client for which a server of ours asks: the functions show the secret key, the dashboard its own; others are not trusted."""
        shown = ((headers.get("apikey", ""), self._secret), (headers.get(FORWARDING_KEY, ""), self._forwarding))
        if not any(hmac.compare_digest(given.encode("utf-8", "replace"), wanted) for given, wanted in shown):
            return ""
        return headers.get(FORWARDED_FOR, "").partition(",")[0].strip()[:LONGEST_ADDRESS]

    def identify(self, apikey: str | None, authorization: str | None) -> ApiCaller:
        """Return the caller of a request: the bearer token decides, the key alone where there is none."""
        key = self.key_identity(apikey)
        token = bearer(authorization)
        if token is None or token == apikey:
            return key
        return self.ring.verify(token)


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header."""
    if not authorization:
        return None
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


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
