"""Seals values that the database keeps and must not be able to read, with a key made of the stack's own secret."""

from hashlib import sha256

from joserfc import jwe
from joserfc.jwk import OctKey

HEADER = {"alg": "dir", "enc": "A256GCM"}


class Seal:
    """Seals and opens texts of one purpose; a text sealed for another does not open."""

    def __init__(self, purpose: str, secret: str) -> None:
        self._key = OctKey.import_key(sha256(f"{purpose}:{secret}".encode()).digest())

    def close(self, content: bytes) -> str:
        """Seal the content."""
        return jwe.encrypt_compact(HEADER, content, self._key)

    def open(self, sealed: str) -> bytes:
        """Open sealed content."""
        return jwe.decrypt_compact(sealed, self._key).plaintext or b""
