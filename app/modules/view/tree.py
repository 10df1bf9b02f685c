"""The tree of groups and modules, as the flat list of nodes that are in sight."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

_RESULT_WORDS = {
    "SUCCEEDED": "Last run succeeded",
    "FAILED": "Last run failed",
    "CANCELLED": "Last run was cancelled",
    "NEEDS_ATTENTION": "Needs attention",
    "AWAITING_APPROVAL": "Awaiting approval",
    "QUEUED": "Queued",
    "CLAIMED": "Running",
    "PROCESSING": "Running",
}


@dataclass(frozen=True)
class Node:
    """One line of the tree: a group that folds, or a module with the dot of its last result."""

    key: str
    name: str
    path: str
    depth: int
    is_group: bool
    is_open: bool = False
    count: int = 0
    module_id: str = ""
    status: str = ""
    title: str = ""


def parents(path: str) -> list[str]:
    """List the groups above a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts))]


def build(groups: Iterable[Row], modules: Iterable[Row], opened: Iterable[str], search: str = "") -> list[Node]:
    """List the nodes in sight; a search opens everything it finds and hides the rest."""
    wanted = search.strip().lower()
    shown = [row for row in modules if wanted in str(row["path"]).lower()]
    paths = _group_paths(groups if not wanted else (), shown)
    unfolded = paths if wanted else set(opened)
    counts = _counts(shown)
    nodes = [_group(path, unfolded, counts) for path in paths] + [_module(row) for row in shown]
    nodes.sort(key=_order)
    return [node for node in nodes if all(above in unfolded for above in parents(node.path))]


def result(status: str) -> str:
    """Say what a module's dot stands for."""
    return _RESULT_WORDS.get(status, "Never ran")


def with_last_jobs(modules: Iterable[Row], jobs: Iterable[Row]) -> list[dict[str, Any]]:
    """Put beside each module the status of its newest job; an older one than it has changes nothing."""
    newest: dict[str, Row] = {}
    for job in jobs:
        module = str(job.get("module_id"))
        if module not in newest or int(job["id"]) > int(newest[module]["id"]):
            newest[module] = job
    return [_with_last_job(row, newest.get(str(row["id"]))) for row in modules]


def _with_last_job(row: Row, job: Row | None) -> dict[str, Any]:
    if job is None or int(job["id"]) < int(row.get("last_job_id") or 0):
        return dict(row)
    return {**row, "last_job_id": job["id"], "last_job_status": job["status"]}


def _group_paths(groups: Iterable[Row], modules: Iterable[Row]) -> set[str]:
    paths = {str(row["path"]) for row in groups}
    for path in [*paths, *(str(row["path"]) for row in modules)]:
        paths.update(parents(path))
    return paths


def _counts(modules: Iterable[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in modules:
        for above in parents(str(row["path"])):
            counts[above] = counts.get(above, 0) + 1
    return counts


def _group(path: str, unfolded: set[str], counts: Mapping[str, int]) -> Node:
    name = path.rsplit("/", 1)[-1]
    is_open, count = path in unfolded, counts.get(path, 0)
    return Node(f"group:{path}", name, path, path.count("/"), True, is_open, count)


def _module(row: Row) -> Node:
    path, status = str(row["path"]), str(row.get("last_job_status") or "")
    return Node(
        key=f"module:{row['id']}",
        name=str(row["name"]),
        path=path,
        depth=path.count("/"),
        is_group=False,
        module_id=str(row["id"]),
        status=status,
        title=result(status),
    )


def _order(node: Node) -> list[tuple[int, str]]:
    # Groups before modules on each level; a module may have a group's name.
    parts = node.path.split("/")
    keys = [(0, part.lower()) for part in parts]
    if not node.is_group:
        keys[-1] = (1, parts[-1].lower())
    return keys
