"""Invitations: the link carries a secret, the database only its hash."""

import hashlib
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """A link's secret and what the database keeps of it."""

    text: str
    hash: str


def hash_of(text: str) -> str:
    """Hash a link's secret; it is 32 random bytes, so a plain hash is enough."""
    return hashlib.sha256(text.encode()).hexdigest()


def make_secret() -> Secret:
    """Draw a secret for an invitation link; `runyard members accept` takes it too, so none may begin with a dash."""
    text = secrets.token_hex(32)
    return Secret(text, hash_of(text))
