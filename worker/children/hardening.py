"""Hardening of the process, so that its children cannot read its secrets, and a container's first process, which has none."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Container
from pathlib import Path
from typing import NoReturn

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


_HANDED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


def step_aside_if_first() -> None:
    """Go on in a child where this is the first process, whose environment would otherwise stay readable for every job."""
    if os.getpid() != 1:
        return
    signals = {*_HANDED_ON, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    reading, writing = os.pipe()
    runner = os.fork()
    if runner == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.close(writing)
        # Nothing begins before the first process has forgotten everything.
        os.read(reading, 1)
        os.close(reading)
        return
    hide_from_children()
    os.environ.clear()
    wipe_environment()
    os.close(reading)
    os.close(writing)
    _stay(runner, signals)


def _stay(runner: int, signals: set[signal.Signals]) -> NoReturn:
    while True:
        number = signal.sigwait(signals)
        if number in _HANDED_ON:
            os.kill(runner, number)
            continue
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == runner:
                os._exit(os.waitstatus_to_exitcode(status) % 256 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
            if pid == 0:
                break
