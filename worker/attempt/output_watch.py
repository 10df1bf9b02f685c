"""The reason why a command failed, found in its output."""

import re

_ERROR_LINE = re.compile(rb"Error:?\s[^\r\n]{0,400}|error: [^\r\n]{0,400}")
_DISK_FULL = re.compile(rb"no space left on device|disk quota exceeded", re.IGNORECASE)
# Engines put their errors into a box of 78 columns: colours, its frame and its line ends stand between the words.
_FRAME = re.compile(rb"(?:\x1b\[[0-9;]*m|\s|\xe2\x94\x82|\xe2\x95[\xb5\xb7])+")
_KEPT = 400


class OutputWatch:
    """Keeps the first error, and whether a full disk is mentioned, however the text is wrapped and cut."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self.first_error = b""
        self.is_disk_full = False
        self._tail = b""

    def feed(self, data: bytes) -> None:
        """Look at the next piece."""
        if not self.first_error and (found := _ERROR_LINE.search(data)):
            self.first_error = found.group()
        text = self._tail + data
        self.is_disk_full = self.is_disk_full or _DISK_FULL.search(_FRAME.sub(b" ", text)) is not None
        self._tail = text[-_KEPT:]
