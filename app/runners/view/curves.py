"""Curves of a chart as SVG paths."""

import itertools
from collections.abc import Sequence
from typing import TypedDict

FEW = 2


class Curve(TypedDict):
    """A line, the area under it, and a dot where a line alone would hardly be seen."""

    line: str
    area: str
    dot: str


NO_CURVE: Curve = {"line": "", "area": "", "dot": ""}


def smooth(
    values: Sequence[float | None],
    width: int = 300,
    height: int = 48,
    top: int = 4,
    bottom: int = 6,
    ceiling: float = 0.0,
) -> Curve:
    """Draw a line through what is known, each value at its place; the highest (or `ceiling`) is at `top`."""
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if not known:
        return NO_CURVE
    low, high = min(0.0, *(value for _, value in known)), max(ceiling, *(value for _, value in known))
    room, reach, step = height - top - bottom, (high - low) or 1.0, width / max(1, len(values) - 1)
    points = [(at * step, top + room * (1 - (value - low) / reach)) for at, value in known]
    if len(points) == 1:
        # One value holds for its whole hour, or whatever a step is: a short line is seen, a point is not.
        points.insert(0, (max(0.0, points[0][0] - step), points[0][1]))
    line = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (x0 + x1) / 2
        line += f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    last_x, last_y = points[-1]
    # A stroke of no length with round ends: unlike a circle it stays round when the picture is stretched.
    dot = f"M{min(last_x, width - 6):.1f} {last_y:.1f}h.01" if len(known) <= FEW else ""
    return {"line": line, "area": f"{line}L{last_x:.1f} {height}L{points[0][0]:.1f} {height}Z", "dot": dot}


def bars(values: Sequence[float], height: int = 48, top: int = 8) -> list[float]:
    """Return how high each bar is, of `height`; something is always to be seen."""
    high = max(values, default=0.0) or 1.0
    return [round(max(1.5, (height - top) * value / high), 1) for value in values]
