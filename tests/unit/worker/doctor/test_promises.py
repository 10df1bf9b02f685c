"""The doctor tries, as a job, the promises in the table of docs/runner/isolation.md, in each kind of isolation that this machine has."""

import os

import pytest

from stack.settings import PROJECT
from tests.support.job_place import Place, place
from worker.children.isolation import Isolation
from worker.children.mounts import View
from worker.children.sandbox.landlock import version
from worker.doctor.check import Verdict
from worker.doctor.isolation import PROMISES, Promise, attempts, depth, isolation, reach, strength
from worker.settings.dispatcher import IsolationWay

__all__ = ["place"]

COLUMNS = [*IsolationWay, None]
# As an ordinary user: these need root, or a runner that does not hide its memory.
ROOT_ONLY = {"memory", "settings"}


def table() -> dict[str, list[str]]:
    """The lines of the documented table by the act that they name."""
    text = (PROJECT / "docs/runner/isolation.md").read_text()
    lines = text.partition("| a job cannot |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: kinds for name, *kinds in cells}


def cell(promise: Promise, way: IsolationWay | None) -> str:
    if way not in promise.kinds:
        return "no"
    return "Linux 6.12" if promise.least_landlock and way is not IsolationWay.LANDLOCK else "yes"


def test_the_documented_table_matches_the_doctors_checks() -> None:
    tried = {promise.name: [cell(promise, way) for way in COLUMNS] for promise in PROMISES}
    assert {name: kinds for name, kinds in table().items() if set(kinds) != {"no"}} == tried


@pytest.mark.parametrize("way", IsolationWay)
def test_each_kind_keeps_exactly_its_promises(place: Place, way: IsolationWay) -> None:
    found = place.isolation(way)
    worked, is_done = attempts(found, place.environ(way))
    assert is_done
    assert {each.key for each in worked} == {each.key for each in PROMISES if not each.binds(way, version())}
    strength, seen = isolation(place.settings(way), place.environ(way))
    assert strength.verdict is (Verdict.WARN if way is IsolationWay.LANDLOCK else Verdict.OK)
    assert seen.verdict is Verdict.OK, seen.seen


def test_without_isolation_every_attempt_works(place: Place) -> None:
    view = View(place.settings("[]"), place.environ("[]"))
    worked, is_done = attempts(Isolation(view), place.environ("[]"))
    assert is_done
    expected = {each.key for each in PROMISES} - (set() if os.geteuid() == 0 else ROOT_ONLY)
    assert {each.key for each in worked} == expected


def test_a_job_that_is_not_isolated_is_a_warning_or_a_failure_where_isolation_is_required(place: Place) -> None:
    strength, seen = isolation(place.settings("[]"), place.environ("[]"))
    assert (strength.verdict, seen.verdict) == (Verdict.WARN, Verdict.WARN)
    assert "bubblewrap" in strength.remedy
    for name in ("read the runner's secrets", "read files of other jobs", "signal other processes"):
        assert name in seen.seen
    required = place.settings("[]", RUNYARD__ENGINE__ISOLATION__MODE="required")
    assert {check.verdict for check in isolation(required, place.environ("[]"))} == {Verdict.FAIL}


@pytest.mark.parametrize(("user", "verdict"), [(0, Verdict.FAIL), (10001, Verdict.WARN)])
def test_jobs_that_would_be_root_are_a_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch, user: int, verdict: Verdict
) -> None:
    found = Isolation(View(place.settings("bubblewrap"), {}), why="bubblewrap: bwrap is not installed")
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert strength(found).verdict == verdict


@pytest.mark.parametrize("way", IsolationWay)
def test_a_path_too_long_for_the_sockets_of_providers_is_a_warning(place: Place, way: IsolationWay) -> None:
    for letters in (1, 90):
        deep = place.settings(way, RUNYARD__WORKINGDIRECTORY__TEMPDIRECTORY=f"/{'d' * letters}")
        checks = depth(Isolation(View(deep, place.environ(way)), way))
        is_warned = letters == 90 and way in {IsolationWay.USER, IsolationWay.LANDLOCK}
        assert ["61 characters" in check.remedy for check in checks] == ([True] if is_warned else [])


@pytest.mark.parametrize("way", IsolationWay)
def test_a_broken_promise_is_a_failure(place: Place, way: IsolationWay) -> None:
    found = Isolation(View(place.settings(way), place.environ(way)), way)
    check = reach(found, [PROMISES[0]])
    assert (check.verdict, PROMISES[0].name in check.seen) == (Verdict.FAIL, True)
