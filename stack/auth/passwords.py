"""bcrypt, off the event loop, a few at a time, in turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.resources import files
from typing import TypeVar

import bcrypt

from stack.auth.errors import AuthError, too_many, validation

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


LONGEST_BYTES = 72


class Passwords:
    """Hashes and checks passwords; bcrypt frees the interpreter lock, so threads are enough."""

    def __init__(self, rounds: int, threads: int = 2, shortest: int = 6) -> None:
        self._rounds = rounds
        self._shortest = shortest
        self._turns = Turns(threads)
        # Checked where there is no user, so that an unknown address takes as long as a wrong password.
        self._nobody = bcrypt.hashpw(b"nobody", bcrypt.gensalt(rounds))

    async def hash(self, password: str, *, owner: str, is_checked: bool = True) -> str:
        """A `$2b$` hash of an acceptable password; anyone who administers may set a short one, as on hosted."""
        check_strength(password, self._shortest if is_checked else 1)
        work = partial(bcrypt.hashpw, password.encode(), bcrypt.gensalt(self._rounds))
        return (await self._turns.run(owner, work)).decode()

    async def verify(self, password: str, hashed: str | None, *, owner: str) -> bool:
        """Whether a password fits; as slow for nobody's as for somebody's."""
        given = password.encode("utf-8", "replace")[:LONGEST_BYTES]
        against = hashed.encode() if hashed else self._nobody
        is_right = await self._turns.run(owner, partial(_check, given, against))
        return is_right and hashed is not None and len(password.encode("utf-8", "replace")) <= LONGEST_BYTES

    def close(self) -> None:
        """Stop the threads."""
        self._turns.close()


def check_strength(password: str, shortest: int) -> None:
    """Refuse what bcrypt would cut off and what is too short to be a password."""
    if len(password.encode("utf-8", "replace")) > LONGEST_BYTES:
        raise validation(f"Password cannot be longer than {LONGEST_BYTES} characters")
    if len(password) < shortest:
        message = f"Password should be at least {shortest} characters."
        raise AuthError(422, "weak_password", message, weak_password={"reasons": ["length"]})
    if password.lower() in common_passwords():
        message = "This password is one of the most common ones, so it is easy to guess. Choose another."
        raise AuthError(422, "weak_password", message, weak_password={"reasons": ["pwned"]})


@cache
def common_passwords() -> frozenset[str]:
    """The passwords that are tried first; hosted looks them up at a service."""
    lines = files("stack.auth").joinpath("common_passwords.txt").read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def _check(given: bytes, against: bytes) -> bool:
    try:
        return bcrypt.checkpw(given, against)
    except ValueError:
        return False
