"""What every dispatcher does."""

from typing import Protocol

from worker.dispatch.order import Order


class Execution(Protocol):
    """One executor that was started, and runs one attempt of one job."""

    async def wait(self) -> int:
        """Return the executor's exit code once it has ended, however that came about."""

    async def stop(self) -> None:
        """Ask it to stop: its engine gets one interrupt and time to write its state."""

    async def kill(self) -> None:
        """End it now."""

    async def remove(self) -> None:
        """Leave nothing of it behind."""


class Dispatcher(Protocol):
    """Starts executors in one place."""

    async def start(self, order: Order) -> Execution:
        """Start an executor; the same order twice gives the same execution."""

    async def close(self) -> None:
        """Let go of connections."""
