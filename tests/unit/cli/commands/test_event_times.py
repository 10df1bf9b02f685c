"""Times as people type them for `runyard events` and `runyard maintenance`."""

from datetime import UTC, datetime

import pytest

from cli.command import moment
from cli.errors import Usage

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("30m", "2026-11-15T11:30:00+00:00"),
        ("24h", "2026-11-14T12:00:00+00:00"),
        ("7d", "2026-11-08T12:00:00+00:00"),
        ("2026-11-15", datetime(2026, 11, 15).astimezone(UTC).isoformat()),
        ("2026-11-15T12:00Z", "2026-11-15T12:00:00+00:00"),
    ],
)
def test_a_time_is_relative_or_absolute(text: str, said: str) -> None:
    assert moment(text, is_ahead=False, now=NOW) == said


def test_a_maintenance_ends_so_long_ahead() -> None:
    assert moment("2h", is_ahead=True, now=NOW) == "2026-11-15T14:00:00+00:00"


@pytest.mark.parametrize("text", ["", "soon", "1y", "-3h", "999999h", "2026-13-01", "0001-01-01T00:00+14:00"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="is not a time"):
        moment(text, is_ahead=False, now=NOW)
