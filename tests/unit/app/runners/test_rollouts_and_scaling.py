"""Rollouts and scaling as the pages show them: from plain rows."""

from typing import Any

import pytest

from app.runners.state.rollout import NO_ROLLOUT, build_rollout
from app.runners.state.scaling import build_decisions, check_limits, read_limits

ROLLOUT: dict[str, Any] = {
    "id": "r",
    "version": "1.9.0",
    "status": "RUNNING",
    "wave": 2,
    "reason": None,
    "waves": [
        {"runners": 1, "done": 1, "failed": 0},
        {"runners": 2, "done": 1, "failed": 0},
        {"runners": 1, "done": 0, "failed": 0},
    ],
}


def test_a_rollout_shows_its_progress() -> None:
    shown = build_rollout(ROLLOUT)
    assert shown["words"] == "wave 2 of 3, 2 of 4 updated"
    assert [(wave["words"], wave["status"]) for wave in shown["waves"]] == [
        ("1 of 1 runner", "SUCCEEDED"),
        ("1 of 2 runners", "RUNNING"),
        ("0 of 1 runner", "PENDING"),
    ]


def test_a_failed_wave_is_shown_and_the_pause_has_its_reason() -> None:
    waves = [ROLLOUT["waves"][0], {"runners": 2, "done": 1, "failed": 1}]
    shown = build_rollout({**ROLLOUT, "status": "PAUSED", "reason": "Job 3 did not succeed.", "waves": waves})
    assert (shown["is_paused"], shown["reason"]) == (True, "Job 3 did not succeed.")
    assert shown["waves"][1] == {"title": "Wave 2", "words": "1 of 2 runners, 1 failed", "status": "FAILED"}


def test_without_a_rollout_none_is_shown() -> None:
    assert build_rollout(None) == NO_ROLLOUT


def test_limits_default_to_the_databases_defaults() -> None:
    assert read_limits({"capacity": 4}) == {"min": "0", "max": "1", "jobs_per_task": "4", "idle_seconds": "300"}
    assert read_limits({"scaling": {"min": 1, "max": 5, "jobs_per_task": 2, "idle_seconds": 60}})["max"] == "5"


GOOD = {"min": "0", "max": "3", "jobs_per_task": "2", "idle_seconds": "300"}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"min": "4"}, ["min"]),
        ({"max": "0"}, ["max"]),
        ({"max": "-1"}, ["max"]),
        ({"jobs_per_task": "two"}, ["jobs_per_task"]),
        ({"idle_seconds": "5"}, ["idle_seconds"]),
        ({"idle_seconds": "9" * 50}, ["idle_seconds"]),
    ],
)
def test_limits_are_whole_numbers_in_their_ranges(change: dict[str, str], wrong: list[str]) -> None:
    assert list(check_limits({**GOOD, **change}).errors) == wrong


def test_limits_from_nonsense_name_every_field() -> None:
    assert set(check_limits("nonsense").errors) == set(GOOD)


def test_decisions_show_the_counts_and_the_reason() -> None:
    row = {"id": 1, "at": "x", "from_count": 1, "to_count": 0, "reason": "nothing for it to run", "dry_run": True}
    [shown] = build_decisions([row])
    assert (shown["counts"], shown["reason"], shown["icon"], shown["is_rehearsal"]) == (
        "1 → 0",
        "Nothing for it to run",
        "down",
        True,
    )
