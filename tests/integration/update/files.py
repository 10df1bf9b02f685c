"""Releases to update to: real one-file programs of this runner, and an https server that offers them."""

import hashlib
import http.server
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stack.settings import PROJECT
from tests.support.certificates import self_signed


def build(folder: Path, version: str, *, damage: tuple[str, str, str] | None = None) -> Path:
    """Build a PEX of this working tree that reports `version` as its own; its dependencies are those of this Python.

    `damage` is (file, text, replacement): what is wrong with the release.
    """
    source, made = folder / f"source-{version}", folder / f"{version}.pex"
    for package in ("wire", "worker"):
        shutil.copytree(PROJECT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "worker/version.py").write_text(f'"""Which."""\n\n__version__ = "{version}"\n')
    if damage:
        file = source / damage[0]
        text = file.read_text()
        assert damage[1] in text
        file.write_text(text.replace(damage[1], damage[2], 1))
    command = [
        sys.executable,
        "-m",
        "pex",
        "--package",
        f"wire@{source}",
        "--package",
        f"worker@{source}",
        "--entry-point",
        "worker.cli:main",
    ]
    command += ["--inherit-path=fallback", "--python-shebang", sys.executable, "--output-file", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return made


def artifact(file: Path, name: str, origin: str) -> dict[str, Any]:
    """Describe a file as a release does."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {"name": name, "url": f"{origin}/{file.name}", "sha256": digest}


@contextmanager
def offered(folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve a folder over https; yields the origin and the certificate to trust."""
    certificate, key = self_signed(folder)
    handler = partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", certificate
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it
        """Be quiet."""
