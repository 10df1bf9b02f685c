"""The key that the runner keeps states under while they wait on its disk."""

import os
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_FILE = "state.key"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_MARK = b"RYJ1"


class Unreadable(Exception):
    """The bytes were not sealed with this key under this name, or were damaged."""


class Seal:
    """AES-256-GCM: encrypts, and refuses what was changed by a single bit or put under another name."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def close(self, name: str, content: bytes) -> bytes:
        """Encrypt content under a name."""
        nonce = os.urandom(_NONCE_BYTES)
        return _MARK + nonce + self._cipher.encrypt(nonce, content, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Decrypt what was sealed under this name."""
        start = len(_MARK) + _NONCE_BYTES
        if not sealed.startswith(_MARK) or len(sealed) < start:
            raise Unreadable(f"{name} is not complete.")
        try:
            return self._cipher.decrypt(sealed[len(_MARK) : start], sealed[start:], name.encode())
        except InvalidTag as error:
            raise Unreadable(f"{name} is damaged, or another key was used.") from error


def take_seal(directory: Path) -> Seal:
    """Read the runner's key, or make it: readable by its user alone, and on disk before anything is sealed with it."""
    path = directory / KEY_FILE
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        made = path.with_name(f".{KEY_FILE}.{os.getpid()}")
        write_synced(made, os.urandom(_KEY_BYTES))
        # Two processes may start at once: the first one's key counts for both.
        with suppress(FileExistsError):
            os.link(made, path)
        made.unlink()
        sync_directory(directory)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key of {_KEY_BYTES} bytes.")
    return Seal(key)


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file that only its owner reads, and wait until it is on disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on disk."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
