"""Time limits as people write them."""

import pytest

from wire.spans import read_time_limits, span, write_time_limits


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("plan=1h", {"plan": 3600}),
        ("plan=1h30m, apply=7d hook=600", {"plan": 5400, "apply": 604800, "hook": 600}),
        ("hook=1s,", {"hook": 1}),
    ],
)
def test_limits_are_read_and_written(text: str, limits: dict[str, int]) -> None:
    assert read_time_limits(text) == limits
    assert read_time_limits(write_time_limits(limits)) == limits


@pytest.mark.parametrize(
    "text",
    [
        "plan",
        "plan=",
        "plan=0",
        "plan=1w",
        "plan=-1h",
        "plan=1.5h",
        "plan=8d",
        "hook=11m",
        "init=5m",
        "=5m",
        "plan=1h1h",
    ],
)
def test_what_is_no_limit_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time limit"):
        read_time_limits(text)


def test_spans_are_written_in_the_largest_units() -> None:
    assert [span(seconds) for seconds in (0, 45, 3600, 5400, 90061)] == ["0s", "45s", "1h", "1h30m", "1d1h1m1s"]
