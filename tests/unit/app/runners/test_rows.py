"""The runners table, worked out from rows."""

from typing import Any

import pytest

from app.frame.versions import breaking_ahead, is_older, latest, update_kind
from app.project.store import OrgStore
from app.runners.view.jobs import active_row, say_counts
from app.runners.view.rows import build_row, engine_note, likely_action, preparing, read_counts, read_pulses, why

ORG = "11111111-1111-4111-8111-111111111111"


def worker(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "w1",
        "name": "prod-eu",
        "type": "self-hosted",
        "region": None,
        "status": "ONLINE",
        "status_reason": "Ready",
        "version": "1.8.2",
        "is_shared": False,
        "is_disabled": False,
        "is_draining": False,
        "drain_reason": None,
        "is_scaled_to_zero": False,
        "never_contacted": False,
        "created_at": "2026-11-01T10:00:00+00:00",
        "updated_at": "2026-11-01T10:00:00+00:00",
    }
    return {**row, **changes}


def release(version: str, **changes: Any) -> dict[str, Any]:
    row = {"id": version, "version": version, "channel": "stable", "published_at": "2026-11-01T10:00:00+00:00"}
    return {**row, "withdrawn_at": None, **changes}


@pytest.mark.parametrize(
    ("version", "newest", "expected"),
    [
        ("1.9.0", "1.10.0", True),
        ("1.10.0", "1.9.0", False),
        ("1.8.2", "1.8.2", False),
        ("1.8.2rc1", "1.8.2", True),
        ("from-a-checkout", "1.8.2", False),
        (None, "1.8.2", False),
        ("1.8.2", "", False),
    ],
)
def test_outdated_means_older_in_version_order(version: str | None, newest: str, expected: bool) -> None:
    assert is_older(version, newest) is expected


def test_latest_is_the_newest_stable_release_that_was_not_withdrawn() -> None:
    releases = [
        release("1.9.0"),
        release("1.10.0"),
        release("1.11.0", withdrawn_at="2026-11-02T10:00:00+00:00"),
        release("2.0.0b1", channel="beta"),
        release("not-a-version"),
    ]
    assert latest(releases) == "1.10.0"
    assert latest([]) == ""


@pytest.mark.parametrize(
    ("changes", "jobs", "expected"),
    [
        ({}, 0, ""),
        (
            {"status": "DRAINING", "is_draining": True, "drain_reason": "Host maintenance"},
            1,
            "Host maintenance, 1 job left",
        ),
        ({"status": "DRAINING"}, 2, "2 jobs left"),
        ({"is_disabled": True}, 0, "Disabled, takes no new jobs"),
        ({"status": "OFFLINE", "is_scaled_to_zero": True}, 0, "Starts on the next job"),
        ({"status": "OFFLINE", "never_contacted": True}, 0, "Never contacted"),
        (
            {"status": "OFFLINE", "never_contacted": True, "status_reason": "No usable token or service account"},
            0,
            "No usable token or service account",
        ),
        ({"status": "OFFLINE", "status_reason": "No heartbeat for 60 s"}, 0, "No heartbeat"),
        ({"status": "OFFLINE", "status_reason": "Stopped: process exited"}, 0, "Process exited"),
        ({"status": "OFFLINE", "status_reason": "Stopped: its token was revoked"}, 0, "Its token was revoked"),
    ],
)
def test_a_state_has_its_reason_beside_it(changes: dict[str, Any], jobs: int, expected: str) -> None:
    assert why(worker(**changes), jobs) == expected


@pytest.mark.parametrize(
    ("changes", "is_outdated", "expected"),
    [
        ({}, False, ""),
        ({}, True, "update"),
        ({"is_disabled": True}, True, "enable"),
        ({"is_draining": True}, True, "resume"),
        ({"type": "cloud-hosted", "status": "OFFLINE"}, False, "deploy"),
        ({"type": "cloud-hosted", "status": "OFFLINE", "is_scaled_to_zero": True}, False, ""),
        ({"type": "cloud-hosted", "status": "OFFLINE", "is_scaled_to_zero": True}, True, "update"),
        ({"is_shared": True, "type": "shared"}, True, ""),
    ],
)
def test_a_row_offers_the_most_likely_action(changes: dict[str, Any], is_outdated: bool, expected: str) -> None:
    assert likely_action(worker(**changes), is_outdated) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "cloud-hosted"}, "update"),
        ({}, "update_by_hand"),
        ({"updates_itself": True}, "update"),
        ({"updates_itself": True, "is_draining": True}, "update_by_hand"),
        ({"updates_itself": True, "is_disabled": True}, "update_by_hand"),
    ],
)
def test_cloud_hosted_and_self_updating_runners_are_updated_by_a_job(changes: dict[str, Any], expected: str) -> None:
    assert update_kind(worker(**changes)) == expected


def test_a_narrow_card_has_the_facts_in_one_line() -> None:
    row = build_row(worker(region="eu-west-1", type="cloud-hosted"))
    assert row["facts"] == "cloud-hosted · eu-west-1 · 1.8.2"


