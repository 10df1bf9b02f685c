"""The positions of modules in the drawing, and the dependencies of one, from the answer of list_dependencies."""

from typing import Any

from app.modules.view.dependencies import bindings
from app.modules.view.dependencies import build as build_dependencies
from app.modules.view.graph import NOTHING, build

EDGE = {"consumer_id": "2", "producer_id": "1", "consumer": "apps/site", "producer": "net/vpc", "cascades": "on_change"}
LAST = {"number": 7, "type": "APPLY", "status": "FAILED"}
ANSWER: dict[str, Any] = {
    "modules": [
        {"id": "1", "path": "net/vpc", "step": 1, "changed_inputs": [], "last_job": LAST},
        {"id": "3", "path": "net/alone", "step": 1, "changed_inputs": []},
        {"id": "2", "path": "apps/site", "step": 2, "changed_inputs": ["vpc_id"]},
    ],
    "dependencies": [{**EDGE, "bindings": {"vpc_id": "id"}}],
}


def test_modules_are_drawn_in_the_column_of_their_step() -> None:
    graph = build(ANSWER)
    assert [(node["path"], node["step"]) for node in graph["nodes"]] == [("net/vpc", 1), ("apps/site", 2)]
    assert graph["nodes"][0]["left"] < graph["nodes"][1]["left"]
    assert (graph["nodes"][1]["takes"], graph["nodes"][0]["used_by"]) == ("net/vpc (id)", 1)
    assert [step["label"] for step in graph["steps"]] == ["Step 1", "Step 2"]
    assert ([edge["words"] for edge in graph["edges"]], graph["alone"]) == (["net/vpc → apps/site: id → vpc_id"], 1)
    assert graph["edges"][0]["head"].startswith(f"M{graph['nodes'][1]['left'][:-2]},"), "an arrow ends at its module"
    assert [(node["status"], node["words"], node["job"]) for node in graph["nodes"]] == [
        ("FAILED", "Last apply failed", "7"),
        ("", "Never applied", ""),
    ]


def test_modules_without_dependencies_are_counted_alone() -> None:
    graph = build({"modules": ANSWER["modules"], "dependencies": []})
    assert (graph["nodes"], graph["alone"], graph["edges"]) == ([], 3, [])
    assert build({})["nodes"] == NOTHING["nodes"]


def test_dependencies_are_seen_from_both_ends() -> None:
    site, vpc = build_dependencies(ANSWER, "2"), build_dependencies(ANSWER, "1")
    assert site["producers"] == [
        {"id": "1", "path": "net/vpc", "inputs": ["vpc_id ← id"], "cascades": "planned on change"}
    ]
    assert (site["changed"], vpc["changed"], vpc["consumers"][0]["path"]) == ("vpc_id", "", "apps/site")


def test_bindings_are_read_from_one_line() -> None:
    assert bindings("vpc_id=id, zones\n key = secret ,") == {"vpc_id": "id", "zones": "zones", "key": "secret"}
    assert bindings("  ") == {}
