"""The runners table, worked out from rows."""

from typing import Any

import pytest

from app.project.store import OrgStore
from app.runners.view.board import board_of, choose
from app.runners.view.jobs import build_active, say_counts
from app.runners.view.rows import build_row, engine_note, likely_action, read_pulses, why, with_departures
from app.shared.runner.versions import breaking_ahead, is_older, latest, outdated, update_kind

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
        ({"status": "OFFLINE", "never_contacted": True}, 0, "Registered, never connected"),
        (
            {"status": "OFFLINE", "never_contacted": True, "status_reason": "No usable token or service account"},
            0,
            "No usable token or service account",
        ),
        ({"status": "OFFLINE", "status_reason": "No heartbeat for 60 s"}, 0, "No heartbeat for 60 s"),
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
def test_one_likely_action_stands_in_the_row(changes: dict[str, Any], is_outdated: bool, expected: str) -> None:
    assert likely_action(worker(**changes), is_outdated) == expected


def process(name: str, file: str | None, **changes: Any) -> dict[str, Any]:
    row = {"id": name, "worker_id": "w1", "name": name, "status": "ONLINE", "facts": {"self_update": file}}
    return {**row, "updated_at": "2026-11-01T10:00:00+00:00", **changes}


@pytest.mark.parametrize(
    ("changes", "processes", "expected"),
    [
        ({"type": "cloud-hosted"}, [], "update"),
        ({}, [], "update_by_hand"),
        ({}, [process("a", None)], "update_by_hand"),
        ({}, [process("a", "runner.pex")], "update"),
        ({}, [process("a", "another.pex")], "update_by_hand"),
        ({}, [process("a", "runner.pex"), process("b", None)], "update_by_hand"),
        ({}, [process("a", "runner.pex"), process("b", None, status="OFFLINE")], "update"),
        ({"is_draining": True}, [process("a", "runner.pex")], "update_by_hand"),
    ],
)
def test_a_job_updates_what_was_deployed_from_here_and_what_updates_itself(
    changes: dict[str, Any], processes: list[dict[str, Any]], expected: str
) -> None:
    store = filled([worker(**changes, version="1.8.0")], [release("1.8.2", artifacts=[{"name": "runner.pex"}])])
    store.replace("worker_instances", processes)
    assert update_kind(store, store.rows("workers")[0]) == expected
    assert outdated(store).by_job == (expected == "update")


def test_a_narrow_card_has_the_facts_in_one_line() -> None:
    row = build_row(worker(region="eu-west-1", type="cloud-hosted"), "1.8.2", 1, 0)
    assert row["facts"] == "cloud-hosted · eu-west-1 · 1.8.2"


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
def test_a_runner_says_on_its_row_what_keeps_it_from_its_engine(instances: list[dict[str, Any]], expected: str) -> None:
    assert engine_note(instances) == expected
    assert why(worker(), note=engine_note(instances)) == expected


def test_the_page_tells_which_engine_is_being_prepared() -> None:
    store = filled([worker()])
    instance = {"id": "i1", "worker_id": "w1", "name": "a", "status": "ONLINE"}
    store.put("worker_instances", {**instance, "engine_note": "tofu is being prepared, 40 %"})
    board = board_of(store)
    assert board.preparing == "OpenTofu is being prepared, 40 %"
    assert board.rows[0]["why"].startswith(board.preparing)
    store.put("worker_instances", {**instance, "engine_note": None, "engines": {"tofu": "1.10.5"}})
    assert board_of(store).preparing == ""
    assert board_of(store).rows[0]["why"] == ""


def filled(workers: list[dict[str, Any]], releases: list[dict[str, Any]] | None = None) -> OrgStore:
    store = OrgStore(ORG)
    store.replace("workers", workers)
    store.replace("worker_releases", releases or [])
    store.is_loaded = True
    return store


def test_shared_runners_come_last_and_counts_ignore_the_filter() -> None:
    store = filled(
        [
            worker(id="a", name="aardvark", is_shared=True, type="shared"),
            worker(id="b", name="Zebra"),
            worker(id="c", name="ape", status="OFFLINE"),
        ]
    )
    board = board_of(store)
    assert [row["name"] for row in board.rows] == ["ape", "Zebra", "aardvark"]
    assert board.counts == {"all": 3, "ONLINE": 2, "DRAINING": 0, "OFFLINE": 1}
    assert [row["name"] for row in choose(board.rows, "ONLINE", "")] == ["Zebra", "aardvark"]
    assert [row["name"] for row in choose(board.rows, "ALL", " zEB ")] == ["Zebra"]


def test_the_board_is_worked_out_once_per_change() -> None:
    store = filled([worker()])
    board = board_of(store)
    assert board_of(store) is board
    store.put("workers", worker(status="OFFLINE", updated_at="2026-11-01T10:00:01+00:00"))
    assert board_of(store).rows[0]["status"] == "OFFLINE"


