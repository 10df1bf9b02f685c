"""A person with an organisation and a runner, made the way the dashboard makes them."""

import secrets
import string
import uuid
from dataclasses import dataclass
from typing import Any

import bcrypt
import httpx

from tests.support.stack import RunningStack

BASE62 = string.digits + string.ascii_letters


def make_token() -> tuple[str, str]:
    """Return a runner's token and its hash."""
    token = "ryw_" + "".join(secrets.choice(BASE62) for _ in range(43))
    return token, bcrypt.hashpw(token.encode(), bcrypt.gensalt(8)).decode()


@dataclass(frozen=True)
class Runner:
    """A registered runner and its token."""

    id: str
    token: str
    org_id: str


class Person:
    """Somebody who is signed in."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.headers = {"apikey": stack.publishable_key}
        self.credentials = {"email": f"{uuid.uuid4().hex[:12]}@example.com", "password": secrets.token_hex(12)}
        answer = httpx.post(f"{stack.url}/auth/v1/signup", json=self.credentials, headers=self.headers, timeout=30)
        answer.raise_for_status()
        self.token = str(answer.json()["access_token"])
        self.headers["authorization"] = f"Bearer {self.token}"
        name = f"org-{uuid.uuid4().hex[:10]}"
        self.org_id = str(self.rpc("create_organization", p_name=name, p_slug=name)["id"])

    def rpc(self, name: str, **arguments: Any) -> Any:
        """Call a database function."""
        url = f"{self.stack.url}/rest/v1/rpc/{name}"
        answer = httpx.post(url, json=arguments, headers=self.headers, timeout=30)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def register(self, **options: Any) -> Runner:
        """Register a runner."""
        token, digest = make_token()
        made = self.rpc(
            "register_worker",
            p_org=self.org_id,
            p_name=f"runner-{uuid.uuid4().hex[:8]}",
            p_token_hash=digest,
            p_token_hint=token[-4:],
            p_options=options,
        )
        return Runner(str(made["id"]), token, self.org_id)
