"""A gate in front of the AWS API: it holds one kind of call until the test has done what it wants to do meanwhile."""

import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

import httpx

DROPPED = {"transfer-encoding", "connection", "content-length", "content-encoding", "date", "server"}


class Gate:
    """Passes everything on, except the one call that it holds."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.held = threading.Event()
        self._open = threading.Event()
        self._wanted = ""
        self._is_done = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.set()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, operation: str, *, is_done: bool = False) -> None:
        """Hold the next call of this operation; with `is_done` it takes effect, and only its answer is lost."""
        self.held.clear()
        self._open.clear()
        self._wanted, self._is_done = operation, is_done

    def release(self) -> None:
        """Hold nothing any more; the call that was held goes nowhere, as its caller is dead."""
        self._wanted = ""
        self._open.set()

    def answer(self, operation: str, send: Callable[[], httpx.Response]) -> httpx.Response | None:
        """Pass a call on and return its answer; a call that is held is never answered."""
        if operation != self._wanted:
            return send()
        if self._is_done:
            send()
        self.held.set()
        self._open.wait(120)
        return None


def _operation(headers: Any, body: bytes) -> str:
    """Name the call: JSON services have it in a header, query services in the body."""
    if target := headers.get("x-amz-target"):
        return str(target).rsplit(".", 1)[-1]
    return (parse_qs(body.decode(errors="replace")).get("Action") or [""])[0]


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each answer waits 40 ms between its head and its body

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
            send = partial(httpx.post, gate.upstream + self.path, content=body, headers=headers, timeout=60)
            answer = gate.answer(_operation(self.headers, body), send)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in DROPPED:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it
            """Be quiet."""

    return Handler
