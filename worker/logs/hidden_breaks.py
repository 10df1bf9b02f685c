"""Breaks that can be inside of a secret without being part of it.

Colour codes, the line ends of wrapped base64, characters without width, and the NULs of UTF-16, which the decoder replaced.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from worker.logs.secret_forms import Span

# `base64` wraps at 76 characters, PEM at 64. Each pattern begins with one plain character, for which `re` searches ten
# times as fast as for one of several.
NARROWEST_WRAP = 60
_WRAPPED = rf"[A-Za-z0-9+/_-]{{{NARROWEST_WRAP}}}"
_BREAKS = {
    "\x1b": re.compile(r"\x1b\[[0-9;:?]*[@-~]"),
    "\n": re.compile(rf"\n(?<={_WRAPPED}\n)[ \t]*"),
    "\r": re.compile(rf"\r(?<={_WRAPPED}\r)\n?[ \t]*"),
    **{sign: re.compile(f"{sign}+") for sign in "\ufffd\u200b\u200c\u200d\u2060\ufeff"},
}


SIGNS = "".join(_BREAKS)


class UnbrokenText:
    """A text without such breaks, which knows where each character was."""

    def __init__(self, text: str) -> None:
        """Remove the breaks."""
        breaks = sorted(match.span() for match in _matches(text))
        parts: list[str] = []
        self._starts, self._shifts = [0], [0]
        position = length = 0
        for start, end in breaks:
            parts.append(text[position:start])
            length += start - position
            position = end
            self._starts.append(length)
            self._shifts.append(position - length)
        self.is_same = not breaks
        self.text = text if self.is_same else "".join([*parts, text[position:]])

    def original(self, span: Span) -> Span:
        """Return the place of a span of this text in the original, including breaks inside of it."""
        start, end = span
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]


def wrapped_start(text: str, cut: int, longest: int) -> int:
    """Move a cut at a line's beginning to before the wrapped lines that end there, by no more than a secret's length."""
    while cut > 0 and len(text) - cut < longest:
        end = cut - 2 if text[cut - 2 : cut] == "\r\n" else cut - 1
        if text[end] not in "\r\n" or not _BREAKS[text[end]].match(text, end):
            break
        cut = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1
    return cut


def _matches(text: str) -> Iterator[re.Match[str]]:
    for sign, pattern in _BREAKS.items():
        if sign in text:
            yield from pattern.finditer(text)
