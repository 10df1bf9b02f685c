"""The demo runners' tokens: made here, kept in a file that only this user reads, hashed for the database."""

import json
import secrets
import string
from pathlib import Path

import bcrypt

ALPHABET = string.ascii_letters + string.digits
TOKEN_LENGTH = 43
COST = 10


class TokenFile:
    """Tokens by the runner's name."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier start has left."""
        self._path = path
        self._tokens: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, name: str) -> dict[str, str] | None:
        """Return id and token of a runner that was registered before."""
        return self._tokens.get(name)

    def put(self, name: str, worker_id: str, token: str) -> dict[str, str]:
        """Keep id and token; nobody else can read the file."""
        self._tokens[name] = {"id": worker_id, "token": token}
        self._path.touch(mode=0o600)
        self._path.chmod(0o600)
        self._path.write_text(json.dumps(self._tokens, indent=2))
        return self._tokens[name]


def make_token() -> tuple[str, str, str]:
    """Make a token; return it with its hash and its hint."""
    token = "ryw_" + "".join(secrets.choice(ALPHABET) for _ in range(TOKEN_LENGTH))
    return token, bcrypt.hashpw(token.encode(), bcrypt.gensalt(COST)).decode(), token[-4:]
