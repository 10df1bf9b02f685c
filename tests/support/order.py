"""The order in which files are tested: long ones of every kind mixed, short ones last, so that no process works alone at the end.

A file's tests stay together (`--dist loadfile`; groups of xdist do not work with pytest 9): only one process starts their shared parts.
"""

from collections import defaultdict
from pathlib import Path

import pytest

QUICK = "unit"
# How far into the run a folder's files reach; a file here may take minutes, so that none may begin at the end.
REACH = {"faults": 0.6, "e2e": 0.7, "integration": 0.7}


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same tests: files that start processes and wait beside files that compute, and `tests/unit` after all others."""
    folders: dict[str, dict[Path, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        folders[_folder(item.path)][item.path].append(item)
    placed = [
        (folder == QUICK, place / len(files) * REACH.get(folder, 1), tests)
        for folder, files in folders.items()
        for place, tests in enumerate(files.values())
    ]
    return [item for *_, tests in sorted(placed, key=lambda one: one[:2]) for item in tests]


def _folder(file: Path) -> str:
    """The folder below `tests/`."""
    return file.parts[len(file.parts) - file.parts[::-1].index("tests")]
