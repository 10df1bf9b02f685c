"""The helpers that everything is built on: versions, paths, labels, errors."""

import pytest
from packaging.version import Version

from tests.db.world import Organization, World, refused

ORDERED = [
    "0.0.1",
    "0.9.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.9.0",
    "1.10.0-rc.1",
    "1.10.0",
    "1.10.1",
    "2.0.0",
    "10.0.0",
]


def test_versions_sort_by_the_rules_of_semver(world: World) -> None:
    pairs = [(left, right) for i, left in enumerate(ORDERED) for right in ORDERED[i + 1 :]]
    wrong = [
        (left, right)
        for left, right in pairs
        if world.owner.one("select private.is_version_less(%s, %s)", left, right) is not True
        or world.owner.one("select private.is_version_less(%s, %s)", right, left) is not False
    ]
    assert wrong == []


def test_pre_releases_in_python_spelling_sort_as_in_packaging(world: World) -> None:
    versions = ["1.2.0.dev1", "1.2.0a1", "1.2.0b2", "1.2.0rc1", "1.2.0rc10", "1.2.0", "1.2.0.post1", "1.2.1"]
    assert versions == sorted(versions, key=Version)
    keys = [world.owner.one("select private.version_key(%s)", version) for version in versions]
    assert keys == sorted(keys)


@pytest.mark.parametrize("text", ["", "latest", "1.x", "v", "1.2.3.4.5", None])
def test_an_invalid_version_is_neither_before_nor_after_another(world: World, text: str | None) -> None:
    assert world.owner.one("select private.is_version_less(%s, '1.0.0')", text) is None


def test_a_build_number_does_not_matter(world: World) -> None:
    assert world.owner.one("select private.version_key('1.2.3+abc') = private.version_key('v1.2.3')")


@pytest.mark.parametrize(
    ("path", "prefixes"),
    [("", [""]), ("a", ["", "a"]), ("a/b/c", ["", "a", "a/b", "a/b/c"])],
)
def test_prefixes_of_a_path(world: World, path: str, prefixes: list[str]) -> None:
    assert world.owner.one("select private.path_prefixes(%s)", path) == prefixes


@pytest.mark.parametrize(
    ("labels", "is_good"),
    [
        (["gpu"], True),
        (["gpu=true", "zone=eu-1a"], True),
        ([], True),
        (["Upper"], False),
        (["a b"], False),
        (["=x"], False),
        (["x" * 64], False),
        ([f"l{i}" for i in range(33)], False),
    ],
)
def test_labels_read_like_labels(world: World, labels: list[str], is_good: bool) -> None:
    assert world.owner.one("select private.is_label_list(%s::text[])", labels) is is_good


def test_a_misspelt_option_is_refused_with_the_ones_that_exist(org: Organization) -> None:
    with refused("RY422", "Unknown option:") as caught:
        org.worker("r1", capasity=3)
    assert "capasity" in str(caught.value.diag.message_primary)
    assert "capacity" in str(caught.value.diag.message_hint)
