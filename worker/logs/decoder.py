"""Bytes of a child into text that the database can store."""

import codecs


class OutputDecoder:
    """Decodes UTF-8 piece by piece; what is not text becomes a visible mark."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, *, is_last: bool = False) -> str:
        """Decode the next piece; a character cut in two waits for its other half."""
        # PostgreSQL's text has no NUL.
        return self._decoder.decode(data, is_last).replace("\0", "\ufffd")
