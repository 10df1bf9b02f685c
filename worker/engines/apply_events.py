"""Following an apply, resource by resource, through the engine's event file."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

_EVERY_SECONDS = 1.0
_STATUS = {"apply_start": "RUNNING", "apply_complete": "SUCCEEDED", "apply_errored": "FAILED"}


class ReadFrom(Protocol):
    """Reads the event file from an offset on; nothing as long as there is none."""

    def __call__(self, *, offset: int) -> bytes | None:
        """Return the present changes."""


class ApplyEvents:
    """Reads new events and marks the resources of a plan summary."""

    def __init__(self, read_from: ReadFrom, summary: dict[str, Any]) -> None:
        """Begin at the file's start, whenever it appears."""
        self._read_from = read_from
        self._offset = 0
        self._resources = {each["address"]: each for each in summary.get("resources", [])}

    def read(self) -> bool:
        """Read what is new and return whether anything changed."""
        data = self._read_from(offset=self._offset) or b""
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        changes = [self._take(line) for line in whole.splitlines()]
        return any(changes)

    def _take(self, line: bytes) -> bool:
        try:
            event = json.loads(line)
            status = _STATUS.get(event.get("type"))
            resource = self._resources.get(event["hook"]["resource"]["addr"]) if status else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        if resource is None or resource.get("status") == status:
            return False
        resource["status"] = status
        return True


@asynccontextmanager
async def follow_apply(
    read_from: ReadFrom, summary: dict[str, Any], on_change: Callable[[], None]
) -> AsyncIterator[None]:
    """Keep the summary's resources up to date while the block runs."""
    events = ApplyEvents(read_from, summary)

    async def follow() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            if events.read():
                on_change()

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        if events.read():
            on_change()
