"""Rates as hosted counts them: an average over a window made of a dozen buckets."""

import time
from collections import deque
from collections.abc import Callable

BUCKETS = 12


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
