"""What the process does to itself so that its children cannot read its secrets."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


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
