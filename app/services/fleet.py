"""An organisation's figures, asked for at most every few seconds however many people look."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.services.errors import AppError
from app.services.gate import Gate
from app.services.models import Session

FRESH_SECONDS = 15.0


@dataclass
class _Kept:
    figures: dict[str, Any] = field(default_factory=dict)
    read_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Fleet:
    """The figures of the organisations that somebody looks at."""

    def __init__(self, gate: Gate, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without figures."""
        self._gate = gate
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def figures(self, session: Session, org_id: str) -> dict[str, Any]:
        """Read the last day's figures; the previous ones stand when the project does not answer."""
        kept = self._kept.setdefault(org_id, _Kept())
        async with kept.lock:
            if self._clock() - kept.read_at < FRESH_SECONDS:
                return kept.figures
            kept.read_at = self._clock()
            try:
                kept.figures = await self._gate.rpc(session, "fleet_stats", {"p_org": org_id}) or {}
            except AppError:
                return kept.figures
        return kept.figures
