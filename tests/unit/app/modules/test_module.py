"""A module in words, its form there and back, and two versions of its state side by side."""

import json
from typing import Any

import pytest

from app.jobs.view.state_versions import build as build_state
from app.modules.view.compare import compare
from app.modules.view.module import build_view, drift_words, runner_of
from app.modules.view.spec import check, empty_form, to_form
from app.ui.view import is_below

MODULE: dict[str, Any] = {
    "id": "m1",
    "name": "vpc",
    "path": "platform/network/vpc",
    "group_path": "platform/network",
    "source_kind": "git",
    "source": {"url": "https://git.example.com/infra", "ref": "main", "subfolder": "vpc"},
    "engine": "tofu",
    "engine_version": "1.10.5",
    "extra_files": [{"path": "backend.tf", "content": "terraform {}"}],
    "hooks": {"before_plan": "policy.sh"},
    "labels": ["gpu=true"],
    "approvals_required": 2,
    "approval_timeout_seconds": 7200,
    "auto_apply": True,
    "can_apply_uploads": True,
}


def worker(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "labels": ["gpu=true"], **more}


def test_facts_and_source() -> None:
    view = build_view(MODULE, [], [])
    assert (view["engine"], view["source"], view["approvals"]) == (
        "OpenTofu 1.10.5",
        "git, main",
        "2 for apply and destroy",
    )
    rows = {row["label"]: row["value"] for row in view["source_rows"]}
    assert (rows["Folder"], rows["Hooks"], rows["Pinned to"]) == ("vpc", "before plan", "Not pinned")


@pytest.mark.parametrize(
    ("workers", "assignments", "expected"),
    [
        ([], [], ("None", "no runner serves this path")),
        ([worker("shared", is_shared=True)], [], ("shared", "shared")),
        ([worker("far"), worker("near")], [("far", "platform"), ("near", "platform/network")], ("near", "nearest")),
        ([worker("all", is_assigned_to_all_modules=True), worker("s", is_shared=True)], [], ("all", "nearest")),
        ([worker("a"), worker("b")], [("a", "platform"), ("b", "platform")], ("a", "or 1 other")),
        ([worker("off", is_disabled=True)], [("off", "platform")], ("None", "no runner serves this path")),
        ([{"id": "x", "name": "x", "labels": []}], [("x", "platform")], ("None", "no runner serves this path")),
    ],
)
def test_the_nearest_enabled_runner_is_shown(
    workers: list[dict[str, Any]], assignments: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    rows = [{"worker_id": who, "path": path} for who, path in assignments]
    assert runner_of(MODULE, workers, rows) == expected


def test_a_pinned_runner_wins_over_every_other() -> None:
    assert runner_of({**MODULE, "pinned_worker_id": "w"}, [worker("w")], []) == ("w", "pinned")


def test_a_path_is_below_its_parents_only() -> None:
    assert is_below("a/b", "a")
    assert is_below("a", "")
    assert not is_below("ab", "a")


def test_drift_is_read_from_the_modules_row() -> None:
    assert drift_words({}) == ("Never checked", "")
    assert drift_words({"drift_checked_at": "f"}) == ("None", "f")
    found = {"drift_since": "s", "drift_checked_at": "f", "drift_resources": 3}
    assert drift_words(found) == ("In 3 resources", "f")


def flat(module: dict[str, Any]) -> dict[str, str]:
    form = to_form(module)
    fields = dict(form["fields"])
    for prefix in ("inline", "extra"):
        for row in form[prefix]:  # type: ignore[literal-required]
            fields[f"{prefix}_path:{row['key']}"], fields[f"{prefix}_content:{row['key']}"] = (
                row["path"],
                row["content"],
            )
    return fields


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"source_kind": "inline", "source": {"files": {"main.tf": "x", "b.tf": "y"}}},
        {
            "source_kind": "archive",
            "source": {"url": "https://example.com/a.zip", "sha256": "ab" * 32, "subfolder": ""},
        },
        {"source_kind": "local", "source": {"path": "/srv/x"}},
    ],
)
def test_a_form_that_nobody_touched_changes_nothing(source: dict[str, Any]) -> None:
    module = {**MODULE, **source}
    checked = check(flat(module), is_new=True)
    assert checked.errors == {}
    kept = (
        "source_kind",
        "source",
        "engine",
        "engine_version",
        "extra_files",
        "hooks",
        "labels",
        "auto_apply",
        "can_apply_uploads",
    )
    assert {key: checked.spec[key] for key in kept} == {key: module[key] for key in kept}
    assert checked.spec["approval_timeout_seconds"] == 7200


