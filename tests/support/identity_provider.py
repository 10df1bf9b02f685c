"""A real OpenID provider for tests: npm's oidc-provider, run by the bun that builds the pages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.npm_tools import install_tool
from tests.support.waiting import wait_until

PACKAGE = ("oidc-provider", "9.13.3", "lib/index.js")
PROGRAM = Path(__file__).parent / "providers" / "oidc_provider.mjs"
CLIENT, SECRET = "runyard", "provider-secret"


@dataclass
class IdentityProvider:
    """Accounts, and who sits at the browser."""

    issuer: str
    folder: Path
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sign_in(self, subject: str = "", **claims: Any) -> None:
        """Give an account these claims, and sign it in from now on; without a subject everybody is refused."""
        if subject:
            email = f"{subject}@example.org"
            self.accounts[subject] = {"email": email, "email_verified": True, "name": subject, "groups": [], **claims}
        self._write(subject)

    def disable(self, subject: str) -> None:
        """Take an account away."""
        del self.accounts[subject]
        self._write("")

    def rotate_keys(self) -> None:
        """Sign with another key from now on, and publish no other."""
        httpx.get(f"{self.issuer}/control/rotate", timeout=30).raise_for_status()

    def _write(self, now: str) -> None:
        fresh = self.folder / "who.json.new"
        fresh.write_text(json.dumps({"now": now, "accounts": self.accounts}))
        fresh.replace(self.folder / "who.json")


@contextmanager
def identity_provider(folder: Path, port: int, callback: str) -> Iterator[IdentityProvider]:
    """Run one; raises `ToolUnavailable` where the registry does not answer."""
    entry = install_tool(*PACKAGE)
    folder.mkdir(parents=True, exist_ok=True)
    provider = IdentityProvider(f"http://127.0.0.1:{port}", folder)
    provider.sign_in()
    command = [str(Path(sys.prefix) / "bin" / "bun"), str(PROGRAM), str(entry), str(port), str(folder), callback]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "ready" in (folder / "log").read_text())
        yield provider
    finally:
        process.kill()
        process.wait()
