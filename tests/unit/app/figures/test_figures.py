"""Charts from numbers: gaps are gaps, axes are round and show where they begin."""

from typing import Any

import pytest

from app.figures.view import charts
from app.figures.view.figures import build


def point(at: int, **changes: Any) -> dict[str, Any]:
    known = {"jobs": 4, "succeeded": 3, "failed": 1, "p50": 1.0, "p95": 10.0, "p99": 30.0, "share": 0.5}
    return {"at": f"2026-11-15T10:{at:02d}:00+00:00", **known, **changes}


def answer(*points: dict[str, Any], **changes: Any) -> dict[str, Any]:
    whole = {"jobs": 3408, "failed": 54, "succeeded": 3354, "p50": 1.8, "p95": 11.4, "p99": 24.6}
    return {
        "hours": 24,
        "whole": whole,
        "points": list(points),
        "now": {"used": 19, "capacity": 36},
        **changes,
    }


@pytest.mark.parametrize(("high", "expected"), [(0, 1), (0.3, 0.5), (1, 1), (42, 50), (230, 250), (7001, 10000)])
def test_an_axis_ends_with_a_round_number(high: float, expected: float) -> None:
    assert charts.nice(high) == pytest.approx(expected)


def test_missing_values_leave_a_gap_in_the_line() -> None:
    line = charts.line([1.0, 1.0, None, 1.0], 0.0, 2.0, "1 s")
    assert line["line"].count("M") == 2
    assert (line["left"], line["top"]) == ("100.00%", "50.00%")
    assert charts.line([None, None], 0.0, 1.0, "") == charts.NO_LINE


def test_the_headlines_cover_the_whole_span() -> None:
    made = build(answer(point(0), point(1)))
    assert (made["wait"]["figure"], made["wait"]["unit"]) == ("11", "s p95")
    assert made["wait"]["lines"]["p99"]["figure"] == "25 s"
    assert (made["utilisation"]["figure"], made["utilisation"]["aside"]) == (
        "53",
        "19 of 36 slots, busiest 20 minutes 50 %",
    )
    assert (made["throughput"]["figure"], made["throughput"]["aside"]) == ("3,408", "142 per hour, a bar is 20 minutes")
    assert (made["passed"]["figure"], made["passed"]["aside"]) == ("98.4", "54 of 3,408 failed, axis from 50 %")
    assert [tick["text"] for tick in made["wait"]["ticks"]] == ["50 s", "40 s", "30 s", "20 s", "10 s", "0 s"]


@pytest.mark.parametrize(
    ("longest", "labels"),
    [
        (90.0, ["100 s", "80 s", "60 s", "40 s", "20 s", "0 s"]),
        (110.0, ["2.0 min", "1.6 min", "1.2 min", "0.8 min", "0.4 min", "0 min"]),
        (6_100.0, ["2.0 h", "1.6 h", "1.2 h", "0.8 h", "0.4 h", "0 h"]),
    ],
)
def test_an_axis_of_waits_has_one_unit(longest: float, labels: list[str]) -> None:
    made = build(answer(point(0), point(1, p99=longest)))
    assert [tick["text"] for tick in made["wait"]["ticks"]] == labels


def test_an_organisation_without_jobs_has_no_figures() -> None:
    empty = {"jobs": 0, "failed": 0, "succeeded": 0, "p50": None, "p95": None, "p99": None}
    quiet = point(0, jobs=0, succeeded=0, failed=0, p50=None, p95=None, p99=None, share=None)
    made = build(answer(quiet, quiet, whole=empty, now={"jobs": {"QUEUED": 4}}))
    assert made["wait"]["aside"] == "4 waiting now"
    assert (made["wait"]["figure"], made["utilisation"]["figure"], made["passed"]["figure"]) == ("–", "–", "–")
    assert made["wait"]["lines"]["p95"]["line"] == ""


def test_releases_and_outages_have_a_text_and_a_position() -> None:
    span = {"from": "2026-11-15T10:00:00+00:00", "to": "2026-11-15T20:00:00+00:00"}
    happened = [
        {"kind": "release", "at": "2026-11-15T15:00:00+00:00", "version": "1.8.2", "updated": 7, "runners": 10},
        {"kind": "outage", "at": "2026-11-15T09:00:00+00:00", "until": "2026-11-15T11:00:00+00:00"},
    ]
    release, outage = build(answer(point(0), marks=happened, **span))["marks"]
    assert (release["title"], release["text"], release["left"]) == (
        "Release 1.8.2",
        "7 of 10 runners have it or a newer one.",
        "50.00%",
    )
    assert (outage["title"], outage["left"], outage["width"]) == ("Outage", "0.00%", "10.00%"), (
        "it began before the span"
    )
    assert build(answer(point(0), marks=happened))["marks"] == [], "without a span nothing has a place"


def test_the_middle_of_the_axis_counts_whole_jobs() -> None:
    made = build(answer(point(0, jobs=5), point(1, jobs=3)))
    assert [tick["text"] for tick in made["throughput"]["ticks"]] == ["6", "3", "0"]


@pytest.mark.parametrize("count", [60, 72, 84])
def test_every_other_label_of_time_includes_the_first_and_the_last_one(count: int) -> None:
    """Three charts in one row leave room for these labels alone."""
    kept = [moment for moment in charts.moments([point(at % 60) for at in range(count)]) if not moment["is_odd"]]
    assert len(kept) == 3
    assert (kept[0]["left"], kept[-1]["left"], kept[-1]["is_last"]) == ("0.00%", "100.00%", True)
