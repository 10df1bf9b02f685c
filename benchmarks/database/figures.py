"""Figures: the median of the ratios of interleaved rounds, its spread, aims, JSON and a table."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
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
    spread: tuple[float, float] | None = None
    load: list[float] = field(default_factory=load)


@dataclass
class Report:
    """Everything that one run found out."""

    figures: list[Figure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        name: str,
        ratio: float,
        *,
        least: float = 0,
        most: float = 0,
        unit: str = "",
        spread: tuple[float, float] | None = None,
        **sides: float,
    ) -> None:
        aim = f"≥ {least:g}" if least else f"≤ {most:g}" if most else "–"
        is_reached = (not least or ratio >= least) and (not most or ratio <= most)
        rounded = {key: round(value, 3) for key, value in sides.items()}
        self.figures.append(Figure(name, round(ratio, 3), aim, is_reached, unit, rounded, spread))
        self.show(self.figures[-1])

    def compare(
        self,
        name: str,
        found: Mapping[str, Sequence[float]],
        this: str,
        that: str,
        *,
        least: float = 0,
        most: float = 0,
        unit: str,
    ) -> None:
        """One side to another, round by round; no figure where one is missing, or was too short for the clock to tell."""
        pairs = [
            pair
            for pair in zip(found.get(this, ()), found.get(that, ()), strict=False)
            if not any(map(math.isnan, pair))
        ]
        if not pairs:
            missing = [side for side in (this, that) if all(map(math.isnan, found.get(side, ())))] or [this, that]
            self.skip(name, f"{' and '.join(missing)} could not be measured")
        elif ratios := [mine / theirs for mine, theirs in pairs if theirs > 0]:
            sides = {this: median(pair[0] for pair in pairs), that: median(pair[1] for pair in pairs)}
            self.add(name, median(ratios), least=least, most=most, unit=unit, spread=_middle_half(ratios), **sides)
        else:
            self.skip(name, f"{that} took less than the clock can tell")

    def skip(self, what: str, why: str) -> None:
        self.skipped.append(f"{what}: {why}")
        print(f"skipped {what}: {why}", flush=True)

    def show(self, figure: Figure) -> None:
        mark = " " if figure.aim == "–" else "✓" if figure.is_reached else "✗"
        sides = " · ".join(f"{key} {value:g}" for key, value in figure.sides.items())
        spread = " … ".join(f"{value:.2f}" for value in figure.spread or ())
        line = f"{mark} {figure.name:<52} {figure.ratio:>8.2f} × ({figure.aim:<6}) {spread:<13} {sides} {figure.unit}"
        print(line, flush=True)

    def as_json(self) -> dict[str, Any]:
        aimed = {each.name: each for each in self.figures if each.aim != "–" and each.ratio > 0}
        ratios = {name: each.ratio if "≥" in each.aim else round(1 / each.ratio, 4) for name, each in aimed.items()}
        return {"benchmark": "database", **asdict(self), "ratios": ratios}


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


def interleave(rounds: int, contestants: Mapping[str, Callable[[], float]], report: Report) -> dict[str, list[float]]:
    """Run the contestants in turns; return the figure of each for every round, nan where it failed.

    The rounds are short, each in the reverse order of the last: the ratio within a round is of one minute of the machine, however
    much faster it is an hour later, and neither side always comes second.
    """
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            found[name].append(math.nan)
            with attempt(name, report.failed):
                found[name][-1] = contestants[name]()
    return found


def _middle_half(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Between which two figures half of the rounds were; with fewer than four rounds nobody can say."""
    if len(ratios) < 4:
        return None
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return round(low, 3), round(high, 3)
