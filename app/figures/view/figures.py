"""The figures page from what fleet_figures answers."""

import math
from collections.abc import Sequence
from typing import TypedDict

from app.figures.view import charts, marks
from app.figures.view.charts import Bar, Line, Moment, Tick
from app.figures.view.marks import Mark
from app.ui.view import Row, queue_wait, read

RANGES = {"1h": 1, "24h": 24, "7d": 168}
BARS = {1: "a minute", 24: "20 minutes", 168: "2 hours"}


class Chart(TypedDict):
    figure: str
    unit: str
    aside: str
    lines: dict[str, Line]
    bars: list[Bar]
    ticks: list[Tick]


class Figures(TypedDict):
    wait: Chart
    utilisation: Chart
    throughput: Chart
    passed: Chart
    moments: list[Moment]
    marks: list[Mark]
    jobs: int


NO_CHART: Chart = {"figure": "–", "unit": "", "aside": "", "lines": {}, "bars": [], "ticks": []}
NO_FIGURES = read(Figures, {}, wait=NO_CHART, utilisation=NO_CHART, throughput=NO_CHART, passed=NO_CHART)


def build(answer: Row) -> Figures:
    points: Sequence[Row] = answer.get("points") or []
    return {
        "wait": wait(points, answer["whole"], answer["now"]),
        "utilisation": utilisation(points, answer["now"], BARS[int(answer["hours"])]),
        "throughput": throughput(points, answer),
        "passed": passed(points, answer["whole"]),
        "moments": charts.moments(points),
        "marks": marks.build(answer.get("marks") or [], answer.get("from"), answer.get("to")),
        "jobs": int(answer["whole"]["jobs"]),
    }


def wait(points: Sequence[Row], whole: Row, now: Row) -> Chart:
    """Queue wait of the jobs that ended: three percentiles on one axis."""
    waiting = int((now.get("jobs") or {}).get("QUEUED") or 0)
    series = {name: charts.values(points, name) for name in ("p50", "p95", "p99")}
    high = charts.nice_wait(max((value for one in series.values() for value in one if value is not None), default=1.0))
    lines = {name: charts.line(one, 0.0, high, queue_wait(whole.get(name))) for name, one in series.items()}
    figure, _, unit = queue_wait(whole.get("p95")).partition(" ")
    return {
        **NO_CHART,
        "figure": figure,
        "unit": f"{unit} p95",
        "aside": f"{waiting:,} waiting now" if waiting else "",
        "lines": lines,
        "ticks": charts.ticks(0.0, high, lambda seconds: queue_wait(seconds, longest=high), 6),
    }


def utilisation(points: Sequence[Row], now: Row, step: str) -> Chart:
    """Utilisation: slots in use now, and over the span."""
    used, capacity = int(now.get("used") or 0), int(now.get("capacity") or 0)
    series = charts.values(points, "share")
    known = [value for value in series if value is not None]
    peak = f", busiest {step.removeprefix('a ')} {100 * max(known):.0f} %" if known else ""
    return {
        **NO_CHART,
        "figure": f"{100 * used / capacity:.0f}" if capacity else "–",
        "unit": "%" if capacity else "",
        "aside": (f"{used:,} of {capacity:,} slots" if capacity else "no slots") + peak,
        "lines": {"share": charts.line(series, 0.0, 1.0, "")},
        "ticks": charts.ticks(0.0, 1.0, lambda value: f"{100 * value:.0f} %", 3),
    }


def throughput(points: Sequence[Row], answer: Row) -> Chart:
    """Throughput: jobs that ended, in all and per step."""
    # Twice a whole number: the middle of the axis counts jobs, too.
    high = 2 * math.ceil(charts.nice(max((float(point["jobs"]) for point in points), default=1.0)) / 2)
    jobs, hours = int(answer["whole"]["jobs"]), int(answer["hours"])
    return {
        **NO_CHART,
        "figure": f"{jobs:,}",
        "unit": "job" if jobs == 1 else "jobs",
        "aside": f"{jobs / hours:,.{0 if jobs >= 10 * hours else 1}f} per hour, a bar is {BARS[hours]}",
        "bars": charts.bars(points, high),
        "ticks": charts.ticks(0.0, high, lambda value: f"{value:,.0f}", 3),
    }


def passed(points: Sequence[Row], whole: Row) -> Chart:
    """Pass rate: of the jobs that succeeded or failed; the axis shows its start."""
    series = [_share(point) for point in points]
    known = [value for value in series if value is not None]
    low = next((start for start in (0.9, 0.5, 0.0) if min(known, default=1.0) >= start), 0.0)
    share = _share(whole)
    axis = f", axis from {100 * low:.0f} %" if low else ""
    return {
        **NO_CHART,
        "figure": "–" if share is None else f"{100 * share:.1f}",
        "unit": "" if share is None else "%",
        "aside": f"{int(whole['failed']):,} of {int(whole['succeeded']) + int(whole['failed']):,} failed{axis}",
        "lines": {"share": charts.line(series, low, 1.0, "")},
        "ticks": charts.ticks(low, 1.0, lambda value: f"{100 * value:.0f} %", 3),
    }


def _share(row: Row) -> float | None:
    counted = int(row["succeeded"]) + int(row["failed"])
    return int(row["succeeded"]) / counted if counted else None
