"""Lets containers and pods, which have a network of their own, reach a service on this machine's loopback; and TCP a socket file."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

Target = tuple[str, int] | str


@contextmanager
def forwarded(listen: str, target: Target) -> Iterator[int]:
    """Listen at an address of this machine, on a port that is free there, and hand each connection on; yields the port."""
    server = socket.create_server((listen, 0))
    thread = threading.Thread(target=_serve, args=(server, target), daemon=True)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def _serve(server: socket.socket, target: Target) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:
            return
        try:
            far = _connect(target)
        except OSError:
            near.close()
            continue
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=_pipe, args=(one, other), daemon=True).start()


def _connect(target: Target) -> socket.socket:
    if isinstance(target, tuple):
        return socket.create_connection(target)
    made = socket.socket(socket.AF_UNIX)
    made.connect(target)
    return made


def _pipe(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while block := one.recv(65536):
            other.sendall(block)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
