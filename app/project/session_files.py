"""Sessions of a single process that outlive it: encrypted files beside the process, one for each session.

The browser has only its opaque id. A file is named after the id's hash and encrypted with a key that the process is
given (RUNYARD_SESSION_KEY) or keeps beside the files, so a copy of the files alone opens nothing.
"""

import dataclasses
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from app.project.models import BrowserSession, KeptSession
from app.project.sessions import IDLE_SECONDS, MemorySessions, key_of

HEADER = {"alg": "dir", "enc": "A256GCM"}
KEY_FILE = "key"
# A session in use is written again this often, so that reading one does not write each time.
TOUCH_SECONDS = 3600.0

log = structlog.get_logger(__name__)


class FileSessions(MemorySessions):
    """Sessions in memory, and in files for the process that comes after this one."""

    def __init__(self, directory: Path, secret: str = "", clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._directory = directory
        self._written_at: dict[str, float] = {}
        self._key = OctKey.import_key(hashlib.sha256((secret or _kept_secret(directory)).encode()).digest())
        self._drop_old()

    async def get(self, sid: str) -> BrowserSession | None:
        session = await super().get(sid) or self._read(sid)
        # Asked for each tab with each change: the file itself is not asked how old it is.
        if session is not None and self._clock() - self._written_at.get(sid, 0.0) > TOUCH_SECONDS:
            self._write(session)
        return session

    async def put(self, session: BrowserSession) -> None:
        await super().put(session)
        self._written_at = {sid: at for sid, at in self._written_at.items() if sid in self._rows}
        self._write(session)

    async def delete(self, sid: str) -> None:
        await super().delete(sid)
        self._path(sid).unlink(missing_ok=True)

    async def of(self, user_id: str) -> list[KeptSession]:
        held = await super().of(user_id)
        known = {kept.key for kept in held}
        left = [self._kept(path) for path in self._paths() if path.stem not in known]
        return held + [kept for kept in left if kept is not None and kept.session.user_id == user_id]

    def _kept(self, path: Path) -> KeptSession | None:
        session = self._open(path)
        age = self._age(session.sid) if session is not None else IDLE_SECONDS
        if session is None or age >= IDLE_SECONDS:
            return None
        return KeptSession(key_of(session.sid), session, self._clock() - age)

    async def end_others(self, user_id: str, sid: str) -> None:
        for path in self._paths():
            session = self._open(path)
            if session is not None and session.user_id == user_id and session.sid != sid:
                path.unlink(missing_ok=True)
        await super().end_others(user_id, sid)

    def _path(self, sid: str) -> Path:
        return self._directory / f"{key_of(sid)}.session"

    def _paths(self) -> list[Path]:
        return list(self._directory.glob("*.session"))

    def _age(self, sid: str) -> float:
        try:
            return self._clock() - self._path(sid).stat().st_mtime
        except OSError:
            return float("inf")

    def _write(self, session: BrowserSession) -> None:
        body = json.dumps(dataclasses.asdict(session)).encode()
        path = self._path(session.sid)
        new = path.with_suffix(f".{secrets.token_hex(4)}.new")
        new.touch(mode=0o600)
        new.write_text(jwe.encrypt_compact(HEADER, body, self._key), encoding="ascii")
        os.utime(new, (self._clock(), self._clock()))
        new.replace(path)
        self._written_at[session.sid] = self._clock()

    def _read(self, sid: str) -> BrowserSession | None:
        path, age = self._path(sid), self._age(sid)
        if age > IDLE_SECONDS:
            path.unlink(missing_ok=True)
            return None
        session = self._open(path)
        if session is None or session.sid != sid:
            return None
        self._rows[sid] = (session, self._clock() + IDLE_SECONDS)
        self._written_at[sid] = self._clock() - age
        return session

    def _open(self, path: Path) -> BrowserSession | None:
        try:
            opened = jwe.decrypt_compact(path.read_text(encoding="ascii"), self._key)
            return BrowserSession(**json.loads(opened.plaintext or b""))
        except FileNotFoundError:
            return None
        except (JoseError, OSError, ValueError, TypeError) as error:
            # Another key, or half a file: its owner signs in again.
            log.warning("session_not_readable", reason=type(error).__name__)
            path.unlink(missing_ok=True)
            return None

    def _drop_old(self) -> None:
        for path in self._paths():
            if self._clock() - path.stat().st_mtime > IDLE_SECONDS:
                path.unlink(missing_ok=True)


def _kept_secret(directory: Path) -> str:
    """Read the key that was made with the folder, or make it."""
    path = directory / KEY_FILE
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    return path.read_text(encoding="ascii")
