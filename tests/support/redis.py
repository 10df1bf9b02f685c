"""A Redis of a test's own."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.waiting import wait_until

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")


@contextmanager
def start_redis(folder: Path) -> Iterator[str]:
    """Run one that keeps nothing, and give its address."""
    (port,) = free_ports(1)
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
