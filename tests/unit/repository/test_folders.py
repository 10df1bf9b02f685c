"""Folders import each other in one direction: no circles."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from stack.settings import PROJECT

ROOTS = ("app", "cli", "stack", "worker")


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports at run time or for its types, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def room_of(module: str) -> str | None:
    """The folder below its root that a module lies in, or the module itself if it lies beside the folders."""
    parts = module.split(".")
    if parts[0] not in ROOTS or len(parts) < 2:
        return None
    place = PROJECT / parts[0] / parts[1]
    return f"{parts[0]}.{parts[1]}" if place.is_dir() or place.with_suffix(".py").exists() else None


def rooms(root: str) -> dict[str, set[str]]:
    """Which folder or module beside the folders imports which, within one root."""
    found: dict[str, set[str]] = {}
    for file in (PROJECT / root).rglob("*.py"):
        here = room_of(".".join(file.relative_to(PROJECT).with_suffix("").parts))
        if here:
            there = {room for module in imported(file) if (room := room_of(module)) and room.startswith(f"{root}.")}
            found.setdefault(here, set()).update(there - {here})
    return found


def folders(root: str) -> dict[str, set[str]]:
    """Which folder leads to which; a module between two folders is a passage, not a room."""
    graph = rooms(root)

    def leads_to(room: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found: set[str] = set()
        for other in graph.get(room, set()) - seen:
            found |= {other} if is_folder(other) else leads_to(other, seen | {other})
        return found

    return {room: leads_to(room) - {room} for room in graph if is_folder(room)}


def is_folder(room: str) -> bool:
    return (PROJECT / room.replace(".", "/")).is_dir()


@pytest.mark.parametrize("root", ROOTS)
def test_folders_import_each_other_one_way_only(root: str) -> None:
    found = folders(root)
    assert len(found) > 1
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of folders: {' → '.join(error.args[1])}")
