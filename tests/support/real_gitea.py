"""A Gitea that is really there: tests that need it are skipped, with a reason, elsewhere."""

import os
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.support.must import unavailable


@dataclass(frozen=True)
class RealGitea:
    """One Gitea on this machine, and an administrator of it."""

    url: str
    user: str
    password: str
    http: httpx.Client = field(repr=False)

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Call its API."""
        answer = self.http.request(method, f"{self.url}/api/v1/{path}", json=body or None)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def push_url(self, repository: str) -> str:
        """Return the address to which this administrator pushes."""
        return f"{self.url.replace('://', f'://{self.user}:{self.password}@')}/{repository}.git"


def find_gitea() -> RealGitea:
    """The Gitea that GITEA_URL, GITEA_USER, GITEA_PASSWORD and GITEA_TOKEN name; or a skipped test."""
    names = ("GITEA_URL", "GITEA_USER", "GITEA_PASSWORD", "GITEA_TOKEN")
    url, user, password, token = (os.environ.get(name, "") for name in names)
    if not (url and user and password and token):
        unavailable("gitea", f"no Gitea: {', '.join(names)} name one on loopback that may send webhooks to loopback")
    http = httpx.Client(headers={"authorization": f"token {token}"}, timeout=60)
    return RealGitea(url.rstrip("/"), user, password, http)


@pytest.fixture(scope="session")
def real_gitea() -> RealGitea:
    """A Gitea, or a skipped test."""
    return find_gitea()