def test_outdated_counts_leave_shared_runners_to_the_installation() -> None:
    store = filled(
        [
            worker(id="a", version="1.8.0", type="cloud-hosted"),
            worker(id="b", version="1.8.0"),
            worker(id="c", version="1.8.0", is_shared=True, type="shared"),
            worker(id="d"),
        ],
        [release("1.8.2")],
    )
    behind = outdated(store)
    assert (behind.latest, behind.by_job, behind.by_hand) == ("1.8.2", 1, 1)


def test_slots_of_a_runner_that_is_not_there_are_not_offered() -> None:
    overview = {
        "workers": [
            {
                "id": "w1",
                "status": "OFFLINE",
                "used": 1,
                "capacity": 4,
                "last_seen_at": "2026-11-01T10:00:00+00:00",
                "instances": [{"id": "i1", "used": 1, "capacity": 4, "is_online": False}],
            }
        ]
    }
    pulses = read_pulses(overview)
    assert pulses["w1"] == {"at": "2026-11-01T10:00:00+00:00", "used": 0, "capacity": 0}
    assert pulses["i1"]["capacity"] == 0


def job(number: int, status: str, **changes: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "type": "PLAN",
        "status": status,
        "module_path": "platform/vpc",
        "created_at": "2026-11-01T10:00:00+00:00",
    }
    return {**row, **changes}


def test_active_jobs_are_those_that_wait_or_run_waiting_ones_first() -> None:
    jobs = [
        job(1, "SUCCEEDED"),
        job(2, "PROCESSING", worker_name="k8s", instance_name="runner-1"),
        job(3, "QUEUED"),
        job(4, "QUEUED"),
        job(5, "CLAIMED", worker_name="solo", instance_name="solo"),
        job(6, "NEEDS_ATTENTION"),
    ]
    active = build_active(jobs, {})
    assert [row["id"] for row in active] == [4, 3, 5, 2]
    assert [row["runner"] for row in active] == ["–", "–", "solo", "k8s / runner-1"]
    assert say_counts(jobs) == "2 queued, 1 claimed, 1 processing"


def test_a_job_about_a_runner_names_the_runner() -> None:
    rows = build_active(
        [job(9, "QUEUED", type="UPDATE_WORKER", module_path=None, target_worker_id="w1")], {"w1": "prod-us"}
    )
    assert rows[0]["path"] == "prod-us"


def test_a_silence_that_nobody_swept_is_shown_all_the_same() -> None:
    store = filled([worker(id="w1")])
    told = {"id": "w1", "status": "OFFLINE", "status_reason": "No heartbeat for 60 s", "used": 0, "capacity": 1}
    store.set_overview({"server_time": "2026-11-01T10:05:00+00:00", "workers": [told]})
    assert (board_of(store).rows[0]["status"], board_of(store).rows[0]["why"]) == ("OFFLINE", "No heartbeat for 60 s")
    assert board_of(store).counts["OFFLINE"] == 1
    store.put("workers", worker(id="w1", updated_at="2026-11-01T10:05:01+00:00"))
    assert board_of(store).rows[0]["status"] == "ONLINE"


def test_breaking_releases_are_named_where_an_update_would_pass_them() -> None:
    store = OrgStore(ORG)
    releases = [release("1.9.0", is_breaking=True), release("2.0.0", is_breaking=True), release("2.1.0")]
    store.replace("worker_releases", [*releases, release("3.0.0b1", channel="beta", is_breaking=True)])
    store.replace(
        "workers", [worker(version="1.9.0"), worker(id="w2", version="1.8.2"), worker(id="w3", version="2.1.0")]
    )
    assert breaking_ahead(store) == ["2.0.0", "1.9.0"]
    assert breaking_ahead(store, worker(version="1.9.0")) == ["2.0.0"]
    assert breaking_ahead(store, worker(version="2.0.0")) == []


def test_who_left_in_order_was_last_seen_when_it_left() -> None:
    there = {"at": "2026-11-15T14:00:09+00:00", "used": 1, "capacity": 4}
    gone = {"at": "", "used": 0, "capacity": 0}
    instances = [
        {"id": "i1", "worker_id": "w1", "disconnected_at": "2026-11-15T14:00:00+00:00"},
        {"id": "i2", "worker_id": "w1", "disconnected_at": "2026-11-15T14:00:05+00:00"},
        {"id": "i3", "worker_id": "w2", "disconnected_at": "2026-11-15T13:00:00+00:00"},
        {"id": "i4", "worker_id": "w3", "disconnected_at": None},
    ]
    pulses = with_departures({"w1": {**gone}, "w2": {**there}}, instances)
    assert pulses["w1"]["at"] == "2026-11-15T14:00:05+00:00"
    assert pulses["i1"]["at"] == "2026-11-15T14:00:00+00:00"
    assert pulses["w2"] == there
    assert "w3" not in pulses
