"""The tree of groups and modules, as the flat list of nodes that are in sight."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.ui.view import STATUS_WORDS, TYPE_WORDS, Row

# The modules of a group that were read, and how many it has.
Listed = tuple[Sequence[Row], int]

_ENDS = {
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "was cancelled",
    "NEEDS_ATTENTION": "needs attention",
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
    status: str = ""
    title: str = ""
    drift: str = ""


def parents(path: str) -> list[str]:
    """List the groups above a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts))]


def nearest(path: str, paths: Sequence[str]) -> list[str]:
    """Name the few paths that are most like one that does not exist."""
    return difflib.get_close_matches(path, paths, 5, 0.4)


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


def result(status: str, job_type: str) -> str:
    """Explain a module's dot: how its last apply, destroy or drift check ended, or how far it is."""
    if not status:
        return "Never applied"
    word = TYPE_WORDS.get(job_type, "Apply")
    if status in _ENDS:
        return f"Last {word.lower()} {_ENDS[status]}"
    return f"{word}: {STATUS_WORDS.get(status, status).lower()}"


def _rest(path: str, count: int) -> Node:
    """Describe how many more exist than are listed; a search finds them."""
    key = f"{path}/\uffff" if path else "\uffff"
    name = f"{count:,} more: search for them"
    return Node(f"rest:{path}", name, key, key.count("/"), False)


def _group_paths(groups: Iterable[str]) -> set[str]:
    paths = {path for path in groups if path}
    for path in tuple(paths):
        paths.update(parents(path))
    return paths


def _below(counts: Mapping[str, int]) -> dict[str, int]:
    """Count the modules of each group, with those of the groups in it."""
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
    path, last = str(row["path"]), row.get("last_job") or {}
    status = str(last.get("status") or "")
    return Node(
        key=f"module:{row['id']}",
        name=str(row["name"]),
        path=path,
        depth=path.count("/"),
        is_group=False,
        status=status,
        title=result(status, str(last.get("type") or "")),
        drift=f"Drift since {str(row['drift_since'])[:10]}" if row.get("drift_since") else "",
    )


def _order(node: Node) -> list[tuple[int, str]]:
    # Groups before modules on each level; a module may have a group's name.
    parts = node.path.split("/")
    keys = [(0, part.lower()) for part in parts]
    if not node.is_group:
        keys[-1] = (1, parts[-1].lower())
    return keys
