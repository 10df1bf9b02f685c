"""Tokens of runners and people, and secrets of service accounts: made here, shown once, hashed for the database."""

import base64
import secrets
import string
from dataclasses import dataclass, field

RUNNER, SERVICE_ACCOUNT, PERSONAL = "ryw_", "rys_", "ryp_"
ALPHABET = string.ascii_letters + string.digits
LENGTH = 43  # base62 digits that hold 32 random bytes
COST = 10
HINT_LENGTH = 4


@dataclass(frozen=True)
class NewToken:
    """A token with its hash and hint; only these two ever leave for the database, and no log shows the token."""

    text: str = field(repr=False)
    hash: str
    hint: str


def make_token(prefix: str = RUNNER) -> NewToken:
    """Make a token; hashing takes a tenth of a second, so an event loop calls this in a thread."""
    import bcrypt

    text = _draw(prefix)
    return NewToken(text, bcrypt.hashpw(text.encode(), bcrypt.gensalt(COST)).decode(), text[-HINT_LENGTH:])


def make_personal_token() -> NewToken:
    """Make a token of a person's own; the database finds it by its digest, so that has no salt."""
    from hashlib import sha256

    text = _draw(PERSONAL)
    return NewToken(text, sha256(text.encode()).hexdigest(), text[-HINT_LENGTH:])


def make_webhook_secret(provider: str) -> str:
    """Make a secret for a git host's webhook; Standard Webhooks write theirs in base64 after a mark."""
    if provider == "generic":
        return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    return secrets.token_urlsafe(32)


def _draw(prefix: str) -> str:
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
