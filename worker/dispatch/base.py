"""The interface of every dispatcher."""

from typing import Protocol

from worker.dispatch.executor_order import Order

# The executor no longer exists and its exit code is unknown.
LOST = -1


class Execution(Protocol):
    """One executor that was started, and runs one attempt of one job."""

    why: str
    """The reason for its end, in the words of the place where it ran."""

    async def wait(self) -> int:
        """Return the executor's exit code once it has ended, or LOST."""

    async def stop(self) -> None:
        """Ask it to stop: its engine gets one interrupt and time to write its state."""

    async def kill(self) -> None:
        """End it now."""

    async def restart(self) -> bool:
        """Start it once more beside the files that it left, so that it delivers them; False where they no longer exist."""

    async def remove(self) -> None:
        """Leave nothing of it behind."""


class Dispatcher(Protocol):
    """Starts executors in one place."""

    async def start(self, order: Order) -> Execution:
        """Start an executor; the same order twice gives the same execution."""

    async def find(self, name: str) -> Execution | None:
        """Find an executor that an earlier process started, by its order's name; none where there is none any more."""

    async def probe(self) -> None:
        """Raise while no executor could be started: the place does not answer, refuses, or lacks the image."""

    async def engines(self) -> dict[str, str] | None:
        """List the engines of the executors' image, where the place knows them."""

    async def close(self) -> None:
        """Close the connections."""
