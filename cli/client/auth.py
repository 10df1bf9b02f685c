"""Signing in through the project's Auth: a password, or a refresh token, becomes a session."""

import time
from dataclasses import dataclass, field
from typing import Any

from cli.client.api import AGAIN, Api, is_passing, refusal, said_by
from cli.client.http import Connection, Reply
from cli.client.two_steps import Ask, complete, is_half, nobody_to_ask
from cli.errors import CommandError, NoAnswer, SignedOut
from wire.tokens import LENGTH, PERSONAL

PERSONAL_VARIABLE = "RUNYARD_TOKEN"
PERSONAL_GRANT = "urn:runyard:grant-type:personal-token"
PERSONAL_HINT = "Make a new one: on the dashboard under Account, or with `runyard personal-tokens create`."

# Renewed a little early: a token must not expire between here and the database.
EARLY_SECONDS = 30
DEVICE = "/functions/v1/device-login"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
# A renewal at the same moment as another one does not end the login.
CONFLICT = 409


@dataclass(frozen=True)
class PersonSession:
    """A login as Auth gave it."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float
    email: str

    @property
    def is_stale(self) -> bool:
        """Whether the access token has expired, or is about to."""
        return time.time() > self.expires_at - EARLY_SECONDS


def sign_in(connection: Connection, key: str, email: str, password: str, ask: Ask = nobody_to_ask) -> PersonSession:
    """Sign in with a password, and with the code that the account may ask for."""
    said = _grant(connection, key, "password", {"email": email, "password": password})
    return _session(complete(connection, key, said, ask))


def refresh(connection: Connection, key: str, token: str) -> PersonSession:
    """Continue a login; one that was ended elsewhere is reported as expired."""
    if is_personal(token):
        return by_token(connection, token)[0]
    said = _grant(connection, key, "refresh_token", {"refresh_token": token})
    if is_half(said):
        raise SignedOut("The device that this login was confirmed with was removed.", "Sign in again: runyard login.")
    return _session(said)


def by_token(connection: Connection, token: str) -> tuple[PersonSession, str]:
    """A login for a person's own token, and the project's publishable key."""
    said = exchange(connection, token)
    return _session(said), str(said["publishable_key"])


def sign_out(connection: Connection, key: str, token: str) -> None:
    """End this login at the project, too; one that has ended already is not an error."""
    headers = {"apikey": key, "Authorization": f"Bearer {token}"}
    connection.request("POST", "/auth/v1/logout?scope=local", headers, {})


def make_account(operator: Api, email: str, password: str) -> None:
    """Make a confirmed account with the secret key, where it is missing."""
    account = {"email": email, "password": password, "email_confirm": True}
    reply = operator.connection.request("POST", "/auth/v1/admin/users", operator.headers, account)
    if reply.is_error and reply.status != 422:
        raise refusal(f"The account {email} could not be made", reply)


def start_device(connection: Connection, program: str) -> dict[str, Any]:
    """Ask for a code that somebody confirms in a browser."""
    reply = connection.request("POST", DEVICE, {}, {"program": program})
    if reply.is_error:
        raise refusal("device-login", reply)
    return dict(reply.json())


def poll_device(connection: Connection, key: str, device_code: str, ask: Ask) -> PersonSession | None:
    """The login, once somebody has confirmed the code; nothing yet until then, nor from a project that is away."""
    try:
        reply = connection.request("POST", DEVICE, {}, {"grant_type": DEVICE_GRANT, "device_code": device_code})
        said = None if reply.is_error else reply.json()
    except NoAnswer:
        return None
    if said is not None:
        return _seen_here(connection, key, _session(complete(connection, key, said, ask)))
    if is_passing(reply) or "authorization_pending" in reply.text:
        return None
    message, hint = said_by(reply)
    raise SignedOut(message, hint)


def _seen_here(connection: Connection, key: str, session: PersonSession) -> PersonSession:
    """Auth keeps where a login is used from. The function opened this one: now it sees this machine itself."""
    try:
        return refresh(connection, key, session.refresh_token)
    except NoAnswer:
        # The code works for one login: keep the login although its address is missing.
        return session


def _session(said: dict[str, Any]) -> PersonSession:
    expires_at = float(said.get("expires_at") or time.time() + said["expires_in"])
    return PersonSession(said["access_token"], said["refresh_token"], expires_at, said["user"].get("email", ""))


def _grant(connection: Connection, key: str, grant: str, body: dict[str, str]) -> dict[str, Any]:
    reply = connection.request("POST", f"/auth/v1/token?grant_type={grant}", {"apikey": key}, body)
    if reply.is_error:
        raise _not_signed_in(grant, body, reply)
    return dict(reply.json())


def _not_signed_in(grant: str, body: dict[str, str], reply: Reply) -> CommandError:
    problem = refusal("Auth", reply)
    said = problem.message
    if isinstance(problem, NoAnswer):
        return problem
    if grant != "password" and isinstance(problem, SignedOut):
        return problem
    if grant == "password":
        return SignedOut(f"{body['email']} could not sign in. {said}", "Check the address, the password and the key.")
    if reply.status == CONFLICT:
        return NoAnswer(said, AGAIN)
    return SignedOut(f"The login has expired. {said}", "Sign in again: runyard login.")


def is_personal(token: str) -> bool:
    """Whether a text is a personal token, and not what Auth gives to renew a login with."""
    return token.startswith(PERSONAL)


def exchange(connection: Connection, token: str) -> dict[str, Any]:
    """Exchange a token for a login, its owner's address, and the project's publishable key."""
    if not is_personal(token):
        raise SignedOut("That is not a personal token.", f"It begins with {PERSONAL}. {PERSONAL_HINT}")
    if len(token) != len(PERSONAL) + LENGTH:
        raise SignedOut("That personal token is incomplete or has extra characters.", f"Copy it again. {PERSONAL_HINT}")
    body = {"grant_type": PERSONAL_GRANT, "token": token}
    reply = connection.request("POST", "/functions/v1/service-account-token", {}, body)
    if is_passing(reply):
        raise refusal("service-account-token", reply)
    if reply.is_error:
        message, hint = said_by(reply)
        raise SignedOut(message, hint or PERSONAL_HINT)
    said: dict[str, Any] = reply.json()
    # Shaped as Auth's own answer: the token is what the login is renewed with.
    login = {"refresh_token": token, "expires_at": time.time() + float(said["expires_in"])}
    return {**said, **login, "user": {"email": said["email"]}}
