"""Hardening of the process, so that its children cannot read its secrets."""

import ctypes
import resource
import sys
from collections.abc import Container
from pathlib import Path

_PR_SET_DUMPABLE = 4
# Fields of /proc/self/stat after the name, which may hold blanks.
_ENVIRONMENT_START, _ENVIRONMENT_END = 47, 48


def hide_from_children() -> bool:
    """Make /proc/<pid>/environ and the memory unreadable for processes of the same user.

    Dropping a variable from `os.environ` is not enough: the block that the process was started with stays readable
    under /proc for every child of the same user.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def wipe_environment(names: Container[str] | None = None) -> None:
    """Overwrite variables in the block that the process was started with: those named, else all.

    Nobody finds them under /proc then, not even root. They must have left `os.environ` before.
    """
    if not sys.platform.startswith("linux"):
        return
    facts = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(facts[_ENVIRONMENT_START]), int(facts[_ENVIRONMENT_END])
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value and (names is None or name.decode(errors="replace") in names):
            ctypes.memset(at + len(name) + 1, ord("x"), len(value))
        at += len(entry) + 1
