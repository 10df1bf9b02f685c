"""A wall clock that jumps: read by every Python that finds this folder on its path."""

import datetime as dt
import os
import time
from pathlib import Path
from typing import Self

_OFFSET = Path(os.environ.get("JUMPING_CLOCK", "/nonexistent"))
_read_time = time.time


def _offset() -> float:
    try:
        return float(_OFFSET.read_text() or 0)
    except OSError:
        return 0.0


class JumpingDatetime(dt.datetime):
    """`datetime` whose present is off."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)


time.time = lambda: _read_time() + _offset()
dt.datetime = JumpingDatetime  # type: ignore[misc]
