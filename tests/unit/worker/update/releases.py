"""A server that offers files in all the ways in which an offer can be wrong."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = b"the new program" * 1000


@contextmanager
def releases() -> Iterator[str]:
    """Serve /good, /short (ends early), /lies?to=… (redirects) and nothing else; yields the origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, target = self.path.partition("?to=")
            answers = {"/good": 200, "/short": 200, "/moved": 302}
            self.send_response(answers.get(kind, 404))
            if kind == "/moved":
                self.send_header("location", target)
            body = CONTENT if kind in {"/good", "/short"} else b""
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:100] if kind == "/short" else body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
