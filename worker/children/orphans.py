"""Processes of a job that left its group: found by a cookie in their environment."""

import os
import signal
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
