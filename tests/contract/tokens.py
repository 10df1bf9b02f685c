"""Tokens that must not be accepted."""

import base64
import hmac
import json
import time
from typing import Any

import httpx
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from tests.support.stack import Project, RunningStack

ISSUER = "https://project.example/auth/v1"


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a good access token, changed."""
    now = int(time.time())
    good = {"sub": "00000000-0000-0000-0000-000000000001", "role": "service_role", "aud": "authenticated"}
    return {**good, "iss": ISSUER, "iat": now, "exp": now + 600, **changes}


def signed(key: ECKey | OctKey, algorithm: str, kid: str | None = None, **changes: Any) -> str:
    """A token signed with any key."""
    header = {"alg": algorithm, "typ": "JWT"} | ({"kid": kid} if kid else {})
    return jws.serialize_compact(header, json.dumps(claims(**changes)), key, algorithms=[algorithm])


def hmac_signed(secret: bytes, kid: str, **changes: Any) -> str:
    """A token signed with HS256 by hand, since libraries refuse a public key as a secret."""
    parts = (json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}), json.dumps(claims(**changes)))
    body = ".".join(_encoded(part.encode()) for part in parts)
    return f"{body}.{_encoded(hmac.digest(secret, body.encode(), 'sha256'))}"


def unsigned(**changes: Any) -> str:
    """A token of algorithm `none`."""
    parts = (json.dumps({"alg": "none", "typ": "JWT"}), json.dumps(claims(**changes)))
    return ".".join(_encoded(part.encode()) for part in parts) + "."


def tampered(token: str, **changes: Any) -> str:
    """A good token with other claims under the old signature."""
    head, body, signature = token.split(".")
    found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return f"{head}.{_encoded(json.dumps({**found, **changes}).encode())}.{signature}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def assert_refused_in_rest(http: httpx.Client, project: Project, token: str) -> None:
    """The embedded stack refuses an access token with its session; on hosted it lasts until it expires."""
    headers = {"authorization": f"Bearer {token}"}
    done = http.post("/rest/v1/rpc/contract_request", json={}, headers=headers)
    if isinstance(project, RunningStack):
        assert (done.status_code, done.json()["message"]) == (401, "JWT session has ended")
