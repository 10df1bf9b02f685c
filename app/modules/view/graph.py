"""The graph of dependencies: one column for each step, and one line that draws every edge."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict
from urllib.parse import quote

from app.modules.view.tree import result
from app.ui.view import Row, count

WIDTH, HEIGHT, GAP_X, GAP_Y, TOP = 218, 58, 96, 16, 26
LEGEND = "An edge leads from outputs to the module that uses them."


class NodeView(TypedDict):
    """A module where it is drawn, and its row in the table."""

    path: str
    href: str
    left: str
    top: str
    step: int
    takes: str
    used_by: int
    status: str
    words: str
    job: str
    changed: str


class StepView(TypedDict):
    label: str
    left: str


class EdgeView(TypedDict):
    """The line of a dependency, its head, and what it carries."""

    line: str
    head: str
    words: str


class GraphView(TypedDict):
    nodes: list[NodeView]
    steps: list[StepView]
    edges: list[EdgeView]
    width: str
    height: str
    said: str
    alone: int


NOTHING: GraphView = {"nodes": [], "steps": [], "edges": [], "width": "0px", "height": "0px", "said": "", "alone": 0}


def build(answer: Row) -> GraphView:
    """Place the modules that have dependencies; the others are counted."""
    edges = answer.get("dependencies") or []
    linked = {str(edge[end]) for edge in edges for end in ("consumer_id", "producer_id")}
    modules = [row for row in answer.get("modules") or [] if row["id"] in linked]
    places = _places(modules)
    nodes = [_node(row, edges_of, places, used) for edges_of, used in [_about(edges)] for row in modules]
    steps = max((int(row["step"]) for row in modules), default=0)
    rows = max(Counter(int(row["step"]) for row in modules).values(), default=0)
    return {
        "nodes": nodes,
        "steps": [{"label": f"Step {step + 1}", "left": f"{step * (WIDTH + GAP_X)}px"} for step in range(steps)],
        "edges": [_edge(edge, places[edge["producer_id"]], places[edge["consumer_id"]]) for edge in edges],
        "width": f"{max(0, steps * (WIDTH + GAP_X) - GAP_X)}px",
        "height": f"{TOP + rows * (HEIGHT + GAP_Y)}px",
        "said": f"{count(len(modules), 'module')} in {count(steps, 'step')}. {LEGEND}" if modules else "",
        "alone": len(answer.get("modules") or []) - len(modules),
    }


def _places(modules: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Return the place of each module in the drawing: its column is its step, its row the order by path."""
    rows: Counter[int] = Counter()
    found = {}
    for row in modules:
        step = int(row["step"])
        found[str(row["id"])] = ((step - 1) * (WIDTH + GAP_X), TOP + rows[step] * (HEIGHT + GAP_Y))
        rows[step] += 1
    return found


def _about(edges: Sequence[Row]) -> tuple[dict[str, list[str]], Counter[str]]:
    """List the other modules that each module uses, with the outputs, and count the users of each module."""
    takes: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        outputs = ", ".join(sorted(set(edge["bindings"].values())))
        takes[str(edge["consumer_id"])].append(f"{edge['producer']} ({outputs})" if outputs else str(edge["producer"]))
    return takes, Counter(str(edge["producer_id"]) for edge in edges)


def _node(
    row: Row, takes: Mapping[str, list[str]], places: Mapping[str, tuple[int, int]], used: Counter[str]
) -> NodeView:
    key, path = str(row["id"]), str(row["path"])
    left, top = places[key]
    last = row.get("last_job") or {}
    status, kind = str(last.get("status") or ""), str(last.get("type") or "")
    return {
        "path": path,
        "href": f"/dashboard/modules?path={quote(path)}",
        "left": f"{left}px",
        "top": f"{top}px",
        "step": int(row["step"]),
        "takes": "; ".join(takes.get(key, [])),
        "used_by": used[key],
        "status": status,
        "words": result(status, kind),
        "job": str(last.get("number") or ""),
        "changed": ", ".join(row.get("changed_inputs") or []),
    }


def _edge(edge: Row, start: tuple[int, int], end: tuple[int, int]) -> EdgeView:
    x, y = start[0] + WIDTH, start[1] + HEIGHT // 2
    far, down = end[0], end[1] + HEIGHT // 2
    half = (x + far) // 2
    carried = ", ".join(f"{output} → {given}" for given, output in sorted(edge["bindings"].items()))
    return {
        "line": f"M{x},{y} C{half},{y} {half},{down} {far - 6},{down}",
        "head": f"M{far},{down} l-8,-4 v8 z",
        "words": f"{edge['producer']} → {edge['consumer']}" + (f": {carried}" if carried else ""),
    }
