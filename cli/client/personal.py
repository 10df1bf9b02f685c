"""A person's own token: exchanged for a login of some minutes, again and again, as service accounts do it."""

import time
from typing import Any

from cli.client.api import is_passing, refusal, said_by
from cli.client.http import Connection
from cli.errors import SignedOut
from wire.tokens import LENGTH, PERSONAL

VARIABLE = "RUNYARD_TOKEN"
GRANT = "urn:runyard:grant-type:personal-token"
HINT = "Make a new one: on the dashboard under Account, or with `runyard personal-tokens create`."


def is_personal(token: str) -> bool:
    """Whether a text is a personal token, and not what Auth gives to renew a login with."""
    return token.startswith(PERSONAL)


def exchange(connection: Connection, token: str) -> dict[str, Any]:
    """Exchange a token for a login, its owner's address, and the project's publishable key."""
    if not is_personal(token):
        raise SignedOut("That is not a personal token.", f"It begins with {PERSONAL}. {HINT}")
    if len(token) != len(PERSONAL) + LENGTH:
        raise SignedOut("That personal token is incomplete or has extra characters.", f"Copy it again. {HINT}")
    body = {"grant_type": GRANT, "token": token}
    reply = connection.request("POST", "/functions/v1/service-account-token", {}, body)
    if is_passing(reply):
        raise refusal("service-account-token", reply)
    if reply.is_error:
        message, hint = said_by(reply)
        raise SignedOut(message, hint or HINT)
    said: dict[str, Any] = reply.json()
    # Shaped as Auth's own answer: the token is what the login is renewed with.
    login = {"refresh_token": token, "expires_at": time.time() + float(said["expires_in"])}
    return {**said, **login, "user": {"email": said["email"]}}
