"""Charts as paths and labels: lines in a picture that is stretched, text beside it that is not."""

import math
from collections.abc import Sequence
from typing import Any, TypedDict

from app.ui.view import Row, wait_unit

WIDTH, HEIGHT = 1000.0, 200.0
LABELS = 5
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Tick(TypedDict):
    """A label on the axis at the side: how far down, in percent."""

    top: str
    text: str


class Moment(TypedDict):
    """A label on the axis of time: how far right, in percent."""

    left: str
    at: str
    is_odd: bool
    is_last: bool


class Line(TypedDict):
    """A line, the area under it, and where it ends, in percent."""

    line: str
    area: str
    left: str
    top: str
    figure: str


class Bar(TypedDict):
    height: str
    title: str


NO_LINE: Line = {"line": "", "area": "", "left": "", "top": "", "figure": "–"}


def nice(high: float, steps: Sequence[float] = STEPS) -> float:
    """The round number above a value that an axis ends with."""
    if high <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(high))
    return next(step * power for step in steps if step * power >= high - 1e-9)


def nice_wait(high: float) -> float:
    """The end of an axis of waits: its fifths are round in the unit that they are shown in."""
    ends = ((unit, unit * nice(max(high / unit, 1.0), (1.0, 2.0, 5.0, 10.0))) for unit in (1.0, 60.0, 3600.0))
    # A wait of 110 s would end at 200 s, which is shown in minutes: so it ends at 2 minutes.
    return next(end for unit, end in ends if wait_unit(end)[0] == unit)


def values(points: Sequence[Row], name: str) -> list[float | None]:
    """One figure of every point; a moment of which nothing is known has none."""
    return [None if point.get(name) is None else float(point[name]) for point in points]


def line(series: Sequence[float | None], low: float, high: float, figure: str) -> Line:
    """Draw a line through what is known; where nothing is known there is a gap, and not a zero."""
    known = [(at, value) for at, value in enumerate(series) if value is not None]
    if not known:
        return NO_LINE
    step = WIDTH / max(1, len(series) - 1)
    runs: list[list[tuple[float, float]]] = []
    before = -2
    for at, value in known:
        point = (at * step, HEIGHT * (1 - (min(max(value, low), high) - low) / ((high - low) or 1.0)))
        if at == before + 1:
            runs[-1].append(point)
        else:
            runs.append([point])
        before = at
    # A single value is a short dash, inside of the chart.
    drawn = [run if len(run) > 1 else _dash(*run[0], step / 2) for run in runs]
    paths = ["M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in drawn]
    areas = [
        f"{path}L{run[-1][0]:.1f} {HEIGHT:.0f}L{run[0][0]:.1f} {HEIGHT:.0f}Z"
        for path, run in zip(paths, drawn, strict=True)
    ]
    x, y = runs[-1][-1]
    return {
        "line": "".join(paths),
        "area": "".join(areas),
        "left": f"{100 * x / WIDTH:.2f}%",
        "top": f"{100 * y / HEIGHT:.2f}%",
        "figure": figure,
    }


def _dash(x: float, y: float, length: float) -> list[tuple[float, float]]:
    start = min(x, WIDTH - length)
    return [(start, y), (start + length, y)]


def ticks(low: float, high: float, say: Any, count: int = 4) -> list[Tick]:
    """The labels at the side, from the top down."""
    steps = [at / (count - 1) for at in range(count)]
    return [{"top": f"{100 * at:.1f}%", "text": say(high - at * (high - low))} for at in steps]


def moments(points: Sequence[Row]) -> list[Moment]:
    """The labels of time: a few, evenly spread."""
    last = len(points) - 1
    if last < 1:
        return []
    chosen = sorted({round(last * at / (LABELS - 1)) for at in range(LABELS)})
    return [
        {
            "left": f"{100 * at / last:.2f}%",
            "at": str(points[at]["at"]),
            "is_odd": bool(place % 2),
            "is_last": at == last,
        }
        for place, at in enumerate(chosen)
    ]


def bars(points: Sequence[Row], high: float) -> list[Bar]:
    return [
        {"height": f"{max(1.0, 100 * int(point['jobs']) / high):.1f}%", "title": f"{int(point['jobs'])} jobs"}
        for point in points
    ]
