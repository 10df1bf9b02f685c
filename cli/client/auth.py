"""Signing in through the project's Auth: a password, or a refresh token, becomes a session."""

import time
from dataclasses import dataclass, field
from typing import Any

from cli.client.api import Api, refusal
from cli.client.http import Connection
from cli.errors import SignedOut

# Renewed a little early: a token must not expire between here and the database.
EARLY_SECONDS = 30


@dataclass(frozen=True)
class Session:
    """A login as Auth gave it."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float
    email: str

    @property
    def is_stale(self) -> bool:
        """Whether the access token has expired, or is about to."""
        return time.time() > self.expires_at - EARLY_SECONDS


def sign_in(connection: Connection, key: str, email: str, password: str) -> Session:
    """Sign in with a password."""
    return _grant(connection, key, "password", {"email": email, "password": password})


def refresh(connection: Connection, key: str, token: str) -> Session:
    """Go on with a login; one that was ended elsewhere is said to have expired."""
    return _grant(connection, key, "refresh_token", {"refresh_token": token})


def sign_out(connection: Connection, key: str, token: str) -> None:
    """End this login at the project, too; one that is over already is no error."""
    headers = {"apikey": key, "Authorization": f"Bearer {token}"}
    connection.request("POST", "/auth/v1/logout?scope=local", headers, {})


def make_account(operator: Api, email: str, password: str) -> None:
    """Make a confirmed account with the secret key, where it is missing."""
    account = {"email": email, "password": password, "email_confirm": True}
    reply = operator.connection.request("POST", "/auth/v1/admin/users", operator.headers, account)
    if reply.is_error and reply.status != 422:
        raise refusal(f"The account {email} could not be made", reply)


def _grant(connection: Connection, key: str, grant: str, body: dict[str, str]) -> Session:
    reply = connection.request("POST", f"/auth/v1/token?grant_type={grant}", {"apikey": key}, body)
    if reply.is_error:
        raise _not_signed_in(grant, body, refusal("Auth", reply).message)
    said: dict[str, Any] = reply.json()
    expires_at = float(said.get("expires_at") or time.time() + said["expires_in"])
    return Session(said["access_token"], said["refresh_token"], expires_at, said["user"].get("email", ""))


def _not_signed_in(grant: str, body: dict[str, str], said: str) -> SignedOut:
    if grant == "password":
        return SignedOut(f"{body['email']} could not sign in. {said}", "Check the address, the password and the key.")
    return SignedOut(f"The login has expired. {said}", "Sign in again: runyard login.")
