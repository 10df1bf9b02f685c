"""Groups fold, modules carry the dot of their last run."""

from typing import Any

from app.modules.view.tree import Node, build, nearest, result


def module(path: str, status: str = "") -> dict[str, Any]:
    last = {"last_job": {"status": status}} if status else {}
    return {"id": path, "name": path.rsplit("/", 1)[-1], "path": path, "last_job_status": status, **last}


GROUPS = ["platform", "platform/network", "sandbox"]
COUNTS = {"platform/network": 1, "platform/dns": 1, "platform": 1}
LISTS = {
    "platform/network": ([module("platform/network/vpc", "SUCCEEDED")], 1),
    "platform/dns": ([module("platform/dns/zones")], 1),
    "platform": ([module("platform/eks", "PROCESSING")], 1),
}


def tree(*opened: str) -> list[Node]:
    return build(GROUPS, COUNTS, LISTS, opened)


def names(opened: list[str]) -> list[tuple[int, str]]:
    return [(node.depth, node.name) for node in tree(*opened)]


def test_only_the_outer_groups_are_in_sight_at_first() -> None:
    assert names([]) == [(0, "platform"), (0, "sandbox")]


def test_an_open_group_shows_groups_before_modules() -> None:
    assert names(["platform"]) == [(0, "platform"), (1, "dns"), (1, "network"), (1, "eks"), (0, "sandbox")]


def test_an_open_group_in_a_folded_one_stays_out_of_sight() -> None:
    assert names(["platform/network"]) == [(0, "platform"), (0, "sandbox")]


def test_counts_are_of_everything_below() -> None:
    counts = {node.path: node.count for node in tree("platform")}
    assert (counts["platform"], counts["platform/network"], counts["sandbox"]) == (3, 1, 0)


def test_a_search_opens_matching_groups_and_hides_the_rest() -> None:
    found = build(GROUPS, {"platform/network": 1}, {"": ([module("platform/network/vpc")], 1)}, [], is_search=True)
    assert [(node.depth, node.name) for node in found] == [(0, "platform"), (1, "network"), (2, "vpc")]
    assert build(GROUPS, {}, {"": ([], 0)}, [], is_search=True) == []


def test_a_group_too_large_to_list_shows_how_many_modules_are_missing() -> None:
    listed = {"sandbox": ([module("sandbox/a"), module("sandbox/b")], 1802)}
    nodes = build(GROUPS, {"sandbox": 1802}, listed, ["sandbox"])
    assert [node.name for node in nodes] == ["platform", "sandbox", "a", "b", "1,800 more: search for them"]


def test_the_dots_title_shows_the_result_of_the_last_run() -> None:
    titles = {node.name: node.title for node in tree("platform", "platform/network", "platform/dns")}
    assert (titles["vpc"], titles["eks"], titles["zones"]) == (
        "Last apply succeeded",
        "Apply: processing",
        "Never applied",
    )


def test_a_module_with_drift_shows_when_the_drift_began() -> None:
    row = {"id": "d", "name": "db", "path": "a/db", "drift_since": "2030-01-31T02:00:00Z"}
    nodes = build([], {"a": 1}, {"": ([row], 1)}, [], is_search=True)
    assert [(node.path, node.drift) for node in nodes] == [("a", ""), ("a/db", "Drift since 2030-01-31")]


def test_a_dots_title_names_the_type_of_the_last_job() -> None:
    assert result("FAILED", "DESTROY") == "Last destroy failed"
    assert result("SUCCEEDED", "DRIFT") == "Last drift check succeeded"


def test_a_path_that_does_not_exist_has_near_ones() -> None:
    paths = ["team/app/hello", "team/app/help", "other/thing"]
    assert nearest("team/app/helo", paths)[0] == "team/app/hello"
    assert nearest("zzz", paths) == []
