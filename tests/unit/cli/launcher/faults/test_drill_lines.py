"""Lines of a drill that are missing in its log are found by their numbers."""

from cli.launcher.faults.work import lines_lost


def test_lines_are_missed_by_their_numbers() -> None:
    assert lines_lost({1: {1, 2, 3}}, "slow-apply", 12, has_succeeded=False) == 0
    assert lines_lost({1: {1, 3}}, "slow-apply", 12, has_succeeded=False) == 1
    assert lines_lost({1: {1, 2, 3}}, "slow-apply", 4, has_succeeded=True) == 1
    assert lines_lost({1: {1, 2}, 2: set(range(1, 9))}, "slow-plan", 4, has_succeeded=True) == 0
