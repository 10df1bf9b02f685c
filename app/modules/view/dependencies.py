"""The dependencies of a module in both directions, from the answer of list_dependencies."""

from typing import TypedDict

from app.ui.view import Row

CASCADES = {"off": "", "on_change": "planned on change", "always": "planned after each apply"}

PROPOSED = "The code reads its outputs."


class DependencyView(TypedDict):
    id: str
    path: str
    inputs: list[str]
    cascades: str


class DependenciesView(TypedDict):
    """Both directions, and the inputs that the module was not applied with."""

    producers: list[DependencyView]
    consumers: list[DependencyView]
    proposals: list[DependencyView]
    changed: str


NONE: DependenciesView = {"producers": [], "consumers": [], "proposals": [], "changed": ""}


def build(answer: Row, module_id: str) -> DependenciesView:
    edges = answer.get("dependencies") or []
    changed: list[str] = next(
        (row["changed_inputs"] for row in answer.get("modules") or [] if row["id"] == module_id), []
    )
    return {
        "producers": [_end(edge, "producer") for edge in edges if edge["consumer_id"] == module_id],
        "consumers": [_end(edge, "consumer") for edge in edges if edge["producer_id"] == module_id],
        "proposals": [
            {**_end({**row, "cascades": "off"}, "producer"), "cascades": PROPOSED}
            for row in answer.get("proposals") or []
            if row["consumer_id"] == module_id
        ],
        "changed": ", ".join(changed),
    }


def bindings(text: str) -> dict[str, str]:
    """Read "vpc_id=id, zones=zones"; a name alone is both."""
    pairs = (part.strip().partition("=") for part in text.replace("\n", ",").split(",") if part.strip())
    return {name.strip(): output.strip() or name.strip() for name, _, output in pairs}


def _end(edge: Row, end: str) -> DependencyView:
    promotion = "applied only with the same commit" if edge.get("is_promotion") else ""
    return {
        "id": str(edge[f"{end}_id"]),
        "path": str(edge[end]),
        "inputs": [f"{name} ← {output}" for name, output in sorted(edge["bindings"].items())],
        "cascades": ", ".join(filter(None, (CASCADES.get(str(edge["cascades"]), ""), promotion))),
    }
