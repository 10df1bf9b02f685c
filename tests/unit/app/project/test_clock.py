"""The page counts from the project's clock, as well as it is known."""

import pytest

from app.project.clock import ProjectClock

T0 = 1_700_000_000.0
ISO = "2023-11-14T22:13:{:02d}+00:00"


def test_without_an_answer_our_own_clock_is_used() -> None:
    assert ProjectClock(lambda: T0).now() == T0


def test_the_quickest_answer_is_believed() -> None:
    now = [T0 + 0.2]
    clock = ProjectClock(lambda: now[0])
    clock.learn(ISO.format(30), T0)
    assert clock.now() == pytest.approx(T0 + 0.2 + 9.9)
    now[0] = T0 + 20
    clock.learn(ISO.format(31), T0 + 1)
    assert clock.now() == pytest.approx(T0 + 20 + 9.9)


@pytest.mark.parametrize("server_time", [None, "", "soon", 7, {"at": 1}])
def test_nonsense_is_not_learned(server_time: object) -> None:
    clock = ProjectClock(lambda: T0)
    clock.learn(server_time, T0)
    assert clock.now() == T0
