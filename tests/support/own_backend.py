"""Backends of somebody's own code: an HTTP server that keeps one state and remembers every request, and a bucket of S3."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from moto.server import ThreadedMotoServer


@dataclass
class OwnBackend:
    """The state that it keeps, its lock, and the requests that it answered."""

    url: str = ""
    state: bytes = b""
    lock: bytes = b""
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.requests]


@contextmanager
def run_own_backend() -> Iterator[OwnBackend]:
    """Listen on a port of its own until the end."""
    own = OwnBackend()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            own.requests.append((self.command, self.headers.get("authorization", "")))
            status, reply = _answer(own, self.command, body)
            self.send_response(status)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_POST = do_LOCK = do_UNLOCK = answer  # noqa: N815  (http.server looks for these names)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.url = f"http://127.0.0.1:{server.server_port}/state"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield own
    finally:
        server.shutdown()
        server.server_close()


def _answer(own: OwnBackend, method: str, body: bytes) -> tuple[int, bytes]:
    match method:
        case "GET":
            return (200, own.state) if own.state else (404, b"")
        case "POST":
            own.state = body
        case "LOCK" if own.lock:
            return 423, own.lock
        case "LOCK":
            own.lock = body
        case "UNLOCK":
            own.lock = b""
    return 200, b""


@contextmanager
def run_bucket() -> Iterator[Any]:
    """A client of S3 with a bucket called states; its endpoint is the address for others."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    client: Any = boto3.client(
        "s3", region_name="eu-west-1", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="test",
        aws_secret_access_key="test",
    )  # fmt: skip
    try:
        # The servers of one process share their buckets.
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket="states", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        yield client
    finally:
        server.stop()
