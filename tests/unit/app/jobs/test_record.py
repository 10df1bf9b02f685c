"""The signed record on a run's page."""

from app.jobs.view.facts import NO_RECORD, build_record

ROW = {
    "sequence": 3,
    "signed_at": "2026-02-05T00:00:00Z",
    "key_id": "k1",
    "since": "2026-02-04T00:00:00Z",
    "broken_at": None,
}


def test_a_signed_record_says_since_when_the_chain_is_complete() -> None:
    found = build_record(ROW)
    assert (found["tone"], found["since"], found["place"]) == ("signed", ROW["since"], "Record 3 of this module")


def test_a_broken_chain_comes_before_a_missing_signature() -> None:
    assert build_record({**ROW, "signed_at": None})["words"] == "Waits for its signature"
    broken = build_record({**ROW, "signed_at": None, "broken_at": 2})
    assert (broken["tone"], broken["words"]) == ("broken", "The chain is broken at record 2")


def test_a_run_that_changed_nothing_has_none() -> None:
    assert build_record(None) == NO_RECORD
