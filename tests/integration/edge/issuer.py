"""An identity provider of the test's own: a discovery document, keys, and tokens of every kind."""

import base64
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.unit.worker.dispatch.serving import Call, Route, serve

AUDIENCE = "runyard"


class Issuer:
    """Signs tokens, and counts how often its keys are fetched."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        self.url = ""
        self.named_issuer: str | None = None
        self.statuses = {"discovery": 200, "keys": 200}
        self.fetched = 0

    def discovery(self, _: Call) -> tuple[int, Any]:
        return self.statuses["discovery"], {"issuer": self.named_issuer or self.url, "jwks_uri": f"{self.url}/keys"}

    def keys(self, _: Call) -> tuple[int, Any]:
        self.fetched += 1
        return self.statuses["keys"], {"keys": [self.key.as_dict(private=False)]}

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "repo:acme/infra", "iat": now, "exp": now + 300}
        whole = {**claims, "repository": "acme/infra", "groups": ["ops", "dev"], **changes}
        return {name: value for name, value in whole.items() if value is not None}

    def token(self, **changes: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": "first"}, self.claims(**changes), self.key)

    def unsigned(self) -> str:
        return self._text({"alg": "none"}) + "."

    def signed_with_public_key(self) -> str:
        """The classic: the public key, used as the secret of HS256."""
        text = self._text({"alg": "HS256", "kid": "first"})
        mark = hmac.digest(self.key.as_pem(private=False), text.encode(), "sha256")
        return f"{text}.{encode(mark)}"

    def _text(self, header: dict[str, str]) -> str:
        return ".".join(encode(json.dumps(part).encode()) for part in (header, self.claims()))

    def signed_by_another(self) -> str:
        return jwt.encode({"alg": "RS256", "kid": "first"}, self.claims(), RSAKey.generate_key(2048))


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Serve an issuer."""
    issuer = Issuer()
    routes: dict[str, Route] = {"GET /.well-known/openid-configuration": issuer.discovery, "GET /keys": issuer.keys}
    with serve(routes) as address:
        issuer.url = f"http://{address}"
        yield issuer
