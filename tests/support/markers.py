"""What a test needs is seen from the fixtures that it asks for and from where it lies, so nobody has to say it twice."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Folders whose tests share something that takes long to start: the functions, an AWS.
SHARING = ("integration/edge", "integration/cloud")
# Each file of these is a group of its own: their tests share a browser, a stack, a runner.
BY_FILE = ("e2e", "integration", "faults")

# A marker, the fixtures that mean it, and what a test's place says.
RULES: tuple[tuple[str, frozenset[str], str], ...] = (
    ("browser", frozenset({"chromium"}), r"$^"),
    ("engine", frozenset({"bench", "served"}), r"test_worker_engines"),
    ("docker", frozenset({"docker", "real_docker"}), r"docker"),
    ("kubernetes", frozenset({"real_kubernetes"}), r"kubernetes|_eks"),
    ("aws", frozenset({"aws", "aws_endpoint"}), r"integration/cloud/|_ecs|_eks"),
)


def mark(items: list[pytest.Item]) -> None:
    """Give every test the markers of what it needs."""
    for item in items:
        for name, fixtures, place in RULES:
            asked = fixtures.intersection(getattr(item, "fixturenames", ()))
            if asked or re.search(place, str(item.path)):
                item.add_marker(name)
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str:
    """Tests of one group run in one process, one after the other: what they share is started once."""
    if item.get_closest_marker("xdist_group"):
        return ""
    place = item.path.relative_to(TESTS)
    folder = place.parent.as_posix()
    if folder in SHARING:
        return folder
    return place.as_posix() if place.parts[0] in BY_FILE else ""
