"""Daemons that a test may kill: named by variables, since anyone who kills one must own it."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until


@dataclass(frozen=True)
class OwnDaemon:
    """Processes named by the files with their ids, and the command that starts those that have ended."""

    pid_files: tuple[Path, ...]
    command: tuple[str, ...]

    def end(self, number: signal.Signals) -> None:
        """Send them the signal, and wait until they have ended."""
        for pid in [int(file.read_text()) for file in self.pid_files]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            wait_until(lambda pid=pid: is_gone(pid), timeout_seconds=180)  # type: ignore[misc]

    def start(self, is_up: Callable[[], bool], *more: str) -> None:
        """Start it as a process that outlives the test, again while it does not stay, and wait until it answers."""
        process = self._launch(*more)

        def settled() -> bool:
            nonlocal process
            if is_up():
                return True
            if process.poll() is not None:
                process = self._launch(*more)
            return False

        wait_until(settled, timeout_seconds=180, every_seconds=1)

    def _launch(self, *more: str) -> "subprocess.Popen[bytes]":
        with (self.pid_files[0].parent / "restarted.log").open("ab") as log:
            return subprocess.Popen(
                [*self.command, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def find_own(pids: str, start: str) -> OwnDaemon:
    """Return the daemon that two variables name, or skip the test."""
    files, command = (shlex.split(os.environ.get(name, "")) for name in (pids, start))
    if not files or not command:
        pytest.skip(f"{pids} (files with process ids) and {start} (a command) name nothing that may be killed")
    return OwnDaemon(tuple(map(Path, files)), tuple(command))
