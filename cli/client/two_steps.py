"""The second step of a sign-in: the code of an authenticator app, where the account requires one."""

from collections.abc import Callable
from typing import Any

from cli.client.api import claims_of, refusal
from cli.client.http import Connection
from cli.errors import SignedOut

# Asks for a code; the text explains what was wrong with the one before, if there was one.
Ask = Callable[[str], str]
TRIES = 3
WRONG = "mfa_verification_failed"


def complete(connection: Connection, key: str, said: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Auth's answer after the code was verified; unchanged where the account requires none."""
    if not is_half(said):
        return said
    factors = _verified(said)
    headers = {"apikey": key, "Authorization": f"Bearer {said['access_token']}"}
    problem = ""
    for _ in range(TRIES):
        code = ask(problem).replace(" ", "")
        for factor in factors:
            whole = _verify(connection, headers, factor, code)
            if whole is not None:
                return whole
        problem = "That code is wrong: codes change every 30 seconds, and each works once."
    raise SignedOut(problem, "Check the clock of the device that makes the codes, and sign in again.")


def is_half(said: dict[str, Any]) -> bool:
    """Whether a login has given one factor and its account asks for two."""
    return bool(_verified(said)) and claims_of(said["access_token"]).get("aal") != "aal2"


def _verified(said: dict[str, Any]) -> list[str]:
    return [one["id"] for one in said["user"].get("factors") or [] if one["status"] == "verified"]


def nobody_to_ask(_: str) -> str:
    """Refuse where no person can enter a code."""
    raise SignedOut(
        "This account requires a code at every sign-in, and there is no terminal to enter it.",
        "In a script use a personal token (RUNYARD_TOKEN): it replaces both steps.",
    )


def _verify(connection: Connection, headers: dict[str, str], factor: str, code: str) -> dict[str, Any] | None:
    """Auth's answer to a code; nothing when it is not the right one."""
    challenge = connection.request("POST", f"/auth/v1/factors/{factor}/challenge", headers, {})
    if challenge.is_error:
        raise refusal("Auth", challenge)
    given = {"challenge_id": challenge.json()["id"], "code": code}
    reply = connection.request("POST", f"/auth/v1/factors/{factor}/verify", headers, given)
    if not reply.is_error:
        return dict(reply.json())
    if WRONG in reply.text:
        return None
    raise refusal("Auth", reply)
