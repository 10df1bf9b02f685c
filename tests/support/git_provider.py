"""A stand-in for the API of GitHub, Gitea or GitLab: statuses of commits and comments on pull requests."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    at: float = field(default_factory=time.time)


@dataclass
class GitProvider:
    """The stored objects, the requests that arrived, and the answers that it gives before its usual ones."""

    url: str = ""
    comments: dict[int, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)

    def writes(self) -> list[tuple[str, str]]:
        return [(each.method, each.path) for each in self.requests if each.method != "GET"]

    def answer(self, request: Request) -> tuple[int, dict[str, str], str]:
        self.requests.append(request)
        if self.answers:
            return self.answers.pop(0)
        if "/statuses/" in request.path or request.path.endswith(("/reactions", "/award_emoji")):
            return 201, {}, "{}"
        if request.path.partition("?")[0].endswith(("/pulls", "/merge_requests")):
            return 200, {}, json.dumps(self.pulls)
        return self._comment(request)

    def _comment(self, request: Request) -> tuple[int, dict[str, str], str]:
        if request.method == "GET":
            return 200, {}, json.dumps([{"id": number, "body": body} for number, body in self.comments.items()])
        if request.method == "POST":
            number = max(self.comments, default=100) + 1
            self.comments[number] = request.body["body"]
            return 201, {}, json.dumps({"id": number})
        number = int(request.path.rpartition("/")[2])
        if number not in self.comments:
            return 404, {}, "{}"
        self.comments[number] = request.body["body"]
        return 200, {}, json.dumps({"id": number})


@contextmanager
def run_git_provider() -> Iterator[GitProvider]:
    """Listen on a port of its own until the end."""
    provider = GitProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            came = Request(self.command, self.path, headers, json.loads(text) if text else None)
            status, more, body = provider.answer(came)
            self.send_response(status)
            for name, value in {**more, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(10)
