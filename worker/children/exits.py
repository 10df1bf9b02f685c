"""Learn that a process has ended, even while others hold its pipes open."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_POLL_SECONDS = 0.05


async def exit_of(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the process itself; asyncio's own wait also waits for those who inherited its output."""
    with _exit_event(process.pid) as has_exited:
        while (code := process.poll()) is None:
            if has_exited is None:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await has_exited.wait()
    return code


@contextmanager
def _exit_event(pid: int) -> Iterator[asyncio.Event | None]:
    """Watch a pidfd where the system has one; otherwise the caller polls."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    has_exited = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note() -> None:
        loop.remove_reader(descriptor)
        has_exited.set()

    loop.add_reader(descriptor, note)
    try:
        yield has_exited
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
