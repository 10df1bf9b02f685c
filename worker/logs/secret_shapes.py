"""Shapes that are secrets wherever they stand, no matter who printed them."""

import re
from collections.abc import Iterator

Span = tuple[int, int]


# Each pattern begins with plain characters, for which `re` searches a gigabyte a second; the text before them is
# checked behind them (a pattern that begins with an assertion is tried at every character, forty times slower). No
# pattern may match across a line end (the redactor releases text line by line), and each has an upper bound (so that a
# hostile line cannot grow what is held back).
_ACCESS_KEY = r"(?i:_?access_?key)[\"']?[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
# Each with the group that is the secret.
SHAPES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"://[^\s/@:]{0,256}:([^\s/]{1,1024})@"), 1),
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,2048}\.eyJ[A-Za-z0-9_-]{4,8192}\.[A-Za-z0-9_-]{0,2048}"), 0),
    (re.compile(r"A(?<![A-Z0-9]A)(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])"), 0),
    (re.compile("ecret" + _ACCESS_KEY), 1),
    (re.compile("ECRET" + _ACCESS_KEY), 1),
    (re.compile(r"ryw_[0-9A-Za-z]{20,64}"), 0),
    (re.compile(r"sb_secret_[0-9A-Za-z_-]{8,256}"), 0),
    (re.compile(r"gh(?<!\wgh)[pousr]_[0-9A-Za-z]{30,255}"), 0),
)


def shape_spans(text: str) -> Iterator[Span]:
    """Yield where a secret's shape stands in the text."""
    for pattern, group in SHAPES:
        for match in pattern.finditer(text):
            yield match.span(group)