def test_a_new_module_begins_in_its_group() -> None:
    form = empty_form("platform")
    assert (form["fields"]["group_path"], form["fields"]["source_kind"]) == ("platform", "git")


def state(*resources: tuple[str, Any]) -> str:
    rows = [
        {"type": "aws_vpc", "name": name, "instances": [{"attributes": {"id": value}}]} for name, value in resources
    ]
    return json.dumps({"serial": 1, "resources": rows})


def test_versions_compared_by_resource_without_values() -> None:
    found = compare(state(("a", 1), ("b", 1)), state(("b", 2), ("c", "secret")))
    assert [(item["symbol"], item["address"]) for item in found] == [
        ("-", "aws_vpc.a"),
        ("~", "aws_vpc.b"),
        ("+", "aws_vpc.c"),
    ]
    assert "secret" not in str(found)


def test_versions_whose_outputs_differ_are_not_the_same() -> None:
    before, after = ({"resources": [], "outputs": {"url": {"value": value}}} for value in ("old", "new"))
    found = compare(json.dumps(before), json.dumps(after))
    assert [(item["symbol"], item["address"]) for item in found] == [("~", "output.url")]


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_state_that_cannot_be_read_has_no_resources(text: str) -> None:
    assert compare(text, text) == []


def test_a_lock_shows_its_job_and_its_owner() -> None:
    lock = {
        "id": "abc",
        "job_id": 9,
        "job_number": 4828,
        "attempt": 1,
        "created_at": "c",
        "info": {"Who": "runner-1", "Operation": "apply"},
    }
    view = build_state(
        {"serial": 118, "lock": lock, "versions": [{"serial": 117, "job_id": 9, "job_number": 4702, "size": 10}]}
    )
    assert (view.is_locked, view.lock_id, view.lock_job, view.lock_attempt, view.lock_who) == (
        True,
        "abc",
        4828,
        1,
        "runner-1",
    )
    assert (view.versions[0].serial, view.versions[0].size, view.versions[0].writer) == (117, "10 B", "#4702")
    pushed = build_state({"serial": 1, "versions": [{"serial": 1, "job_id": None, "written_by": "a@example.com"}]})
    assert pushed.versions[0].writer == "pushed by a@example.com"


def test_a_job_shows_the_version_that_it_wrote_and_zero_is_a_serial() -> None:
    versions = [{"serial": 3, "job_id": 9, "created_at": "c"}, {"serial": 0, "job_id": 2, "created_at": "b"}]
    answer = {"serial": 3, "updated_at": "c", "versions": versions}
    own, other = build_state(answer, 2), build_state(answer, 7)
    assert (own.serial, own.own_serial, own.own_at, other.own_at) == (3, 0, "b", "")
    assert (build_state({"serial": 0}).serial, build_state({"serial": None}).serial) == (0, -1)


def test_no_state_is_not_locked() -> None:
    assert not build_state({"serial": None, "lock": None, "versions": []}).is_locked
    assert not build_state(None).is_known


def test_an_output_that_differs_is_a_difference() -> None:
    before = json.dumps({"outputs": {"url": {"value": "a"}, "old": {"value": 1}}, "resources": []})
    after = json.dumps({"outputs": {"url": {"value": "b"}}, "resources": []})
    assert [(one["symbol"], one["address"]) for one in compare(before, after)] == [
        ("-", "output.old"),
        ("~", "output.url"),
    ]
    assert compare(json.dumps({"outputs": [1]}), json.dumps({"outputs": None})) == []


def test_the_oldest_version_has_nothing_to_be_compared_with() -> None:
    state = build_state({"serial": 3, "versions": [{"serial": 3}, {"serial": 2}, {"serial": 1}]})
    assert [version.serial for version in state.versions if version.is_oldest] == [1]
