"""Whom a token speaks for, and hosted's words for one that speaks for nobody."""

import math
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from urllib.parse import unquote

import orjson
from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import JWKRegistry, KeySet, OctKey

from stack.realtime.errors import TokenRefused
from stack.secrets import Secrets

SYMMETRIC = ("HS256", "HS384", "HS512")
ASYMMETRIC = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "EdDSA")
LONGEST_TOKEN = 16_384
NOT_A_JWT = "The token provided is not a valid JWT"


@dataclass(frozen=True, slots=True)
class Identity:
    """Verified claims; two channels with equal claims see the same rows."""

    role: str
    claims: dict[str, Any] = field(compare=False)
    claims_json: str

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody signed in: the publishable key, or a token of its role."""
        return self.role == "anon"

    def sender(self, address: str) -> str:
        """Whose budget a message is taken from: the person's or the runner's, and the address of whoever has no name."""
        subject = self.claims.get("sub")
        return f"{self.role} {subject}" if subject else f"{self.role} at {address}"

    @property
    def expires_at(self) -> float:
        """Seconds since the epoch."""
        return float(self.claims["exp"])


def make_identity(claims: dict[str, Any]) -> Identity:
    """Freeze claims into an identity; the JSON text is what policies read."""
    return Identity(str(claims["role"]), claims, orjson.dumps(claims, option=orjson.OPT_SORT_KEYS).decode())


class TokenVerifier:
    """Checks API keys and tokens against the stack's keys."""

    def __init__(
        self,
        *,
        publishable_key: str,
        secret_key: str,
        jwt_secret: str,
        jwks: list[dict[str, Any]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_keys = {publishable_key: "anon", secret_key: "service_role"}
        self._symmetric = OctKey.import_key(jwt_secret)
        self._keys = KeySet([JWKRegistry.import_key(key) for key in jwks])
        self._clock = clock

    @classmethod
    def of(cls, secrets: Secrets) -> "TokenVerifier":
        """A verifier for the stack's own keys."""
        return cls(
            publishable_key=secrets.publishable_key,
            secret_key=secrets.secret_key,
            jwt_secret=secrets.jwt_secret,
            jwks=[secrets.public_jwk()],
        )

    def identify(self, token: str) -> Identity:
        """The identity of an API key or of a signed token."""
        if len(token) > LONGEST_TOKEN:
            raise TokenRefused("MalformedJWT", NOT_A_JWT)
        role = self._api_keys.get(token)
        if role is not None:
            return make_identity({"role": role, "iss": "supabase", "exp": 1 << 40})
        claims = self._verify("".join(unquote(token).split()))
        self._check(claims)
        return make_identity(claims)

    def _verify(self, token: str) -> dict[str, Any]:
        header = _peek(token)
        algorithm = header.get("alg")
        key: OctKey | KeySet
        if algorithm in SYMMETRIC:
            key = self._symmetric
        elif algorithm in ASYMMETRIC and any(found.kid == header.get("kid") for found in self._keys.keys):
            key = self._keys
        else:
            raise _signer_error(header)
        try:
            return dict(jwt.decode(token, key, algorithms=[str(algorithm)]).claims)
        except BadSignatureError as error:
            raise TokenRefused("JwtSignatureError", "Failed to validate JWT signature") from error
        except (JoseError, ValueError, TypeError) as error:
            raise TokenRefused("MalformedJWT", NOT_A_JWT) from error

    def _check(self, claims: dict[str, Any]) -> None:
        expires_at = claims.get("exp")
        if not isinstance(claims.get("role"), str) or not _is_time(expires_at):
            raise TokenRefused("InvalidJWTToken", "Fields `role` and `exp` are required in JWT")
        late = self._clock() - expires_at
        if late >= 0:
            raise TokenRefused("InvalidJWTToken", f"Token has expired {int(late)} seconds ago")


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _peek(token: str) -> dict[str, Any]:
    """The header before anything is verified, to choose the key."""
    try:
        header = jwt_header(token)
    except (ValueError, TypeError) as error:
        raise TokenRefused("MalformedJWT", NOT_A_JWT) from error
    return header


def jwt_header(token: str) -> dict[str, Any]:
    """The decoded header of a compact token."""
    if token.count(".") != 2:
        raise ValueError("not three parts")
    head = token.split(".", maxsplit=1)[0]
    value = orjson.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _signer_error(header: dict[str, Any]) -> TokenRefused:
    kid = header.get("kid")
    about = f" for key ID (kid) {orjson.dumps(str(kid)).decode()}" if kid is not None else ""
    return TokenRefused(
        "JwtSignerError", f"Failed to generate JWT signer{about}, check your JWT secret or JWKS configuration"
    )
