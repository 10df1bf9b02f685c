"""The tiles above the table: queue wait of this hour, throughput of the last full one, utilisation now, each with the curve of a day."""

import itertools
from collections.abc import Sequence
from typing import Any, TypedDict

from app.project.store import OrgStore
from app.runners.view.curves import NO_CURVE, Curve, bars, smooth
from app.ui.view import Row, queue_wait, read

MAX_PERCENT = 300
PER_HOUR = "jobs/h"


class Tile(TypedDict):
    figure: str
    unit: str
    aside: str
    move: str
    is_up: bool
    is_good: bool
    curve: Curve
    bars: list[float]


def _series(rows: Sequence[Row], key: str) -> list[float | None]:
    """Read a series; an hour of which nothing is known stays without a value."""
    return [None if row.get(key) is None else float(row[key]) for row in rows]


def _tile(**made: Any) -> Tile:
    return read(Tile, {"figure": "–", "is_good": True, "curve": NO_CURVE}, **made)


def wait_tile(rows: Sequence[Row], key: str, waiting: int = 0) -> Tile:
    """Queue wait of the jobs that ended: the last hour that had any, against the day before it; `waiting` have not ended."""
    series = _series(rows, key)
    known = [value for value in series if value is not None]
    if not known:
        return _tile(aside=f"{waiting:,} waiting now" if waiting else "")
    figure, unit = queue_wait(known[-1]).split()
    before = known[:-1]
    change = known[-1] - sum(before) / len(before) if before else 0.0
    return _tile(
        figure=figure,
        unit=unit,
        aside="this hour" if series[-1] is not None else "last hour with jobs",
        move=f"{queue_wait(abs(change))} vs 24 h" if abs(change) >= 0.1 else "",
        is_up=change > 0,
        is_good=change <= 0,
        curve=smooth(series),
    )


def utilisation_tile(rows: Sequence[Row], now: Row) -> Tile:
    """Utilisation: slots in use now, and the busiest hour of the day."""
    used, capacity = int(now.get("used") or 0), int(now.get("capacity") or 0)
    shares = _series(rows, "share")
    known = [share for share in shares if share is not None]
    return _tile(
        figure=f"{100 * used / capacity:.0f}" if capacity else "–",
        unit="%" if capacity else "",
        aside=f"{used} of {capacity} slots" if capacity else "no slots",
        move=f"busiest hour {100 * max(known):.0f} %" if known else "",
        curve=smooth(shares),
    )


def throughput_tile(rows: Sequence[Row]) -> Tile:
    """Throughput: jobs finished in the last full hour against the hours before it, or what there is instead."""
    counts = [value or 0.0 for value in _series(rows, "jobs")]
    figure, unit = _throughput(counts)
    tile = _tile(figure=f"{figure:.0f}", unit=unit, bars=bars(counts))
    # Hours before the first job do not count as quiet: there were no users yet.
    before = list(itertools.dropwhile(lambda value: not value, counts[:-2]))
    if unit == PER_HOUR:
        tile["aside"] = "last full hour"
    if unit != PER_HOUR or not before:
        return tile
    mean = sum(before) / len(before)
    change = 100 * (figure - mean) / mean
    # Against a day that was nearly empty a percentage means nothing.
    move = f"{abs(change):.0f} % vs 24 h" if 1 <= abs(change) <= MAX_PERCENT else ""
    return {**tile, "move": move, "is_up": change > 0, "is_good": change >= 0}


def _throughput(counts: Sequence[float]) -> tuple[float, str]:
    """Describe the last full hour's jobs; when it had none, this hour's so far, or the day's."""
    *full, present = counts or [0.0]
    if full and full[-1]:
        return full[-1], PER_HOUR
    if present:
        return present, "job this hour" if present == 1 else "jobs this hour"
    total = sum(full)
    return total, "job in 24 h" if total == 1 else "jobs in 24 h"


def build_tiles(figures: Row, now: Row) -> dict[str, Tile]:
    """Make the four tiles from fleet_stats() and what fleet_overview() counts now."""
    waits, waiting = figures.get("queue_wait") or [], int((now.get("jobs") or {}).get("QUEUED") or 0)
    return {
        "p50": wait_tile(waits, "p50", waiting),
        "p95": wait_tile(waits, "p95", waiting),
        "utilisation": utilisation_tile(figures.get("utilisation") or [], now),
        "throughput": throughput_tile(figures.get("throughput") or []),
    }


def tiles_of(store: OrgStore) -> dict[str, Tile]:
    """Make the tiles, or take those that were made of the same figures."""
    return store.derive(
        "tiles", ("figures", "slots"), lambda store: build_tiles(store.figures, store.overview.get("counts") or {})
    )
