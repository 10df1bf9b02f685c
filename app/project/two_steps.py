"""Two-step sign-in: whether a login lacks its code, giving it, and the devices that make codes. Auth keeps them."""

import base64
import hashlib
import json
import re
import secrets
from dataclasses import dataclass

from app.project.client import AuthSession, Client
from app.project.errors import Refused

ISSUER = "Runyard"
WRONG = "mfa_verification_failed"
WRONG_WORDS = ("That code is wrong.", "Codes change every 30 seconds, and each works once.")
WRONG_RECOVERY = (
    "That recovery code is wrong, or it was used.",
    "Each works once; after ten attempts wait 15 minutes.",
)
RECOVERY_CODES = 10
# Base32: no letter looks like a digit of it.
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class NeedsCode(Refused):
    """The password was right, and the account needs a code as well; `auth` is the session of the password alone."""

    # The first request for a code is not an error, so it has no message.
    message = hint = ""

    def __init__(self, auth: AuthSession, message: str = "", hint: str = "") -> None:
        """Keep the login that has come half way."""
        self.auth = auth
        super().__init__(message, hint, "needs_code")


@dataclass(frozen=True)
class Device:
    id: str
    name: str
    created_at: str


@dataclass(frozen=True)
class NewDevice:
    """A device to be confirmed: what its app reads, shown once."""

    id: str
    picture: str
    secret: str


def is_half(auth: AuthSession) -> bool:
    """Return whether a login has given one factor and its account requires two."""
    return bool(_verified(auth)) and _level(auth.access_token) != "aal2"


def _verified(auth: AuthSession) -> list[str]:
    return [factor.id for factor in auth.user.factors or [] if factor.status == "verified"]


def _level(token: str) -> str:
    """Read a token that Auth itself has just handed over."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return str(claims.get("aal", ""))


async def complete(client: Client, auth: AuthSession, code: str, address: str = "") -> AuthSession:
    """Verify the code where the account requires one; any of the person's devices may have made it."""
    if not is_half(auth):
        return auth
    if not code.strip():
        raise NeedsCode(auth)
    if is_recovery_code(code):
        return await _recover(client, auth, code)
    for factor in _verified(auth):
        try:
            return await _verify(client, auth.access_token, factor, code, address)
        except Refused as error:
            if error.code != WRONG:
                raise NeedsCode(auth, error.message, "Wait a minute and try again.") from error
    raise NeedsCode(auth, *WRONG_WORDS)


async def _recover(client: Client, auth: AuthSession, code: str) -> AuthSession:
    """Sign in without the device: the project removes every device of the account."""
    if not await client.rpc(auth.access_token, "use_recovery_code", {"p_hash": recovery_hash(code)}):
        raise NeedsCode(auth, *WRONG_RECOVERY)
    return auth.model_copy(update={"user": auth.user.model_copy(update={"factors": []})})


def _plain(code: str) -> str:
    return re.sub(r"[\s-]", "", code).lower()


def is_recovery_code(code: str) -> bool:
    """Distinguish a recovery code from the six digits of a device."""
    return re.fullmatch(f"[{ALPHABET}]{{10}}", _plain(code)) is not None


def recovery_hash(code: str) -> str:
    """Hash a recovery code as it is kept; 50 random bits need no salt."""
    return hashlib.sha256(_plain(code).encode()).hexdigest()


async def renew_recovery_codes(client: Client, token: str) -> list[str]:
    """Replace somebody's recovery codes, and return the new ones: they can be read this once."""
    drawn = ["".join(secrets.choice(ALPHABET) for _ in range(10)) for _ in range(RECOVERY_CODES)]
    await client.rpc(token, "set_recovery_codes", {"p_hashes": [recovery_hash(code) for code in drawn]})
    return [f"{code[:5]}-{code[5:]}" for code in drawn]


async def _verify(client: Client, token: str, factor: str, code: str, address: str = "") -> AuthSession:
    challenge = await client.ask_auth("POST", f"factors/{factor}/challenge", token, {}, address)
    given = {"challenge_id": challenge["id"], "code": code.replace(" ", "")}
    said = await client.ask_auth("POST", f"factors/{factor}/verify", token, given, address)
    return AuthSession.model_validate(said)


async def devices(client: Client, token: str) -> list[Device]:
    user = await client.ask_auth("GET", "user", token)
    found = [factor for factor in user.get("factors") or [] if factor["status"] == "verified"]
    return [Device(f["id"], f.get("friendly_name") or "Authenticator app", f["created_at"]) for f in found]


async def add(client: Client, token: str, name: str) -> NewDevice:
    """Begin with a device: its app reads the picture, then its first code confirms it."""
    await _drop_unconfirmed(client, token)
    made = await client.ask_auth(
        "POST", "factors", token, {"factor_type": "totp", "friendly_name": name, "issuer": ISSUER}
    )
    drawn = base64.b64encode(str(made["totp"]["qr_code"]).encode()).decode()
    return NewDevice(made["id"], f"data:image/svg+xml;base64,{drawn}", made["totp"]["secret"])


async def _drop_unconfirmed(client: Client, token: str) -> None:
    """Forget what was begun and left: its name would be taken."""
    user = await client.ask_auth("GET", "user", token)
    for factor in user.get("factors") or []:
        if factor["status"] != "verified":
            await client.ask_auth("DELETE", f"factors/{factor['id']}", token)


async def confirm(client: Client, token: str, factor: str, code: str) -> AuthSession:
    """Confirm a device with a code of it; the login has two factors from then on."""
    try:
        return await _verify(client, token, factor, code)
    except Refused as error:
        if error.code != WRONG:
            raise
        raise Refused(*WRONG_WORDS) from error


async def remove(client: Client, token: str, factor: str) -> None:
    await client.ask_auth("DELETE", f"factors/{factor}", token)
