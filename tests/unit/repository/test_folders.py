"""Folders, and the modules beside them, import each other in one direction: no circles. Tests are in the folders of their subjects."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from stack.settings import PROJECT

ROOTS = ("app", "cli", "stack", "wire", "worker")


def houses(root: str) -> Iterator[str]:
    """Every package that has at least two rooms: folders below it, and modules beside these."""
    packages = {init.parent for init in (PROJECT / root).rglob("__init__.py")}
    names = sorted(".".join(folder.relative_to(PROJECT).parts) for folder in packages)
    return (name for name in names if len(rooms(name)) > 1)


@cache
def imported(file: Path) -> frozenset[str]:
    """The modules that a file imports at run time or for its types, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return frozenset(found)


def room_of(module: str, house: str) -> str | None:
    """The folder of a house that contains a module, or the module itself if it is beside the folders."""
    inside = module.removeprefix(f"{house}.")
    if inside == module:
        return None
    room = f"{house}.{inside.partition('.')[0]}"
    place = PROJECT / room.replace(".", "/")
    return room if place.is_dir() or place.with_suffix(".py").exists() else None


def rooms(house: str) -> dict[str, set[str]]:
    """Map each room of a house to the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for file in (PROJECT / house.replace(".", "/")).rglob("*.py"):
        here = room_of(".".join(file.relative_to(PROJECT).with_suffix("").parts), house)
        if here:
            there = {room for module in imported(file) if (room := room_of(module, house))}
            found.setdefault(here, set()).update(there - {here})
    return found


@pytest.mark.parametrize("root", ROOTS)
def test_rooms_import_each_other_one_way_only(root: str) -> None:
    for house in houses(root):
        try:
            TopologicalSorter(rooms(house)).prepare()
        except CycleError as error:
            pytest.fail(f"a circle: {' → '.join(error.args[1])}")


def test_packages_without_folders_are_checked_too() -> None:
    assert {"worker", "worker.children", "worker.children.sandbox", "worker.settings"} <= set(houses("worker"))
    assert "app.runners.view" in houses("app")


@pytest.mark.parametrize("root", ROOTS)
def test_unit_tests_are_in_folders_that_the_source_has(root: str) -> None:
    tests = PROJECT / "tests/unit"
    folders = {file.parent.relative_to(tests) for file in (tests / root).rglob("test_*.py")}
    assert folders
    assert {folder for folder in folders if not (PROJECT / folder).is_dir()} == set()
