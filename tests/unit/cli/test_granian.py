"""The server of gateway and dashboard, and signals that come faster than it handles them."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx

from stack.settings import PROJECT
from tests.support.ports import free_port
from tests.support.waiting import wait_until

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})
"""
# A second signal meets the handler of the first one where that has the event's lock.
MEETS = """
import signal, threading
from granian import cli
from granian.server import common
from cli.granian import run

def serve():
    event = threading.Event()
    common.set_main_signals(lambda *_: event.set())
    with event._cond:
        signal.raise_signal(signal.SIGTERM)
    assert event.wait(60)

cli.entrypoint = serve
run()
"""


def test_a_signal_that_interrupts_the_handling_of_another_does_not_wait_for_itself() -> None:
    subprocess.run([sys.executable, "-c", MEETS], cwd=PROJECT, timeout=60, check=True)


def test_many_signals_at_once_end_the_server(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "cli.granian", "--interface", "asgi", "--port", str(port), "--working-dir"]
    process = subprocess.Popen([*command, str(tmp_path), "served:app"], cwd=PROJECT, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port))
        for _ in range(300):
            process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").text == "here"
    except httpx.TransportError:
        return False
