"""Rates as hosted counts them: an average over a window made of a dozen buckets."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial

BUCKETS = 12
MOST_SENDERS = 10_000


class RateCounter:
    """Counts events and tells their average per second over the window."""

    def __init__(self, limit: float, window_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._window = window_seconds
        self._bucket_seconds = window_seconds / BUCKETS
        self._clock = clock
        self._buckets: deque[tuple[int, int]] = deque()
        self._total = 0

    def add(self, count: int = 1) -> None:
        """Count events that happen now."""
        bucket = int(self._clock() / self._bucket_seconds)
        if self._buckets and self._buckets[-1][0] == bucket:
            self._buckets[-1] = (bucket, self._buckets[-1][1] + count)
        else:
            self._buckets.append((bucket, count))
        self._total += count

    @property
    def average(self) -> float:
        """Events per second over the window."""
        oldest = int(self._clock() / self._bucket_seconds) - BUCKETS
        while self._buckets and self._buckets[0][0] <= oldest:
            self._total -= self._buckets.popleft()[1]
        return self._total / self._window

    @property
    def is_exceeded(self) -> bool:
        """Whether the average is above the limit."""
        return self.average > self._limit

    def has_room(self, count: int) -> bool:
        """Whether so many more would still be within the limit."""
        return self.average + count / self._window <= self._limit


class SenderRates:
    """One rate for each sender, so that nobody can use up what is everybody's."""

    def __init__(self, limit: float, window_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make: Callable[[], RateCounter] = partial(RateCounter, limit, window_seconds, clock)
        self._rates: OrderedDict[str, RateCounter] = OrderedDict()

    def of(self, sender: str) -> RateCounter:
        """The sender's own rate; the one that was quiet for longest is forgotten first."""
        rate = self._rates.setdefault(sender, self._make())
        self._rates.move_to_end(sender)
        if len(self._rates) > MOST_SENDERS:
            self._rates.popitem(last=False)
        return rate


class CallWindow:
    """So many calls per window, as hosted limits one client's presence calls."""

    def __init__(self, max_calls: int, window_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_calls = max_calls
        self._window = window_seconds
        self._clock = clock
        self._calls = 0
        self._resets_at = float("-inf")

    def allow(self) -> bool:
        """Count one call, unless the window is full."""
        now = self._clock()
        if now > self._resets_at:
            self._calls, self._resets_at = 0, now + self._window
        if self._calls >= self._max_calls:
            return False
        self._calls += 1
        return True
