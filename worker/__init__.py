"""The runner: one asyncio process that opens a session, claims jobs and runs them."""

from worker.version import __version__

__all__ = ["__version__"]
