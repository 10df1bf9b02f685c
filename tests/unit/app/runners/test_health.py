"""A runner's conditions, each with its meaning and a remedy."""

import pytest

from app.runners.view.health import build_advice


def test_a_healthy_runner_needs_no_advice() -> None:
    assert build_advice({"health": ["healthy"]}, "1.8.2") == []
    assert build_advice({}, "") == []


def test_the_worst_condition_is_first_and_shows_its_reason() -> None:
    ill = {"health": ["outdated", "degraded"], "health_reason": "The runner's disk is full.", "version": "1.7.4"}
    first, second = build_advice(ill, "1.8.2")
    assert (first["code"], first["title"]) == ("degraded", "The runner's disk is full.")
    assert second["title"] == "It runs 1.7.4, and 1.8.2 is out."


@pytest.mark.parametrize(
    "code", ["never_contacted", "out_of_contact", "degraded", "clock_off", "takes_no_jobs", "outdated", "not_isolated"]
)
def test_each_condition_has_advice_and_a_link_to_the_docs(code: str) -> None:
    (advice,) = build_advice({"health": [code]}, "")
    assert advice["text"].count(".") >= 1
    assert advice["doc"]


@pytest.mark.parametrize(("off", "words"), [(41, "41 s ahead"), (-7200, "2 h 00 min behind")])
def test_a_wrong_clock_shows_how_far_it_is_ahead_or_behind(off: int, words: str) -> None:
    (advice,) = build_advice({"health": ["clock_off"], "clock_off": off}, "")
    assert advice["title"] == f"Its clock is {words}."
    assert "timedatectl" in advice["text"]
