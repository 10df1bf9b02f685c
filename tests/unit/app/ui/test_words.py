"""Words and numbers that several pages show alike."""

import pytest

from app.ui.view import queue_wait


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.03, "0.03 s"),
        (1.84, "1.8 s"),
        (45.2, "45 s"),
        (119.9, "120 s"),
        (240, "4.0 min"),
        (7500, "2.1 h"),
    ],
)
def test_a_wait_has_as_many_digits_as_one_can_use(seconds: float | None, text: str) -> None:
    assert queue_wait(seconds) == text
