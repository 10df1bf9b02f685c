"""Costly work in a few threads, in turns: each owner is served once before any is served again."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stack.auth.errors import too_many

MOST_WAITING = 500
MOST_OF_ONE = 50
REST = 3
# An owner counts as alone when nobody else was served for so long.
COMPANY_SECONDS = 10.0
T = TypeVar("T")


class Turns:
    """A queue per owner, so that a flood of one delays its own work alone.

    An owner never has every thread. While others are served, too, it rests after each turn three times as long as that
    took: a quarter of one processor is the most that its flood costs.
    """

    def __init__(
        self, threads: int = 2, most_of_one: int = MOST_OF_ONE, company_seconds: float = COMPANY_SECONDS
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="turns")
        self._free = threads
        self._share = max(threads - 1, 1)
        self._most_of_one = most_of_one
        self._company_seconds = company_seconds
        self._last_owner = ""
        self._changed_at = float("-inf")
        self._running = Counter[str]()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread when it is the owner's turn; refuse an owner of which too much waits."""
        if self._free and self._running[owner] < self._share:
            self._begin(owner)
        else:
            await self._wait(owner)
        began_at = asyncio.get_running_loop().time()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._end(owner, began_at)

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, owner: str) -> None:
        own = self._waiting.get(owner, ())
        if len(own) >= self._most_of_one or sum(map(len, self._waiting.values())) >= MOST_WAITING:
            raise too_many()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same moment.
            if turn.done() and not turn.cancelled():
                self._end(owner, asyncio.get_running_loop().time())
            raise

    def _begin(self, owner: str) -> None:
        self._free -= 1
        self._running[owner] += 1
        if owner != self._last_owner:
            self._last_owner, self._changed_at = owner, asyncio.get_running_loop().time()

    def _end(self, owner: str, began_at: float) -> None:
        """Free the thread at once, and the owner when it has rested; one that is alone, or has nothing waiting, need not."""
        self._free += 1
        loop = asyncio.get_running_loop()
        now = loop.time()
        if owner in self._waiting and now - self._changed_at < self._company_seconds:
            loop.call_later(REST * (now - began_at), self._release, owner)
            self._serve_waiting()
        else:
            self._release(owner)

    def _release(self, owner: str) -> None:
        self._running[owner] -= 1
        # Counters keep zeros.
        self._running += Counter()
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Give each free thread to the owner that has waited longest for its turn."""
        while self._free and (owner := self._next_owner()) is not None:
            own = self._waiting.pop(owner)
            turn = own.popleft()
            if own:
                self._waiting[owner] = own
            if not turn.done():
                self._begin(owner)
                turn.set_result(None)

    def _next_owner(self) -> str | None:
        return next((owner for owner in self._waiting if self._running[owner] < self._share), None)