def test_a_row_shows_each_problem_once() -> None:
    ill = worker(
        health=["degraded", "outdated", "not_isolated"],
        health_reason="No engine was found on it.",
        processes=[{"engine_note": "no engine was found"}],
    )
    row = build_row(ill)
    assert [(item["word"], item["text"]) for item in row["health"]] == [
        ("Degraded", "No engine was found on it"),
        ("Outdated", "1.8.2"),
        ("Not isolated", "Jobs run without a sandbox"),
    ]
    assert (row["why"], row["is_outdated"]) == ("", True)
    assert build_row(worker(health=["healthy"]))["health"] == []


@pytest.mark.parametrize(
    ("instances", "expected"),
    [
        ([], ""),
        ([{"engines": {"tofu": "1.10.5"}}], ""),
        ([{"engine_note": "tofu is being prepared, 40 %"}], "OpenTofu is being prepared, 40 %; its jobs wait for that"),
        (
            [{"engines": {"terraform": "1.13.3"}, "engine_note": "tofu is being prepared, 40 %"}],
            "OpenTofu is being prepared, 40 %",
        ),
        ([{"engine_note": "tofu could not be prepared: no disk"}], "OpenTofu could not be prepared: no disk"),
        ([{"engine_note": "no engine was found"}], "No engine was found"),
    ],
)
def test_a_runners_row_shows_why_an_engine_is_missing(instances: list[dict[str, Any]], expected: str) -> None:
    assert engine_note(instances) == expected
    assert why(worker(), note=engine_note(instances)) == expected


def test_a_runners_row_shows_which_engine_is_being_prepared() -> None:
    process = {"id": "i1", "name": "a", "status": "ONLINE", "engine_note": "tofu is being prepared, 40 %"}
    assert preparing([process]) == "OpenTofu is being prepared, 40 %"
    assert build_row(worker(processes=[process]))["why"].startswith("OpenTofu is being prepared, 40 %")
    assert preparing([{**process, "engine_note": None}]) == ""


def test_counts_are_of_every_status_that_the_filter_offers() -> None:
    assert read_counts({"ONLINE": 2}) == {"all": 2, "ONLINE": 2, "DRAINING": 0, "OFFLINE": 0}


def test_slots_of_an_offline_runner_are_not_offered() -> None:
    at = "2026-11-01T10:00:00+00:00"
    gone = worker(status="OFFLINE", used=1, slots=4, last_seen_at=at, pulses={"i1": {"used": 1, "capacity": 4}})
    pulses = read_pulses(gone)
    assert pulses["w1"] == {"at": at, "used": 0, "capacity": 0}
    assert pulses["i1"]["capacity"] == 0


def test_a_runner_that_disconnected_was_last_seen_at_that_time() -> None:
    left = worker(status="OFFLINE", last_seen_at=None, left_at="2026-11-15T14:00:05+00:00")
    assert read_pulses(left)["w1"]["at"] == "2026-11-15T14:00:05+00:00"


def job(number: int, status: str, **changes: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "number": number,
        "type": "PLAN",
        "status": status,
        "module_path": "platform/vpc",
        "created_at": "2026-11-01T10:00:00+00:00",
    }
    return {**row, **changes}


def test_an_active_job_names_its_runner_once() -> None:
    assert active_row(job(3, "QUEUED"))["runner"] == "–"
    assert active_row(job(5, "CLAIMED", worker_name="solo", instance_name="solo"))["runner"] == "solo"
    assert active_row(job(2, "PROCESSING", worker_name="k8s", instance_name="one"))["runner"] == "k8s / one"
    assert say_counts({"QUEUED": 20000, "PROCESSING": 1, "SUCCEEDED": 4}) == "20,000 queued, 1 processing"


def test_a_job_about_a_runner_names_the_runner() -> None:
    about = job(9, "QUEUED", type="UPDATE_WORKER", module_path=None, target_name="prod-us")
    assert active_row(about)["path"] == "prod-us"


def test_a_silence_that_nobody_swept_is_shown_all_the_same() -> None:
    row = build_row(worker(live_status="OFFLINE"))
    assert (row["status"], row["why"], row["is_silent"]) == ("OFFLINE", "No heartbeat", True)
    assert build_row(worker(live_status="ONLINE"))["status"] == "ONLINE"


def test_breaking_releases_are_named_where_an_update_would_pass_them() -> None:
    store = OrgStore(ORG)
    releases = [release("1.9.0", is_breaking=True), release("2.0.0", is_breaking=True), release("2.1.0")]
    store.replace("worker_releases", [*releases, release("3.0.0b1", channel="beta", is_breaking=True)])
    store.set_facets({"counts": {"version": {"1.9.0": 1, "1.8.2": 1, "2.1.0": 1}}})
    assert breaking_ahead(store) == ["2.0.0", "1.9.0"]
    assert breaking_ahead(store, worker(version="1.9.0")) == ["2.0.0"]
    assert breaking_ahead(store, worker(version="2.0.0")) == []
