"""The reader's input is found as text, through colours, and is never used as a pattern."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.log.routes import pattern
from app.jobs.log.sgr import strip


@pytest.mark.parametrize(
    ("words", "line", "is_found"),
    [
        ("be replaced", "must be \x1b[31m\x1b[1mreplaced\x1b[0m", True),
        ("needle", "n\x1b[1;31meedle", True),
        ("spot[1]", "node_group.spot[1]: Creating", True),
        ("a.c", "abc", False),
        (".*", "anything", False),
        ("(a+)+$", "(a+)+$", True),
        ("NEEDLE", "needle", True),
    ],
)
def test_the_search_text_is_matched_literally(words: str, line: str, is_found: bool) -> None:
    assert bool(re.search(pattern(words), line, re.IGNORECASE)) is is_found


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20), st.text(max_size=20))
def test_every_search_text_is_found_in_its_line(words: str, around: str) -> None:
    assert re.search(pattern(words), f"{strip(around)}{words}", re.IGNORECASE)
