"""The signals that ask a process to leave."""

import asyncio
import signal

STOPPING = (signal.SIGTERM, signal.SIGINT)


def ignore_more() -> None:
    """Nothing is left to stop: one more signal must not change the exit code while the interpreter ends."""
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
