"""A container's first process: hands signals on, buries what others leave behind, and knows nothing worth reading."""

import os
import signal
from typing import NoReturn

from worker.children.hardening import hide_from_children, wipe_environment

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
