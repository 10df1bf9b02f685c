"""Runs every check."""

import asyncio

from worker.doctor.check import Check
from worker.doctor.host import host_checks
from worker.doctor.network import network_checks
from worker.settings import Settings


def examine(settings: Settings) -> list[Check]:
    """Return every finding, the machine's first."""
    return [*host_checks(settings), *asyncio.run(network_checks(settings))]
