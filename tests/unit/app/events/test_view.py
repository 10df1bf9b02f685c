"""The events page: the filters of an address, the request to the database, and the text of an event."""

from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from app.events.view import EventFilter, build
from app.ui.choices import export_address

NOW = datetime(2026, 11, 15, 12, 30, 45, tzinfo=UTC)
RUNNER = "5b0a7a52-0000-4000-8000-000000000001"


def test_a_filter_survives_the_way_through_the_address() -> None:
    chosen = EventFilter("job", "lost", "7d", RUNNER, "42", "disk full")
    query = {name: values[0] for name, values in parse_qs(chosen.address()[1:]).items()}
    assert EventFilter.read(query) == chosen
    assert EventFilter().address() == ""


@pytest.mark.parametrize(
    "query",
    [{"kind": "cloud"}, {"event": "'; drop"}, {"span": "9y"}, {"runner": "x"}, {"job": "-1"}, {"colour": "red"}],
)
def test_invalid_parts_of_an_address_are_ignored(query: dict[str, str]) -> None:
    assert EventFilter.read(query) == EventFilter()


def test_the_chosen_filters_are_sent_to_the_database() -> None:
    assert EventFilter().arguments(NOW) == {"search": "", "filters": {"since": "2026-11-14T12:30:00+00:00"}}
    whole = EventFilter("runner", "offline", "all", RUNNER, "7", "x").arguments(NOW)
    assert whole["filters"] == {"kind": ["runner"], "event": ["offline"], "worker_id": RUNNER, "job": "7"}
    assert "filters=%7B%22kind%22" in export_address(EventFilter(kind="job").arguments(NOW))


def test_a_job_s_event_leads_to_the_job_and_the_runner() -> None:
    row = {
        "kind": "job", "id": 3, "at": "t", "event": "lost", "reason": "No heartbeat", "actor": "system", "job_id": 4711,
        "job_number": 42,
        "module_path": "pay/ledger", "worker_id": RUNNER, "worker_name": "edge-1",
    }  # fmt: skip
    shown = build(row)
    assert (shown["words"], shown["about"], shown["href"]) == (
        "Runner lost", "#42 pay/ledger", "/dashboard/jobs/42",
    )  # fmt: skip
    assert (shown["runner"], shown["runner_href"]) == ("edge-1", f"/dashboard/runners/{RUNNER}")


def test_an_unknown_event_is_still_shown() -> None:
    shown = build({"kind": "runner", "id": 1, "at": "t", "event": "new_thing", "worker_id": None})
    assert (shown["words"], shown["about"], shown["runner_href"]) == ("New thing", "", "")


@pytest.mark.parametrize(("reason", "shown"), [("FETCH", "Fetch source"), ("NEW_ONE", "NEW_ONE"), (None, "")])
def test_a_phase_event_shows_its_title(reason: str | None, shown: str) -> None:
    assert (
        build({"kind": "job", "id": 1, "at": "t", "event": "phase", "reason": reason, "job_number": 2})["reason"]
        == shown
    )


@pytest.mark.parametrize(
    ("event", "reason", "said"),
    [
        ("resolved", "refresh_plan", "Check requested"),
        ("claimed", "Instance vm", "on vm"),
        ("lost", "No heartbeat", "No heartbeat"),
    ],
)
def test_an_event_of_a_job_is_in_words(event: str, reason: str, said: str) -> None:
    shown = build(
        {"kind": "job", "id": 1, "at": "t", "event": event, "reason": reason, "job_number": 2, "actor": "system"}
    )
    assert (shown["reason"], shown["who"]) == (said, "Runyard")


def test_a_reason_does_not_repeat_its_event() -> None:
    shown = build({"kind": "runner", "id": 1, "at": "t", "event": "registered", "reason": "Registered by a@b.example"})
    assert (shown["words"], shown["reason"]) == ("Registered", "by a@b.example")
