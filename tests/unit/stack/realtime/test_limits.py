from stack.realtime.limits import RateCounter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_an_average_over_its_window() -> None:
    clock = Clock()
    rate = RateCounter(limit=10, window_seconds=60, clock=clock)
    rate.add(600)
    assert rate.average == 10
    assert not rate.is_exceeded
    rate.add()
    assert rate.is_exceeded
    clock.now += 66
    assert rate.average == 0


def test_old_buckets_are_forgotten_one_by_one() -> None:
    clock = Clock()
    rate = RateCounter(limit=1, window_seconds=12, clock=clock)
    for _ in range(24):
        rate.add()
        clock.now += 1
    assert 11 <= rate.average * 12 <= 13
