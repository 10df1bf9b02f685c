"""An encrypted file: scrypt makes the key of a passphrase, and each piece is sealed with its place and the header.

The nonce of a piece is its number and whether it is the last one, so pieces can be neither moved, repeated nor cut off.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from stack.errors import Damaged, StackError

MAGIC = b"runyard-backup-1\n"
PIECE = 1024 * 1024
TAG = 16
LONGEST_HEADER = 64 * 1024
KEY_BYTES, CHECK_BYTES = 32, 16
COST = 2**17
NOT_A_BACKUP = "Name a file that `runyard backup` wrote."


class WrongPassphrase(StackError):
    """The passphrase does not belong to the file."""


def write_sealed(file: BinaryIO, passphrase: str, facts: dict[str, Any], content: Iterable[bytes]) -> None:
    """Write a header that anybody can read, and the content for those who know the passphrase."""
    salt = os.urandom(16)
    key, check = _derive(passphrase, salt, COST)
    opening = {"salt": b64encode(salt).decode(), "cost": COST, "check": b64encode(check).decode()}
    header = json.dumps({**facts, "key": opening}).encode() + b"\n"
    file.write(MAGIC + header)
    cipher = ChaCha20Poly1305(key)
    pieces = enumerate(_marked(_pieces(content)))
    file.writelines(cipher.encrypt(_nonce(number, is_last), piece, header) for number, (piece, is_last) in pieces)


def read_facts(file: BinaryIO) -> tuple[bytes, dict[str, Any]]:
    """The header as it is written and what it says; the file's position is the first piece afterwards."""
    if file.read(len(MAGIC)) != MAGIC:
        raise Damaged("The file is not a backup of Runyard, or not one that this version reads.", NOT_A_BACKUP)
    header = file.readline(LONGEST_HEADER)
    try:
        facts: dict[str, Any] = json.loads(header)
    except ValueError as error:
        raise Damaged("The header of the backup is damaged.", "Use another backup.") from error
    return header, facts


def read_sealed(file: BinaryIO, passphrase: str, header: bytes, facts: dict[str, Any]) -> Iterator[bytes]:
    """The content, piece by piece, each one verified before it is handed out."""
    try:
        opening = facts["key"]
        salt, wanted, cost = b64decode(opening["salt"]), b64decode(opening["check"]), int(opening["cost"])
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("The header of the backup is damaged.", "Use another backup.") from error
    if cost > COST:
        raise Damaged("The header of the backup names an unknown cost of its key.", "Use a newer Runyard.")
    key, check = _derive(passphrase, salt, cost)
    if check != wanted:
        raise WrongPassphrase("The passphrase does not fit this backup.", "Nothing was changed. Try another one.")
    return _opened(file, ChaCha20Poly1305(key), header)


def _opened(file: BinaryIO, cipher: ChaCha20Poly1305, header: bytes) -> Iterator[bytes]:
    sealed = iter(lambda: file.read(PIECE + TAG), b"")
    for number, (piece, is_last) in enumerate(_marked(sealed)):
        try:
            yield cipher.decrypt(_nonce(number, is_last), piece, header)
        except InvalidTag as error:
            message = f"The backup is damaged or incomplete at byte {number * (PIECE + TAG)} of its content."
            raise Damaged(message, "Use another copy of it, or another backup.") from error


def _derive(passphrase: str, salt: bytes, cost: int) -> tuple[bytes, bytes]:
    """The key, and a value that tells a wrong passphrase from a damaged file."""
    made = Scrypt(salt=salt, length=KEY_BYTES + CHECK_BYTES, n=cost, r=8, p=1).derive(passphrase.encode())
    return made[:KEY_BYTES], made[KEY_BYTES:]


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if is_last else b"\x00")


def _pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size; the last may be shorter."""
    held = bytearray()
    for part in content:
        held += part
        while len(held) >= PIECE:
            yield bytes(held[:PIECE])
            del held[:PIECE]
    yield bytes(held)


def _marked(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each piece with whether it is the last one; nothing at all counts as one empty piece."""
    before: bytes | None = None
    for piece in pieces:
        if before is not None:
            yield before, False
        before = piece
    yield before or b"", True
