"""Tokens of runners and people, and secrets of service accounts: made here, shown once, hashed for the database."""

import secrets
import string
from dataclasses import dataclass, field

RUNNER, SERVICE_ACCOUNT, PERSONAL = "ryw_", "rys_", "ryp_"
ALPHABET = string.ascii_letters + string.digits
TOKEN_LENGTH = 43
COST = 10


@dataclass(frozen=True)
class NewToken:
    """A token with what the database keeps of it."""

    text: str = field(repr=False)
    hash: str
    hint: str


def make_token(prefix: str = RUNNER) -> NewToken:
    """Make a token; only its hash and its last characters ever leave for the database."""
    import bcrypt

    text = _draw(prefix)
    digest = bcrypt.hashpw(text.encode(), bcrypt.gensalt(COST))
    return NewToken(text, digest.decode(), text[-4:])


def make_personal_token() -> NewToken:
    """Make a token of a person's own; the database finds it by its digest, so that has no salt."""
    from hashlib import sha256

    text = _draw(PERSONAL)
    return NewToken(text, sha256(text.encode()).hexdigest(), text[-4:])


def _draw(prefix: str) -> str:
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(TOKEN_LENGTH))
