"""Terminal text to styled segments.

Only SGR becomes styling. Every other control sequence, OSC 8 links and bidirectional controls included, is dropped, and what is
left is meant for text nodes: nothing here knows about HTML, so nothing here can produce any.
"""

import re
from dataclasses import dataclass, field

from app.jobs.log.style import PLAIN, Style

# A line longer than this is cut on screen, with a note; a terminal program that never ends its line must not stall the page.
MAX_LINE = 4_000
MAX_SEGMENTS = 256

Segment = tuple[str, str]

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<params>[0-?]*+)(?P<middle>[ -/]*+)(?P<final>[@-~])?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*+[0-~]?"
    r"|(?P<home>\r)"
)
# C0 and C1 except tab; invisible, bidirectional, annotation and tag characters; line and paragraph separators; lone surrogates.
_DROPPED = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
_PLAIN_LINE = re.compile(
    r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]*+\Z"
)
_UNFINISHED = re.compile(
    r"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,8})?|\x9b[0-?]{0,64}|\x1b[\]PX^_][^\n\x07\x1b\x9c]{0,2000}\x1b?)\Z"
)
_COLOUR = re.compile(r"\x1b\[([0-9;:]*+)m")


@dataclass(frozen=True)
class Line:
    """One line as the page shows it; `hidden` counts the characters that were cut."""

    segments: tuple[Segment, ...]
    hidden: int = 0

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.segments)


@dataclass
class _Builder:
    """Collects one line's segments: merges neighbours of one style and stops growing at the limits."""

    segments: list[Segment] = field(default_factory=list)
    length: int = 0
    hidden: int = 0
    is_rewritten: bool = False

    def add(self, raw: str, classes: str) -> None:
        text = _DROPPED.sub("", raw)
        if not text:
            return
        if self.is_rewritten:
            self.segments, self.length, self.hidden, self.is_rewritten = [], 0, 0, False
        room = MAX_LINE - self.length
        self.hidden += max(0, len(text) - room)
        self._append(text[: max(0, room)], classes)

    def _append(self, text: str, classes: str) -> None:
        if not text:
            return
        self.length += len(text)
        last = self.segments[-1] if self.segments else None
        if last and (last[1] == classes or len(self.segments) >= MAX_SEGMENTS):
            self.segments[-1] = (last[0] + text, last[1])
        else:
            self.segments.append((text, classes))

    def line(self) -> Line:
        return Line(tuple(self.segments), self.hidden)


class Parser:
    """Reads a log in pieces; the style and an unfinished sequence live on from piece to piece."""

    def __init__(self, style: Style = PLAIN) -> None:
        self.style = style
        self._pending = ""

    def feed(self, body: str) -> list[Line]:
        """Return the lines of one piece; the last one is open when the piece does not end with a newline."""
        body, self._pending = self._pending + body, ""
        unfinished = _UNFINISHED.search(body, max(0, len(body) - 2100))
        if unfinished:
            self._pending, body = unfinished.group(), body[: unfinished.start()]
        lines = body.split("\n")
        if lines[-1] == "":
            lines.pop()
        return [self._line(line) for line in lines]

    def _line(self, text: str) -> Line:
        if len(text) <= MAX_LINE and _PLAIN_LINE.match(text):
            return Line(((text, self.style.classes),) if text else ())
        pieces = _COLOUR.split(text)
        if len(text) <= MAX_LINE and len(pieces) < MAX_SEGMENTS and all(map(_PLAIN_LINE.match, pieces[::2])):
            return self._coloured(pieces)
        return self._untidy(text)

    def _coloured(self, pieces: list[str]) -> Line:
        """Return a line of text and colours only, which most lines of an engine are; several times faster than the general way."""
        segments: list[Segment] = []
        for text, params in zip(pieces[::2], [*pieces[1::2], None], strict=True):
            classes = self.style.classes
            if text and segments and segments[-1][1] == classes:
                segments[-1] = (segments[-1][0] + text, classes)
            elif text:
                segments.append((text, classes))
            self.style = self.style if params is None else self.style.after(params)
        return Line(tuple(segments))

    def _untidy(self, text: str) -> Line:
        built, at = _Builder(), 0
        for match in _ESCAPE.finditer(text):
            built.add(text[at : match.start()], self.style.classes)
            self._apply(match, built)
            at = match.end()
        built.add(text[at:], self.style.classes)
        return built.line()

    def _apply(self, match: re.Match[str], built: _Builder) -> None:
        if match["home"]:
            # A terminal would overwrite the line from its start: progress bars do. Only the last text counts.
            built.is_rewritten = True
        elif match["final"] == "m" and not match["middle"]:
            self.style = self.style.after(match["params"])


def strip(body: str) -> str:
    """Return text without any control sequence: what a download and a search may contain."""
    return "\n".join(_DROPPED.sub("", _ESCAPE.sub("", line)) for line in body.split("\n"))
