"""Figures: medians of interleaved repeats, ratios within one run, aims, JSON and a table."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Self

from benchmarks.database.server import load
from benchmarks.outcome import attempt

# Calls or jobs per connection before a clock starts. Connections of pools live for days; what the first calls compile is not asked.
WARM_UP = 20


@dataclass
class Figure:
    """One ratio, what it was made of, and what was aimed at."""

    name: str
    ratio: float
    aim: str
    is_reached: bool
    unit: str
    sides: dict[str, float]
    load: list[float] = field(default_factory=load)


@dataclass
class Report:
    """Everything that one run found out."""

    figures: list[Figure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(
        self, name: str, ratio: float, *, least: float = 0, most: float = 0, unit: str = "", **sides: float
    ) -> None:
        aim = f"≥ {least:g}" if least else f"≤ {most:g}" if most else "–"
        is_reached = (not least or ratio >= least) and (not most or ratio <= most)
        rounded = {key: round(value, 3) for key, value in sides.items()}
        self.figures.append(Figure(name, round(ratio, 3), aim, is_reached, unit, rounded))
        self.show(self.figures[-1])

    def compare(
        self, name: str, found: dict[str, float], this: str, that: str, *, least: float = 0, most: float = 0, unit: str
    ) -> None:
        """One side to another; no figure where one is missing, or was too short for the clock to tell."""
        if missing := [side for side in (this, that) if side not in found]:
            self.skip(name, f"{' and '.join(missing)} could not be measured")
        elif found[that] <= 0:
            self.skip(name, f"{that} took less than the clock can tell")
        else:
            sides = {side: found[side] for side in (this, that)}
            self.add(name, found[this] / found[that], least=least, most=most, unit=unit, **sides)

    def skip(self, what: str, why: str) -> None:
        self.skipped.append(f"{what}: {why}")
        print(f"skipped {what}: {why}", flush=True)

    def show(self, figure: Figure) -> None:
        mark = " " if figure.aim == "–" else "✓" if figure.is_reached else "✗"
        sides = " · ".join(f"{key} {value:g}" for key, value in figure.sides.items())
        print(f"{mark} {figure.name:<52} {figure.ratio:>8.2f} × ({figure.aim:<6}) {sides} {figure.unit}", flush=True)

    def as_json(self) -> dict[str, Any]:
        return {"benchmark": "database", **asdict(self)}


@dataclass
class Meter:
    """Seconds, and the server's CPU seconds, of what is measured; a busy machine disturbs the latter least."""

    cpu: Callable[[], float]
    seconds: float = 0
    cpu_seconds: float = 0

    def __enter__(self) -> Self:
        self.cpu_seconds = self.cpu()
        self.seconds = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.cpu_seconds = self.cpu() - self.cpu_seconds


def interleave(repeats: int, contestants: dict[str, Callable[[], float]], report: Report) -> dict[str, float]:
    """The median of each contestant that could be measured; they take turns, so that a busy machine is unfair to none."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, measure in contestants.items():
            with attempt(name, report.failed):
                found[name].append(measure())
    return {name: median(values) for name, values in found.items() if values}
