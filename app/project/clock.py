"""The project's clock: every time that is shown was written by it, so durations are counted against it."""

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime

SAMPLES = 12


class ProjectClock:
    """The offset of the project's clock from this process's; the quickest of the last answers is the most exact."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Believe this process's clock until the project has answered."""
        self._clock = clock
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)

    def learn(self, server_time: object, sent: float) -> None:
        """Take the time that an answer to a question of `sent` brought; anything else is ignored."""
        received = self._clock()
        try:
            at = datetime.fromisoformat(str(server_time)).timestamp()
        except ValueError:
            return
        self._samples.append((received - sent, at - (sent + received) / 2))

    def now(self) -> float:
        offset = min(self._samples)[1] if self._samples else 0.0
        return self._clock() + offset
