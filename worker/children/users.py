"""Processes that a job left behind, found by a cookie in their environment or by the job's own user."""

import os
import pwd
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

COOKIE_VARIABLE = "RUNYARD_JOB_COOKIE"
_POLL_SECONDS = 0.2


def wait_for_orphans(cookie: str, seconds: float) -> None:
    """Wait for interrupted processes of a dead runner to end; an engine may be writing its state."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and any(_has_cookie(pid, cookie) for pid in _pids()):
        time.sleep(_POLL_SECONDS)


def kill_orphans(cookie: str) -> int:
    """Kill every process that carries the job's cookie and return how many there were."""
    found = [pid for pid in _pids() if _has_cookie(pid, cookie)]
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _pids() -> Iterator[int]:
    proc = Path("/proc")
    if proc.is_dir():
        yield from (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def _has_cookie(pid: int, cookie: str) -> bool:
    if pid == os.getpid():
        return False
    try:
        block = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{COOKIE_VARIABLE}={cookie}".encode() in block.split(b"\0")


# Below 65,536, so that it exists inside of a container's own range as well.
_FIRST, _COUNT = 20_000, 40_000
_ROUNDS = 50


def pick_user() -> int:
    """Return the number of a user that nobody is and that runs nothing."""
    while True:
        user = _FIRST + secrets.randbelow(_COUNT)
        if not _is_known(user) and not any(True for _ in _processes(user)):
            return user


def user_of(root: Path) -> int | None:
    """Return the user that a job's folder was given to."""
    try:
        owner = root.stat().st_uid
    except OSError:
        return None
    return owner if _FIRST <= owner < _FIRST + _COUNT and os.geteuid() == 0 else None


def give_folder(root: Path, user: int) -> None:
    """Give a job's folder and everything in it to its user; nothing of the job runs meanwhile.

    A file with a second name may be somebody else's, and a link is not followed.
    """
    for _, names, files, opened in os.fwalk(root, follow_symlinks=False):
        os.chown(opened, user, user)
        for name in [*files, *names]:
            facts = os.stat(name, dir_fd=opened, follow_symlinks=False)
            is_plain = stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1
            if is_plain and facts.st_uid != user:
                os.chown(name, user, user, dir_fd=opened, follow_symlinks=False)


def end_processes(user: int) -> int:
    """Kill everything that runs as a user, also what has left its group and its environment; return how many."""
    count = 0
    for _ in range(_ROUNDS):
        found = list(_processes(user))
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        count += len(found)
        if not found:
            break
    return count


def _is_known(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _processes(user: int) -> Iterator[int]:
    """Processes of a user that still run; one that has ended waits for its parent and is none."""
    for entry in (each for each in Path("/proc").iterdir() if each.name.isdigit()):
        with suppress(OSError, ValueError, KeyError):
            # Not by the owner of the folder: a process that hides its memory makes that root.
            facts = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
            if str(user) in facts["Uid"].split() and facts["State"][0] not in "ZX":
                yield int(entry.name)
