"""A test's needs are derived from the fixtures that it requests and from its folder, so nobody has to state them twice."""

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# Their tests open a bench or look for OpenTofu themselves.
ENGINE_FILES = r"test_(worker_engines|worker_network|parts_away|docs_run|upgrades)"
# A marker, the fixtures that mean it, and the paths of tests that mean it.
RULES: tuple[tuple[str, frozenset[str], str], ...] = (
    ("browser", frozenset({"chromium"}), r"$^"),
    ("engine", frozenset({"bench", "cloud", "served"}), ENGINE_FILES),
    ("docker", frozenset({"docker", "real_docker"}), r"docker"),
    ("kubernetes", frozenset({"real_kubernetes"}), r"kubernetes|_eks"),
    ("gitea", frozenset({"real_gitea"}), r"$^"),
    ("aws", frozenset({"aws", "aws_endpoint"}), r"integration/cloud/|_ecs|_eks"),
)


def mark(items: list[pytest.Item]) -> None:
    """Give every test the markers of its needs."""
    for item in items:
        for name, fixtures, _ in RULES:
            if name in _needs_of(item.path) or fixtures.intersection(getattr(item, "fixturenames", ())):
                item.add_marker(name)


@cache
def _needs_of(file: Path) -> frozenset[str]:
    """The needs of a file's tests because of its place."""
    place = file.relative_to(TESTS).as_posix()
    return frozenset(name for name, _, pattern in RULES if re.search(pattern, place))
