"""The tree of groups and modules, as the flat list of nodes that are in sight."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
# The modules of a group that were read, and how many it has.
Listed = tuple[Sequence[Row], int]

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
    drift: str = ""


def parents(path: str) -> list[str]:
    """List the groups above a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts))]


def build(
    groups: Iterable[str],
    counts: Mapping[str, int],
    lists: Mapping[str, Listed],
    opened: Iterable[str],
    *,
    is_search: bool = False,
) -> list[Node]:
    """List the nodes in sight: every group, with how many modules it has, and the modules of those that are open.

    `counts` has the modules in each group itself, `lists` those that were read, by group. A search opens everything
    that it finds, and hides the rest.
    """
    paths = _group_paths([*(() if is_search else groups), *counts])
    unfolded = paths if is_search else set(opened)
    below = _below(counts)
    nodes = [_group(path, unfolded, below) for path in paths]
    for path, (rows, total) in lists.items():
        nodes += [_module(row) for row in rows]
        nodes += [_rest(path, total - len(rows))] if total > len(rows) else []
    nodes.sort(key=_order)
    return [node for node in nodes if all(above in unfolded for above in parents(node.path))]


def result(status: str) -> str:
    """Say what a module's dot stands for."""
    return _RESULT_WORDS.get(status, "Never ran")


def _rest(path: str, count: int) -> Node:
    """Say how many more there are than are listed; a search finds them."""
    key = f"{path}/\uffff" if path else "\uffff"
    name = f"{count:,} more: search for them"
    return Node(f"rest:{path}", name, key, key.count("/"), False)


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


def _group_paths(groups: Iterable[str]) -> set[str]:
    paths = {path for path in groups if path}
    for path in tuple(paths):
        paths.update(parents(path))
    return paths


def _below(counts: Mapping[str, int]) -> dict[str, int]:
    """How many modules each group has, with those of the groups in it."""
    below: dict[str, int] = {}
    for path, count in counts.items():
        for group in [*parents(path), path]:
            below[group] = below.get(group, 0) + count
    return below


def _group(path: str, unfolded: set[str], counts: Mapping[str, int]) -> Node:
    name = path.rsplit("/", 1)[-1]
    is_open, count = path in unfolded, counts.get(path, 0)
    return Node(f"group:{path}", name, path, path.count("/"), True, is_open, count)


def _module(row: Row) -> Node:
    path, status = str(row["path"]), str((row.get("last_job") or {}).get("status") or "")
    return Node(
        key=f"module:{row['id']}",
        name=str(row["name"]),
        path=path,
        depth=path.count("/"),
        is_group=False,
        module_id=str(row["id"]),
        status=status,
        title=result(status),
        drift=f"Drift since {str(row['drift_since'])[:10]}" if row.get("drift_since") else "",
    )


def _order(node: Node) -> list[tuple[int, str]]:
    # Groups before modules on each level; a module may have a group's name.
    parts = node.path.split("/")
    keys = [(0, part.lower()) for part in parts]
    if not node.is_group:
        keys[-1] = (1, parts[-1].lower())
    return keys
