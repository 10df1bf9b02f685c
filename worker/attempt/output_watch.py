"""The reason why a command failed, found in its output."""

import re

_ERROR_LINE = re.compile(rb"Error:?\s[^\r\n]{0,400}|error: [^\r\n]{0,400}")
_DISK_FULL = re.compile(rb"no space left on device|disk quota exceeded", re.IGNORECASE)
# Engines put their errors into a box of 78 columns: colours, its frame and its line ends stand between the words.
_FRAME = re.compile(rb"(?:\x1b\[[0-9;]*m|\s|\xe2\x94\x82|\xe2\x95[\xb5\xb7])+")
_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
_LINE_END = re.compile("\r?\n[│ \t]*")
_BOX_END = "╵"
_HOLDER = re.compile(r"Who:\s+(\S+)")
_PREFIX = re.compile(r"[Ee]rror:?\s+(?:Error: )?")
_PLACE = re.compile(r"\bon (\S+) line (\d+)")
# Titles that do not name the thing: what to write in their place, and where to find the name in the text.
_UNNAMED = {
    "Reference to undeclared input variable": ("Undeclared variable", re.compile(r'with the name\s+"([^"]+)"')),
    "Reference to undeclared local value": ("Undeclared local value", re.compile(r'with the name\s+"([^"]+)"')),
    "Reference to undeclared resource": (
        "Undeclared resource",
        re.compile(r'resource "([^"]+)"\s+"([^"]+)"\s+has not'),
    ),
}
_KEPT = 400
_KEPT_OF_ERROR = 2000
_KEPT_OF_END = 64 * 1024


class OutputWatch:
    """Keeps the beginning of the first error and the end of the output; what they say is read when the command failed."""

    def __init__(self) -> None:
        self._error = b""
        self._end = b""

    def feed(self, data: bytes) -> None:
        """Look at the next piece: on the event loop, so with nothing that is slower than the log."""
        text = self._end[-_KEPT:] + data
        if self._error:
            self._error += data[: _KEPT_OF_ERROR - len(self._error)]
        elif b"rror" in text and (found := _ERROR_LINE.search(text)):
            self._error = text[found.start() :][:_KEPT_OF_ERROR]
        self._end = (self._end + data)[-_KEPT_OF_END:]

    @property
    def is_disk_full(self) -> bool:
        """Whether the end of the output mentions a full disk, however the text is wrapped and cut."""
        return _DISK_FULL.search(_FRAME.sub(b" ", self._end)) is not None

    @property
    def first_error(self) -> str:
        """The first error: its title, with what it names and its place in the code, or with the holder of the lock."""
        error = _ANSI.sub(b"", self._error).decode(errors="replace").partition(_BOX_END)[0]
        line, *more = _LINE_END.split(_PREFIX.sub("", error, count=1))
        if more[:1] == ["error occurred:"]:
            line, more = "", [each.removeprefix("* ") for each in more[1:]]
        if not line or line.rstrip().endswith(":"):
            line = " ".join([line.rstrip(), *filter(None, more)])
        holder = _HOLDER.search(error) if "state lock" in line else None
        place = _PLACE.search(error)
        return _named(line[:_KEPT].strip(), " ".join(more)) + (
            f" (held by {holder.group(1)})" if holder else f" · {place[1]}:{place[2]}" if place else ""
        )


def _named(title: str, text: str) -> str:
    better, name = _UNNAMED.get(title, ("", None))
    found = name.search(text) if name else None
    return f"{better} `{'.'.join(found.groups())}`" if found else title
