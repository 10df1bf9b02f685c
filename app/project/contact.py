"""Contact with the project: its silence is noticed in seconds, however long a single call may take."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.project.errors import AppError, Unreachable

TICK_SECONDS = 0.5
# Ticks without an answer after which one is requested. Ticks and not seconds, because while this process itself stands
# still no answer can be read.
QUIET_TICKS = 2
AWAY = ("The database does not answer.", "Try again when this page is live.")
CUT_OFF = ("The database did not answer.", "Check whether it was done when this page is live.")


class Contact:
    """Whether the project answers; while it does not, nothing is sent to it that would be done later."""

    def __init__(self, silence_seconds: float) -> None:
        """Believe that it answers until it has been silent for so long."""
        self._silence_seconds = silence_seconds
        self.is_lost = False
        self._silent_ticks = 0
        self._waiting: set[asyncio.Timeout] = set()

    def note_answer(self) -> None:
        """Take any answer as a sign of contact, a refusal too."""
        self._silent_ticks = 0

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Wait for an answer only while there is contact."""
        if self.is_lost:
            raise Unreachable(*AWAY)
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting.add(limit)
                yield
        except TimeoutError as error:
            raise Unreachable(*CUT_OFF) from error
        except AppError as error:
            if not isinstance(error, Unreachable):
                self.note_answer()
            raise
        finally:
            self._waiting.discard(limit)
        self.note_answer()

    async def watch(self, probe: Callable[[], Awaitable[None]], show: Callable[[], None]) -> None:
        """Probe the project when it was quiet for a moment, and call back when contact is lost or regained."""
        probing: asyncio.Task[None] | None = None
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._silent_ticks += 1
            is_lost = self._silent_ticks * TICK_SECONDS >= self._silence_seconds
            if is_lost is not self.is_lost:
                self.is_lost = is_lost
                for limit in self._waiting if is_lost else ():
                    limit.reschedule(asyncio.get_running_loop().time())
                show()
            if self._silent_ticks >= QUIET_TICKS and (probing is None or probing.done()):
                probing = asyncio.create_task(self._probe(probe))

    async def _probe(self, probe: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._silence_seconds):
                await probe()
        except (Unreachable, TimeoutError):
            return
        except AppError:
            pass
        self.note_answer()
