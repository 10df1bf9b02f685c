"""A small HTTP server for stand-in APIs: a table of routes, JSON in and out; a redirect answers with its `location`."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Call:
    """One request."""

    parts: tuple[str, ...]
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Route = Callable[[Call], tuple[int, Any]]


@contextmanager
def serve(routes: dict[str, Route]) -> Iterator[str]:
    """Serve routes given as `METHOD pattern`, answering 404 to all else; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each answer waits 40 ms between its head and its body

        def handle_any(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            text = self.rfile.read(size)
            address = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            status, answer = 404, {"message": f"no {self.command} {address.path}"}
            for pattern, route in routes.items():
                method, path = pattern.split(" ", 1)
                found = re.fullmatch(path, address.path)
                if method == self.command and found:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    status, answer = route(Call(found.groups(), query, headers, json.loads(text or "null")))
                    break
            self.reply(status, answer)

        def reply(self, status: int, answer: Any) -> None:
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            if 300 <= status < 400:
                self.send_header("location", answer.get("location", ""))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_PATCH = handle_any  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
