"""Signing and checking JSON web tokens, ES256 with our own key."""

import base64
import binascii
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import ECKey

SKEW_SECONDS = 30
CACHE_LIMIT = 4096
LONGEST_TOKEN = 16_384
AUDIENCE = "authenticated"


class Fault(StrEnum):
    """The invalid part of a token: its form, the key it names, its signature, or its claims."""

    FORM = "form"
    KEY = "key"
    SIGNATURE = "signature"
    CLAIMS = "claims"


class TokenError(Exception):
    """A token that is not valid."""

    def __init__(self, message: str, details: str | None = None, *, fault: Fault = Fault.FORM, kid: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.fault = fault
        self.kid = kid

    @property
    def is_claim(self) -> bool:
        """Whether the signature is good and the claims are not."""
        return self.fault is Fault.CLAIMS


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """The caller of the API: a database role and the claims it came with; two with equal claims see the same rows."""

    role: str
    claims: dict[str, Any] = field(compare=False)
    claims_json: bytes

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody signed in: the publishable key, or a token of its role."""
        return self.role == "anon"

    @property
    def session(self) -> str | None:
        """The session at Auth that a token belongs to. A personal token names itself there: the database checks its own row."""
        if "personal_token" in self.claims or "session_id" not in self.claims:
            return None
        return str(self.claims["session_id"])


def identity_of(claims: dict[str, Any]) -> ApiCaller:
    """An identity from claims; without a role claim it is nobody's."""
    role = claims.get("role", "anon")
    text = role if isinstance(role, str) else orjson.dumps(role).decode()
    return ApiCaller(text, claims, orjson.dumps({**claims, "role": text}, option=orjson.OPT_SORT_KEYS))


class KeyRing:
    """The keys that tokens are signed and checked with."""

    def __init__(
        self, signing_jwk: dict[str, Any], jwt_secret: str, issuer: str, now: Callable[[], float] = time.time
    ) -> None:
        self._signing = ECKey.import_key({k: v for k, v in signing_jwk.items() if k != "key_ops"})
        self._kid: str = signing_jwk["kid"]
        self.secret = jwt_secret
        self._issuer = issuer
        self._now = now
        self._believed: OrderedDict[str, ApiCaller] = OrderedDict()

    def digest(self, text: str) -> str:
        """Return the digest that the database keeps of an issued secret; without the key nobody can find eight digits from it."""
        return hmac.digest(self.secret.encode(), text.encode("utf-8", "replace"), "sha256").hex()

    def sign(self, claims: dict[str, Any]) -> str:
        """A compact ES256 token."""
        header = {"alg": "ES256", "kid": self._kid, "typ": "JWT"}
        return jws.serialize_compact(header, orjson.dumps(claims), self._signing, algorithms=["ES256"])

    def verify(self, token: str) -> ApiCaller:
        """Return the caller that a token identifies; raises `TokenError`."""
        identity = self._believed.get(token)
        if identity is None:
            identity = identity_of(self.decode(token))
            self.check_origin(identity.claims)
            self._check_times(identity.claims)
            self._believed[token] = identity
            if len(self._believed) > CACHE_LIMIT:
                self._believed.popitem(last=False)
        else:
            self._check_times(identity.claims)
        return identity

    def decode(self, token: str) -> dict[str, Any]:
        """Check a token's signature and return its claims; the caller checks whether the token is still valid."""
        parts = token.split(".")
        if not token:
            raise TokenError("Empty JWT is sent in Authorization header")
        if len(parts) != 3:
            raise TokenError(f"Expected 3 parts in JWT; got {len(parts)}")
        if len(token) > LONGEST_TOKEN:
            raise TokenError("JWT is too long")
        self._check_header(parts[0])
        try:
            payload = jws.deserialize_compact(token, self._signing, algorithms=["ES256"]).payload
        except (JoseError, ValueError) as error:
            message = "No suitable key was found to decode the JWT"
            fault = Fault.SIGNATURE if isinstance(error, BadSignatureError) else Fault.FORM
            raise TokenError(message, "None of the keys was able to decode the JWT", fault=fault) from error
        try:
            claims = orjson.loads(payload)
        except ValueError as error:
            raise TokenError("Parsing claims failed", fault=Fault.CLAIMS) from error
        if not isinstance(claims, dict):
            raise TokenError("Parsing claims failed", fault=Fault.CLAIMS)
        return claims

    def _check_header(self, encoded_header: str) -> None:
        """Refuse another algorithm or key than our own."""
        try:
            header = orjson.loads(base64.urlsafe_b64decode(encoded_header + "=" * (-len(encoded_header) % 4)))
            algorithm, kid = header.get("alg"), header.get("kid")
        except (ValueError, binascii.Error, AttributeError) as error:
            raise TokenError("JWT cryptographic operation failed") from error
        if algorithm != "ES256":
            details = f"JWT is signed with {algorithm!r}"[:120]
            raise TokenError("Wrong or unsupported encoding algorithm", details, fault=Fault.KEY, kid=kid)
        if kid not in (None, self._kid):
            raise TokenError("No suitable key was found to decode the JWT", fault=Fault.KEY, kid=kid)

    def check_origin(self, claims: dict[str, Any]) -> None:
        """Refuse claims of another issuer or for another audience."""
        if claims.get("iss") != self._issuer:
            raise TokenError("JWT has another issuer", fault=Fault.CLAIMS)
        audience = claims.get("aud")
        found = audience if isinstance(audience, list) else [audience]
        if AUDIENCE not in found:
            raise TokenError("JWT not in audience", fault=Fault.CLAIMS)

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = int(self._now())
        expires_at = _number(claims, "exp")
        if expires_at is None:
            raise TokenError("JWT has no expiry", fault=Fault.CLAIMS)
        if expires_at < now - SKEW_SECONDS:
            raise TokenError("JWT expired", fault=Fault.CLAIMS)
        starts_at = _number(claims, "nbf")
        if starts_at is not None and starts_at > now + SKEW_SECONDS:
            raise TokenError("JWT not yet valid", fault=Fault.CLAIMS)
        issued_at = _number(claims, "iat")
        if issued_at is not None and issued_at > now + SKEW_SECONDS:
            raise TokenError("JWT issued at future", fault=Fault.CLAIMS)


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenError(f"The JWT '{name}' claim must be a number", fault=Fault.CLAIMS)
    return value
