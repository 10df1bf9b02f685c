"""A stand-in for the agent that ECS puts beside each container: it keeps the requests."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class EcsAgent:
    """Its address, and the requests in their order."""

    url: str = ""
    answer: tuple[int, dict[str, Any]] = (200, {"protection": {}})
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def switches(self) -> list[bool]:
        """Whether protection was requested, each time."""
        return [body["ProtectionEnabled"] for _, body in self.asked]


@contextmanager
def ecs_agent() -> Iterator[EcsAgent]:
    """Serve on a free port of loopback."""
    agent = EcsAgent()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            agent.asked.append((self.path, body))
            status, answer = agent.answer
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    agent.url = f"http://127.0.0.1:{server.server_port}/api/task"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
