"""A runner's conditions, each with what it means and what to do."""

import pytest

from app.runners.view.health import build_advice


def test_a_healthy_runner_needs_no_advice() -> None:
    assert build_advice({"health": ["healthy"]}, "1.8.2") == []
    assert build_advice({}, "") == []


def test_the_worst_comes_first_and_says_why() -> None:
    ill = {"health": ["outdated", "degraded"], "health_reason": "The runner's disk is full.", "version": "1.7.4"}
    first, second = build_advice(ill, "1.8.2")
    assert (first["code"], first["title"]) == ("degraded", "The runner's disk is full.")
    assert second["title"] == "It runs 1.7.4, and 1.8.2 is out."


@pytest.mark.parametrize(
    "code", ["never_contacted", "out_of_contact", "degraded", "clock_off", "takes_no_jobs", "outdated", "not_isolated"]
)
def test_each_condition_says_what_to_do(code: str) -> None:
    (advice,) = build_advice({"health": [code]}, "")
    assert advice["text"].count(".") >= 1
    assert advice["doc"]


@pytest.mark.parametrize(("off", "words"), [(41, "41 s ahead"), (-7200, "2 h 00 min behind")])
def test_a_clock_that_is_off_says_how_far_and_to_which_side(off: int, words: str) -> None:
    (advice,) = build_advice({"health": ["clock_off"], "clock_off": off}, "")
    assert advice["title"] == f"Its clock is {words}."
    assert "timedatectl" in advice["text"]
