"""The stack's secrets: generated once, kept in one file that only its owner may read."""

import hmac
import json
import os
import secrets
import stat
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joserfc.jwk import ECKey, RSAKey
from pydantic import BaseModel, ConfigDict

from stack.errors import StackError
from stack.settings import command

LOGIN_ROLES = (
    "supabase_admin",
    "postgres",
    "authenticator",
    "supabase_auth_admin",
    "supabase_realtime_admin",
    "supabase_replication_admin",
)
ALPHABET = string.ascii_letters + string.digits


class Secrets(BaseModel):
    """Everything that must not be guessed and not be logged."""

    model_config = ConfigDict(frozen=True)

    database_passwords: dict[str, str]
    publishable_key: str
    secret_key: str
    signing_jwk: dict[str, Any]
    jwt_secret: str
    demo_password: str

    def __repr__(self) -> str:
        """Show nothing: a traceback or a log line must not carry the values."""
        return "Secrets(…)"

    __str__ = __repr__

    def password(self, role: str) -> str:
        """The database password of one login role."""
        return self.database_passwords[role]

    @property
    def forwarding_key(self) -> str:
        """The key that the dashboard sends with the address of the browser for which it calls Auth; it has no other use."""
        return hmac.new(self.jwt_secret.encode(), b"runyard forwarding", "sha256").hexdigest()

    def public_jwk(self) -> dict[str, Any]:
        """The signing key as `jwks.json` publishes it."""
        public = {key: value for key, value in self.signing_jwk.items() if key != "d"}
        return {**public, "key_ops": ["verify"]}


def load_secrets(path: Path) -> Secrets:
    """Read the secrets, making them on the first call."""
    text = _read_or_make(path, lambda: _generate().model_dump())
    try:
        return Secrets.model_validate_json(text)
    except ValueError as error:
        message = f"{path} cannot be read as the stack's secrets."
        raise StackError(message, f"Restore it, or run `{command('reset')}` to start from nothing.") from error


def load_identity_keys(path: Path) -> str:
    """Read the keys that sign identities of jobs, making one on the first call.

    They have a file of their own: a person replaces them, with the old and the new one in it for a while.
    """
    return _read_or_make(path, lambda: {"keys": [_identity_jwk()]})


def write_private(path: Path, text: str) -> None:
    """Put a file that only its owner may read into the state folder, whole or not at all."""
    _write_temporary(path, text).replace(path)
    _close(path.parent)


def _read_or_make(path: Path, make: Callable[[], dict[str, Any]]) -> str:
    if not path.exists():
        _write_once(path, make())
    _close(path.parent)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text()


def _generate() -> Secrets:
    return Secrets(
        database_passwords={role: _random(32) for role in LOGIN_ROLES},
        publishable_key=f"sb_publishable_{_random(22)}_{_random(8)}",
        secret_key=f"sb_secret_{_random(22)}_{_random(8)}",
        signing_jwk=_signing_jwk(),
        jwt_secret=_random(48),
        demo_password=f"demo-{_random(12)}",
    )


def _signing_jwk() -> dict[str, Any]:
    key = ECKey.generate_key("P-256", {"alg": "ES256", "use": "sig"}, private=True)
    jwk: dict[str, Any] = dict(key.as_dict(private=True))
    return {**jwk, "kid": key.thumbprint(), "key_ops": ["sign", "verify"]}


def _identity_jwk() -> dict[str, Any]:
    key = RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, private=True)
    return {**key.as_dict(private=True), "kid": key.thumbprint()}


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _close(folder: Path) -> None:
    """Nobody else looks into the state folder; as root, PostgreSQL's own account must be able to pass through it."""
    mode = 0o711 if os.geteuid() == 0 else 0o700
    if stat.S_IMODE(folder.stat().st_mode) & ~mode:
        folder.chmod(mode)


def _write_once(path: Path, made: dict[str, Any]) -> None:
    """Link a finished file into place, so that two starts at once agree on one set."""
    temporary = _write_temporary(path, json.dumps(made, indent=2))
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _write_temporary(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return temporary
