"""Reach, tiles, a day's strip, tokens: each from plain values."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.runners.view.curves import NO_CURVE, bars, smooth
from app.runners.view.deployment import EXPECTED, build_steps, read_test
from app.runners.view.detail import (
    build_assignments,
    build_events,
    build_instances,
    build_log,
    build_strip,
    build_tokens,
    cloud_rights,
    say_revocation,
    sentence,
)
from app.runners.view.reach import reach_of, say_reach
from app.runners.view.tiles import build_tiles
from app.ui.view import is_below
from worker.cloud.lifecycle import DEPLOY, REMOVE, LifecycleStep

NOW = datetime(2026, 11, 15, 14, 7, tzinfo=UTC)


def module(path: str, **changes: Any) -> dict[str, Any]:
    return {"path": path, "labels": [], "pinned_worker_id": None, **changes}


@pytest.mark.parametrize(
    ("path", "module_path", "expected"),
    [
        ("", "platform/vpc", True),
        ("platform", "platform/vpc", True),
        ("platform/vpc", "platform/vpc", True),
        ("plat", "platform/vpc", False),
        ("platform/vpc/deep", "platform/vpc", False),
    ],
)
def test_a_path_covers_its_own_module_and_those_below_it(path: str, module_path: str, expected: bool) -> None:
    assert is_below(module_path, path) is expected


@pytest.mark.parametrize(
    ("cloud", "role", "words"),
    [
        ({}, "", ""),
        ({"task_role_arn": "arn:made"}, "arn:made", "protect their own task"),
        (
            {"task_role_arn": "arn:given", "task": {"task_role_arn": "arn:given"}},
            "arn:given",
            "given with the deployment",
        ),
        ({"task": {"cpu": 1024}}, "", ""),
    ],
)
def test_a_deployed_runners_rights_are_read_from_its_role(cloud: dict[str, Any], role: str, words: str) -> None:
    found, said = cloud_rights({"cloud": cloud})
    assert found == role
    assert words in said


def test_reach_counts_modules_with_and_without_another_runner() -> None:
    workers = [
        {"id": "a", "labels": ["gpu=true"]},
        {"id": "b", "labels": []},
        {"id": "c", "labels": [], "is_assigned_to_all_modules": True, "is_disabled": True},
    ]
    assignments = [
        {"worker_id": "a", "path": "ml"},
        {"worker_id": "a", "path": "platform"},
        {"worker_id": "b", "path": "platform"},
    ]
    modules = [
        module("ml/one", labels=["gpu=true"]),
        module("platform/vpc"),
        module("platform/dns", pinned_worker_id="a"),
        module("web/x"),
    ]
    reach = reach_of("a", workers, assignments, modules)
    assert (reach.shared, reach.alone) == (1, 2)
    assert say_reach(reach) == "1 module has another runner, 2 have none and will wait."


def test_reach_is_described_for_none_one_and_several_modules() -> None:
    said = [
        say_reach(reach_of("a", [{"id": "a", "is_assigned_to_all_modules": True}], [], [module("x")] * n))
        for n in (0, 1, 3)
    ]
    assert said == [
        "No module depends on it.",
        "1 module it serves has no other runner and will wait.",
        "The 3 modules it serves have no other runner and will wait.",
    ]


def test_tiles_show_the_figure_and_its_change() -> None:
    figures = {
        "queue_wait": [{"p50": 2.0, "p95": 9.0}, {"p50": None, "p95": None}, {"p50": 1.5, "p95": 300.0}],
        "utilisation": [{"share": 0.5}, {"share": 0.81}],
        "throughput": [{"jobs": 100}, {"jobs": 130}, {"jobs": 7}],
    }
    tiles = build_tiles(figures, {"used": 19, "capacity": 36})
    assert (tiles["p50"]["figure"], tiles["p50"]["unit"], tiles["p50"]["move"]) == ("1.5", "s", "0.5 s vs 24 h")
    assert (tiles["p50"]["is_good"], tiles["p50"]["aside"]) == (True, "this hour")
    assert not tiles["p50"]["is_up"]
    assert (tiles["p95"]["figure"], tiles["p95"]["unit"]) == ("5.0", "min")
    assert not tiles["p95"]["is_good"]
    assert (tiles["utilisation"]["figure"], tiles["utilisation"]["move"]) == ("53", "busiest hour 81 %")
    assert tiles["throughput"]["figure"] == "130"
    assert len(tiles["throughput"]["bars"]) == 3


def test_tiles_of_an_empty_fleet_show_nothing_false() -> None:
    tiles = build_tiles({}, {"used": 0, "capacity": 0})
    assert [tiles[key]["figure"] for key in ("p50", "p95", "utilisation", "throughput")] == ["–", "–", "–", "0"]
    assert build_tiles({}, {"jobs": {"QUEUED": 4}})["p95"]["aside"] == "4 waiting now"


def test_curves_stay_inside_their_box() -> None:
    numbers = [float(value) for value in re.findall(r"-?\d+\.\d", smooth([3, 0, 9, 9, 1])["line"])]
    assert min(numbers) >= 0
    assert max(numbers[1::2]) <= 48
    assert smooth([]) == smooth([None, None]) == NO_CURVE
    assert max(bars([1, 5, 0])) <= 48


def test_a_curve_is_drawn_only_where_something_is_known() -> None:
    one, two = smooth([None, None, 5.0]), smooth([None, 2.0, 4.0, None, None])
    assert one["line"] == "M150.0 4.0C225.0 4.0 225.0 4.0 300.0 4.0"
    assert one["dot"].startswith("M294.0 4.0")
    assert two["line"].startswith("M75.0 ")
    assert two["area"].endswith("L150.0 48L75.0 48Z")
    assert smooth([1.0, 2.0, 3.0])["dot"] == ""


@pytest.mark.parametrize(
    ("counts", "figure", "unit", "move"),
    [
        ([], "0", "jobs in 24 h", ""),
        ([0, 0, 0], "0", "jobs in 24 h", ""),
        ([0, 0, 1], "1", "job this hour", ""),
        ([0, 0, 3], "3", "jobs this hour", ""),
        ([0, 4, 0], "4", "jobs/h", ""),
        ([5, 0, 0], "5", "jobs in 24 h", ""),
        ([0, 0, 10, 20, 5], "20", "jobs/h", "100 % vs 24 h"),
        ([0, 20, 20, 5], "20", "jobs/h", ""),
    ],
)
def test_throughput_counts_jobs_per_hour_or_else_per_day(counts: list[int], figure: str, unit: str, move: str) -> None:
    tile = build_tiles({"throughput": [{"jobs": count} for count in counts]}, {})["throughput"]
    assert (tile["figure"], tile["unit"], tile["move"]) == (figure, unit, move)


def test_hours_without_runners_do_not_count_for_utilisation() -> None:
    rows = [{"share": None}, {"share": 0.5}]
    tile = build_tiles({"utilisation": rows}, {"used": 0, "capacity": 4})["utilisation"]
    assert tile["curve"]["dot"] != ""
    assert tile["move"] == "busiest hour 50 %"


def quarters(*missing: int) -> list[dict[str, Any]]:
    start = NOW.replace(minute=0)
    return [
        {"at": (start - timedelta(minutes=15) * at).isoformat(), "heartbeats": 60, "status": "ONLINE", "load": 0.5}
        for at in range(96)
        if at not in missing
    ]


def test_a_strip_distinguishes_outages_from_the_time_before_the_runner_existed() -> None:
    strip = build_strip(quarters(40, 41), NOW - timedelta(days=3), NOW)
    assert strip["marks"].count("o") == 2
    assert strip["words"] == "Online in 94 of 96 quarter hours, 1 outage of 30 min"
    young = build_strip(quarters()[:4], NOW - timedelta(minutes=50), NOW)
    assert young["marks"].count("z") == 92
    assert young["words"] == "Online in 4 of 4 quarter hours"
    assert build_strip([], None, NOW)["words"] == "Nothing is known yet"


def test_draining_quarters_are_marked() -> None:
    row = {**quarters()[1], "status": "DRAINING"}
    assert build_strip([quarters()[0], row], NOW - timedelta(minutes=20), NOW)["marks"][-2:] == ["d", ""]


def test_tokens_show_which_one_is_in_use() -> None:
    rows = [
        {"id": 4, "hint": "jTeA", "is_live": True},
        {"id": 3, "hint": "c0Xw", "is_live": True, "last_used_at": "2026-11-15T14:00:05+00:00"},
        {"id": 2, "hint": "p3Qz", "is_live": True, "last_used_at": "2026-11-15T14:00:00+00:00"},
        {"id": 1, "is_live": False},
    ]
    assert [token["word"] for token in build_tokens(rows)] == ["new, not used yet", "in use", "old", "ended"]


def test_revoking_names_connected_instances_and_lost_jobs() -> None:
    new, used, *_ = build_tokens(
        [{"id": 2, "is_live": True}, {"id": 1, "is_live": True, "last_used_at": "2026-11-15T14:00:00+00:00"}]
    )
    assert say_revocation(used, 1, 2).startswith(
        "1 instance is connected with this token and stops now, and 2 running jobs are lost."
    )
    assert say_revocation(new, 1, 2).startswith("Nothing is connected with it now.")
    assert say_revocation(used, 0, 0).startswith("Nothing is connected with it now.")


def test_events_show_the_actor_in_a_separate_column() -> None:
    rows = [
        {"id": 1, "at": "t", "event": "registered", "reason": "Registered by ops@example.com"},
        {"id": 2, "at": "t", "event": "connected", "instance_name": "runner-2", "reason": None},
        {"id": 3, "at": "t", "event": "offline", "reason": "No heartbeat for 60 s"},
        {"id": 4, "at": "t", "event": "offline", "reason": "Stopped: process exited"},
        {"id": 5, "at": "t", "event": "disconnected", "instance_name": "runner-2", "reason": "process exited"},
    ]
    assert [(event["text"], event["by"]) for event in build_events(rows)] == [
        ("Registered", "ops@example.com"),
        ("runner-2 connected", ""),
        ("Offline: No heartbeat for 60 s", ""),
        ("Offline: process exited", ""),
        ("runner-2 disconnected: process exited", ""),
    ]


def test_the_sentence_does_not_mention_that_a_runner_never_connected() -> None:
    known, new = {"type": "self-hosted"}, {"type": "self-hosted", "never_contacted": True}
    assert sentence(new, 0) == sentence(known, 1)


def test_assignments_name_how_much_they_cover() -> None:
    built = build_assignments(
        [
            {"path": "data/warehouse/roles", "is_module": True, "modules": 0},
            {"path": "payments/api", "is_module": False, "modules": 0},
            {"path": "platform", "is_module": False, "modules": 2},
        ]
    )
    assert [(item["path"], item["kind"]) for item in built] == [
        ("data/warehouse/roles", "Module"),
        ("payments/api", "Group, 0 modules"),
        ("platform", "Group, 2 modules"),
    ]


def test_steps_that_were_reported_come_before_those_ahead_and_the_clean_up_is_not_shown() -> None:
    reported = [
        {"name": "identity", "title": "Cloud identity", "status": "SUCCEEDED", "started_at": "x"},
        {"name": "report", "title": "Report and clean up", "status": "RUNNING"},
    ]
    steps = build_steps({"type": "DEPLOY_WORKER", "status": "PROCESSING", "steps": reported})
    assert [step["title"] for step in steps] == list(EXPECTED["DEPLOY_WORKER"])
    assert [step["status"] for step in steps] == ["SUCCEEDED", *["PENDING"] * 8]


@pytest.mark.parametrize(("kind", "parts"), [("DEPLOY_WORKER", DEPLOY), ("REMOVE_WORKER", REMOVE)])
def test_the_sheet_expects_the_steps_of_the_runner(kind: str, parts: tuple[LifecycleStep, ...]) -> None:
    assert EXPECTED[kind] == ("Cloud identity", *(part.title for part in parts))


@pytest.mark.parametrize(
    ("job", "found"),
    [
        ({"status": "QUEUED"}, ("TESTING", "Waiting for a runner to test it")),
        ({"status": "PROCESSING"}, ("TESTING", "Testing")),
        ({"status": "SUCCEEDED", "finished_at": "x"}, ("WORKS", "Works")),
        ({"status": "FAILED", "error": {"message": "No trust."}}, ("BROKEN", "No trust.")),
        ({"status": "CANCELLED", "error": None}, ("BROKEN", "The test was cancelled.")),
    ],
)
def test_an_identitys_test_shows_the_result_of_its_job(job: dict[str, Any], found: tuple[str, str]) -> None:
    assert read_test(job) == found


def test_an_instance_shows_its_isolation_and_its_problem() -> None:
    row = {"id": 1, "name": "a", "status": "ONLINE", "last_error": "old"}
    degraded = {"code": "disk", "reason": "The disk is full.", "since": "2026-11-15T14:00:00Z"}
    told = build_instances([{**row, "facts": {"isolation": "bubblewrap", "degraded": degraded}}])[0]
    assert (told["isolation"], told["error"]) == ("Sandbox (bubblewrap)", "The disk is full.")
    for facts in (None, [], {"isolation": ["x"], "degraded": "x"}):
        untold = build_instances([{**row, "facts": facts}])[0]
        assert (untold["isolation"], untold["error"]) == ("–", "old")


def test_the_log_lists_the_problems_of_all_processes_and_survives_odd_reports() -> None:
    old = {"at": "2026-11-18T01:00:00Z", "level": "warning", "text": "cut off"}
    new = {"at": "2026-11-18T01:00:09Z", "level": "error", "text": "the disk is full"}
    rows = [
        {"id": "1", "name": "a", "facts": {"log": [old, "odd"]}},
        {"id": "2", "name": "b", "facts": {"log": [new]}},
        {"id": "3", "name": "c", "facts": {"log": "odd"}},
        {"id": "4", "name": "d", "facts": None},
    ]
    assert [(line["instance"], line["text"]) for line in build_log(rows)] == [
        ("b", "the disk is full"),
        ("a", "cut off"),
    ]
