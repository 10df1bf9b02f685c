"""Ports nobody listens on."""

import random
import socket

# Below those that the kernel hands out: no connection that somebody opens meanwhile can take one before its server has it.
PORTS = range(10_000, 32_000)
# Not the tests' own dice, which are the same in every process.
_dice = random.SystemRandom()


def free_port() -> int:
    """A port for a server of the test's own, so that tests can run side by side."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several different ports: all are kept open until the last is known."""
    probes: list[socket.socket] = []
    try:
        while len(probes) < count:
            probe = socket.socket()
            try:
                probe.bind(("127.0.0.1", _dice.choice(PORTS)))
                probes.append(probe)
            except OSError:
                probe.close()
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
