"""Runs every check."""

import asyncio

from worker.doctor.check import Check
from worker.doctor.clouds import cloud_rights
from worker.doctor.dispatchers import dispatcher_checks
from worker.doctor.host import host_checks
from worker.doctor.network import network_checks
from worker.settings import Settings


def examine(settings: Settings) -> list[Check]:
    """Return every finding, the machine's first."""
    return [*host_checks(settings), cloud_rights(), *asyncio.run(_outside(settings))]


async def _outside(settings: Settings) -> list[Check]:
    return [*await network_checks(settings), *await dispatcher_checks(settings)]
