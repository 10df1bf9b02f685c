"""The right to make an account: for the first person, then for invited people, or for everybody where that is chosen."""

import hashlib
import stat
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.stack import RunningStack, start_stack

PASSWORD = "correct horse battery"


@pytest.fixture
def closed(shared_tmp_path: Path) -> Iterator[RunningStack]:
    """A stack as people start it: nobody chose anything about sign-up."""
    with start_stack(shared_tmp_path / "home", "--no-dashboard", "--no-demo", RUNYARD_SIGN_UP="invite") as stack:
        yield stack


def sign_up(stack: RunningStack, email: str) -> httpx.Response:
    headers = {"apikey": stack.publishable_key}
    body = {"email": email, "password": PASSWORD}
    return httpx.post(f"{stack.url}/auth/v1/signup", json=body, headers=headers, timeout=30)


def is_closed(stack: RunningStack) -> bool:
    """Whether the project tells pages to offer no sign-up."""
    answer = httpx.get(f"{stack.url}/auth/v1/settings", headers={"apikey": stack.publishable_key}, timeout=30)
    return bool(answer.json()["disable_signup"])


def rpc(stack: RunningStack, token: str, name: str, **arguments: object) -> dict[str, str]:
    headers = {"apikey": stack.publishable_key, "authorization": f"Bearer {token}"}
    done = httpx.post(f"{stack.url}/rest/v1/rpc/{name}", json=arguments, headers=headers, timeout=30)
    assert done.is_success, done.text
    found: dict[str, str] = done.json()
    return found


def test_only_the_first_account_and_invited_people_can_sign_up(closed: RunningStack) -> None:
    assert not is_closed(closed)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: sign_up(closed, f"first-{number}@example.com"), range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 422, 422, 422]
    assert is_closed(closed)
    owner = next(answer.json()["access_token"] for answer in answers if answer.status_code == 200)
    refused = sign_up(closed, "guest@example.com")
    assert (refused.status_code, refused.json()["error_code"]) == (422, "signup_disabled")
    org = rpc(closed, owner, "create_organization", p_name="Acme", p_slug="acme")["id"]
    secret = hashlib.sha256(b"link").hexdigest()
    invitation = rpc(
        closed, owner, "invite_member", p_org=org, p_email="guest@example.com", p_role="viewer", p_token_hash=secret
    )
    assert sign_up(closed, f"{uuid.uuid4().hex}@example.com").status_code == 422
    guest = sign_up(closed, "Guest@example.com")
    assert guest.status_code == 200, guest.text
    token = guest.json()["access_token"]
    member = rpc(closed, token, "accept_invitation", p_invitation=invitation["id"], p_token_hash=secret)
    assert member["role"] == "viewer"
    _check_nobody_else_reads(closed.settings.home)


def _check_nobody_else_reads(home: Path) -> None:
    """The state folder is its owner's: as root, PostgreSQL's account passes through it, and sees nothing."""
    assert stat.S_IMODE(home.stat().st_mode) in (0o700, 0o711)
    logs = list((home / "logs").iterdir())
    assert logs
    assert {stat.S_IMODE(log.stat().st_mode) for log in logs} == {0o600}
