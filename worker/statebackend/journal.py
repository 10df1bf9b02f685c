"""An attempt's changes to its state, each on the runner's disk before the runner confirms it as safe.

One file for each entry, numbered, synced with its directory, sealed under the attempt's name; removed when the server has
it. A state that can no longer be delivered is moved aside and never deleted here.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from worker.api.replies import JobRef
from worker.runtime_log import get_logger

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


FOLDER = "state"
_SUFFIX = ".entry"
RESERVE_FILE = "reserve"


class Kind(StrEnum):
    """The operation that an entry requires of the server."""

    PUT = "put"
    UNLOCK = "unlock"


@dataclass(frozen=True)
class Entry:
    """One write."""

    job: int
    attempt: int
    number: int
    kind: Kind
    lock_id: str | None
    body: str
    sha256: str
    written_at: str

    @property
    def ref(self) -> JobRef:
        """The attempt that wrote it."""
        return JobRef(job=self.job, attempt=self.attempt)


class Journal:
    """One attempt's entries in order; safe to be opened again after a crash at any moment."""

    def __init__(self, folder: Path, kept: Path, seal: Seal, ref: JobRef) -> None:
        """Find what an earlier process left; `kept` is where entries go that can never be delivered."""
        self._folder = folder
        self._kept = kept
        self._seal = seal
        self._ref = ref
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._waiting = self._find()
        self._number = max([each.number for each in self._waiting], default=0)
        self.newest: str | None = next((each.body for each in reversed(self._waiting) if each.kind is Kind.PUT), None)

    def __len__(self) -> int:
        """Count the entries that wait."""
        return len(self._waiting)

    @property
    def first(self) -> Entry | None:
        """The entry that is to be delivered next."""
        return self._waiting[0] if self._waiting else None

    def append(self, kind: Kind, lock_id: str | None, body: str = "") -> Entry:
        """Put an entry on disk; when this returns, a power cut does not lose it."""
        number = self._number + 1
        digest = hashlib.sha256(body.encode()).hexdigest()
        now = datetime.now(UTC).isoformat()
        entry = Entry(self._ref.job, self._ref.attempt, number, kind, lock_id, body, digest, now)
        self._write(self._path(number), entry)
        self._number = number
        self._waiting.append(entry)
        if kind is Kind.PUT:
            self.newest = body
        return entry

    def delivered(self, entry: Entry) -> None:
        """Forget the first entry: the server has it. A file that stayed would be delivered again, after newer ones."""
        self._path(entry.number).unlink(missing_ok=True)
        self._take(entry)

    def set_aside(self, entry: Entry) -> Path:
        """Move the first entry out of the way: the server refuses it for good."""
        kept = keep_file(self._path(entry.number), self._kept, self._ref)
        self._take(entry)
        return kept

    def _take(self, entry: Entry) -> None:
        assert self._waiting, "nothing waits"
        assert self._waiting[0] is entry, "entries are delivered in order"
        self._waiting.pop(0)

    def reserve(self, size: int) -> None:
        """Take room on the disk before it is needed: an entry gets it when the disk is full by then."""
        if not hasattr(os, "posix_fallocate"):
            return
        file = os.open(self._folder / RESERVE_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)

    def _write(self, path: Path, entry: Entry) -> None:
        try:
            self._write_once(path, entry)
        except OSError:
            if not (reserve := self._folder / RESERVE_FILE).exists():
                raise
            reserve.unlink()
            self._write_once(path, entry)

    def _write_once(self, path: Path, entry: Entry) -> None:
        part = path.with_suffix(".part")
        try:
            write_synced(part, self._seal.close(_name(entry), json.dumps(asdict(entry)).encode()))
            part.rename(path)
            sync_directory(self._folder)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}{_SUFFIX}"

    def _find(self) -> list[Entry]:
        found = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found.append(read_entry(path, self._seal, f"{self._ref.job}/{self._ref.attempt}/{int(path.stem)}"))
            except (OSError, ValueError, TypeError, Unreadable) as error:
                # Kept for a person: nothing here is ever thrown away because it cannot be read.
                kept = keep_file(path, self._kept, self._ref)
                get_logger("worker.state").error(
                    "an entry of the journal cannot be read", file=str(kept), why=str(error)
                )
        return found


def keep_file(path: Path, kept: Path, ref: JobRef) -> Path:
    """Move an entry's file to where it waits for a person."""
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = kept / f"{ref.job}-{ref.attempt}-{path.name}"
    # Asked again after a disk that failed, it may have been moved already.
    if path.exists():
        path.rename(target)
    sync_directory(kept)
    return target


def keep_journal(folder: Path, kept: Path, ref: JobRef) -> list[Path]:
    """Move a whole journal aside, unread: nobody knows any more what its attempt was."""
    return [keep_file(path, kept, ref) for path in sorted((folder / FOLDER).glob(f"*{_SUFFIX}"))]


def kept_entries(kept: Path, seal: Seal) -> list[tuple[Path, Entry]]:
    """List the entries that the runner set aside and the server does not have yet."""
    found = []
    for path in sorted(kept.glob(f"*{_SUFFIX}")):
        with suppress(OSError, ValueError, TypeError, Unreadable):
            job, attempt, number = path.stem.split("-")
            found.append((path, read_entry(path, seal, f"{job}/{attempt}/{int(number)}")))
    return found


def read_entry(path: Path, seal: Seal, name: str) -> Entry:
    """Read one entry and compare its checksum."""
    entry = Entry(**json.loads(seal.open(name, path.read_bytes())))
    if hashlib.sha256(entry.body.encode()).hexdigest() != entry.sha256:
        raise Unreadable(f"{path} does not match its checksum.")
    return Entry(**{**asdict(entry), "kind": Kind(entry.kind)})


def _name(entry: Entry) -> str:
    return f"{entry.job}/{entry.attempt}/{entry.number}"
