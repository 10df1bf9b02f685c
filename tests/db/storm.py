"""The duration of a storm of calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_SECONDS = 300


@dataclass(frozen=True)
class Storm:
    """So many seconds, and on a slow machine longer: until enough has happened for the test to show something."""

    seconds: float
    has_enough: Callable[[], bool]
    began_at: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Whether everybody may stop."""
        passed = time.monotonic() - self.began_at
        return passed > MOST_SECONDS or (passed > self.seconds and self.has_enough())
