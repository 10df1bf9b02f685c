"""Costly work in a few threads, in turns: each owner is served once before any is served again."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stack.auth.errors import too_many

MOST_WAITING = 500
MOST_OF_ONE = 50
T = TypeVar("T")


class Turns:
    """A queue per owner, so that a flood of one delays its own work alone."""

    def __init__(self, threads: int = 2, most_of_one: int = MOST_OF_ONE) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="turns")
        self._free = threads
        self._most_of_one = most_of_one
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread when it is the owner's turn; refuse an owner of which too much waits."""
        if self._free == 0:
            await self._wait(owner)
        else:
            self._free -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._pass_on()

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
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the free thread to the owner that has waited longest for its turn."""
        while self._waiting:
            owner, own = self._waiting.popitem(last=False)
            turn = own.popleft()
            if own:
                self._waiting[owner] = own
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
