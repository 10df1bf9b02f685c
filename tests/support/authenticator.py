"""The app on somebody's telephone that makes codes."""

import time
from dataclasses import dataclass

from stack.auth.factors import WINDOW, code_of, step_at
from tests.support.waiting import wait_until


@dataclass
class Authenticator:
    """Gives a code that has not been used; it waits where the next one is still too far ahead."""

    secret: str
    last: int = 0

    def code(self) -> str:
        """The code of now, or of the step after the last one that was given."""
        step = max(self.last + 1, step_at(time.time()))
        wait_until(lambda: step <= step_at(time.time()) + WINDOW, timeout_seconds=60)
        self.last = step
        return code_of(self.secret, step)

    def wrong(self) -> str:
        """A code that is none of the next or the last few."""
        near = {code_of(self.secret, step_at(time.time()) + off) for off in range(-5, 6)}
        return next(code for code in (f"{number:06d}" for number in range(20)) if code not in near)
