"""A Realtime server in a process of its own, beside the shared PostgreSQL."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey

from stack.secrets import Secrets
from stack.settings import PROJECT
from tests.contract.tokens import ISSUER
from tests.support.ports import free_port
from tests.support.waiting import wait_until

QUICK = {
    "ALLOW_PUBLIC": "true",
    "CONNECT_ERROR_SECONDS": "0.05",
    "CHANNEL_ERROR_SECONDS": "0.05",
    "RETRY_MIN_SECONDS": "0.2",
    "RETRY_MAX_SECONDS": "0.4",
    "STREAM_RETRY_SECONDS": "0.2",
    "TOKEN_THROTTLE_SECONDS": "0",
    # Far beyond what a test takes on a slow machine; those about these limits have their own.
    "IDLE_SECONDS": "3600",
    "POLICY_TIMEOUT_SECONDS": "30",
    # Every test publishes a table: listeners would be notified again at the next check that changes flow.
    "PUBLICATION_SECONDS": "3600",
}


@dataclass(frozen=True)
class RealtimeServer:
    """The server's address, and the keys that sign its tokens."""

    url: str
    secrets: Secrets
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def publishable_key(self) -> str:
        return self.secrets.publishable_key

    @property
    def secret_key(self) -> str:
        return self.secrets.secret_key

    def token(self, role: str = "authenticated", seconds: float = 3600, **claims: Any) -> str:
        """A token as Auth would sign it."""
        good = {"iss": ISSUER, "aud": "authenticated", "role": role, "exp": int(time.time() + seconds)}
        return sign(self.secrets, {**good, **claims})


def sign(secrets: Secrets, claims: dict[str, Any]) -> str:
    """A compact token by the stack's own key."""
    header = {"alg": "ES256", "typ": "JWT", "kid": secrets.signing_jwk["kid"]}
    return jwt.encode(header, claims, ECKey.import_key(secrets.signing_jwk))


@contextmanager
def start_realtime(folder: Path, secrets: Secrets, addresses: list[str], **settings: str) -> Iterator[RealtimeServer]:
    """Run a server with short waits; `settings` are `RUNYARD_REALTIME_*`."""
    port, log = free_port(), folder / "realtime.log"
    own = {f"RUNYARD_REALTIME_{name}": value for name, value in (QUICK | settings).items()}
    own |= {"REALTIME_TEST_SECRETS": secrets.model_dump_json(), "REALTIME_TEST_ADDRESSES": json.dumps(addresses)}
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--factory", "--port", str(port)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "tests.contract.realtime.app:create"], cwd=PROJECT, env=os.environ | own,
            stdout=output, stderr=output,
        )  # fmt: skip
    server = RealtimeServer(f"http://127.0.0.1:{port}", secrets, process, log)
    try:
        wait_until(lambda: _answers(server))
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(server: RealtimeServer) -> bool:
    if server.process.poll() is not None:
        raise ChildProcessError(f"the server ended:\n{server.log.read_text()[-4000:]}")
    try:
        return httpx.get(f"{server.url}/realtime/v1/websocket").status_code == 426
    except httpx.HTTPError:
        return False
