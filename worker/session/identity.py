"""The process's name and its place on disk, held by a lock so that two cannot share it."""

import fcntl
import json
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from worker.errors import ExitCode, Fatal
from worker.files.safe_writer import slug

INSTANCES = "instances"
_LOCK_FILE = "lock"
_BOOT_FILE = "boot.json"


@dataclass(frozen=True)
class RunnerIdentity:
    """The identity that this process sends to the server, with its directory and its lock."""

    worker_id: str
    instance: str
    boot_id: str
    home: Path
    lock: int = -1

    def release(self) -> None:
        """Allow another process of this machine to replace the instance."""
        os.close(self.lock)


def take_identity(worker_id: str, instance: str, working_directory: Path) -> RunnerIdentity:
    """Claim this instance's directory; a living process that holds it is named."""
    home = working_directory / INSTANCES / f"{worker_id}-{slug(instance)}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The descriptor stays open, and the lock held, until the process ends, however it ends.
        lock = os.open(home / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Fatal(
            f"The working directory {working_directory} cannot be used: {error.strerror}.",
            exit_code=ExitCode.SETTINGS,
            hint="Set WorkingDirectory.WorkingDirectory to a directory that this user may write to.",
        ) from error
    _lock(lock, instance)
    return RunnerIdentity(worker_id, instance, _boot_id(home), home, lock)


def _boot_id(home: Path) -> str:
    """Return the id under which the last process of this directory was connected, or a new one.

    The lock proves that the last process is dead, so this one may replace it at once and report what it
    left, instead of waiting until the server has noticed. A copied directory must not do that: the id counts only on
    the machine, and within the start of the machine, that made it.
    """
    here = {"host": socket.gethostname(), "kernel": _kernel_boot()}
    try:
        stored = json.loads((home / _BOOT_FILE).read_text(encoding="utf-8"))
        if {key: stored.get(key) for key in here} == here:
            return str(uuid.UUID(stored["boot_id"]))
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    made = str(uuid.uuid4())
    (home / _BOOT_FILE).write_text(json.dumps({**here, "boot_id": made}), encoding="utf-8")
    return made


def _kernel_boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _lock(lock: int, instance: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        raise Fatal(
            f"Another process on this machine (pid {owner}) already runs as instance {instance!r} of this runner.",
            exit_code=ExitCode.CONFLICT,
            hint="Stop it, or give this one another Runner.Instance name.",
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
