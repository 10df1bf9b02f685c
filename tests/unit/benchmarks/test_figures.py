"""A figure that cannot be measured is missing alone and never fails the run."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import outcome
from benchmarks.database.figures import Report, interleave
from benchmarks.processes import cpu_seconds, family, memory_mib


def test_a_side_too_short_for_the_clock_gives_no_ratio() -> None:
    report = Report()
    report.compare("CPU of a job", {"ours": [1.0], "peer": [0.0]}, "ours", "peer", unit="ms")
    report.compare("CPU of a job", {"ours": [1.0]}, "ours", "peer", unit="ms")
    report.compare("CPU of a job", {"ours": [1.0], "peer": [2.0]}, "ours", "peer", unit="ms")
    assert [figure.ratio for figure in report.figures] == [0.5]
    assert [line.partition(": ")[2] for line in report.skipped] == [
        "peer took less than the clock can tell",
        "peer could not be measured",
    ]


def test_a_contestant_that_fails_leaves_the_others() -> None:
    report = Report()
    peer = iter((2.0, "nothing", 1.0))
    rates = interleave(3, {"ours": lambda: 3.0, "peer": lambda: 1.0 * next(peer), "other": lambda: 1 / 0}, report)  # type: ignore[operator]
    assert rates["ours"] == [3.0, 3.0, 3.0]
    assert len(report.failed) == 4
    report.compare("to a peer that failed once", rates, "ours", "peer", unit="jobs/s")
    report.compare("to one that always fails", rates, "ours", "other", unit="jobs/s")
    assert [figure.ratio for figure in report.figures] == [2.25]
    assert report.skipped == ["to one that always fails: other could not be measured"]


def test_a_machine_that_becomes_faster_does_not_decide() -> None:
    """The ratio is of each round, and the sides take turns as the first; the median of each side would give 6 to 24."""
    report, speed, order = Report(), iter((1, 1, 1, 1, 1, 8, 8, 8, 8, 8)), []

    def run(name: str, rate: float) -> float:
        order.append(name)
        return rate * next(speed)

    sides = {"ours": lambda: run("ours", 6.0), "peer": lambda: run("peer", 3.0)}
    report.compare("to a peer", interleave(5, sides, report), "ours", "peer", least=1.7, unit="jobs/s")
    assert order[:4] == ["ours", "peer", "peer", "ours"]
    assert report.figures[0].ratio == 2
    assert report.figures[0].is_reached
    assert report.figures[0].spread == (2.0, 2.0)


def test_a_part_that_fails_is_named_and_the_rest_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "RESULTS", tmp_path)
    found = outcome.Outcome("start")
    with found.part("cold"):
        found.parts["cold_seconds"] = 1
    with found.part("memory"):
        raise psutil.NoSuchProcess(1)
    with pytest.raises(SystemExit):
        found.keep()
    kept = json.loads((tmp_path / "start.json").read_text())
    assert kept["cold_seconds"] == 1
    assert kept["failed"][0].startswith("start, memory: NoSuchProcess")


def test_an_ended_process_uses_no_memory_and_no_cpu() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        alive = family(child.pid)
        assert memory_mib(alive) > 0
        child.communicate(b"\n")
    assert memory_mib(alive) == 0
    assert cpu_seconds(alive) == 0
