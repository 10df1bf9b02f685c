"""The tests that `make test` leaves to `make test-all`, the markers of tests, and their order."""

from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import markers
from tests.support.browser import chromium_path
from tests.support.extent import ALL_VARIABLE, SEED_VARIABLE, sampled, soak_seconds
from tests.support.order import ordered

CASES = tuple(range(20))


def test_a_seed_samples_the_same_cases_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALL_VARIABLE, raising=False)
    monkeypatch.setenv(SEED_VARIABLE, "7")
    first = sampled(CASES, 4)
    assert len(first) == 4
    assert list(first) == sorted(first)
    assert sampled(CASES, 4) == first
    seen = set()
    for seed in range(60):
        monkeypatch.setenv(SEED_VARIABLE, str(seed))
        seen |= set(sampled(CASES, 4))
    assert seen == set(CASES), "every case has its turn"


def test_the_variable_for_everything_disables_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALL_VARIABLE, "1")
    assert sampled(CASES, 4) == CASES
    assert soak_seconds(20) == 20


@pytest.mark.parametrize(
    ("path", "fixtures", "expected"),
    [
        ("e2e/test_x.py", ["chromium", "product"], {"browser"}),
        ("e2e/test_x.py", ["product"], set()),
        ("e2e/test_x.py", ["chromium", "served"], {"browser", "engine"}),
        ("integration/test_upgrades.py", [], {"engine"}),
        ("integration/test_x.py", ["bench"], {"engine"}),
        ("integration/cloud/test_x.py", ["bench", "aws"], {"engine", "aws"}),
        ("unit/worker/dispatch/test_dispatch_kubernetes.py", [], {"kubernetes"}),
        ("unit/worker/dispatch/test_dispatch_docker.py", ["docker"], {"docker"}),
    ],
)
def test_markers_follow_fixtures_and_place(
    path: str, fixtures: list[str], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "TESTS", Path("/docker/clone/tests"))
    given: set[str] = set()
    item: Any = SimpleNamespace(path=markers.TESTS / path, fixturenames=fixtures, add_marker=given.add)
    markers.mark([item])
    assert given == expected


def test_files_stay_whole_long_ones_are_mixed_and_short_ones_come_last() -> None:
    files = [f"{folder}/test_{name}.py" for folder in ("db", "faults", "unit/worker") for name in "abcdef"]
    items: list[Any] = [SimpleNamespace(path=Path("/x/tests") / file) for file in files for _ in range(3)]
    runs = [path.relative_to("/x/tests").as_posix() for path, _ in groupby(ordered(items), lambda item: item.path)]
    assert sorted(runs) == sorted(files), "every file once, and in one piece"
    assert all(file.startswith("unit/") for file in runs[12:])
    assert runs.index("faults/test_f.py") < runs.index("db/test_f.py"), "what takes long does not begin at the end"


@pytest.mark.parametrize("must", ["", "browser"])
def test_without_a_browser_its_tests_are_skipped_with_advice_or_fail_where_one_is_required(
    monkeypatch: pytest.MonkeyPatch, must: str
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("RUNYARD_CHROMIUM", raising=False)
    monkeypatch.setenv("RUNYARD_TEST_MUST", must)
    with pytest.raises(pytest.fail.Exception if must else pytest.skip.Exception, match="apt-get install chromium"):
        chromium_path()
