"""The ratios that are kept: a run that is worse is marked."""

import json
from pathlib import Path

import pytest

from benchmarks import baseline
from benchmarks.database.figures import Report
from benchmarks.outcome import Outcome


def test_a_ratio_below_four_fifths_and_a_missing_one_are_marked() -> None:
    kept = {"rest": {"1 connection": 0.5, "4 connections": 0.4, "16 connections": 0.3}, "git": {"queued": 1.0}}
    found = {"rest": {"1 connection": 0.41, "4 connections": 0.3}}
    assert baseline.worse(found, kept) == [
        "rest: 16 connections is missing; it was 0.3", "rest: 4 connections is 0.3, 0.75 of 0.4",
    ]  # fmt: skip


def test_a_run_of_some_benchmarks_keeps_the_ratios_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    baseline.keep({"rest": {"1 connection": 0.5}, "git": {"queued": 1.0}}, file)
    baseline.keep({"rest": {"1 connection": 0.3}}, file)
    assert json.loads(file.read_text()) == {"rest": {"1 connection": 0.3}, "git": {"queued": 1.0}}
    baseline.show({"rest": {"1 connection": 0.2}}, file)
    assert "✗ rest: 1 connection is 0.2, 0.67 of 0.3" in capsys.readouterr().out


def test_more_is_better_in_what_is_kept() -> None:
    outcome = Outcome("order")
    outcome.ratio("to the same without", 2, is_less_better=True)
    outcome.ratio("to a peer", 2)
    assert outcome.ratios == {"to the same without": 0.5, "to a peer": 2}
    report = Report()
    report.add("claim at depth", 1.25, most=1.3)
    report.add("claim to a peer", 1.5, least=1.3)
    report.add("no aim", 7)
    assert report.as_json()["ratios"] == {"claim at depth": 0.8, "claim to a peer": 1.5}


def test_ratios_are_read_from_what_a_run_wrote(tmp_path: Path) -> None:
    (tmp_path / "rest.json").write_text(json.dumps({"benchmark": "rest", "ratios": {"1 connection": 0.5}}))
    assert baseline.ratios(["rest", "git"], tmp_path) == {"rest": {"1 connection": 0.5}}
