"""Rate limits, counted in this process: one process serves one stack."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from stack.auth.errors import AuthError, too_many

MOST_KEYS = 10_000


class Limiter:
    """Buckets that refill steadily: `burst` at once, `burst` again per `window_seconds`."""

    def __init__(self, burst: int, window_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._burst = float(burst)
        self._rate = burst / window_seconds
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, key: str) -> float:
        """Return the amount that a key may still spend."""
        level, at = self._buckets.get(key, (self._burst, self._now()))
        return min(self._burst, level + (self._now() - at) * self._rate)

    def check(self, key: str, refusal: AuthError | None = None) -> None:
        """Refuse a key that has spent everything; the refusal tells when it can be tried again."""
        left = self.left(key)
        if left < 1:
            raise refusal or too_many((1 - left) / self._rate)

    def spend(self, key: str, refusal: AuthError | None = None) -> None:
        """Take one from a key, or refuse."""
        self.check(key, refusal)
        self._buckets[key] = (self.left(key) - 1, self._now())
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)


@dataclass(frozen=True)
class Limits:
    """One bucket per thing that can be abused."""

    requests: Limiter
    failures: Limiter
    mails: Limiter
