"""Holds a transaction until new snapshots see it.

A walsender may deliver a commit before the row is visible to others: a reader that asks at once would miss it
(measured: up to 9 % of events), and so would the RLS check.
"""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from psycopg import AsyncConnection

from stack.realtime.queries import QUERIES

XID_SPAN = 1 << 32
FIRST_WAIT_SECONDS = 0.0005
LONGEST_WAIT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of `pg_current_snapshot()`: in progress are `active` and everything from `xmax` on."""

    xmin: int
    xmax: int
    active: frozenset[int]

    def sees(self, xid: int) -> bool:
        """Whether a committed transaction is visible; `xid` is the stream's 32-bit number."""
        full = _widen(xid, self.xmax)
        return full < self.xmin or (full < self.xmax and full not in self.active)


NOTHING = Snapshot(0, 0, frozenset())


def parse_snapshot(text: str) -> Snapshot:
    """Read `xmin:xmax:xip,xip`."""
    xmin, xmax, active = text.split(":")
    return Snapshot(int(xmin), int(xmax), frozenset(int(xid) for xid in active.split(",") if xid))


def _widen(xid: int, near: int) -> int:
    """The 64-bit number closest to `near` whose low half is `xid`: ids wrap around, the snapshot's do not."""
    full = near - near % XID_SPAN + xid
    if full - near > XID_SPAN // 2:
        return full - XID_SPAN
    return full + XID_SPAN if near - full > XID_SPAN // 2 else full


class VisibilityGate:
    """Asks for a snapshot only when the one at hand does not cover a transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._snapshot = NOTHING

    def learn(self, text: str) -> None:
        """Take over a snapshot that came with an answer."""
        self._snapshot = parse_snapshot(text)

    def covers(self, xids: Iterable[int]) -> bool:
        """Whether the snapshot at hand sees all of them."""
        return all(map(self._snapshot.sees, xids))

    async def wait_for(self, xids: Collection[int]) -> None:
        """Return once a new snapshot would see the transactions."""
        wait = 0.0
        while not self.covers(xids):
            if wait:
                await asyncio.sleep(wait)
            wait = min(max(wait * 2, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
            row = await (await self._connection.execute(QUERIES["snapshot"], prepare=True)).fetchone()
            assert row is not None
            self.learn(row[0])
