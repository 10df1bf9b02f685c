"""A module's page shows its state, its files, its locks and its jobs."""

from typing import Any

import pytest

from app.jobs.view.detail import build_outputs
from app.modules.view import contents as views
from app.modules.view.group import first, modules, runner, summary

ANSWER = {
    "total": 3,
    "found": 3,
    "types": {"vm": 2, "role": 1},
    "resources": [{"address": "role.c"}, {"address": "vm.a", "id": "i-1"}, {"address": "vm.b"}],
    "outputs": {"url": {"value": "https://x"}, "n": {"value": 3}, "key": {"sensitive": True, "value": None}},
}


def job(number: int, status: str, seconds: int, **more: Any) -> dict[str, Any]:
    start = "2026-11-15T14:00:00+00:00"
    end = f"2026-11-15T14:{seconds // 60:02}:{seconds % 60:02}+00:00"
    return {"id": 1000 + number, "number": number, "status": status, "started_at": start, "finished_at": end, **more}


def test_contents_are_counted_by_type_and_listed_by_address() -> None:
    found = views.contents(ANSWER, views.Drift(), is_all=False)
    assert [(each["name"], each["number"], each["share"]) for each in found.types] == [
        ("vm", 2, "100%"),
        ("role", 1, "50%"),
    ]
    assert (found.total, found.more, found.resources[0]["address"]) == (3, 0, "role.c")
    assert {each["name"]: each["value"] for each in found.outputs} == {"key": "", "n": "3", "url": "https://x"}
    assert list(found.outputs) == build_outputs({"result": {"outputs": ANSWER["outputs"]}}), "as on a job's page"


def test_drifted_resources_are_first_and_link_to_the_job_that_found_the_drift() -> None:
    summary = {"resources": [{"address": "vm.b", "action": "update"}, "odd"]}
    known = views.drift({"drift_since": "x", "drift_checked_at": "y"}, [{"number": 7, "plan_summary": summary}])
    found = views.contents(ANSWER, known, is_all=True)
    assert [(row["address"], row["drift"], row["id"]) for row in found.resources] == [
        ("vm.b", "Drifted", "–"),
        ("role.c", "In sync", "–"),
        ("vm.a", "In sync", "i-1"),
    ]
    assert known.job == "7"
    assert views.drift({"drift_since": "x"}, []) == views.drift({}, [{"id": 7}]) == views.Drift()
    assert {row["drift"] for row in views.contents(ANSWER, views.Drift(), is_all=True).resources} == {"Not checked"}


def test_many_types_are_summed_up() -> None:
    found = views.contents({"total": 9, "types": {f"t{at}": 1 for at in range(9)}}, views.Drift(), is_all=True)
    assert found.types[-1] == {"name": "3 other types", "number": 3, "share": "100%"}


@pytest.mark.parametrize("odd", [None, [], "x", {}, {"resources": [1], "outputs": {"a": 1}}])
def test_odd_answers_are_passed_over(odd: Any) -> None:
    assert views.contents(odd, views.Drift(), is_all=False).resources == ()
    assert not views.lock(odd, None).is_held


def test_the_chart_is_as_high_as_jobs_are_long_and_newest_last() -> None:
    running = job(4, "PROCESSING", 0, finished_at=None)
    drawn = views.chart([running, job(3, "FAILED", 30), job(2, "SUCCEEDED", 60), job(1, "CANCELLED", 1)])
    assert [(bar["href"][-1], bar["style"], bar["height"]) for bar in drawn.bars] == [
        ("1", "c", "3%"), ("2", "", "100%"), ("3", "x", "50%"),
    ]  # fmt: skip
    assert "3 jobs" in drawn.words
    assert (drawn.most, views.chart([job(1, "SUCCEEDED", 1)]).half) == ("1 min", "1 s")
    assert drawn.middle == "30 s"
    assert views.chart([]).bars == ()


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (59.4, "59 s"), (91, "1 min 31 s"), (660, "11 min")])
def test_durations_are_written_in_minutes_and_seconds(seconds: float, said: str) -> None:
    assert views.spoken(seconds) == said


def test_a_lock_shows_its_verdict_and_its_evidence() -> None:
    evidence = [{"weighs": "against", "text": "It runs.", "at": None}]
    found = views.lock(
        {"is_locked": True, "verdict": "unsafe", "evidence": evidence}, {"user_label": "a", "reason": "b"}
    )
    assert (found.colour, found.evidence[0]["at"], found.by, found.reason) == ("red", "", "a", "b")


def test_files_of_inline_modules_are_shown_and_extra_files_of_all() -> None:
    extra = [{"path": "x.json", "content": "{}"}]
    assert [
        each["name"]
        for each in views.files({"source_kind": "inline", "source": {"files": {"main.tf": "a"}}, "extra_files": extra})
    ] == ["main.tf", "x.json"]
    assert [each["name"] for each in views.files({"source_kind": "git", "source": {"files": {"a": "b"}}})] == []


def test_a_runner_of_a_group_shows_the_assignment_that_counts() -> None:
    rows = [
        {"id": "1", "name": "near", "path": "a/b"},
        {"id": "2", "name": "far", "path": "a", "is_disabled": True},
        {"id": "3", "name": "all", "path": None, "is_assigned_to_all_modules": True},
        {"id": "4", "name": "everywhere", "path": ""},
        {"id": "5", "name": "shared", "path": None, "is_shared": True},
    ]
    assert [(each["why"], each["is_here"]) for each in (runner(row, "a/b") for row in rows)] == [
        ("Assigned to a/b.", True),
        ("Assigned to a. Disabled.", False),
        ("Serves all modules.", False),
        ("Assigned to all modules.", False),
        ("Shared: tried when no own runner can.", False),
    ]


def test_a_group_lists_the_modules_below_it_with_drift_and_last_job() -> None:
    last = {"id": 1007, "number": 7, "type": "DESTROY", "status": "FAILED", "finished_at": "2026-11-15T14:00:00Z"}
    rows = [
        {"path": "a/b/c", "name": "c", "last_job": last, "drift_since": "x", "drift_resources": 2},
        {"path": "a/b/d", "name": "d", "last_job": None},
        {"path": "ab/c", "name": "c"},
    ]
    found = [(each["path"], each["drift"], each["job"], each["ended_at"]) for each in modules("a/b", rows)]
    assert found == [("a/b/c", "Drift in 2", "7", "2026-11-15T14:00:00Z"), ("a/b/d", "", "", "")]


def test_a_group_begins_with_what_needs_somebody_and_what_changed_last() -> None:
    ends = (("old", "SUCCEEDED", "1"), ("new", "SUCCEEDED", "3"), ("bad", "FAILED", "2"), ("never", "", ""))
    rows = [{"path": f"a/{name}", "last_job": {"status": status, "finished_at": at}} for name, status, at in ends]
    found = modules("a", [*rows, {"path": "a/drifts", "drift_since": "x"}])
    assert [each["path"] for each in first(found)] == ["a/bad", "a/drifts", "a/new", "a/old", "a/never"]
    assert len(first(found * 3)) == 8


def test_a_group_counts_problems_only_when_all_its_modules_are_known() -> None:
    rows = [
        {"drift_since": "x", "last_job": {"status": "FAILED"}},
        {"drift_since": "x"},
        {"last_job": {"status": "NEEDS_ATTENTION"}},
    ]
    assert summary(rows, 3) == "2 have drift, 1 failed, 1 needs attention"
    assert summary(rows, 4) == summary([{"last_job": {"status": "SUCCEEDED"}}], 1) == ""
