"""A receiver of webhooks that a test can make slow, broken or redirecting."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Received:
    """One request: its content, and the answer."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int


@dataclass
class Receiver:
    """The next answer, and every request that arrived."""

    url: str = ""
    status: int = 200
    answer: bytes = b""
    slow: threading.Event = field(default_factory=threading.Event)
    received: list[Received] = field(default_factory=list)

    def accepted(self, path: str) -> list[str]:
        """The event ids that a path took, in the order of their coming."""
        return [each.headers["webhook-id"] for each in self.received if each.path == path and each.status == 200]


@contextmanager
def run_receiver(certificate: Path | None = None, key: Path | None = None) -> Iterator[Receiver]:
    """Listen on a port of its own until the end, with TLS if there is a certificate."""
    receiver = Receiver()
    receiver.slow.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            receiver.slow.wait(30)
            status = receiver.status
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body, status))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.send_header("content-length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.slow.set()
        server.shutdown()
        thread.join(10)
