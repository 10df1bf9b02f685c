"""Ports nobody listens on."""

import socket


def free_port() -> int:
    """A port the kernel just handed out, so that tests can run side by side."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several different ports: all are held until the last is known."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
