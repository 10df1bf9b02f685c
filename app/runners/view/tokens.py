"""Tokens of runners and people: made here, shown once, kept only as a hash."""

import asyncio
import secrets
import string
from dataclasses import dataclass

import bcrypt

PREFIX = "ryw_"
PERSONAL_PREFIX = "ryp_"
LENGTH = 43  # base62 digits that hold 32 random bytes
COST = 10
HINT_LENGTH = 4
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class NewToken:
    """A token with its hash and hint; only hash and hint leave this process for the database."""

    text: str
    hash: str
    hint: str

    def __repr__(self) -> str:
        """Never show the token in a log."""
        return f"NewToken(…{self.hint})"


def make_text(prefix: str = PREFIX) -> str:
    """Draw a token."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))


def _hash(text: str) -> str:
    return bcrypt.hashpw(text.encode(), bcrypt.gensalt(COST)).decode()


async def make_token() -> NewToken:
    """Make a token; hashing takes a tenth of a second, so it is done off the event loop."""
    text = make_text()
    return NewToken(text, await asyncio.to_thread(_hash, text), text[-HINT_LENGTH:])
