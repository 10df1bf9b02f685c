"""States that were not stored are listed with the facts needed to decide about them."""

import pytest

from app.jobs.view.kept_states import build

ROW = {"id": "k", "attempt": 2, "number": 3, "serial": 7, "size": 2048, "worker_name": "prod-eu", "reason": "released"}


def test_an_undecided_state_is_listed_as_open() -> None:
    [kept] = build([ROW])
    assert kept["title"].startswith("Serial 7, attempt 2")
    assert kept["about"] == "prod-eu: released"
    assert (kept["is_open"], kept["decided"]) == (True, "")


@pytest.mark.parametrize(("column", "word"), [("stored_at", "Stored"), ("discarded_at", "Discarded")])
def test_a_decided_state_names_its_decider(column: str, word: str) -> None:
    [kept] = build([{**ROW, column: "2026-11-15T14:00:00Z", "decided_by": "ops@example.com"}])
    assert (kept["is_open"], kept["decided"]) == (False, f"{word} by ops@example.com")


def test_an_engine_without_serials_counts_its_writes() -> None:
    assert build([{**ROW, "serial": None}])[0]["title"].startswith("Write 3")


@pytest.mark.parametrize("answer", [None, {}, "x", [1, None, {}, []]])
def test_a_malformed_answer_gives_no_states(answer: object) -> None:
    assert build(answer) == []
