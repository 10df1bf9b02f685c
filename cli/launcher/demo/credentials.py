"""The demo runners' tokens, kept in a file that only this user reads."""

import json
from pathlib import Path


class TokenFile:
    """Tokens by the runner's name."""

    def __init__(self, path: Path) -> None:
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
