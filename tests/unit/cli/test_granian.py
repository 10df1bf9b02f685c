"""The server of gateway and dashboard, and signals that come faster than it handles them."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from stack.settings import PROJECT
from tests.support.ports import free_port
from tests.support.waiting import wait_until

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_many_signals_at_once_end_the_server(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "served.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "cli.granian", "--interface", "asgi", "--port", str(port), "--working-dir"]
    process = subprocess.Popen([*command, str(tmp_path), "served:app"], cwd=PROJECT, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port))
        for _ in range(300):
            process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").text == "here"
    except httpx.TransportError:
        return False
