"""Repositories made by real git, and a server that serves them and records the credentials of each request."""

import base64
import http.server
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.certificates import self_signed

_AUTHOR = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str, **options: Any) -> str:
    """Run git in a folder as the author of a repository does."""
    done = subprocess.run(
        ["git", *_AUTHOR, *arguments], cwd=folder, check=True, capture_output=True, text=True, **options
    )
    return str(done.stdout).strip()


def make_repository(folder: Path, files: dict[str, str], **submodules: str) -> Path:
    """Make a repository with files and with submodules, named after their path, at their addresses."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    git(folder, "add", "-f", ".")
    for name, url in submodules.items():
        add_submodule(folder, name, url)
    git(folder, "commit", "-q", "-m", "first")
    # The files that a server without git of its own serves.
    git(folder, "update-server-info")
    return folder


def add_submodule(folder: Path, name: str, url: str) -> None:
    """Record a submodule as it would be in the tree of a hostile repository: without a request to its server."""
    tip = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", input=_commit(folder)) if ":" in url else ""
    commit = tip or git(Path(url), "rev-parse", "HEAD")
    git(folder, "config", "-f", ".gitmodules", f"submodule.{name}.path", name)
    git(folder, "config", "-f", ".gitmodules", f"submodule.{name}.url", url)
    git(folder, "add", ".gitmodules")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")


def _commit(folder: Path) -> str:
    tree = git(folder, "mktree", input="")
    who = "Test <test@example.com> 1700000000 +0000"
    return f"tree {tree}\nauthor {who}\ncommitter {who}\n\nsome commit\n"


@dataclass
class Listener:
    """A server on this machine's loopback."""

    url: str
    certificate: Path | None = None
    is_smart: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)
    """The path, or what else the request line names, and the credentials that came with it."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def credentials(self) -> set[str]:
        return {seen for _, seen in self.requests if seen}


@contextmanager
def listening(
    folder: Path, *, password: str = "", certificates: Path | None = None, is_smart: bool = True
) -> Iterator[Listener]:
    """Serve a folder's repositories, for a password if one is set, over https if certificates may be kept somewhere."""
    listener = Listener("", is_smart=is_smart)
    handler = partial(_Handler, listener, password, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificates is not None:
        certificates.mkdir()
        listener.certificate, key = self_signed(certificates)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(listener.certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    listener.url = f"{'https' if certificates else 'http'}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Records each request, of any kind: a proxy's client sends whole addresses and CONNECT."""

    def __init__(self, listener: Listener, password: str, *rest: Any, **more: Any) -> None:
        self.listener, self.password = listener, password
        super().__init__(*rest, **more)

    def do_GET(self) -> None:
        """Answer as a git server where git expects one, else with files."""
        sent = self.headers.get("authorization", "").partition(" ")[2]
        self.listener.requests.append((self.path, base64.b64decode(sent).decode()))
        if self.password and not self.listener.requests[-1][1].endswith(f":{self.password}"):
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="git"')
            self.send_header("content-length", "0")
            self.end_headers()
        elif self.listener.is_smart and "git-upload-pack" in self.path:
            self._run_backend()
        else:
            super().do_GET()

    do_POST = do_CONNECT = do_GET  # noqa: N815  (the base class calls them by these names)

    def _run_backend(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        variables = {
            "GIT_PROJECT_ROOT": self.directory, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""), "PATH": os.environ["PATH"],
            "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=variables, check=True, capture_output=True)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            self.send_header(*line.split(": ", 1))
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        return
