"""A stand-in for GitHub's side of an app: exchanges codes, and gives installation tokens for a right signature."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

APP = 4711
INSTALLATION = 99
CODE = "a-code-of-the-test"
WEBHOOK_SECRET = "a webhook secret of github"
MOST_LIFE_SECONDS = 600


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass
class GitHub:
    """Its address, its key, and the requests that arrived."""

    url: str = ""
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    requests: list[tuple[str, Any]] = field(default_factory=list)

    def pem(self) -> str:
        """The key as GitHub hands it out: PKCS #1."""
        kind = serialization.PrivateFormat.TraditionalOpenSSL
        return self.key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()

    def answer(self, path: str, authorization: str, body: Any) -> tuple[int, Any]:
        """Answer one request."""
        self.requests.append((path, body))
        if path == f"/api/v3/app-manifests/{CODE}/conversions":
            names = {"id": APP, "slug": "runyard-test", "html_url": f"{self.url}/apps/runyard-test"}
            return 201, {**names, "webhook_secret": WEBHOOK_SECRET, "pem": self.pem(), "client_secret": "x"}
        if path == f"/api/v3/app/installations/{INSTALLATION}/access_tokens":
            if not self._is_app(authorization.removeprefix("Bearer ")):
                return 401, {"message": "Bad credentials"}
            return 201, {"token": f"ghs_{len(self.requests)}", "expires_at": "2030-01-01T00:00:00Z"}
        if "/statuses/" in path:
            return (201, {}) if authorization.startswith("Bearer ghs_") else (401, {})
        return 404, {}

    def _is_app(self, token: str) -> bool:
        text, _, signature = token.rpartition(".")
        try:
            self.key.public_key().verify(_decoded(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
            claims = json.loads(_decoded(text.split(".")[1]))
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is refused
            return False
        is_short = claims["exp"] - claims["iat"] <= MOST_LIFE_SECONDS
        return is_short and claims["iss"] == str(APP) and claims["iat"] <= time.time() <= claims["exp"]


@contextmanager
def run_github() -> Iterator[GitHub]:
    """Listen on a port of its own until the end."""
    github = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", "0")))
            body = json.loads(text) if text else None
            status, answer = github.answer(self.path, self.headers.get("authorization", ""), body)
            said = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield github
    finally:
        server.shutdown()
