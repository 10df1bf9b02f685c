"""Curves of a chart as SVG paths."""

import itertools
from collections.abc import Sequence


def smooth(
    values: Sequence[float], width: int = 300, height: int = 48, top: int = 4, bottom: int = 6, ceiling: float = 0.0
) -> str:
    """Draw a line through values, left to right, highest value (or `ceiling`) at `top`; flat ones lie low."""
    if not values:
        return ""
    if len(values) == 1:
        values = (values[0], values[0])
    low, high = min(0.0, *values), max(ceiling, *values)
    room = height - top - bottom
    reach = (high - low) or 1.0
    step = width / (len(values) - 1)
    points = [(at * step, top + room * (1 - (value - low) / reach)) for at, value in enumerate(values)]
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (x0 + x1) / 2
        path.append(f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}")
    return "".join(path)


def bars(values: Sequence[float], height: int = 48, top: int = 8) -> list[float]:
    """Say how high each bar is, of `height`; something is always to be seen."""
    high = max(values, default=0.0) or 1.0
    return [round(max(1.5, (height - top) * value / high), 1) for value in values]
