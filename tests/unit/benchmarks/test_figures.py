"""A figure that cannot be had costs itself, never the run."""

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
    report.compare("CPU of a job", {"ours": 1.0, "peer": 0.0}, "ours", "peer", unit="ms")
    report.compare("CPU of a job", {"ours": 1.0}, "ours", "peer", unit="ms")
    report.compare("CPU of a job", {"ours": 1.0, "peer": 2.0}, "ours", "peer", unit="ms")
    assert [figure.ratio for figure in report.figures] == [0.5]
    assert [line.partition(": ")[2] for line in report.skipped] == [
        "peer took less than the clock can tell",
        "peer could not be measured",
    ]


def test_a_contestant_that_fails_leaves_the_others() -> None:
    report = Report()
    rates = interleave(2, {"ours": lambda: 3.0, "peer": lambda: 1 / 0}, report)
    assert rates == {"ours": 3.0}
    assert len(report.failed) == 2


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


def test_a_process_that_has_gone_weighs_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        alive = family(child.pid)
        assert memory_mib(alive) > 0
        child.communicate(b"\n")
    assert memory_mib(alive) == 0
    assert cpu_seconds(alive) == 0
