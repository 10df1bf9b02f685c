"""The fleet's events in one list: both kinds, newest first, searched, filtered, a page at a time, and only the members' own."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused


def events(org: Organization, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = org.owner.call("list_events", p_org=org.id, **more)
    return answer


def said(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["kind"], row["event"]) for row in page["rows"]]


@pytest.fixture
def busy(world: World, org: Organization, other_org: Organization) -> Runner:
    """A runner that has done a job, and somebody else's organisation."""
    other_org.runner("theirs").heartbeat()
    other_org.enqueue("x/y")
    runner = org.runner("build-host-7", is_assigned_to_all_modules=True)
    org.enqueue("pay/ledger", reason="Because of the audit")
    job = runner.claim_one()
    runner.report(job, "PLAN")
    runner.finish(job)
    return runner


def test_both_kinds_are_in_one_list_newest_first(org: Organization, busy: Runner) -> None:
    page = events(org)
    kinds = {row["kind"] for row in page["rows"]}
    assert kinds == {"job", "runner"}
    times = [row["at"] for row in page["rows"]]
    assert times == sorted(times, reverse=True)
    newest = page["rows"][0]
    assert (newest["event"], newest["module_path"], newest["worker_name"]) == (
        "succeeded",
        "pay/ledger",
        "build-host-7",
    )
    assert ("job", "phase") not in said(page), "a job's phases are for those who ask for them"
    asked = events(org, p_filters={"event": ["phase"]})
    assert [row["reason"] for row in asked["rows"]] == ["PLAN"]
    assert page["has_more"] is False
    assert "theirs" not in str(page)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("succeed", [("job", "succeeded")]),
        ("AUDIT", [("job", "enqueued")]),
        ("nobody says this", []),
        ("100%", []),
    ],
)
def test_the_search_covers_events_and_their_reasons(
    org: Organization, busy: Runner, search: str, found: list[tuple[str, str]]
) -> None:
    assert said(events(org, p_search=search)) == found


def test_a_search_by_name_finds_a_runners_own_events_and_its_actions_on_jobs(org: Organization, busy: Runner) -> None:
    org.runner("another").heartbeat()
    by_name = said(events(org, p_search="host-7"))
    assert ("runner", "connected") in by_name
    assert ("job", "claimed") in by_name
    assert ("job", "enqueued") not in by_name
    assert said(events(org, p_filters={"worker_id": busy.worker_id}))[0] == ("job", "succeeded")


def test_events_by_kind_name_job_and_time(world: World, org: Organization, busy: Runner) -> None:
    (job,) = {row["job_number"] for row in events(org, p_filters={"kind": ["job"]})["rows"]}
    assert {row["kind"] for row in events(org, p_filters={"kind": ["runner"]})["rows"]} == {"runner"}
    assert said(events(org, p_filters={"event": ["claimed", "registered"]})) == [
        ("job", "claimed"),
        ("runner", "registered"),
    ]
    assert {kind for kind, _ in said(events(org, p_filters={"job": str(job)}))} == {"job"}
    assert events(org, p_filters={"since": "2099-01-01"})["rows"] == []
    assert events(org, p_filters={"until": "2000-01-01"})["rows"] == []
    world.owner.connection.execute("update public.job_events set at = '2001-01-01' where event = 'claimed'")
    assert said(events(org, p_filters={"since": "2000-12-31", "until": "2001-01-02"})) == [("job", "claimed")]


def test_pages_follow_each_other(org: Organization, busy: Runner) -> None:
    whole = events(org)["rows"]
    pages = [events(org, p_limit=2, p_offset=at) for at in range(0, len(whole), 2)]
    assert [row for page in pages for row in page["rows"]] == whole
    assert [page["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"p_limit": 0}, "A page has 1 to 200 rows"),
        ({"p_offset": 10_001}, "Events are turned over up to the ten thousandth."),
        ({"p_filters": {"colour": "red"}}, "Unknown option: colour."),
        ({"p_filters": {"worker_id": "x"}}, "A filter of the list is not valid."),
        ({"p_filters": {"job": "x"}}, "A filter of the list is not valid."),
        ({"p_filters": {"job": "9" * 30}}, "A filter of the list is not valid."),
        ({"p_filters": {"since": "soon"}}, "A filter of the list is not valid."),
        ({"p_filters": {"until": "2000-99-99"}}, "A filter of the list is not valid."),
    ],
)
def test_invalid_pages_and_filters_are_refused(org: Organization, bad: Any, words: str) -> None:
    with refused("RY422", words):
        events(org, **bad)


def test_events_are_the_members_own(org: Organization, other_org: Organization, busy: Runner) -> None:
    assert org.member("viewer").call("list_events", p_org=org.id)["rows"]
    with refused("RY404"):
        other_org.owner.call("list_events", p_org=org.id)
