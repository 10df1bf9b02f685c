"""Shapes that are secrets wherever they stand, whoever printed them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """A pattern, its cheap pre-check and the group that is the secret."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0


# No pattern may match across a line end (the redactor releases text line by line), and each has
# an upper bound (so that a hostile line cannot grow what is held back).
SHAPES: tuple[Shape, ...] = (
    Shape(("://",), re.compile(r"://[^\s/@:]{0,256}:([^\s/]{1,1024})@"), 1),
    Shape(
        ("eyJ",),
        re.compile(r"eyJ[A-Za-z0-9_-]{8,2048}\.eyJ[A-Za-z0-9_-]{4,8192}\.[A-Za-z0-9_-]{0,2048}"),
    ),
    Shape(
        ("AKIA", "ASIA"),
        re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    ),
    Shape(
        ("ecret", "ECRET"),
        re.compile(
            r"(?i:secret_?access_?key)[\"']?[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9/+]{40})"
            r"(?![A-Za-z0-9/+])"
        ),
        1,
    ),
    Shape(("ryw_",), re.compile(r"ryw_[0-9A-Za-z]{20,64}")),
    Shape(("sb_secret_",), re.compile(r"sb_secret_[0-9A-Za-z_-]{8,256}")),
    Shape(("gh",), re.compile(r"\bgh[pousr]_[0-9A-Za-z]{30,255}")),
)


def shape_spans(text: str) -> Iterator[Span]:
    """Yield where a secret's shape stands in the text."""
    for shape in SHAPES:
        if any(needle in text for needle in shape.needles):
            for match in shape.pattern.finditer(text):
                yield match.span(shape.group)
