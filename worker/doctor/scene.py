"""The targets of a probe: files, sockets and memory like those of another job, and the doctor's own process in the runner's place."""

import ctypes
import json
import os
import signal
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from worker.doctor.probe import KEY_CALLS, SESSION_KEYRING, started_at
from worker.settings.load import secret_places

_END_SECONDS, _POLL_SECONDS = 5.0, 0.05
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_KEYCTL_UNLINK = 9


@dataclass(frozen=True)
class Scene:
    """The probe's settings, and the mark of the process that it tries to leave."""

    facts: str
    mark: str

    def end_leftovers(self) -> bool:
        """Return whether a process of the probe still runs after seconds, and end it."""
        ends_at = time.monotonic() + _END_SECONDS
        while (pids := list(self._leftovers())) and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _leftovers(self) -> Iterator[int]:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if entry.read_bytes().split(b"\0")[-2:-1] == [self.mark.encode()]:
                    yield int(entry.parent.name)


@contextmanager
def made_scene(base: Path, environ: Mapping[str, str]) -> Iterator[Scene]:
    """Make what the probe looks for, beside the folders of jobs."""
    mark = f"runyard-doctor-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        other, public = (Path(stack.enter_context(tempfile.TemporaryDirectory(dir=base))) for _ in range(2))
        public.chmod(0o755)
        for folder, mode in ((other, 0o600), (public, 0o644)):
            (folder / "state").touch(mode)
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runyard-")), "socket")
        for address in (str(sockets), f"\0{mark}"):
            stack.enter_context(_listener(address))
        stack.enter_context(_key(mark))
        facts = {
            "pid": os.getpid(),
            "started_at": started_at(os.getpid()),
            "secrets": [str(place) for place in secret_places(environ) if _is_secret(place)],
            "file": str(other / "state"),
            "public_file": str(public / "state"),
            "path_socket": str(sockets),
            "abstract_socket": mark,
            "shared_memory": stack.enter_context(_shared_memory()),
            "mark": mark,
        }
        yield Scene(json.dumps(facts), mark)


@contextmanager
def _listener(address: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(address)
        outside.listen()
        yield


@contextmanager
def _shared_memory() -> Iterator[int]:
    """A piece that only this user may attach; -1 where the system has none, which nobody attaches."""
    libc = ctypes.CDLL(None)
    number = int(libc.shmget(0, 4096, _IPC_CREAT | 0o600))
    try:
        yield number
    finally:
        libc.shmctl(number, _IPC_RMID, None)


@contextmanager
def _key(name: str) -> Iterator[None]:
    """A key in this process's keyring; none where keys cannot be used."""
    libc = ctypes.CDLL(None)
    add, control = KEY_CALLS.get(os.uname().machine, (-1, -1))
    number = libc.syscall(add, b"user", name.encode(), b"secret", 6, SESSION_KEYRING)
    try:
        yield
    finally:
        libc.syscall(control, _KEYCTL_UNLINK, number, SESSION_KEYRING)


def _is_secret(place: Path) -> bool:
    return os.access(place, os.R_OK) and (place.is_file() or any(place.iterdir()))
