"""Finds the caller that a token identifies; uses hosted's words for a token that identifies nobody."""

import math
import time
from collections.abc import Callable
from typing import Any, TypeGuard
from urllib.parse import unquote

import orjson

from stack.auth.tokens import ApiCaller, Fault, KeyRing, TokenError, identity_of
from stack.realtime.errors import TokenRefused
from stack.secrets import Secrets


class TokenVerifier:
    """Checks API keys and tokens against the stack's keys."""

    def __init__(
        self, publishable_key: str, secret_key: str, ring: KeyRing, clock: Callable[[], float] = time.time
    ) -> None:
        self._api_keys = {publishable_key: "anon", secret_key: "service_role"}
        self._ring = ring
        self._clock = clock

    @classmethod
    def of(cls, secrets: Secrets, issuer: str) -> "TokenVerifier":
        """A verifier for the stack's own keys."""
        ring = KeyRing(secrets.signing_jwk, secrets.jwt_secret, issuer)
        return cls(secrets.publishable_key, secrets.secret_key, ring)

    def identify(self, token: str) -> ApiCaller:
        """The identity of an API key or of a signed token."""
        role = self._api_keys.get(token)
        if role is not None:
            return identity_of({"role": role, "iss": "supabase", "exp": 1 << 40})
        try:
            claims = self._ring.decode("".join(unquote(token).split()))
        except TokenError as error:
            raise _refused(error) from error
        self._check(claims)
        return identity_of(claims)

    def _check(self, claims: dict[str, Any]) -> None:
        expires_at = claims.get("exp")
        if not isinstance(claims.get("role"), str) or not _is_time(expires_at):
            raise TokenRefused("InvalidJWTToken", "Fields `role` and `exp` are required in JWT")
        try:
            self._ring.check_origin(claims)
        except TokenError as error:
            raise TokenRefused("InvalidJWTToken", error.message) from error
        late = self._clock() - expires_at
        if late >= 0:
            raise TokenRefused("InvalidJWTToken", f"Token has expired {int(late)} seconds ago")


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refused(error: TokenError) -> TokenRefused:
    if error.fault is Fault.SIGNATURE:
        return TokenRefused("JwtSignatureError", "Failed to validate JWT signature")
    if error.fault is Fault.KEY:
        about = f" for key ID (kid) {orjson.dumps(str(error.kid)).decode()}" if error.kid is not None else ""
        message = f"Failed to generate JWT signer{about}, check your JWT secret or JWKS configuration"
        return TokenRefused("JwtSignerError", message)
    return TokenRefused("MalformedJWT", "The token provided is not a valid JWT")
