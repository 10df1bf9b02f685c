"""The tiles above the table: queue wait, utilisation and throughput of the last day."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from app.services.curves import bars, smooth
from app.services.store import OrgStore

Row = Mapping[str, Any]
MAX_PERCENT = 300


class Tile(TypedDict):
    """One figure with its curve and how it moved."""

    figure: str
    unit: str
    aside: str
    move: str
    is_up: bool
    is_good: bool
    path: str
    bars: list[float]


def _series(rows: Sequence[Row], key: str) -> list[float]:
    return [float(row.get(key) or 0) for row in rows]


def _carried(rows: Sequence[Row], key: str) -> list[float]:
    """Read a series in which quiet hours say nothing: they keep the value of the hour before."""
    known = [float(row[key]) for row in rows if row.get(key) is not None]
    value, values = known[0], []
    for row in rows:
        value = value if row.get(key) is None else float(row[key])
        values.append(value)
    return values


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _seconds(value: float) -> tuple[str, str]:
    if value < 120:
        return _short(value), "s"
    return (_short(value / 60), "min") if value < 7200 else (_short(value / 3600), "h")


def _blank() -> Tile:
    return {
        "figure": "–",
        "unit": "",
        "aside": "",
        "move": "",
        "is_up": False,
        "is_good": True,
        "path": "",
        "bars": [],
    }


def wait_tile(rows: Sequence[Row], key: str) -> Tile:
    """Queue wait: the last hour that had jobs, against the day before it."""
    known = [float(row[key]) for row in rows if row.get(key) is not None]
    if not known:
        return _blank()
    figure, unit = _seconds(known[-1])
    before = known[:-1]
    change = known[-1] - sum(before) / len(before) if before else 0.0
    moved, moved_unit = _seconds(abs(change))
    return {
        **_blank(),
        "figure": figure,
        "unit": unit,
        "move": f"{moved} {moved_unit}" if abs(change) >= 0.1 else "",
        "is_up": change > 0,
        "is_good": change <= 0,
        "path": smooth(_carried(rows, key)),
    }


def utilisation_tile(rows: Sequence[Row], now: Row) -> Tile:
    """Utilisation: slots in use now, and the day's peak."""
    used, capacity = int(now.get("used") or 0), int(now.get("capacity") or 0)
    shares = [_share(row) for row in rows]
    peak = max(shares, default=0.0)
    return {
        **_blank(),
        "figure": f"{100 * used / capacity:.0f}" if capacity else "–",
        "unit": "%" if capacity else "",
        "aside": f"{used} of {capacity} slots" if capacity else "no slots",
        "move": f"peak {100 * peak:.0f} %" if shares else "",
        "path": smooth(shares or [0.0]),
    }


def _share(row: Row) -> float:
    if row.get("share") is not None:
        return float(row["share"])
    capacity = float(row.get("capacity") or 0)
    return float(row.get("used") or 0) / capacity if capacity else 0.0


def throughput_tile(rows: Sequence[Row]) -> Tile:
    """Throughput: jobs finished in the last full hour, against the day's mean."""
    counts = _series(rows, "jobs")
    if not any(counts):
        return {**_blank(), "figure": "0", "unit": "jobs/h", "bars": bars(counts)}
    last = counts[-2] if len(counts) > 1 else counts[-1]
    mean = sum(counts[:-1] or counts) / len(counts[:-1] or counts)
    change = 100 * (last - mean) / mean if mean else 0.0
    return {
        **_blank(),
        "figure": f"{last:.0f}",
        "unit": "jobs/h",
        # Against a day that was nearly empty a percentage says nothing.
        "move": f"{abs(change):.0f} %" if 1 <= abs(change) <= MAX_PERCENT else "",
        "is_up": change > 0,
        "is_good": change >= 0,
        "bars": bars(counts),
    }


def build_tiles(figures: Row, now: Row) -> dict[str, Tile]:
    """Make the four tiles from fleet_stats() and what fleet_overview() counts now."""
    waits = figures.get("queue_wait") or []
    return {
        "p50": wait_tile(waits, "p50"),
        "p95": wait_tile(waits, "p95"),
        "utilisation": utilisation_tile(figures.get("utilisation") or [], now),
        "throughput": throughput_tile(figures.get("throughput") or []),
    }


def tiles_of(store: OrgStore, used: int, capacity: int) -> dict[str, Tile]:
    """Make the tiles, or take those that were made of the same figures."""
    now = {"used": used, "capacity": capacity}
    return store.derive("tiles", ("figures", "workers", "overview"), lambda store: build_tiles(store.figures, now))
